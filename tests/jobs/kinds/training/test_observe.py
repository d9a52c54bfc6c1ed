"""What is read out of the cluster's own objects, odd ones included."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.kinds.observe import gpus_of
from jobs.kinds.state import PodFacts, ReplicaKey, WorkloadRow
from jobs.kinds.training.observe import parse_indexes, read_pod
from portal.cluster import objects

JOB = WorkloadRow(
    id="7",
    kind="job",
    namespace="u-alice",
    kube_name="mnist-abc123",
    root_name="mnist-abc123-worker",
    topology="tf-ps",
    image="tf:2",
    counts={"worker": 2, "ps": 1},
    memory={"worker": "2Gi", "ps": "1Gi"},
)


def facts(**status: Any) -> PodFacts:
    pod = {
        "metadata": {
            "name": "p",
            "uid": "u",
            "labels": {
                "homeport.dev/role": "worker",
                "homeport.dev/attempt": "3",
                "batch.kubernetes.io/job-completion-index": "1",
            },
            "annotations": {"homeport.dev/gpu-indices": '{"main": [0, 3]}'},
        },
        "spec": {"nodeName": "n"},
        "status": status,
    }
    seen = msgspec.json.decode(msgspec.json.encode(pod), type=objects.KubePod)
    found = read_pod(JOB, seen)
    assert not found.is_rescue
    return found


def container(name: str, **state: Any) -> dict[str, Any]:
    more = {key: state.pop(key) for key in ("restartCount", "lastState") if key in state}
    return {"name": name, "state": state, **more}


def test_labels_say_which_replica_it_is_and_the_annotation_which_gpus() -> None:
    found = facts(phase="Running")
    assert (found.key, found.gpus, found.node) == (ReplicaKey("worker", 1, 3), "0,3", "n")


def test_a_program_that_runs() -> None:
    found = facts(
        phase="Running",
        initContainerStatuses=[container("fetch", terminated={"exitCode": 0})],
        containerStatuses=[container("main", running={"startedAt": "2026-11-20T12:00:00Z"})],
    )
    assert found.is_running
    assert found.end is None
    assert found.started_at is not None


def test_fetch_that_failed_is_how_the_replica_ended() -> None:
    found = facts(
        phase="Failed",
        initContainerStatuses=[
            container("fetch", terminated={"exitCode": 65, "message": "{}", "reason": "Error"})
        ],
        containerStatuses=[container("main", waiting={"reason": "PodInitializing"})],
    )
    assert found.end is not None
    assert (found.end.exit_code, found.end.is_fetch) == (65, True)
    assert found.started_at is None


def test_an_image_of_ours_that_cannot_be_pulled_is_not_blamed_on_the_users() -> None:
    waiting = {"reason": "ErrImagePull", "message": "no"}
    ours = facts(phase="Pending", initContainerStatuses=[container("fetch", waiting=waiting)])
    users = facts(
        phase="Pending",
        initContainerStatuses=[container("fetch", terminated={"exitCode": 0})],
        containerStatuses=[container("main", waiting=waiting)],
    )
    assert (ours.waiting_in, users.waiting_in) == ("fetch", "main")
    assert users.waiting_reason == "ErrImagePull"


def test_restarts_and_how_the_last_run_ended() -> None:
    found = facts(
        phase="Running",
        containerStatuses=[
            container(
                "main",
                waiting={"reason": "CrashLoopBackOff"},
                restartCount=2,
                lastState={"terminated": {"exitCode": 3}},
            )
        ],
    )
    assert found.restarts == 2
    assert found.last_end is not None
    assert found.last_end.exit_code == 3


def test_a_signal_without_a_code_is_counted_as_shells_do() -> None:
    ended = {"exitCode": 0, "signal": 9}
    found = facts(phase="Failed", containerStatuses=[container("main", terminated=ended)])
    assert found.end is not None
    assert found.end.exit_code == 137


def test_a_disruption_carries_the_pods_own_reason() -> None:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}
    found = facts(phase="Failed", reason="Evicted", message="low on disk", conditions=[condition])
    assert found.disruption is not None
    assert (found.disruption.pod_reason, found.disruption.pod_message) == ("Evicted", "low on disk")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"main": 1}', '{"main": "x"}', "null", "7"])
def test_odd_annotations_say_nothing(text: str) -> None:
    assert gpus_of(text, "main") == ""


@pytest.mark.parametrize(
    ("text", "indexes"),
    [("", set()), ("0", {0}), ("0,2-4", {0, 2, 3, 4}), ("x,1,-,2-y,3", {1, 3}), ("5-3", set())],
)
def test_completed_indexes(text: str, indexes: set[int]) -> None:
    assert parse_indexes(text) == indexes


@given(st.text(max_size=60))
def test_no_text_breaks_the_reader_of_indexes(text: str) -> None:
    assert all(isinstance(index, int) for index in parse_indexes(text))
