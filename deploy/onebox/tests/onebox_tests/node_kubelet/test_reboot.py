"""What becomes of pods whose processes ended with an earlier run of the node."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from onebox.node.reboot import resume
from onebox.node.record import Stage, Waiting
from onebox.node.status import PodFacts, pod_status
from onebox_tests.node_kubelet.pods import container, pod

NOW = datetime(2026, 11, 20, 12, 30, tzinfo=UTC)
RUNNING = {"running": {"startedAt": "2026-11-20T12:00:00Z"}}


def ended(code: int) -> dict:
    return {"terminated": {"exitCode": code, "reason": "x", "finishedAt": "2026-11-20T12:10:00Z"}}


def with_status(made: dict, *main: dict, init: tuple[dict, ...] = (), restarts: int = 0) -> dict:
    names = [c["name"] for c in made["spec"]["containers"]]
    inits = [c["name"] for c in made["spec"].get("initContainers", [])]
    made["status"] = {
        "phase": "Running",
        "containerStatuses": [
            {"name": n, "state": s, "restartCount": restarts}
            for n, s in zip(names, main, strict=True)
        ],
        "initContainerStatuses": [
            {"name": n, "state": s, "restartCount": 0} for n, s in zip(inits, init, strict=True)
        ],
    }
    return made


def shown(made: dict) -> dict:
    resumed = resume(made, NOW)
    facts = PodFacts(made, {}, resumed.records, None, False, NOW, resumed.ending, NOW)
    return pod_status(facts)


def test_a_pod_that_never_restarts_fails_with_disruption_target():
    status = shown(with_status(pod(policy="Never"), RUNNING))
    assert status["phase"] == "Failed"
    terminated = status["containerStatuses"][0]["state"]["terminated"]
    assert (terminated["exitCode"], terminated["message"]) == (137, "the node was restarted")
    target = next(c for c in status["conditions"] if c["type"] == "DisruptionTarget")
    assert (target["status"], target["reason"]) == ("True", "TerminationByKubelet")


def test_a_job_pod_fails_whatever_its_policy():
    made = with_status(pod(policy="OnFailure"), RUNNING)
    made["metadata"]["ownerReferences"] = [{"kind": "Job", "name": "j", "controller": True}]
    assert shown(made)["phase"] == "Failed"


@pytest.mark.parametrize("policy", ["Always", "OnFailure"])
def test_other_pods_start_again_in_place(policy: str):
    resumed = resume(with_status(pod(policy=policy), RUNNING, restarts=2), NOW)
    only = resumed.records[0]
    assert resumed.ending is None
    assert (only.stage, only.has_run, only.restart_count) == (Stage.NEW, True, 2)
    assert only.last is not None
    assert only.last.exit_code == 137


def test_a_main_container_that_had_succeeded_stays_done_on_failure():
    made = with_status(pod(container("a"), container("b"), policy="OnFailure"), ended(0), RUNNING)
    first, second = resume(made, NOW).records
    assert (first.stage, second.stage) == (Stage.EXITED, Stage.NEW)


def test_a_pod_that_had_ended_by_itself_keeps_its_own_result():
    made = with_status(pod(policy="Never"), ended(0))
    assert resume(made, NOW).ending is None
    assert shown(made)["phase"] == "Succeeded"


def test_a_pod_that_never_started_is_as_new():
    made = with_status(pod(policy="Never"), {"waiting": {"reason": "ContainerCreating"}})
    resumed = resume(made, NOW)
    assert resumed.ending is None
    assert isinstance(resumed.records[0].state, Waiting)
    assert not resumed.records[0].has_run


def test_init_containers_run_again():
    made = pod(init=(container("i"),))
    with_status(made, RUNNING, init=(ended(0),))
    init, main = resume(made, NOW).records
    assert (init.stage, main.stage) == (Stage.NEW, Stage.NEW)
    assert init.has_run
