"""Pods that a node really runs: their logs, their ends, what Jobs and Deployments make of them."""

from __future__ import annotations

import pytest

from tests.contract.bodies import config_map, container, deployment, job, pod
from tests.contract.kube import MERGE, STRATEGIC, Json
from tests.contract.tape import Tape, has_condition

pytestmark = pytest.mark.needs_pods
READY_S = 90.0
OTHER = "quay.io/jupyter/tensorflow-notebook:2026-11-01"  # which real nodes of the tests have


def _shell(script: str, name: str = "main", **fields: object) -> Json:
    return container(name, command=["sh", "-c", script], **fields)


def _anywhere(**fields: object) -> Json:
    """What lets the scheduler choose a node that runs pods."""
    return {"node": None, "nodeSelector": {}, "terminationGracePeriodSeconds": 1, **fields}


def _run(tape: Tape, body: Json, phase: str) -> Json:
    tape.kube.must("POST", tape.path("pods"), body)
    path = tape.path("pods", body["metadata"]["name"])
    return tape.kube.until(path, lambda got: got["status"]["phase"] == phase, READY_S).body


def _log(tape: Tape, name: str, **query: object) -> str:
    reply = tape.kube.get(tape.path("pods", name) + "/log", **query)
    assert reply.code == 200, reply.body
    return str(reply.body) if reply.body != "" else ""


def test_the_log_is_cut_by_lines_and_bytes(tape: Tape) -> None:
    script = "for i in 1 2 3 4 5; do echo line-$i; done"
    _run(tape, pod("p", _shell(script), **_anywhere(restartPolicy="Never")), "Succeeded")
    assert _log(tape, "p").split() == [f"line-{number}" for number in range(1, 6)]
    assert _log(tape, "p", tailLines=2) == "line-4\nline-5\n"
    assert _log(tape, "p", limitBytes=10) == "line-1\nlin"
    assert _log(tape, "p", tailLines=2, limitBytes=3) == "lin"
    assert _log(tape, "p", tailLines=0) == ""
    stamped = _log(tape, "p", timestamps="true", tailLines=1)
    assert stamped[10] == "T"
    assert stamped.endswith(" line-5\n")


