"""Deployments: rollouts, scale, status, conditions."""

from __future__ import annotations

from collections.abc import Callable

from tests.contract.bodies import IMAGE, container, deployment
from tests.contract.kube import Json
from tests.contract.script import script
from tests.contract.tape import Tape, conditions, has_condition, is_ending, pick

APPS = "apps/v1"


def _status(obj: Json) -> Json:
    found = {key: value for key, value in obj.get("status", {}).items() if key != "conditions"}
    texts = sorted(
        [c["type"], c["status"], c["reason"], c["message"]]
        for c in obj.get("status", {}).get("conditions", [])
    )
    return {**found, "conditions": texts, "revision": _revision(obj)}


def _numbers(obj: Json) -> Json:
    """The status on its way, where one write of the controller more or less is chance."""
    return {key: value for key, value in obj["status"].items() if key != "conditions"}


def _revision(obj: Json) -> str:
    notes = obj["metadata"].get("annotations") or {}
    return notes.get("deployment.kubernetes.io/revision", "")


def _make(tape: Tape, **more: object) -> str:
    body = deployment(**more)
    tape.post(tape.path("deployments", group=APPS), body, show=pick("metadata.generation"))
    return tape.path("deployments", "d", group=APPS)


def _names(tape: Tape, count: int) -> list[str]:
    return [pod["metadata"]["name"] for pod in tape.pods("app=d", count)]


def _ready(tape: Tape, path: str, count: int) -> list[str]:
    names = _names(tape, count)
    for name in names:
        tape.runs(name)
    tape.until(
        path,
        _has(readyReplicas=count, availableReplicas=count, updatedReplicas=count),
        show=_numbers,
    )
    return names


def _has(**wanted: int) -> Callable[[Json], bool]:
    def hold(obj: Json) -> bool:
        status = obj.get("status") or {}
        same = all(status.get(key, 0) == value for key, value in wanted.items())
        is_whole = "terminatingReplicas" in status
        return same and is_whole and status.get("observedGeneration") == _generation(obj)

    return hold


def _generation(obj: Json) -> int:
    return obj["metadata"]["generation"]


def _progressed(obj: Json) -> bool:
    # Known when the replica set has told of its own.
    is_whole = "terminatingReplicas" in obj.get("status", {})
    return is_whole and any(c[2] == "NewReplicaSetAvailable" for c in conditions(obj))


def _patch(tape: Tape, path: str, spec: Json) -> None:
    tape.merge(path, {"spec": spec}, show=pick("metadata.generation"))


def _new_template(text: str = "2") -> Json:
    containers = [container(env=[{"name": "A", "value": text}])]
    return {"template": {"spec": {"containers": containers}}}


@script
def a_deployment_becomes_available_with_its_pods(tape: Tape) -> None:
    path = _make(tape, replicas=2)
    tape.until(path, _has(replicas=2, unavailableReplicas=2), show=_numbers)
    names = _names(tape, 2)
    tape.runs(names[0])
    tape.until(path, _has(replicas=2, readyReplicas=1), show=_numbers)
    tape.runs(names[1])
    tape.until(path, lambda obj: _has(readyReplicas=2)(obj) and _progressed(obj), show=_status)


@script
def the_replica_set_and_the_pods_of_a_deployment(tape: Tape) -> None:
    _make(tape)
    pod = tape.pods("app=d", 1)[0]
    tape.get(tape.path("pods", pod["metadata"]["name"]))
    tape.until(
        tape.path("replicasets", group=APPS, labelSelector="app=d"),
        lambda body: body["items"] and body["items"][0]["status"].get("replicas"),
        show=lambda body: body["items"],
    )


@script
def recreate_ends_the_old_pods_before_it_makes_new_ones(tape: Tape) -> None:
    path = _make(tape, strategy={"type": "Recreate"})
    old = _ready(tape, path, 1)[0]
    _patch(tape, path, _new_template())
    tape.until_ending(old)
    tape.holds(
        tape.path("pods", labelSelector="app=d"),
        lambda body: len(body["items"]) == 1,
        for_s=1,
        show=lambda body: len(body["items"]),
    )
    tape.let_go(old)
    new = _ready(tape, path, 1)[0]
    tape.note("another pod", old != new)
    tape.until(path, _progressed, show=_status)


