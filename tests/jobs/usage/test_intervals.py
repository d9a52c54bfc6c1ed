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


CRASHED = {
    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
    "lastState": {"terminated": {"startedAt": stamp(5), "finishedAt": stamp(6)}},
}
BEGAN = {"state": {}, "lastState": {"terminated": {"startedAt": stamp(5)}}}
DELETED = pod(running(5), meta={"deletionTimestamp": stamp(22)})
# What is seen, when, since when it is gone, and from when to when it counts: minutes after noon.
COUNTED = {
    "runs": (pod(running(5)), 30, None, (5, None)),
    "ends with its last program": (
        pod(ended(5, 20), ended(6, 25), phase="Succeeded"),
        30,
        None,
        (5, 25),
    ),
    "is not interrupted by restarts": (pod(CRASHED), 30, None, (5, None)),
    "is gone: ended when its program did": (pod(ended(5, 20)), 30, 30, (5, 20)),
    "vanished while it ran": (pod(running(5)), 30, 28, (5, 28)),
    "vanished: ended at the end of its grace": (DELETED, 30, 30, (5, 22)),
    "was removed by force, sooner than was announced": (DELETED, 30, 21, (5, 21)),
    "is being deleted: still holds what it holds": (DELETED, 21, None, (5, None)),
    "was evicted, without a word of its program": (pod(BEGAN, phase="Failed"), 30, None, (5, 30)),
    "ran before it was made, by its node's clock": (
        pod(ended(-600, -590), phase="Failed"),
        30,
        None,
        (0, 0),
    ),
    "will run, by its node's clock": (pod(ended(600, 610), phase="Failed"), 30, None, (30, 30)),
    "ended before it began, by a clock set back": (
        pod(ended(20, 10), phase="Failed"),
        30,
        None,
        (20, 20),
    ),
}


@pytest.mark.parametrize("case", COUNTED)
def test_a_pod_counts_from_its_first_program_to_its_end(case: str):
    seen, now, gone, (began, over) = COUNTED[case]
    interval = interval_of(seen, at(now), gone_at=None if gone is None else at(gone))
    assert (interval.started_at, interval.ended_at) == (
        at(began),
        None if over is None else at(over),
    )
    assert (interval.held.gpu_count, interval.node) == (len(seen.spec.containers), "gpu-03")
    assert interval.held.cpu_millicores == 2000 * len(seen.spec.containers)


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


def test_homeports_own_pods_and_foreign_ones_are_nobodys_usage():
    marks = {labels.MANAGED_BY: labels.MANAGER, labels.OWNER: "job-1", labels.ROLE: RESCUE_ROLE}
    rescue = {"labels": marks}
    assert interval_of(pod(running(5), meta=rescue), at(30)) is None
    assert interval_of(pod(running(5), meta={"labels": {}}), at(30)) is None
