"""Deployments and ReplicaSets.

https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/apis/apps/validation/validation.go
"""

from __future__ import annotations

import re
from typing import Any

from onebox.api.kinds.template import (
    check_pod_template,
    check_template_labels,
    default_pod_template,
    warn_about_name,
)
from onebox.api.resources import Obj
from onebox.api.rules import fields, labels
from onebox.api.status import Cause
from onebox.api.strategy import Context, Strategy

_PERCENT = re.compile(r"(\d+)%")


class ReplicaSetStrategy(Strategy):
    """The rules of ReplicaSets, and what Deployments share with them."""

    def defaults(self, obj: Obj) -> None:
        """Fill in what the user left out."""
        spec = obj.setdefault("spec", {})
        default_pod_template(spec)
        spec.setdefault("replicas", 1)

    def prepare_create(self, ctx: Context, obj: Obj) -> None:
        """Start with nothing observed yet; a count of zero is required in the status."""
        obj["status"] = {"replicas": 0} if obj["kind"] == "ReplicaSet" else {}

    def validate(self, obj: Obj) -> list[Cause]:
        """Check the whole spec."""
        spec = obj["spec"]
        causes = fields.non_negative("spec.replicas", spec["replicas"])
        causes.extend(fields.non_negative("spec.minReadySeconds", spec.get("minReadySeconds")))
        selector = spec.get("selector")
        if selector is None:
            # Nothing is selected then, so the template is not either.
            causes.append(fields.required("spec.selector"))
            causes.extend(check_template_labels("spec.template.metadata.labels", spec))
        else:
            causes.extend(labels.check_selector("spec.selector", selector))
            if labels.is_empty_selector(selector):
                text = "empty selector is invalid for deployment"
                causes.append(fields.invalid("spec.selector", selector, text))
            causes.extend(check_template_labels("spec.template.metadata.labels", spec))
        template = spec["template"]
        causes.extend(check_pod_template("spec.template", template))
        policy = template["spec"].get("restartPolicy")
        if policy != "Always":
            path = "spec.template.spec.restartPolicy"
            causes.append(fields.not_supported(path, policy, ("Always",)))
        if "activeDeadlineSeconds" in template["spec"]:
            text = "activeDeadlineSeconds in ReplicaSet is not Supported"
            path = "spec.template.spec.activeDeadlineSeconds"
            causes.append(fields.forbidden(path, text))
        return causes

    def validate_update(self, new: Obj, old: Obj) -> list[Cause]:
        """Check that the selector stays."""
        after, before = new["spec"].get("selector"), old["spec"].get("selector")
        return fields.immutable("spec.selector", after, before)

    def warnings(self, obj: Obj) -> list[str]:
        """Say when the names of the pods will surprise."""
        return warn_about_name(obj["metadata"]["name"])


class DeploymentStrategy(ReplicaSetStrategy):
    """The rules of Deployments."""

    def defaults(self, obj: Obj) -> None:
        """Fill in what the user left out."""
        super().defaults(obj)
        spec = obj["spec"]
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("progressDeadlineSeconds", 600)
        strategy = spec.setdefault("strategy", {})
        strategy["type"] = strategy.get("type") or "RollingUpdate"
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", "25%")
            rolling.setdefault("maxSurge", "25%")

    def prepare_update(self, ctx: Context, new: Obj, old: Obj) -> None:
        """Count a change of annotations too: they are copied to the ReplicaSets."""
        before, after = old["metadata"].get("annotations"), new["metadata"].get("annotations")
        if before != after:
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def validate(self, obj: Obj) -> list[Cause]:
        """Check the whole spec."""
        spec = obj["spec"]
        causes = super().validate(obj)
        causes.extend(_check_strategy("spec.strategy", spec["strategy"]))
        for field in ("revisionHistoryLimit", "progressDeadlineSeconds"):
            causes.extend(fields.non_negative(f"spec.{field}", spec[field]))
        deadline = spec["progressDeadlineSeconds"]
        if deadline <= spec.get("minReadySeconds", 0):
            text = "must be greater than minReadySeconds"
            causes.append(fields.invalid("spec.progressDeadlineSeconds", deadline, text))
        return causes


def _check_strategy(path: str, strategy: Obj) -> list[Cause]:
    kind, rolling = strategy["type"], strategy.get("rollingUpdate")
    if kind == "Recreate":
        if rolling is None:
            return []
        text = "may not be specified when strategy `type` is 'Recreate'"
        return [fields.forbidden(f"{path}.rollingUpdate", text)]
    if kind != "RollingUpdate":
        return [fields.not_supported(path, strategy, ("Recreate", "RollingUpdate"))]
    rolling = rolling or {}
    causes: list[Cause] = []
    for field in ("maxUnavailable", "maxSurge"):
        causes.extend(_check_share(f"{path}.rollingUpdate.{field}", rolling.get(field)))
    where, unavailable = f"{path}.rollingUpdate.maxUnavailable", rolling.get("maxUnavailable")
    if not causes and not _number(unavailable) and not _number(rolling.get("maxSurge")):
        text = "may not be 0 when `maxSurge` is 0"
        causes.append(fields.invalid(where, unavailable, text))
    if isinstance(unavailable, str) and _number(unavailable) > 100:
        causes.append(fields.invalid(where, unavailable, "must not be greater than 100%"))
    return causes


def _check_share(path: str, value: Any) -> list[Cause]:
    if isinstance(value, str) and not _PERCENT.fullmatch(value):
        text = (
            "a valid percent string must be a numeric string followed by an ending '%' "
            "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
        )
        return [fields.invalid(path, value, text)]
    if isinstance(value, int) and value < 0:
        return [fields.invalid(path, value, fields.NEGATIVE)]
    return []


def _number(value: Any) -> int:
    if isinstance(value, str):
        match = _PERCENT.fullmatch(value)
        return int(match[1]) if match else 0
    return int(value or 0)
