"""When a pod counts: from its first program to its end, whatever its node's clock says."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from jobs.kinds.training.manifests import RESCUE_ROLE
from jobs.usage.intervals import interval_of
from portal.cluster import labels
from portal.cluster.objects import KubePod

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def at(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def stamp(minutes: float) -> str:
    return at(minutes).isoformat().replace("+00:00", "Z")


def pod(
    *states: dict[str, Any], phase: str = "Running", meta: dict[str, Any] | None = None
) -> KubePod:
    """Alice's pod, made at noon, with one container in each of these states."""
    body = {
        "metadata": {
            "name": "p",
            "uid": "u1",
            "creationTimestamp": stamp(0),
            "labels": {
                labels.MANAGED_BY: labels.MANAGER,
                labels.OWNER: "job-1",
                labels.ROLE: "worker",
            },
            **(meta or {}),
        },
        "spec": {
            "nodeName": "gpu-03",
            "containers": [
                {"name": f"c{i}", "resources": {"requests": {"cpu": "2", "nvidia.com/gpu": "1"}}}
                for i in range(max(1, len(states)))
            ],
        },
        "status": {
            "phase": phase,
            "containerStatuses": [{"name": f"c{i}", **s} for i, s in enumerate(states)],
        },
    }
    return msgspec.json.decode(msgspec.json.encode(body), type=KubePod)


def running(start: float) -> dict[str, Any]:
    return {"state": {"running": {"startedAt": stamp(start)}}}


def ended(start: float, end: float) -> dict[str, Any]:
    return {"state": {"terminated": {"startedAt": stamp(start), "finishedAt": stamp(end)}}}


def test_a_running_pod_counts_from_its_start_with_what_it_holds():
    interval = interval_of(pod(running(5)), at(30))
    assert interval is not None
    assert (interval.started_at, interval.ended_at, interval.node) == (at(5), None, "gpu-03")
    assert (interval.held.gpu_count, interval.held.cpu_millicores) == (1, 2000)


def test_it_ends_with_its_last_program():
    interval = interval_of(pod(ended(5, 20), ended(6, 25), phase="Succeeded"), at(30))
    assert interval is not None
    assert (interval.started_at, interval.ended_at) == (at(5), at(25))


@pytest.mark.parametrize(
    "state",
    [
        {"state": {"waiting": {"reason": "ErrImagePull"}}},
        {"state": {}},
        # A command that could not be started: Kubernetes writes the year 1970.
        {
            "state": {
                "terminated": {
                    "reason": "StartError",
                    "startedAt": "1970-01-01T00:00:00Z",
                    "finishedAt": stamp(5),
                }
            }
        },
    ],
)
def test_a_pod_that_never_ran_counts_nothing(state: dict[str, Any]):
    assert interval_of(pod(state, phase="Pending"), at(30)) is None
    assert interval_of(pod(state, phase="Failed"), at(30)) is None
    assert interval_of(pod(state, phase="Pending"), at(30), gone_at=at(30)) is None
    assert interval_of(pod(phase="Pending"), at(30)) is None


def test_restarts_of_the_program_do_not_interrupt_it():
    crashed = {
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"startedAt": stamp(5), "finishedAt": stamp(6)}},
    }
    interval = interval_of(pod(crashed), at(30))
    assert interval is not None
    assert (interval.started_at, interval.ended_at) == (at(5), None)


def test_a_pod_that_is_gone_ended_when_its_program_did():
    interval = interval_of(pod(ended(5, 20)), at(30), gone_at=at(30))
    assert interval is not None
    assert interval.ended_at == at(20)


def test_a_pod_that_vanished_while_it_ran_ended_at_the_end_of_its_grace_at_the_latest():
    deleted = pod(running(5), meta={"deletionTimestamp": stamp(22)})
    assert interval_of(deleted, at(30), gone_at=at(30)).ended_at == at(22)
    # Removed by force: the deletion was announced for later than it happened.
    assert interval_of(deleted, at(30), gone_at=at(21)).ended_at == at(21)
    assert interval_of(pod(running(5)), at(30), gone_at=at(28)).ended_at == at(28)


def test_a_pod_that_is_being_deleted_still_holds_what_it_holds():
    deleted = pod(running(5), meta={"deletionTimestamp": stamp(22)})
    assert interval_of(deleted, at(21)).ended_at is None


def test_an_evicted_pod_without_any_status_of_its_program_ends_now():
    began = {"state": {}, "lastState": {"terminated": {"startedAt": stamp(5)}}}
    assert interval_of(pod(began, phase="Failed"), at(30)).ended_at == at(30)


@pytest.mark.parametrize(
    ("start", "end", "counted"),
    [
        (-600, -590, (0, 0)),  # a node that is ten hours behind: not before the pod was made
        (600, 610, (30, 30)),  # one that is ahead: not after now
        (20, 10, (20, 20)),  # a clock that was set back while it ran
    ],
)
def test_a_wrong_clock_of_a_node_makes_no_time(
    start: float, end: float, counted: tuple[float, float]
):
    interval = interval_of(pod(ended(start, end), phase="Failed"), at(30))
    assert interval is not None
    assert (interval.started_at, interval.ended_at) == (at(counted[0]), at(counted[1]))


def test_homeports_own_pods_and_foreign_ones_are_nobodys_usage():
    marks = {labels.MANAGED_BY: labels.MANAGER, labels.OWNER: "job-1", labels.ROLE: RESCUE_ROLE}
    rescue = {"labels": marks}
    assert interval_of(pod(running(5), meta=rescue), at(30)) is None
    assert interval_of(pod(running(5), meta={"labels": {}}), at(30)) is None
