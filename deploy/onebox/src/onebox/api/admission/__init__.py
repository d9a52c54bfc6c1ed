"""Admission: what the cluster adds to a write, and what it refuses.

`admit_create` runs before the object is validated, `charge_create` and `charge_update` after;
the latter give writes that have to be committed together with the object.
"""

from __future__ import annotations

from onebox.api.admission import limitrange, podsecurity
from onebox.api.admission.defaults import PROTECTION, fill_claim, fill_pod, protect
from onebox.api.admission.lifecycle import check_namespace
from onebox.api.admission.priority import check_default
from onebox.api.admission.quota import charge, quotas_of
from onebox.api.resources import Obj, Resource
from onebox.api.status import forbidden
from onebox.api.store import Put
from onebox.api.strategy import Context
from onebox.quantity import parse_quantity

_TEMPLATED = ("deployments", "jobs", "replicasets")


def admit_create(ctx: Context, resource: Resource, obj: Obj) -> None:
    """Check the namespace, and fill in what the cluster provides.

    Raises:
        StatusError: 403, 404.
    """
    namespace = obj["metadata"].get("namespace")
    if namespace:
        found = ctx.api.find("namespaces", None, namespace)
        check_namespace(resource, obj["metadata"].get("name", ""), namespace, found)
    if resource.plural == "pods":
        fill_pod(ctx.api, obj)
    elif resource.plural == "persistentvolumeclaims":
        fill_claim(ctx.api, obj)
    if resource.kind in PROTECTION:
        protect(obj)


def charge_create(ctx: Context, resource: Resource, obj: Obj) -> list[Put]:
    """Check limits, security and quotas of a valid new object.

    Raises:
        StatusError: 403.
    """
    namespace = obj["metadata"].get("namespace")
    if resource.plural == "priorityclasses":
        check_default(ctx.api, resource, obj, is_new=True)
    if not namespace:
        return []
    if resource.plural in ("pods", "persistentvolumeclaims"):
        _check_limits(ctx, resource, obj, namespace)
    if resource.plural == "pods":
        _check_security(ctx, resource, obj, namespace)
    elif resource.plural in _TEMPLATED:
        _warn_security(ctx, obj["spec"]["template"]["spec"], namespace)
    return charge(quotas_of(ctx.api, namespace), resource, obj, None, ctx.now)


def charge_update(ctx: Context, resource: Resource, new: Obj, old: Obj) -> list[Put]:
    """Check what grows with an update: node ports, the size of claims, the default priority.

    Raises:
        StatusError: 403.
    """
    if resource.plural == "priorityclasses":
        check_default(ctx.api, resource, new, is_new=False)
    if resource.plural in _TEMPLATED:
        spec = new["spec"]["template"]["spec"]
        if spec != old["spec"]["template"]["spec"]:
            _warn_security(ctx, spec, new["metadata"]["namespace"])
    if resource.plural == "persistentvolumeclaims":
        _check_expansion(ctx, resource, new, old)
        _check_limits(ctx, resource, new, new["metadata"]["namespace"])
    elif resource.plural != "services":
        return []
    namespace = new["metadata"]["namespace"]
    return charge(quotas_of(ctx.api, namespace), resource, new, old, ctx.now)


def _check_limits(ctx: Context, resource: Resource, obj: Obj, namespace: str) -> None:
    problems: list[str] = []
    for limit_range in ctx.api.list("limitranges", namespace):
        problems.extend(limitrange.find_problems(resource.plural, obj, limit_range))
    if problems:
        text = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
        raise forbidden(resource, obj["metadata"]["name"], text)


def _check_security(ctx: Context, resource: Resource, pod: Obj, namespace: str) -> None:
    found = ctx.api.get("namespaces", None, namespace)
    level, version = podsecurity.level_of(found, "enforce")
    violations = podsecurity.find_violations(level, pod["spec"])
    if violations:
        text = f"violates {podsecurity.explain(level, version, violations)}"
        raise forbidden(resource, pod["metadata"]["name"], text)
    _warn_security(ctx, pod["spec"], namespace)


def _warn_security(ctx: Context, spec: Obj, namespace: str) -> None:
    found = ctx.api.get("namespaces", None, namespace)
    level, version = podsecurity.level_of(found, "warn")
    violations = podsecurity.find_violations(level, spec)
    if violations:
        text = f"would violate {podsecurity.explain(level, version, violations)}"
        ctx.options.warnings.append(text)


def _check_expansion(ctx: Context, resource: Resource, new: Obj, old: Obj) -> None:
    after = new["spec"]["resources"].get("requests", {}).get("storage", "0")
    before = old["spec"]["resources"].get("requests", {}).get("storage", "0")
    if parse_quantity(after) <= parse_quantity(before):
        return
    name = new["spec"].get("storageClassName") or ""
    found = ctx.api.find("storageclasses", None, name)
    if found is None or not found.get("allowVolumeExpansion"):
        text = (
            "only dynamically provisioned pvc can be resized and the storageclass that "
            "provisions the pvc must support resize"
        )
        raise forbidden(resource, new["metadata"]["name"], text)
