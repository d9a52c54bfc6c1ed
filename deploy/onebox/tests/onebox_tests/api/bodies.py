"""Objects that are fine, for tests that break them one field at a time."""

from __future__ import annotations

from typing import Any

import pytest

from onebox.api.registry import Api
from onebox.api.status import StatusError
from onebox.api.store import clone

from .conftest import Obj, pod


def with_change(obj: Obj, path: str, value: Any) -> Obj:
    """Copy an object with one field changed: "spec.containers.0.name"; ... removes it."""
    changed = clone(obj)
    *keys, last = path.split(".")
    place: Any = changed
    for key in keys:
        place = place[int(key)] if isinstance(place, list) else place.setdefault(key, {})
    if value is ...:
        place.pop(last, None)
    elif isinstance(place, list):
        place[int(last)] = value
    else:
        place[last] = value
    return changed


FULL_POD = pod(
    volumes=[{"name": "data", "emptyDir": {}}],
    initContainers=[{"name": "fetch", "image": "i"}],
)
FULL_POD["spec"]["containers"][0] |= {
    "ports": [{"containerPort": 80, "name": "http"}],
    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    "env": [{"name": "A", "value": "1"}],
    "resources": {"limits": {"cpu": "1"}},
}
TEMPLATE = {"metadata": {"labels": {"app": "x"}}, "spec": pod()["spec"]}
JOB: Obj = {
    "metadata": {"name": "j"},
    "spec": {"template": {"spec": {**pod()["spec"], "restartPolicy": "Never"}}},
}
PARALLEL = with_change(JOB, "spec.parallelism", 2)
INDEXED = with_change(with_change(JOB, "spec.completionMode", "Indexed"), "spec.completions", 3)
DEPLOYMENT: Obj = {
    "metadata": {"name": "d"},
    "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE},
}
SERVICE: Obj = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}
CLAIM: Obj = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
}
VOLUME: Obj = {
    "metadata": {"name": "v"},
    "spec": {
        "accessModes": ["ReadWriteMany"],
        "capacity": {"storage": "1Gi"},
        "hostPath": {"path": "/x"},
    },
}
QUOTA: Obj = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "2"}}}
LIMITS: Obj = {"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Container"}]}}
PLACE = {"persistentvolumes": None, "storageclasses": None, "nodes": None, "namespaces": None}


def refuse(api: Api, plural: str, obj: Obj) -> StatusError:
    with pytest.raises(StatusError) as refused:
        api.create(plural, PLACE.get(plural, "lab"), obj)
    return refused.value


def forbidden(api: Api, plural: str, obj: Obj) -> str:
    with pytest.raises(StatusError) as refused:
        api.create(plural, "lab", obj)
    assert (refused.value.code, refused.value.reason) == (403, "Forbidden"), refused.value.message
    return refused.value.message


def sized(name: str, cpu: str = "1", memory: str = "1Gi", **more: Any) -> Obj:
    limits = {"cpu": cpu, "memory": memory, **more}
    return with_change(pod(name), "spec.containers.0.resources", {"limits": limits})