@script
def a_rolling_update_keeps_enough_pods_available(tape: Tape) -> None:
    path = _make(tape, replicas=2)
    old = _ready(tape, path, 2)
    _patch(tape, path, _new_template())
    tape.until(path, _has(replicas=3, updatedReplicas=1, availableReplicas=2), show=_numbers)
    fresh = [name for name in _names(tape, 3) if name not in old]
    tape.runs(fresh[0])
    tape.until(path, _has(updatedReplicas=2), show=lambda obj: obj["status"]["updatedReplicas"])
    for name in old:
        tape.let_go(name) if _is_ending(tape, name) else None
    fresh = [name for name in _alive(tape) if name not in old]
    for name in fresh:
        tape.runs(name)
    tape.until(path, _has(replicas=2, updatedReplicas=2, availableReplicas=2), show=_numbers)


def _alive(tape: Tape) -> list[str]:
    items = tape.kube.get(tape.path("pods", labelSelector="app=d")).body["items"]
    return [item["metadata"]["name"] for item in items if not is_ending(item)]


def _is_ending(tape: Tape, name: str) -> bool:
    body = tape.kube.get(tape.path("pods", name)).body
    return "deletionTimestamp" in body.get("metadata", {})


@script
def a_rollout_back_takes_the_old_replica_set_again(tape: Tape) -> None:
    path = _make(tape, replicas=0)
    tape.until(path, _progressed, show=_status)
    _patch(tape, path, _new_template())
    tape.until(
        path, lambda obj: _revision(obj) == "2" and _progressed(obj) and _has()(obj), show=_status
    )
    _patch(tape, path, {"template": {"spec": {"containers": [container()]}}})
    tape.until(
        path, lambda obj: _revision(obj) == "3" and _progressed(obj) and _has()(obj), show=_status
    )
    tape.until(
        tape.path("replicasets", group=APPS, labelSelector="app=d"),
        lambda body: len(body["items"]) == 2,
        show=lambda body: sorted(
            [_revision(item), item["metadata"]["annotations"]] for item in body["items"]
        ),
    )


@script
def old_replica_sets_go_beyond_the_history_limit(tape: Tape) -> None:
    path = _make(tape, replicas=0, revisionHistoryLimit=0)
    tape.until(path, _progressed, show=_status)
    _patch(tape, path, _new_template())
    tape.until(path, lambda obj: _revision(obj) == "2", show=_revision)
    tape.until(
        tape.path("replicasets", group=APPS, labelSelector="app=d"),
        lambda body: len(body["items"]) == 1 and _revision(body["items"][0]) == "2",
        show=lambda body: len(body["items"]),
    )


@script
def a_paused_deployment_rolls_nothing_out(tape: Tape) -> None:
    path = _make(tape, replicas=0, paused=True)
    tape.until(
        path,
        lambda obj: has_condition(obj, "Progressing", "Unknown") and len(conditions(obj)) == 2,
        show=_status,
    )
    tape.get(
        tape.path("replicasets", group=APPS, labelSelector="app=d"), show=lambda body: body["items"]
    )
    _patch(tape, path, {"paused": False})
    tape.until(path, _progressed, show=_status)


@script
def a_deployment_past_its_progress_deadline_says_so(tape: Tape) -> None:
    path = _make(tape, progressDeadlineSeconds=2, minReadySeconds=0)
    tape.until(
        path,
        lambda obj: has_condition(obj, "Progressing", "False") and _has(replicas=1)(obj),
        show=_status,
    )


