"""Mutating admission: what the cluster, not the kind, fills into a new object.

Service account, priority, tolerations and limit-range defaults of pods; the default class of
claims. As with upstream, this happens before validation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onebox.api.admission import limitrange
from onebox.api.admission.priority import fill_priority
from onebox.api.resources import Obj, resource_named
from onebox.api.status import forbidden

if TYPE_CHECKING:
    from onebox.api.registry import Api

DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
PROTECTION = {
    "PersistentVolume": "kubernetes.io/pv-protection",
    "PersistentVolumeClaim": "kubernetes.io/pvc-protection",
}
_UNHEALTHY = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_TOLERATED_S = 300


def fill_pod(api: Api, pod: Obj) -> None:
    """Fill in what admission gives a pod.

    Raises:
        StatusError: 403, it names a service account or a priority class that does not exist, or
            another priority than that of its class.
    """
    namespace = pod["metadata"]["namespace"]
    for limit_range in api.list("limitranges", namespace):
        limitrange.apply_defaults(pod, limit_range)
    _fill_account(api, pod, namespace)
    fill_priority(api, pod)
    _fill_tolerations(pod["spec"])


def _fill_account(api: Api, pod: Obj, namespace: str) -> None:
    spec = pod["spec"]
    name = spec.get("serviceAccountName") or "default"
    # The account "default" is made by a controller a moment after its namespace; a pod that
    # comes in between must not be refused for that.
    if name != "default" and api.find("serviceaccounts", namespace, name) is None:
        text = (
            f"error looking up service account {namespace}/{name}: "
            f'serviceaccount "{name}" not found'
        )
        raise forbidden(resource_named("pods"), pod["metadata"].get("name", ""), text)
    spec["serviceAccountName"] = spec["serviceAccount"] = name


def _fill_tolerations(spec: Obj) -> None:
    tolerations: list[Obj] = spec.setdefault("tolerations", [])
    for key in _UNHEALTHY:
        covered = any(
            toleration.get("key", key) == key
            and toleration.get("effect", "NoExecute") == "NoExecute"
            for toleration in tolerations
        )
        if not covered:
            tolerations.append(
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": _TOLERATED_S,
                }
            )


def protect(obj: Obj) -> None:
    """Keep a claim or a volume that is deleted until nothing uses it any more."""
    finalizers: list[str] = obj["metadata"].setdefault("finalizers", [])
    name = PROTECTION[obj["kind"]]
    if name not in finalizers:
        finalizers.append(name)


def fill_claim(api: Api, claim: Obj) -> None:
    """Give a claim without a class the default one; the newest, should there be several."""
    if "storageClassName" in claim["spec"]:
        return
    defaults = [
        found
        for found in api.list("storageclasses")
        if found["metadata"].get("annotations", {}).get(DEFAULT_CLASS) == "true"
    ]
    if defaults:
        newest = max(defaults, key=lambda found: str(found["metadata"]["creationTimestamp"]))
        claim["spec"]["storageClassName"] = newest["metadata"]["name"]
