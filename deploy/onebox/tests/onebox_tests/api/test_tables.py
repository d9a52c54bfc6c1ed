"""Tables show what kubectl's users know."""

from __future__ import annotations

from typing import Any

import pytest

from onebox.api.registry import Api
from onebox.api.tables import TableStyle, table
from onebox.api.tables.cells import human_duration
from onebox.api.tables.pods import row, summarize

from .bodies import CLAIM, DEPLOYMENT, JOB, QUOTA, SERVICE
from .conftest import Clock, Obj, pod


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (135, "2m15s"),
        (599, "9m59s"),
        (600, "10m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (9 * 3600 + 60, "9h"),
        (49 * 3600, "2d1h"),
        (9 * 86400, "9d"),
        (3 * 365 * 86400, "3y"),
        (3 * 365 * 86400 + 86400, "3y1d"),
        (9 * 365 * 86400, "9y"),
    ],
)
def test_ages_are_written_as_kubectl_writes_them(seconds: int, text: str) -> None:
    assert human_duration(seconds) == text


def seen(*states: Obj, inits: list[Obj] | None = None, **more: Any) -> Obj:
    """A pod whose containers have these statuses; init statuses beside them."""
    containers = [{"name": f"c{i}", "image": "i"} for i in range(len(states))]
    made: Obj = {
        "metadata": {"name": "p", "creationTimestamp": "2026-11-20T11:00:00Z"},
        "spec": {"containers": containers, **more.pop("spec", {})},
        "status": {
            "phase": "Running",
            "containerStatuses": [{"name": f"c{i}", **s} for i, s in enumerate(states)],
            "initContainerStatuses": inits or [],
            **more.pop("status", {}),
        },
    }
    made["metadata"] |= more
    return made


RUNS = {"ready": True, "state": {"running": {}}}
INITS = {"initContainers": [{"name": "a"}, {"name": "b"}]}
SIDE = {"initContainers": [{"name": "s", "restartPolicy": "Always"}]}


def ended(code: int = 0, reason: str = "", **more: Any) -> Obj:
    return {"state": {"terminated": {"exitCode": code, "reason": reason, **more}}}


def waits(reason: str) -> Obj:
    return {"state": {"waiting": {"reason": reason}}}


