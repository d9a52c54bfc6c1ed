"""Every reason in words: each row of the table, each ending, each wait."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.pod.protocol import codes
from jobs.rules import endings, reasons, waits
from jobs.rules.endings import ContainerExit, Disruption, reason_of_end
from jobs.rules.waits import WaitingPod, most_specific, reason_of_wait

FACTS = (
    "text detail who node image cause number most waited exit_code limit name hint deadline count "
    "namespace why program times pool window at words"
)


@pytest.mark.parametrize("code", sorted(reasons.ROWS))
def test_each_row_makes_sentences(code: str) -> None:
    facts = {name: f"<{name}>." for name in FACTS.split()}
    reason = reasons.make(code, **facts)
    assert reason.code == code
    assert re.fullmatch(r"[a-z][a-z_0-9]{1,62}", code)
    assert "{" not in reason.text + reason.next_step
    assert reason.text
    assert reason.text.rstrip()[-1] in ".:>" or reason.text.endswith(">.")


def test_no_code_is_in_two_families() -> None:
    assert sum(map(len, reasons.FAMILIES)) == len(reasons.ROWS)


def test_a_row_without_its_facts_is_a_mistake_of_ours() -> None:
    with pytest.raises(KeyError):
        reasons.make("placing", who="worker-0")
    with pytest.raises(KeyError):
        reasons.make("no such code")


@given(st.text(max_size=3000))
def test_facts_from_outside_are_clipped_to_one_printable_line(text: str) -> None:
    reason = reasons.make("refused", detail=text)
    assert "\n" not in reason.text
    assert "\x1b" not in reason.text
    assert len(reason.text) < reasons.TEXT_MAX + 100


def test_braces_in_facts_are_just_text() -> None:
    assert "{who} {0}" in reasons.make("refused", detail="{who} {0}").text


@pytest.mark.parametrize("cause", ["The disk is gone", "The disk is gone."])
def test_a_cause_ends_before_the_next_sentence_begins(cause: str) -> None:
    assert reasons.make("app_restarting", cause=cause).text == "The disk is gone. It starts again."


def said(**content: object) -> str:
    return json.dumps(content)


def ended(code: int, message: str = "", reason: str = "Error") -> ContainerExit:
    return ContainerExit(code, reason, message)


def fetched(code: int, message: str = "") -> ContainerExit:
    return ContainerExit(code, "Error", message, is_fetch=True)


@pytest.mark.parametrize(
    ("end", "code", "words"),
    [
        (ended(1), "exit_code", "worker-0 ended with exit code 1."),
        (ended(2, said(reason="", text="", exit_code=2)), "exit_code", "exit code 2"),
        (
            ended(
                1,
                said(reason="exit_code", text="x", last_words="EOFError: EOF when reading a line"),
            ),
            "exit_code",
            "worker-0 ended with exit code 1: EOFError: EOF when reading a line",
        ),
        # A command within the program, which was found itself.
        (ended(127, said(reason="exit_code", text="x")), "exit_code", "ended with exit code 127."),
        (ended(126, said(reason="exit_code", text="x")), "exit_code", "ended with exit code 126."),
        (
            ended(134, said(reason="signal", text="x", last_words="what():  bad shape")),
            "signal",
            "was ended by signal 6 (SIGABRT): what(): bad shape",
        ),
        (ended(137, reason="OOMKilled"), "out_of_memory", "used more than its 2Gi of memory"),
        (ended(1, reason="OOMKilled"), "out_of_memory", "2Gi"),
        (ended(137), "signal", "signal 9 (SIGKILL)"),
        (ended(139), "signal", "signal 11 (SIGSEGV)"),
        (ended(135), "signal", "signal 7 (SIGBUS)"),
        (ended(143), "signal", "signal 15 (SIGTERM)"),
        (ended(200), "exit_code", "exit code 200"),
        (ended(255), "exit_code", "exit code 255"),
        (ended(126), "command_not_executable", "not executable"),
        (ended(127), "command_not_found", "does not contain this program"),
        (
            ended(127, said(reason="command_not_found", text="no pyton")),
            "command_not_found",
            "pyton",
        ),
        (ended(127, "no python3", "ContainerCannotRun"), "command_not_found", "no python3"),
        (ended(128, "no such directory", "StartError"), "start_error", "no such directory"),
        (ended(64, said(reason="peer_unresolved", text="m-ps-0.m")), "peer_unresolved", "m-ps-0.m"),
        (fetched(65, said(reason="sha256_mismatch", text="got ab")), "sha256_mismatch", "got ab"),
        (fetched(65, "Traceback"), "fetch_failed", "Traceback"),
        (fetched(1), "fetch_failed", "exit code 1"),
        (fetched(1, said(reason="volume_full", text="0 bytes")), "volume_full", "0 bytes"),
    ],
)
def test_endings(end: ContainerExit, code: str, words: str) -> None:
    reason = reason_of_end("worker-0", end, "2Gi")
    assert reason.code == code
    assert words in reason.text
    assert reason.next_step


def test_success_has_no_reason() -> None:
    assert (
        reason_of_end("worker-0", ContainerExit(0, "Completed", "whatever"), "2Gi") == reasons.NONE
    )


@pytest.mark.parametrize("code", sorted(codes.EXPLAINED))
def test_every_code_of_the_pods_programs_is_in_the_table(code: str) -> None:
    end = ContainerExit(65, "Error", said(reason=code, text="the detail"), is_fetch=True)
    assert reason_of_end("ps-0", end, "1Gi").code == code


def test_a_program_may_not_choose_any_reason() -> None:
    end = ContainerExit(3, "Error", said(reason="tenant_suspended", text="x"))
    assert reason_of_end("worker-0", end, "1Gi").code == "exit_code"


@pytest.mark.parametrize(
    ("disruption", "code"),
    [
        (Disruption("TerminationByKubelet", "", "Evicted", "low on disk"), "evicted_retrying"),
        (Disruption("TerminationByKubelet", "", "Terminated", "shutdown"), "cluster_restarted"),
        (Disruption("PreemptionByScheduler"), "preempted"),
        (Disruption("DeletionByTaintManager"), "node_lost"),
        (Disruption("DeletionByPodGC"), "node_lost"),
        (Disruption("EvictionByEvictionAPI"), "drained"),
        (Disruption(), "cluster_restarted"),
    ],
)
def test_disruptions(disruption: Disruption, code: str) -> None:
    assert endings.reason_of_disruption("worker-0", disruption).code == code


def on_node(waiting_reason: str = "", waiting_message: str = "", **more: Any) -> WaitingPod:
    facts = {"waiting_reason": waiting_reason, "waiting_message": waiting_message, **more}
    return WaitingPod("w", "tf:9", node="n7", **facts)


NO_CPU = "0/1 nodes are available: 1 Insufficient cpu."
NO_TAG = "The image tf:9 cannot be pulled: no tag 9"


@pytest.mark.parametrize(
    ("wait", "code", "words"),
    [
        (WaitingPod("worker-0", "i"), "creating", ""),
        (
            WaitingPod("worker-0", "i", unplaced_why=NO_CPU),
            "cpu_taken",
            "worker-0 waits for free CPU: the node has too little free CPU.",
        ),
        (on_node("ErrImagePull", "no tag 9"), "image_pull", NO_TAG),
        (on_node("ImagePullBackOff"), "image_pull", "tf:9"),
        (
            on_node("ImagePullBackOff", 'Back-off pulling image "tf:9": ErrImagePull: no tag 9'),
            "image_pull",
            NO_TAG,
        ),
        (
            on_node(
                "ImagePullBackOff",
                'Back-off pulling image "tf:9": ErrImagePull: not found. Did you mean tf:2.21.0?',
            ),
            "image_missing",
            "Image tf:9 not found. Did you mean tf:2.21.0?",
        ),
        (
            on_node("ErrImagePull", "docker.io/library/tf:9: not found"),
            "image_missing",
            "Image tf:9 not found: docker.io/library/tf:9: not found",
        ),
        (on_node("InvalidImageName"), "image_name", "tf:9 is no"),
        (on_node("CreateContainerConfigError"), "container_config", "w cannot be set up"),
        (on_node("ContainerCreating", mount_problem="timed out"), "volume", "timed out"),
        (on_node(fetch_runs=True), "fetching", "w is fetching the code"),
        (on_node("PodInitializing"), "preparing", "node n7"),
    ],
)
def test_waits(wait: WaitingPod, code: str, words: str) -> None:
    reason = reason_of_wait(wait)
    assert reason.code == code
    assert words in reason.text


def test_the_most_telling_wait_is_shown() -> None:
    broken = reason_of_wait(WaitingPod("a", "i", node="n", waiting_reason="ErrImagePull"))
    others = [
        reason_of_wait(WaitingPod("b", "i", unplaced_why="full")),
        reason_of_wait(WaitingPod("c", "i")),
    ]
    assert most_specific([*others, broken]) == broken
    assert most_specific([]) == reasons.NONE


def test_every_wait_that_ends_badly_is_a_row() -> None:
    decided = waits.HOPELESS | waits.FATAL_AFTER_DEADLINE | waits.WITHDRAW_AFTER_DEADLINE
    assert decided <= set(reasons.ROWS)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1, "1 second"), (90, "90 seconds"), (60, "1 minute"), (300, "5 minutes"), (7200, "2 hours")],
)
def test_durations_read_well(seconds: int, text: str) -> None:
    assert reasons.duration_text(seconds) == text


def test_a_sentence_begins_with_a_capital_unless_it_begins_with_the_name_of_a_replica() -> None:
    assert reasons.make("preparing", who="the notebook", node="n").text.startswith(
        "The notebook is"
    )
    assert reasons.make("preparing", who="worker-0", node="n").text.startswith("worker-0 is")
    assert "mounts" in reasons.make("volume_source_missing", who="the notebook", detail="x").text
