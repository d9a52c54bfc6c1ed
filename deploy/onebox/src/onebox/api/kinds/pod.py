"""Pods: what the server sets when one is made, and what may change afterwards."""

from __future__ import annotations

from onebox.api.kinds.pod_defaults import containers_of, default_pod, default_template
from onebox.api.kinds.pod_rules import check_pod_spec, check_pod_update
from onebox.api.resources import Obj
from onebox.api.rules import fields
from onebox.api.status import Cause
from onebox.api.strategy import Context, Strategy
from onebox.quantity import parse_quantity

_COMPUTE = ("cpu", "memory")


def qos_class(spec: Obj) -> str:
    """Give the quality-of-service class of a pod spec.

    https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/
    """
    guaranteed, asked = True, False
    for container in containers_of(spec):
        resources = container.get("resources", {})
        limits, requests = resources.get("limits", {}), resources.get("requests", {})
        for name in _COMPUTE:
            limit = parse_quantity(limits.get(name, "0")).nanos
            request = parse_quantity(requests.get(name, "0")).nanos
            asked = asked or bool(limit or request)
            guaranteed = guaranteed and bool(limit) and limit == request
    if not asked:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


class PodStrategy(Strategy):
    """The rules of pods."""

    def defaults(self, obj: Obj) -> None:
        """Fill in what the user left out."""
        spec = obj.setdefault("spec", {})
        default_template(spec)
        default_pod(spec)

    def prepare_create(self, ctx: Context, obj: Obj) -> None:
        """Start as Pending, with nothing observed yet."""
        obj["status"] = {"phase": "Pending", "qosClass": qos_class(obj["spec"])}

    def prepare_update(self, ctx: Context, new: Obj, old: Obj) -> None:
        """Keep the priority, which admission has resolved once."""
        for field in ("priority", "preemptionPolicy"):
            if field in old["spec"]:
                new["spec"].setdefault(field, old["spec"][field])

    def validate(self, obj: Obj) -> list[Cause]:
        """Check the whole spec."""
        causes = check_pod_spec("spec", obj["spec"])
        if obj["spec"].get("ephemeralContainers"):
            text = "cannot be set on create; onebox runs no ephemeral containers"
            causes.append(fields.forbidden("spec.ephemeralContainers", text))
        return causes

    def validate_update(self, new: Obj, old: Obj) -> list[Cause]:
        """Check that only what may change has changed."""
        return check_pod_update(new["spec"], old["spec"])

    def warnings(self, obj: Obj) -> list[str]:
        """Say what onebox does not do for this pod."""
        spec = obj["spec"]
        return [
            f"spec.{field}: no node of onebox offers this, so the pod will fail"
            for field in ("hostPID", "hostIPC", "hostNetwork")
            if spec.get(field)
        ]