def test_a_program_that_fails_leaves_its_code_and_its_last_words(tape: Tape) -> None:
    main = _shell("echo why; exit 3", terminationMessagePolicy="FallbackToLogsOnError")
    found = _run(tape, pod("p", main, **_anywhere(restartPolicy="Never")), "Failed")
    over = found["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (over["exitCode"], over["reason"], over["message"]) == (3, "Error", "why\n")


def test_init_containers_run_before_and_sidecars_beside(tape: Tape) -> None:
    first = _shell("echo one > /scratch/order", "first", volumeMounts=[_mount()])
    side = _shell("sleep 1000", "side", restartPolicy="Always", volumeMounts=[_mount()])
    main = _shell("echo two >> /scratch/order; cat /scratch/order", volumeMounts=[_mount()])
    volumes = [{"name": "work", "emptyDir": {}}]
    body = pod(
        "p", main, **_anywhere(initContainers=[first, side], volumes=volumes, restartPolicy="Never")
    )
    found = _run(tape, body, "Succeeded")
    assert _log(tape, "p", container="main") == "one\ntwo\n"
    states = {s["name"]: s["state"] for s in found["status"]["initContainerStatuses"]}
    assert states["first"]["terminated"]["exitCode"] == 0
    assert "terminated" in states["side"]


def _mount() -> Json:
    return {"name": "work", "mountPath": "/scratch"}


def test_an_indexed_job_runs_to_its_end(tape: Tape) -> None:
    template = {
        "containers": [_shell("echo index $JOB_COMPLETION_INDEX")],
        "nodeName": None,
        **{key: value for key, value in _anywhere().items() if key != "node"},
    }
    body = job(template=template, completionMode="Indexed", completions=2, parallelism=2)
    path = tape.path("jobs", "j", group="batch/v1")
    tape.kube.must("POST", tape.path("jobs", group="batch/v1"), body)
    done = tape.kube.until(path, lambda got: has_condition(got, "Complete"), READY_S).body
    assert done["status"]["completedIndexes"] == "0,1"
    pods = tape.kube.get(tape.path("pods", labelSelector="job-name=j")).body["items"]
    said = sorted(_log(tape, item["metadata"]["name"]) for item in pods)
    assert said == ["index 0\n", "index 1\n"]


def test_a_job_of_failing_programs_fails_at_its_limit(tape: Tape) -> None:
    template = {
        "containers": [_shell("exit 1")],
        "nodeName": None,
        **{key: value for key, value in _anywhere().items() if key != "node"},
    }
    tape.kube.must(
        "POST", tape.path("jobs", group="batch/v1"), job(template=template, backoffLimit=0)
    )
    path = tape.path("jobs", "j", group="batch/v1")
    failed = tape.kube.until(path, lambda got: has_condition(got, "Failed"), READY_S).body
    kinds = [c["type"] for c in failed["status"]["conditions"]]
    assert kinds == ["FailureTarget", "Failed"]
    assert failed["status"]["failed"] == 1


def test_a_deployment_is_available_when_its_probe_says_so(tape: Tape) -> None:
    ready = {"exec": {"command": ["test", "-e", "/tmp/ready"]}, "periodSeconds": 1}
    main = _shell(
        "sleep 1; touch /tmp/ready; sleep 1000",
        readinessProbe=ready,
        volumeMounts=[{"name": "tmp", "mountPath": "/tmp"}],
    )
    template = {
        "containers": [main],
        "nodeName": None,
        "volumes": [{"name": "tmp", "emptyDir": {}}],
        **{key: value for key, value in _anywhere().items() if key != "node"},
    }
    path = tape.path("deployments", "d", group="apps/v1")
    tape.kube.must("POST", tape.path("deployments", group="apps/v1"), deployment(template=template))
    tape.kube.until(path, lambda got: got["status"].get("availableReplicas") == 1, READY_S)


def test_a_liveness_probe_that_fails_restarts_the_container(tape: Tape) -> None:
    probe = {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1}
    body = pod("p", _shell("sleep 1000", livenessProbe=probe), **_anywhere())
    tape.kube.must("POST", tape.path("pods"), body)
    tape.kube.until(
        tape.path("pods", "p"),
        lambda got: any(s["restartCount"] for s in got["status"].get("containerStatuses", [])),
        READY_S,
    )


def test_a_pod_is_given_time_and_its_hook_before_it_ends(tape: Tape) -> None:
    hook = {"preStop": {"exec": {"command": ["sh", "-c", "echo bye > /scratch/bye"]}}}
    main = _shell(
        "trap 'exit 0' TERM; while :; do sleep 0.1; done", lifecycle=hook, volumeMounts=[_mount()]
    )
    side = _shell(
        "trap 'sleep 0.5; cat /scratch/bye; exit 0' TERM; echo ready; while :; do sleep 0.1; done",
        "side",
        volumeMounts=[_mount()],
    )
    volumes = [{"name": "work", "emptyDir": {}}]
    fields = _anywhere(volumes=volumes, terminationGracePeriodSeconds=20)
    _run(tape, pod("p", main, side, **fields), "Running")
    path = tape.path("pods", "p")
    # The log of a pod goes with it: it is followed to its end.
    with tape.kube.follow(path + "/log?container=side&follow=true") as lines:
        assert next(lines).startswith("ready")  # a container may run before its shell can be told
        tape.kube.must("DELETE", path)
        assert "bye" in "".join(lines)
    tape.kube.until_gone(path)


def test_a_container_that_runs_keeps_the_image_and_the_configuration_it_began_with(
    tape: Tape,
) -> None:
    tape.kube.must("POST", tape.path("configmaps"), config_map("c", {"a": "one"}))
    main = _shell(
        "cat /config/a; sleep 3; cat /config/a",
        volumeMounts=[{"name": "config", "mountPath": "/config"}],
    )
    fields = _anywhere(
        restartPolicy="OnFailure", volumes=[{"name": "config", "configMap": {"name": "c"}}]
    )
    _run(tape, pod("p", main, **fields), "Running")
    changes = {"spec": {"containers": [{"name": "main", "image": OTHER}]}}
    tape.kube.must("PATCH", tape.path("pods", "p"), changes, kind=STRATEGIC)
    tape.kube.must("PATCH", tape.path("configmaps", "c"), {"data": {"a": "two"}}, kind=MERGE)

    path = tape.path("pods", "p")
    over = tape.kube.until(path, lambda got: got["status"]["phase"] == "Succeeded", READY_S).body

    assert _log(tape, "p").strip() == "oneone"
    assert over["status"]["containerStatuses"][0]["restartCount"] == 0
    _run(tape, pod("q", main, **fields), "Succeeded")
    assert _log(tape, "q").strip() == "twotwo"
