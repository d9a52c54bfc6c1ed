"""What is read out of the cluster's own objects, odd ones included."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.kinds.observe import gpus_of
from jobs.kinds.state import PodFacts, ReplicaKey
from jobs.kinds.training.observe import read_pod
from jobs.rules.endings import ContainerExit, Disruption
from jobs.rules.requests import parse_indexes
from portal.cluster import objects
from tests.jobs.kinds.training.cases import job

JOB = job()


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


def statuses(fetch: dict[str, Any], main: dict[str, Any], phase: str = "Pending") -> dict[str, Any]:
    told = {"phase": phase, "containerStatuses": [container("main", **main)]}
    return {**told, "initContainerStatuses": [container("fetch", **fetch)]}


DONE = {"terminated": {"exitCode": 0}}
NO_CODE = {"terminated": {"exitCode": 65, "message": "{}", "reason": "Error"}}
NO_IMAGE = {"waiting": {"reason": "ErrImagePull", "message": "no"}}
STARTED = {"running": {"startedAt": "2026-11-20T12:00:00Z"}}
CRASHES = {
    "waiting": {"reason": "CrashLoopBackOff"},
    "restartCount": 2,
    "lastState": {"terminated": {"exitCode": 3}},
}
PUT_OUT = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ({}, {"key": ReplicaKey("worker", 1, 3), "gpus": "0,3", "node": "n"}),
        (
            statuses(DONE, STARTED, "Running"),
            {"is_running": True, "end": None, "started_at": datetime(2026, 11, 20, 12, tzinfo=UTC)},
        ),
        (
            statuses(NO_CODE, {"waiting": {"reason": "PodInitializing"}}, "Failed"),
            {"end": ContainerExit(65, "Error", "{}", is_fetch=True), "started_at": None},
        ),
        # An image of ours that cannot be pulled is not blamed on the user's.
        (statuses(NO_IMAGE, {}), {"waiting_in": "fetch", "waiting_reason": "ErrImagePull"}),
        (statuses(DONE, NO_IMAGE), {"waiting_in": "main", "waiting_reason": "ErrImagePull"}),
        (statuses({}, CRASHES, "Running"), {"restarts": 2, "last_end": ContainerExit(3)}),
        # A signal without a code is counted as shells do.
        (
            statuses({}, {"terminated": {"exitCode": 0, "signal": 9}}, "Failed"),
            {"end": ContainerExit(137)},
        ),
        (
            {"reason": "Evicted", "message": "low on disk", "conditions": [PUT_OUT]},
            {"disruption": Disruption("TerminationByKubelet", "", "Evicted", "low on disk")},
        ),
    ],
)
def test_what_a_pod_shows(status: dict[str, Any], told: dict[str, Any]) -> None:
    found = facts(**status)
    assert {name: getattr(found, name) for name in told} == told


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