@pytest.mark.parametrize(
    ("made", "word", "ready"),
    [
        (seen(RUNS), "Running", "1/1"),
        (seen(waits("ContainerCreating"), status={"phase": "Pending"}), "ContainerCreating", "0/1"),
        (seen(waits("ImagePullBackOff")), "ImagePullBackOff", "0/1"),
        (seen(RUNS, waits("CrashLoopBackOff")), "CrashLoopBackOff", "1/2"),
        (seen(ended(0, "Completed"), status={"phase": "Succeeded"}), "Completed", "0/1"),
        (seen(ended(1, "Error"), status={"phase": "Failed"}), "Error", "0/1"),
        (seen(ended(137, "OOMKilled")), "OOMKilled", "0/1"),
        (seen(ended(3)), "ExitCode:3", "0/1"),
        (seen(ended(0, signal=9)), "Signal:9", "0/1"),
        (seen(ended(0, "Completed"), RUNS), "NotReady", "1/2"),
        (seen(ended(0, "Completed"), ended(2, "Error")), "Error", "0/2"),
        (seen(status={"phase": "Failed", "reason": "Evicted"}), "Evicted", "0/0"),
        (seen(RUNS, deletionTimestamp="2026-11-20T11:30:00Z"), "Terminating", "1/1"),
        (seen(ended(0, "Completed"), deletionTimestamp="2026-11-20T11:30:00Z",
              status={"phase": "Succeeded"}), "Completed", "0/1"),
        (seen(waits("PodInitializing"), spec=INITS,
              inits=[{"name": "a", **waits("PodInitializing")}, {"name": "b"}]),
         "Init:0/2", "0/1"),
        (seen(waits("PodInitializing"), spec=INITS,
              inits=[{"name": "a", **ended(0, "Completed")}, {"name": "b", "state": {"running": {}}}]),
         "Init:1/2", "0/1"),
        (seen(waits("PodInitializing"), spec=INITS,
              inits=[{"name": "a", **ended(1, "Error")}, {"name": "b"}]), "Init:Error", "0/1"),
        (seen(waits("PodInitializing"), spec=INITS,
              inits=[{"name": "a", **waits("CrashLoopBackOff")}, {"name": "b"}]),
         "Init:CrashLoopBackOff", "0/1"),
        (seen(RUNS, spec=SIDE, inits=[{"name": "s", "started": True, **RUNS}]), "Running", "2/2"),
        (seen(status={"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}),
         "SchedulingGated", "0/0"),
    ],
)  # fmt: skip
def test_the_status_word_of_a_pod_is_kubectls(made: Obj, word: str, ready: str) -> None:
    summary = summarize(made)
    assert (summary.word, f"{summary.ready}/{summary.total}") == (word, ready)


def test_restarts_are_counted_with_their_age(clock: Clock) -> None:
    last = {"terminated": {"exitCode": 1, "finishedAt": "2026-11-20T11:58:00Z"}}
    made = seen({**RUNS, "restartCount": 3, "lastState": last})
    cells = row(made, clock())
    assert cells[:5] == ["p", "1/1", "Running", "3 (2m ago)", "60m"]
    assert cells[5:] == ["<none>", "<none>", "<none>", "<none>"]


def cells_of(api: Api, plural: str, namespace: str | None = "lab") -> dict[str, Any]:
    found = table(plural, api.list(plural, namespace), {}, api.clock(), TableStyle())
    names = [column["name"] for column in found["columnDefinitions"]]
    assert all(len(r["cells"]) == len(names) for r in found["rows"])
    assert found["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    return dict(zip(names, found["rows"][0]["cells"], strict=True))


def test_the_columns_of_kinds_that_people_look_at(api: Api, clock: Clock) -> None:
    for plural, body in (
        ("pods", pod()),
        ("jobs", JOB),
        ("deployments", DEPLOYMENT),
        ("services", SERVICE),
        ("persistentvolumeclaims", CLAIM),
        ("resourcequotas", QUOTA),
    ):
        api.create(plural, "lab", body)
    api.event(api.get("pods", "lab", "p"), "Warning", "Failed", "no", "kubelet")
    clock.advance(90)
    started = {"startTime": "2026-11-20T12:00:30Z", "succeeded": 0}
    api.patch("jobs", "lab", "j", {"status": started}, subresource="status")
    assert cells_of(api, "pods")["Status"] == "Pending"
    job = cells_of(api, "jobs")
    assert (job["Status"], job["Completions"], job["Duration"], job["Age"]) == (
        "Running",
        "0/1",
        "60s",
        "90s",
    )
    assert cells_of(api, "deployments")["Ready"] == "0/1"
    assert cells_of(api, "services")["Port(s)"] == "80/TCP"
    claim = cells_of(api, "persistentvolumeclaims")
    assert (claim["Status"], claim["StorageClass"]) == ("Pending", "glusterfs")
    event = cells_of(api, "events")
    assert (event["Last Seen"], event["Object"], event["Message"]) == ("90s", "pod/p", "no")
    assert cells_of(api, "namespaces", None)["Status"] == "Active"
    assert cells_of(api, "storageclasses", None)["Name"] == "glusterfs (default)"
    assert cells_of(api, "priorityclasses", None)["Value"] == 2_000_000_000


def test_a_quota_shows_used_and_hard(api: Api) -> None:
    api.create("resourcequotas", "lab", QUOTA)
    status = {"hard": {"pods": "2", "limits.cpu": "4"}, "used": {"pods": "1"}}
    api.patch("resourcequotas", "lab", "q", {"status": status}, subresource="status")
    cells = cells_of(api, "resourcequotas")
    assert (cells["Request"], cells["Limit"]) == ("pods: 1/2", "limits.cpu: 0/4")


def test_a_node_shows_its_readiness(api: Api) -> None:
    node = {
        "metadata": {"name": "box", "labels": {"node-role.kubernetes.io/gpu": ""}},
        "spec": {"unschedulable": True},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "nodeInfo": {"kubeletVersion": "v1", "kernelVersion": "6", "architecture": "amd64"},
        },
    }
    api.create("nodes", None, node)
    cells = cells_of(api, "nodes", None)
    assert cells["Status"] == "Ready,SchedulingDisabled"
    assert cells["Roles"] == "gpu"
    assert cells["Internal-IP"] == "127.0.0.1"
    assert cells["Kernel-Version"] == "6 (amd64)"