@script
def scale_is_read_and_written_as_a_subresource(tape: Tape) -> None:
    path = _make(tape, replicas=0)
    tape.until(path, _progressed, show=_status)
    tape.get(path + "/scale")
    found = tape.kube.get(path + "/scale").body
    tape.put(path + "/scale", {**found, "spec": {"replicas": 2}})
    tape.until(path, _has(replicas=2), show=lambda obj: obj["status"]["replicas"])
    tape.merge(path + "/scale", {"spec": {"replicas": 1}})
    tape.merge(path + "/scale", {"spec": {"replicas": -1}})
    tape.put(path + "/scale", {**found, "metadata": {**found["metadata"], "resourceVersion": "1"}})
    tape.until(path, _has(replicas=1), show=lambda obj: obj["status"]["replicas"])


@script
def a_pod_that_was_deleted_is_made_anew(tape: Tape) -> None:
    path = _make(tape)
    first = _ready(tape, path, 1)[0]
    tape.delete(tape.path("pods", first), {"gracePeriodSeconds": 0}, show=pick("metadata.name"))
    second = _ready(tape, path, 1)[0]
    tape.note("another pod", first != second)


@script
def what_a_deployment_may_not_be_is_refused(tape: Tape) -> None:
    path = tape.path("deployments", group=APPS)
    surge = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}
    percent = {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": "x", "maxUnavailable": "200%"},
    }
    both = {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}
    for spec in (
        {"replicas": -1},
        {"selector": {"matchLabels": {"app": "other"}}},
        {"selector": {}},
        {"strategy": {"type": "Sideways"}},
        {"strategy": surge},
        {"strategy": percent},
        {"strategy": both},
        {"template": {"restartPolicy": "Never"}},
        {"template": {"activeDeadlineSeconds": 5}},
        {"minReadySeconds": -1, "revisionHistoryLimit": -1, "progressDeadlineSeconds": 0},
    ):
        tape.post(path, deployment(**spec), dryRun="All", show=pick("metadata.name"))
    tape.post(path, {"metadata": {"name": "d"}, "spec": {}})
    one = _make(tape, replicas=0)
    tape.merge(one, {"spec": {"selector": {"matchLabels": {"app": "e"}}}})


@script
def a_pod_without_an_owner_is_adopted_and_one_that_leaves_is_let_go(tape: Tape) -> None:
    path = _make(tape)
    name = _ready(tape, path, 1)[0]
    one = tape.path("pods", name)
    tape.merge(one, {"metadata": {"labels": {"app": "other"}}}, show=pick("metadata.labels"))
    tape.until(
        one,
        lambda pod: not pod["metadata"].get("ownerReferences"),
        show=pick("metadata.ownerReferences", "metadata.labels"),
    )
    _names(tape, 1)


@script
def events_tell_how_a_deployment_scales(tape: Tape) -> None:
    path = _make(tape, replicas=2)
    _names(tape, 2)
    _patch(tape, path, {"replicas": 0})
    tape.until(
        tape.path("events", fieldSelector="involvedObject.kind=Deployment"),
        lambda body: len(body["items"]) >= 2,
        show=lambda body: sorted(
            [e["reason"], e["type"], e["message"], e["source"]["component"]] for e in body["items"]
        ),
    )
    tape.until(
        tape.path("events", fieldSelector="involvedObject.kind=ReplicaSet"),
        lambda body: sum(e["reason"] == "SuccessfulDelete" for e in body["items"]) >= 2,
        show=lambda body: sorted({(e["reason"], e["type"]) for e in body["items"]}),
    )


@script
def an_image_is_changed_by_kubectl_set_image(tape: Tape) -> None:
    path = _make(tape, replicas=0)
    body = {
        "spec": {"template": {"spec": {"containers": [{"name": "main", "image": IMAGE + "-2"}]}}}
    }
    tape.send(
        "PATCH",
        path,
        body,
        kind="application/strategic-merge-patch+json",
        show=lambda obj: [c["image"] for c in obj["spec"]["template"]["spec"]["containers"]],
    )
    tape.until(path, lambda obj: _revision(obj) == "2", show=_revision)
