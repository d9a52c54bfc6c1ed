"""Jobs run as batch/v1 says: counts, conditions, reasons, back-off, policies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from onebox.api.controllers.gc import GarbageCollector
from onebox.api.controllers.job import JobController, JobFinalizers
from onebox.api.controllers.job_facts import INDEX
from onebox.api.controllers.objects import find_condition, name_of
from onebox.api.controllers.ttl import JobTtl
from onebox.api.store import clone
from onebox_tests.controllers.world import Make, Obj, World, pod_spec


@pytest.fixture
def world(make_world: Callable[[Make], World]) -> World:
    return make_world(
        lambda api: [JobController(api), JobFinalizers(api), GarbageCollector(api), JobTtl(api)]
    )


def submit(world: World, *, pod: Obj | None = None, **spec: Any) -> Obj:
    template = {"spec": pod or pod_spec(restartPolicy="Never")}
    job = {"metadata": {"name": "mnist"}, "spec": {**spec, "template": template}}
    created = world.api.create("jobs", "ada", job)
    world.settle()
    return created


def indexed(world: World, count: int, **spec: Any) -> Obj:
    spec = {"completions": count, "parallelism": count, **spec}
    return submit(world, completionMode="Indexed", **spec)


def status(world: World) -> Obj:
    return world.api.get("jobs", "ada", "mnist")["status"]


def conditions(world: World) -> list[tuple[str, str, str]]:
    found = status(world).get("conditions", [])
    return [(c["type"], c["reason"], c["message"]) for c in found if c["status"] == "True"]


def change(world: World, **spec: Any) -> None:
    world.api.patch("jobs", "ada", "mnist", {"spec": spec})
    world.settle()


def pod_of(world: World, index: int) -> Obj:
    """The active pod of an index."""
    return next(p for p in world.active() if p["metadata"]["annotations"][INDEX] == str(index))


def end(world: World, pod: Obj, code: int = 0, **fields: Any) -> None:
    world.finish(pod, code, **fields)
    world.settle()


def ran_out(world: World) -> tuple[str, str]:
    """Reason and sentence of a failed Job, which must have said them twice."""
    first, last = conditions(world)[-2:]
    assert (first[0], last[0]) == ("FailureTarget", "Failed")
    assert first[1:] == last[1:]
    return last[1], last[2]


def test_indexed_pods_know_their_index_in_every_way_that_upstream_tells_it(world: World) -> None:
    first = {"name": "fetch", "image": "homeport", "command": ["true"]}
    indexed(world, 2, pod=pod_spec(restartPolicy="Never", initContainers=[first], subdomain="n"))
    for index in (0, 1):
        pod = pod_of(world, index)
        assert name_of(pod).startswith(f"mnist-{index}-")
        assert len(name_of(pod)) == len(f"mnist-{index}-") + 5
        assert pod["spec"]["hostname"] == f"mnist-{index}"
        assert pod["spec"]["subdomain"] == "n"
        assert pod["metadata"]["labels"][INDEX] == str(index)
        assert pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "mnist"
        for container in pod["spec"]["containers"] + pod["spec"]["initContainers"]:
            (variable,) = container["env"]
            assert variable["name"] == "JOB_COMPLETION_INDEX"
            path = variable["valueFrom"]["fieldRef"]["fieldPath"]
            assert path == f"metadata.labels['{INDEX}']"


def test_a_work_queue_ends_when_one_succeeded_and_the_others_ended(world: World) -> None:
    submit(world, parallelism=3)
    first, second, third = world.active()
    end(world, first)
    assert len(world.active()) == 2
    end(world, second, 1)
    assert len(world.active()) == 1  # not replaced any more
    end(world, third)
    assert conditions(world)[-1][0] == "Complete"
    assert (status(world)["succeeded"], status(world)["failed"]) == (2, 1)


def test_failed_pods_are_replaced_after_10_20_and_40_seconds(world: World) -> None:
    submit(world)
    for wait_s in (10, 20, 40):
        end(world, world.active()[0], 1)
        world.advance(wait_s - 1)
        assert not world.active()
        world.advance(1)
        assert len(world.active()) == 1
    assert status(world)["failed"] == 3


def test_the_back_off_survives_a_restart(world: World) -> None:
    submit(world)
    end(world, world.active()[0], 1)
    world.advance(10)
    end(world, world.active()[0], 1)
    world.restart()
    world.advance(19)
    assert not world.active()
    world.advance(1)
    assert len(world.active()) == 1


def test_container_restarts_count_against_the_limit_when_pods_restart_in_place(
    world: World,
) -> None:
    submit(world, backoffLimit=2, pod=pod_spec(restartPolicy="OnFailure"))
    pod = world.run(world.active()[0])
    restarted = {"name": "main", "image": "x", "imageID": "", "ready": True, "state": {}}
    world.set_status(pod, containerStatuses=[{**restarted, "restartCount": 1}])
    world.settle()
    assert not conditions(world)
    world.set_status(pod, containerStatuses=[{**restarted, "restartCount": 2}])
    world.settle()
    assert conditions(world)[0][1] == "BackoffLimitExceeded"


def test_a_suspended_job_has_no_pods_and_its_clock_does_not_run(world: World) -> None:
    submit(world, suspend=True, activeDeadlineSeconds=60)
    assert world.pods() == []
    assert "startTime" not in status(world)
    assert conditions(world) == [("Suspended", "JobSuspended", "Job suspended")]
    world.advance(600)
    assert [c[0] for c in conditions(world)] == ["Suspended"]
    change(world, suspend=False)
    assert len(world.active()) == 1
    assert status(world)["startTime"] == "2026-11-20T10:10:00Z"
    assert find_condition(status(world)["conditions"], "Suspended")["status"] == "False"
    assert world.events("Suspended") == ["Job suspended"]
    assert world.events("Resumed") == ["Job resumed"]
    world.advance(59)
    assert not conditions(world)
    world.advance(1)
    assert conditions(world)[0][1] == "DeadlineExceeded"


def test_suspending_deletes_running_pods_without_counting_them(world: World) -> None:
    submit(world, completions=2, parallelism=2, backoffLimit=0)
    for pod in world.active():
        world.run(pod)
    change(world, suspend=True)
    assert (len(world.pods()), status(world)["terminating"]) == (2, 2)
    assert "startTime" not in status(world)
    for pod in world.pods():
        world.remove(pod)
    world.settle()
    assert world.pods() == []
    assert "failed" not in status(world)
    change(world, suspend=False)
    assert len(world.active()) == 2


def test_fewer_parallel_pods_are_reached_without_counting_the_removed(world: World) -> None:
    submit(world, completions=4, parallelism=3)
    ready = world.run(world.active()[0])
    change(world, parallelism=1)
    assert [name_of(pod) for pod in world.active()] == [name_of(ready)]
    assert len(world.events("SuccessfulDelete")) == 2
    assert "failed" not in status(world)


def on_codes(action: str, *codes: int, operator: str = "In", **more: Any) -> Obj:
    return {"action": action, "onExitCodes": {"operator": operator, "values": list(codes), **more}}


DISRUPTED = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}


def test_a_fail_job_rule_names_container_code_and_rule(world: World) -> None:
    rules = [DISRUPTED, on_codes("FailJob", 3, containerName="main")]
    submit(world, podFailurePolicy={"rules": rules})
    pod = world.active()[0]
    end(world, pod, 3)
    sentence = (
        f"Container main for pod ada/{name_of(pod)} failed with exit code 3 "
        "matching FailJob rule at index 1"
    )
    assert ran_out(world) == ("PodFailurePolicy", sentence)
    assert status(world)["failed"] == 1


@pytest.mark.parametrize(
    ("rule", "code", "counted"),
    [
        (on_codes("Ignore", 42), 42, False),
        (on_codes("Ignore", 42), 43, True),
        (on_codes("Count", 42), 42, True),
        (on_codes("Ignore", 1, operator="NotIn"), 2, False),
        (on_codes("Ignore", 1, operator="NotIn"), 1, True),
        (on_codes("Ignore", 42, containerName="main"), 42, False),
    ],
)
def test_exit_code_rules_decide_whether_a_failure_counts(
    world: World, rule: Obj, code: int, counted: bool
) -> None:
    submit(world, backoffLimit=0, podFailurePolicy={"rules": [rule]})
    end(world, world.active()[0], code)
    if counted:
        assert ran_out(world)[0] == "BackoffLimitExceeded"
    else:
        assert "failed" not in status(world)
        world.advance(10)
        assert len(world.active()) == 1


@pytest.mark.parametrize(
    "rule",
    [
        {"succeededIndexes": "0"},
        {"succeededCount": 1},
        {"succeededIndexes": "0-1", "succeededCount": 1},
    ],
)
def test_a_success_policy_completes_early_and_counts_no_failure(world: World, rule: Obj) -> None:
    indexed(world, 3, successPolicy={"rules": [rule]})
    for index in (1, 2):
        world.run(pod_of(world, index))
    end(world, pod_of(world, 0))
    assert conditions(world) == [
        ("SuccessCriteriaMet", "SuccessPolicy", "Matched rules at index 0")
    ]
    for pod in world.pods():
        if "deletionTimestamp" in pod["metadata"]:
            world.remove(pod)
    world.settle()
    assert conditions(world)[-1] == ("Complete", "SuccessPolicy", "Matched rules at index 0")
    assert status(world)["completedIndexes"] == "0"
    assert "failed" not in status(world)


def test_a_finished_job_is_removed_with_its_pods_after_its_time_to_live(world: World) -> None:
    submit(world, ttlSecondsAfterFinished=30)
    end(world, world.active()[0])
    world.advance(29)
    assert world.api.find("jobs", "ada", "mnist")
    world.advance(1)
    assert world.api.find("jobs", "ada", "mnist") is None
    assert world.pods() == []


def test_two_pods_of_one_index_are_reduced_to_one(world: World) -> None:
    indexed(world, 1)
    twin = clone(pod_of(world, 0))
    twin["metadata"]["name"] = "mnist-0-twin"
    del twin["metadata"]["resourceVersion"]
    world.api.create("pods", "ada", twin)
    world.settle()
    assert len(world.active()) == 1
    assert "failed" not in status(world)


def test_a_job_of_another_manager_is_left_alone(world: World) -> None:
    submit(world, managedBy="kueue.x-k8s.io/multikueue")
    assert world.pods() == []
    assert status(world) == {}
