"""ResourceQuotas and LimitRanges.

https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/apis/core/validation/validation.go
"""

from __future__ import annotations

from onebox.api.kinds.pod_defaults import round_up_to_milli
from onebox.api.resources import Obj
from onebox.api.rules import compute, fields, names
from onebox.api.status import Cause
from onebox.api.strategy import Context, Strategy
from onebox.quantity import parse_quantity

SCOPES = (
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
)
_OPERATORS = ("DoesNotExist", "Exists", "In", "NotIn")
_ONLY_EXISTS = frozenset(SCOPES) - {"PriorityClass"}
_LIMIT_TYPES = ("Container", "PersistentVolumeClaim", "Pod")
_LIMIT_PARTS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")


class QuotaStrategy(Strategy):
    """The rules of ResourceQuotas."""

    def defaults(self, obj: Obj) -> None:
        """Round what is finer than a thousandth."""
        round_up_to_milli(obj.setdefault("spec", {}).get("hard", {}))

    def prepare_create(self, ctx: Context, obj: Obj) -> None:
        """Start with nothing observed; the quota controller fills it in."""
        obj["status"] = {}

    def validate(self, obj: Obj) -> list[Cause]:
        """Check amounts and scopes."""
        spec = obj["spec"]
        hard = spec.get("hard", {})
        causes = compute.check_list("spec.hard", hard, compute.check_quota_name)
        scopes = spec.get("scopes", [])
        for scope in scopes:
            if scope not in SCOPES:
                text = "unsupported scope"
                causes.append(fields.invalid("spec.scopes", scopes, text))
        terms = spec.get("scopeSelector", {}).get("matchExpressions", [])
        for i, term in enumerate(terms):
            path = f"spec.scopeSelector.matchExpressions[{i}]"
            causes.extend(fields.one_of(f"{path}.scopeName", term.get("scopeName"), SCOPES))
            causes.extend(fields.one_of(f"{path}.operator", term.get("operator"), _OPERATORS))
            if term.get("scopeName") in _ONLY_EXISTS and term.get("operator") != "Exists":
                text = (
                    "must be 'Exist' when scope is any of ResourceQuotaScopeTerminating, "
                    "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "
                    "ResourceQuotaScopeNotBestEffort or "
                    "ResourceQuotaScopeCrossNamespacePodAffinity"
                )
                causes.append(fields.invalid(f"{path}.operator", term.get("operator"), text))
        return causes

    def validate_update(self, new: Obj, old: Obj) -> list[Cause]:
        """Check that the scopes stay."""
        after, before = new["spec"].get("scopes", []), old["spec"].get("scopes", [])
        return fields.immutable("spec.scopes", sorted(after), sorted(before))

    def validate_status(self, new: Obj, old: Obj) -> list[Cause]:
        """Check the observed amounts."""
        status = new.get("status", {})
        causes: list[Cause] = []
        for part in ("hard", "used"):
            amounts = status.get(part, {})
            rule = compute.check_quota_name
            causes.extend(compute.check_list(f"status.{part}", amounts, rule))
        return causes


class LimitRangeStrategy(Strategy):
    """The rules of LimitRanges."""

    def defaults(self, obj: Obj) -> None:
        """Derive defaults of containers from maximum and minimum."""
        for limit in obj.setdefault("spec", {}).setdefault("limits", []):
            for part in _LIMIT_PARTS:
                round_up_to_milli(limit.get(part, {}))
            if limit.get("type") != "Container":
                continue
            default = {**limit.get("max", {}), **limit.get("default", {})}
            request = {**limit.get("min", {}), **default, **limit.get("defaultRequest", {})}
            if default:
                limit["default"] = default
            if request:
                limit["defaultRequest"] = request

    def validate(self, obj: Obj) -> list[Cause]:
        """Check each limit on its own."""
        causes: list[Cause] = []
        seen: set[str] = set()
        for i, limit in enumerate(obj["spec"]["limits"]):
            path, kind = f"spec.limits[{i}]", limit.get("type", "")
            if "/" not in kind and kind not in _LIMIT_TYPES:
                text = "must be a standard limit type or fully qualified"
                causes.append(fields.invalid(f"{path}.type", kind, text))
            else:
                causes.extend(fields.each_invalid(f"{path}.type", kind, names.label_key(kind)))
            if kind in seen:
                causes.append(fields.duplicate(f"{path}.type", kind))
            seen.add(kind)
            causes.extend(_check_limit(path, kind, limit))
        return causes


def _check_limit(path: str, kind: str, limit: Obj) -> list[Cause]:
    causes: list[Cause] = []
    rule = compute.check_container_name if kind in ("Container", "Pod") else compute.check_name
    for part in _LIMIT_PARTS:
        for resource in limit.get(part, {}):
            causes.extend(rule(f"{path}.{part}[{resource}]", resource))
    if kind == "Pod":
        for part in ("default", "defaultRequest"):
            if limit.get(part):
                text = "may not be specified when `type` is 'Pod'"
                causes.append(fields.forbidden(f"{path}.{part}", text))
    if kind == "PersistentVolumeClaim" and not any(
        "storage" in limit.get(part, {}) for part in ("min", "max")
    ):
        text = "either minimum or maximum storage value is required, but neither was provided"
        causes.append(fields.required(f"{path}.limits", text))
    for low, high, at, text in _ORDER:
        for resource in limit.get(low, {}).keys() & limit.get(high, {}).keys():
            least, most = limit[low][resource], limit[high][resource]
            if parse_quantity(most) < parse_quantity(least):
                # Upstream quotes the maximum where a default is above it.
                shown = most if (low, high) == ("default", "max") else limit[at][resource]
                where = f"{path}.{at}[{resource}]"
                causes.append(fields.invalid(where, shown, text.format(low=least, high=most)))
    for resource, ratio in limit.get("maxLimitRequestRatio", {}).items():
        if parse_quantity(ratio) < parse_quantity("1"):
            where = f"{path}.maxLimitRequestRatio[{resource}]"
            causes.append(fields.invalid(where, ratio, f"ratio {ratio} is less than 1"))
    return causes


_ORDER = (
    ("min", "max", "min", "min value {low} is greater than max value {high}"),
    (
        "min",
        "defaultRequest",
        "defaultRequest",
        "min value {low} is greater than default request value {high}",
    ),
    (
        "defaultRequest",
        "max",
        "defaultRequest",
        "default request value {low} is greater than max value {high}",
    ),
    (
        "defaultRequest",
        "default",
        "defaultRequest",
        "default request value {low} is greater than default limit value {high}",
    ),
    ("min", "default", "default", "min value {low} is greater than default value {high}"),
    ("default", "max", "default", "default value {low} is greater than max value {high}"),
)
