"""What the command line knows without asking is what the portal and the programs in pods say."""

import re
import signal

from homeport_client import answers, body, exits, pack, trainings
from jobs.pod.protocol import codes
from jobs.rules.states import FOLLOWERS, WorkloadState
from jobs.rules.topologies import TOPOLOGIES


def test_states() -> None:
    assert list(answers.STATES) == [str(state) for state in WorkloadState]
    assert {str(state) for state, after in FOLLOWERS.items() if not after} == answers.FINAL


def test_limits_of_an_archive() -> None:
    top = len(f"{pack.TOP}/")  # the folder in which all of it lies
    assert pack.MAX_FILES == codes.MAX_MEMBERS
    assert pack.MAX_BYTES == codes.MAX_UNPACKED_BYTES
    assert top + pack.MAX_PATH_BYTES <= codes.MAX_MEMBER_NAME_BYTES
    assert pack.MAX_NAME_BYTES == codes.MAX_NAME_PART_BYTES


def test_exit_codes_of_programs_that_a_signal_ended() -> None:
    assert exits.INTERRUPTED == codes.SIGNAL_BASE + signal.SIGINT
    assert exits.OUTPUT_CLOSED == codes.SIGNAL_BASE + signal.SIGPIPE


def test_topologies_by_the_words_of_others() -> None:
    listed = {name for names in trainings.TYPES.values() for name in names.split(",")}
    assert listed | {"single", "array"} == TOPOLOGIES.keys()
    said = body.FIELDS["topology"].help or ""
    assert set(re.findall(r"[a-z-]{3,}", said.replace("(with --ps)", ""))) == TOPOLOGIES.keys()
    assert trainings.topologies("TFJob") == trainings.TYPES["tf"]
