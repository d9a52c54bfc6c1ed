"""Details of what is served that a table does not hold."""

from dataclasses import replace
from datetime import timedelta

import pytest

from jobs.kinds.state import Observed
from jobs.pod.protocol.termination import TerminationMessage, encode
from jobs.rules.endings import ContainerExit, Disruption
from jobs.rules.states import ReplicaState
from tests.jobs.kinds import NOW, plan
from tests.jobs.kinds.interactive.cases import (
    GONE,
    POD,
    RUNS,
    UP,
    ago,
    notes,
    row,
    runs,
    shows,
    starting,
)


def test_what_it_looks_at_again_by_itself_is_bounded_in_time() -> None:
    decided = plan(starting(), runs())
    assert decided.next_due is not None
    assert NOW < decided.next_due <= NOW + timedelta(seconds=600)
    assert plan(row(), UP).next_due is None


def test_an_answer_ends_every_wait_so_that_the_next_one_has_its_whole_time() -> None:
    since = ("starting_since", "problem_since", "running_since", "silent_since")
    again = {"restart_reason": ("replaced", "It starts again.", "")}
    answers = plan(starting(**dict.fromkeys(since, ago(301)), **again), UP)
    assert answers.columns["notes"] == notes(event_count=1)


def test_the_memory_limit_is_named_when_it_was_too_little() -> None:
    end = ContainerExit(137, "OOMKilled")
    decided = plan(row(), runs(restarts=1, last_end=end))
    told = [event.message for event in decided.events]
    assert any("more than its 2Gi of memory" in text for text in told)
    assert [one.restarts for one in decided.replicas] == [1]


@pytest.mark.parametrize(
    ("exit_code", "is_shown_with_secrets"), [(1, False), (0, False), (127, False), (69, True)]
)
def test_its_last_output_is_told_where_it_knows_no_secret(
    exit_code: int, is_shown_with_secrets: bool
) -> None:
    """Exit code 69 is our own, before the program begins."""
    end = ContainerExit(exit_code, "Error", "KeyError: hf_abc")
    for has_secrets in (False, True):
        decided = plan(replace(starting(), has_secrets=has_secrets), runs(restarts=1, last_end=end))
        told = [*decided.events, *decided.columns["notes"].restart_reason]
        text = str(told) + str(decided.columns)
        is_shown = is_shown_with_secrets or not has_secrets
        assert ("hf_abc" in text) is is_shown
        assert ("start it without its secrets" in text) is not is_shown


@pytest.mark.parametrize(
    "end",
    [
        ContainerExit(0, "Completed", encode(TerminationMessage("volume_lost", "it is gone"))),
        ContainerExit(128, "StartError", "mount /x to /data: transport endpoint is not connected"),
    ],
    ids=["asked to end", "never begun"],
)
def test_ended_for_want_of_its_volume_it_starts_again_and_was_not_shut_down(
    end: ContainerExit,
) -> None:
    decided = plan(row(), runs(restarts=1, last_end=end))
    assert any("a volume was no longer there" in event.message for event in decided.events)
    assert [one.restarts for one in decided.replicas] == [1]
    assert not decided.columns["notes"].teardown
    assert not decided.columns["notes"].crashes
    assert "it fails" not in decided.columns["notes"].restart_reason[2]


def test_a_pod_that_the_cluster_took_is_no_crash() -> None:
    lost = replace(RUNS, phase="Failed", disruption=Disruption("DeletionByPodGC"))
    seen = replace(UP, pods=(replace(POD, uid="pod-2"),), deleted_pods=(lost,))
    decided = plan(row(), seen)
    assert decided.columns["reason"].code == "node_lost"
    assert not decided.columns["notes"].crashes


def test_its_replica_is_what_its_pod_shows() -> None:
    (replica,) = plan(starting(), shows(uid="pod-2", gpus="0,1")).replicas
    assert (replica.pod_uid, replica.node, replica.gpus) == ("pod-2", "a", "0,1")
    assert (replica.state, replica.restarts) == (ReplicaState.STARTING, 1)


def test_what_has_ended_is_on_no_node() -> None:
    stopping = row(state="stopping", desired="stop", notes=notes(teardown="stop"))
    (replica,) = plan(stopping, replace(GONE, replicas=UP.replicas)).replicas
    assert (replica.node, replica.pod) == ("", POD.name)
    assert replica.state is ReplicaState.STOPPED


def test_another_start_forgets_the_replica_of_the_one_before() -> None:
    clean = row(generation=2, state="stopped", cleaned_at=ago(5))
    made = plan(clean, Observed(replicas=UP.replicas))
    assert (made.columns["attempt"], made.replicas) == (2, ())
    assert made.forgotten == tuple(UP.replicas)
