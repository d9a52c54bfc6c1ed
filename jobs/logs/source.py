"""Decides where the next lines of a replica come from: its pod, its archive, or nowhere yet."""

from dataclasses import dataclass
from enum import Enum

from jobs.logs.cursor import ArchivedPlace, Place
from jobs.logs.state import ReplicaLogState
from jobs.logs.tail import Outcome
from jobs.rules.archives import Run


class NextStep(Enum):
    """What to do next for one replica."""

    FOLLOW = "follow"  # its pod
    READ = "read"  # its archive
    WAIT = "wait"  # for something to change
    DONE = "done"  # all there is has been shown


@dataclass(frozen=True)
class Shown:
    """What one viewer has been shown of a replica.

    Attributes:
        place: where the last line came from.
        followed: how following the pod of this id ended.
        read_whole: the attempt, and its container, up to whose end all that is archived was read.
    """

    place: Place | None
    followed: tuple[str, Outcome] | None
    read_whole: tuple[int, Run] | None


def choose(
    replica: ReplicaLogState, shown: Shown, *, job_is_final: bool, job_is_cleaned: bool
) -> NextStep:
    """The next step.

    A living pod is followed. Of a replica that has ended the archive is preferred once it is
    complete, for pods may be deleted at any time; until then its pod, then what is archived so far.
    Of an earlier attempt there is the archive only.
    """
    outcome = shown.followed[1] if shown.followed and shown.followed[0] == replica.pod_id else None
    if outcome == "over" or shown.read_whole == (replica.attempt, replica.run):
        return NextStep.DONE if job_is_final or replica.is_past else NextStep.WAIT
    if replica.is_past:
        if replica.is_archived or replica.has_archive:
            return NextStep.READ
        return NextStep.WAIT if replica.may_be_archived else NextStep.DONE
    # Of a pod whose container starts again and again the log is that of one of them.
    has_ended = replica.is_final or replica.run.restarts > 0
    wants_archive = has_ended and replica.is_archived and not _is_following(shown, replica)
    if replica.may_have_log and outcome is None and not wants_archive:
        return NextStep.FOLLOW
    if replica.is_archived or (replica.has_archive and (outcome == "gone" or job_is_cleaned)):
        return NextStep.READ
    if job_is_final and (job_is_cleaned or not replica.pod):
        return NextStep.DONE
    return NextStep.WAIT


def _is_following(shown: Shown, replica: ReplicaLogState) -> bool:
    """Somebody who watched the pod until now stays with it: there no line has to be searched."""
    place = shown.place
    return (
        place is not None
        and not isinstance(place, ArchivedPlace)
        and place.attempt == replica.attempt
    )
