"""ResourceQuota: a new object is charged in the same commit that stores it, or refused.

Because check and charge are one commit, parallel requests can never overshoot a quota. What
leaves again (deleted, finished) is credited by the quota controller, which recounts.
https://github.com/kubernetes/apiserver/blob/v0.36.3/pkg/admission/plugin/resourcequota/controller.go
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from onebox.api.admission.totals import Amounts, add, read_amounts
from onebox.api.admission.usage import (
    covered_names,
    matches_scopes,
    missing_amounts,
    usage_of,
)
from onebox.api.resources import RESOURCES, Obj, Resource, resource_named
from onebox.api.status import forbidden
from onebox.api.store import Put
from onebox.quantity import ZERO, Quantity

if TYPE_CHECKING:
    from onebox.api.registry import Api


def charge(
    quotas: Iterable[Obj], resource: Resource, new: Obj, old: Obj | None, now: datetime
) -> list[Put]:
    """Charge a write to the quotas of its namespace.

    Args:
        old: the object before an update, None for a create.

    Returns:
        the writes that record the charge, to be committed together with the object.

    Raises:
        StatusError: 403, a quota would be exceeded, wants amounts that are missing, or has not
            been counted yet.
    """
    writes: list[Put] = []
    for quota in quotas:
        hard = quota.get("status", {}).get("hard", {})
        names = covered_names(resource, hard)
        if names and matches_scopes(resource, new, quota):
            _check_counted(resource, new, old, quota, names)
            delta = _delta(resource, new, old, quota, now)
            asked = {n: a for n, a in delta.items() if n in names and a.nanos > 0}
            if asked:
                writes.append(_charged(resource, new, quota, asked))
    return writes


def _check_counted(
    resource: Resource, new: Obj, old: Obj | None, quota: Obj, names: frozenset[str]
) -> None:
    name, label = new["metadata"]["name"], quota["metadata"]["name"]
    if resource.plural == "pods" and old is None:
        missing = missing_amounts(new, names)
        if missing:
            raise forbidden(resource, name, f"failed quota: {label}: must specify {missing}")
    if not names <= quota["status"].get("used", {}).keys():
        text = f"status unknown for quota: {label}, resources: {','.join(sorted(names))}"
        raise forbidden(resource, name, text)


def _charged(resource: Resource, new: Obj, quota: Obj, asked: Amounts) -> Put:
    status = quota["status"]
    used, hard = status["used"], status["hard"]
    total = add(read_amounts(used), asked)
    bounds = read_amounts(hard)
    exceeded = sorted(n for n in asked if bounds[n] < total[n])
    if exceeded:
        text = _exceeded(quota["metadata"]["name"], exceeded, asked, used, hard)
        raise forbidden(resource, new["metadata"]["name"], text)
    shown = {n: str(amount) for n, amount in total.items()}
    return Put("resourcequotas", {**quota, "status": {**status, "used": shown}})


def _delta(resource: Resource, new: Obj, old: Obj | None, quota: Obj, now: datetime) -> Amounts:
    usage = usage_of(resource, new, now)
    if old is None or not matches_scopes(resource, old, quota):
        return usage
    before = usage_of(resource, old, now)
    return {name: amount - before.get(name, ZERO) for name, amount in usage.items()}


def _exceeded(
    label: str, names: list[str], asked: Amounts, used: dict[str, str], hard: dict[str, str]
) -> str:
    def listed(amounts: dict[str, str] | Amounts) -> str:
        return ",".join(f"{name}={amounts[name]}" for name in names)

    return (
        f"exceeded quota: {label}, requested: {listed(asked)}, used: {listed(used)}, "
        f"limited: {listed(hard)}"
    )


def compute_used(api: Api, quota: Obj) -> dict[str, str]:
    """Count what the namespace of a quota uses of what the quota bounds.

    Args:
        quota: the ResourceQuota; its `spec.hard` says what is counted.

    Returns:
        the value for `status.used`: one amount for each name of `spec.hard`, "0" when nothing
        counts for it.
    """
    hard = quota["spec"].get("hard", {})
    namespace = quota["metadata"]["namespace"]
    now = api.clock()
    total: dict[str, Quantity] = {name: _zero_like(text) for name, text in hard.items()}
    for resource in RESOURCES:
        names = covered_names(resource, hard)
        if not resource.namespaced or not names:
            continue
        for obj in api.list(resource.plural, namespace):
            if not matches_scopes(resource, obj, quota):
                continue
            usage = usage_of(resource, obj, now)
            for name in names & usage.keys():
                total[name] = total[name] + usage[name]
    return {name: str(amount) for name, amount in total.items()}


def _zero_like(text: str) -> Quantity:
    return Quantity(0, read_amounts({"hard": text})["hard"].style)


def quotas_of(api: Api, namespace: str) -> list[Obj]:
    """Give the quotas of a namespace, by name."""
    return api.list(resource_named("resourcequotas").plural, namespace)
