"""Namespaces, Nodes, ServiceAccounts, PriorityClasses, Leases and Events."""

from __future__ import annotations

from onebox.api.resources import Obj
from onebox.api.rules import fields, names
from onebox.api.status import Cause
from onebox.api.strategy import Context, Strategy

NAME_LABEL = "kubernetes.io/metadata.name"
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_PREEMPTION = ("PreemptLowerPriority", "Never")
MAX_USER_PRIORITY = 1_000_000_000
SYSTEM_CLASSES = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}


class NamespaceStrategy(Strategy):
    """The rules of Namespaces."""

    @staticmethod
    def name_rule(name: str) -> list[str]:
        """Check a namespace's name, which is part of host names."""
        return names.dns_label(name)

    def defaults(self, obj: Obj) -> None:
        """Label the namespace with its name, so that selectors can find it."""
        meta = obj["metadata"]
        if meta.get("name"):
            meta.setdefault("labels", {})[NAME_LABEL] = meta["name"]

    def prepare_create(self, ctx: Context, obj: Obj) -> None:
        """Start as Active, kept by the finalizer that empties it."""
        obj["spec"] = {"finalizers": ["kubernetes"]}
        obj["status"] = {"phase": "Active"}

    def prepare_update(self, ctx: Context, new: Obj, old: Obj) -> None:
        """Keep the finalizers, which change only through the subresource."""
        new["spec"] = old["spec"]


class NodeStrategy(Strategy):
    """The rules of Nodes; unlike other kinds they may be created with a status."""

    def defaults(self, obj: Obj) -> None:
        """Take the capacity for allocatable when that is absent."""
        obj.setdefault("spec", {})
        status = obj.setdefault("status", {})
        if "capacity" in status:
            status.setdefault("allocatable", dict(status["capacity"]))
        status.setdefault("daemonEndpoints", {}).setdefault("kubeletEndpoint", {"Port": 0})
        info = status.setdefault("nodeInfo", {})
        for field in (
            "machineID",
            "systemUUID",
            "bootID",
            "kernelVersion",
            "osImage",
            "containerRuntimeVersion",
            "kubeletVersion",
            "kubeProxyVersion",
            "operatingSystem",
            "architecture",
        ):
            info.setdefault(field, "")

    def validate(self, obj: Obj) -> list[Cause]:
        """Check taints."""
        causes: list[Cause] = []
        seen: set[tuple[str, str]] = set()
        for i, taint in enumerate(obj["spec"].get("taints", [])):
            path = f"spec.taints[{i}]"
            key, effect = taint.get("key", ""), taint.get("effect", "")
            causes.extend(fields.each_invalid(f"{path}.key", key, names.label_key(key)))
            value = taint.get("value", "")
            causes.extend(fields.each_invalid(f"{path}.value", value, names.label_value(value)))
            causes.extend(fields.one_of(f"{path}.effect", effect, _EFFECTS))
            if (key, effect) in seen:
                causes.append(fields.duplicate(path, taint))
            seen.add((key, effect))
        return causes


class PriorityClassStrategy(Strategy):
    """The rules of PriorityClasses."""

    def defaults(self, obj: Obj) -> None:
        """Let pods of the class preempt, as upstream does."""
        obj.setdefault("value", 0)
        obj.setdefault("preemptionPolicy", "PreemptLowerPriority")

    def validate(self, obj: Obj) -> list[Cause]:
        """Check value and name."""
        name, value = obj["metadata"]["name"], obj["value"]
        causes: list[Cause] = []
        if name.startswith("system-"):
            if SYSTEM_CLASSES.get(name) != value:
                text = (
                    "priority class names with 'system-' prefix are reserved for system use only. "
                    f"error: {_system_error(name, value)}"
                )
                causes.append(fields.forbidden("metadata.name", text))
        elif value > MAX_USER_PRIORITY:
            text = f"maximum allowed value of a user defined priority is {MAX_USER_PRIORITY}"
            causes.append(fields.forbidden("value", text))
        policy = obj["preemptionPolicy"]
        causes.extend(fields.one_of("preemptionPolicy", policy, _PREEMPTION))
        return causes

    def validate_update(self, new: Obj, old: Obj) -> list[Cause]:
        """Check that the value stays."""
        if new["value"] != old["value"]:
            return [fields.forbidden("value", "may not be changed in an update.")]
        path = "preemptionPolicy"
        return fields.immutable(path, new["preemptionPolicy"], old["preemptionPolicy"])


def _system_error(name: str, value: int) -> str:
    if name not in SYSTEM_CLASSES:
        return f"{name} is not a known system priority class"
    return f"value of {name} PriorityClass must be {SYSTEM_CLASSES[name]}"


class LeaseStrategy(Strategy):
    """The rules of Leases."""

    allow_unconditional_update = False

    def defaults(self, obj: Obj) -> None:
        """Write the spec even when it is empty."""
        obj.setdefault("spec", {})

    def validate(self, obj: Obj) -> list[Cause]:
        """Check numbers."""
        spec = obj["spec"]
        duration_s = spec.get("leaseDurationSeconds")
        causes = fields.non_negative("spec.leaseTransitions", spec.get("leaseTransitions"))
        if duration_s is not None and duration_s <= 0:
            path = "spec.leaseDurationSeconds"
            causes.append(fields.invalid(path, duration_s, "must be greater than 0"))
        return causes


class EventStrategy(Strategy):
    """The rules of Events."""

    @staticmethod
    def name_rule(name: str) -> list[str]:
        """Check an event's name, which is looser than others: it holds names of any kind."""
        return names.path_segment(name)

    def defaults(self, obj: Obj) -> None:
        """Write the parts that clients rely on."""
        obj.setdefault("involvedObject", {})
        obj.setdefault("source", {})
        obj.setdefault("reportingComponent", "")
        obj.setdefault("reportingInstance", "")

    def validate(self, obj: Obj) -> list[Cause]:
        """Check that the event lies beside what it is about."""
        about = obj["involvedObject"].get("namespace", "")
        own = obj["metadata"]["namespace"]
        if about and about != own:
            path = "involvedObject.namespace"
            return [fields.invalid(path, about, "does not match event.namespace")]
        if not about and own not in ("default", "kube-system"):
            path = "involvedObject.namespace"
            return [fields.invalid(path, about, "does not match event.namespace")]
        return []
