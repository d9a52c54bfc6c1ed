"""First objects: what every cluster has before anybody asks for anything."""

from __future__ import annotations

from onebox.api.admission.defaults import DEFAULT_CLASS
from onebox.api.kinds.cluster import SYSTEM_CLASSES
from onebox.api.registry import Api
from onebox.api.resources import Obj
from onebox.api.strategy import WriteOptions

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
PROVISIONER = "homeport.dev/folder"
STORAGE_CLASS = "glusterfs"
_MARK = "homeport.dev/bootstrapped"


def ensure_first_objects(api: Api) -> None:
    """Make the namespaces and classes that a fresh cluster has.

    Namespaces and system priority classes are made again whenever they are missing; the storage
    class only at the first start, so that an admin may remove or replace it.
    """
    system = api.find("namespaces", None, "kube-system")
    first = system is None or _MARK not in system["metadata"].get("annotations", {})
    for name in NAMESPACES:
        _ensure(api, "namespaces", {"metadata": {"name": name}})
    for name, value in SYSTEM_CLASSES.items():
        text = "Used for system critical pods that must not be moved from their current node."
        _ensure(
            api,
            "priorityclasses",
            {"metadata": {"name": name}, "value": value, "description": text},
        )
    if not first:
        return
    meta = {"name": STORAGE_CLASS, "annotations": {DEFAULT_CLASS: "true"}}
    _ensure(
        api,
        "storageclasses",
        {
            "metadata": meta,
            "provisioner": PROVISIONER,
            "reclaimPolicy": "Retain",
            "volumeBindingMode": "Immediate",
        },
    )
    mark = {"metadata": {"annotations": {_MARK: "true"}}}
    api.patch("namespaces", None, "kube-system", mark)


def _ensure(api: Api, plural: str, obj: Obj) -> None:
    if api.find(plural, None, obj["metadata"]["name"]) is None:
        options = WriteOptions(manager="kube-apiserver", is_internal=True)
        api.create(plural, None, obj, options=options)
