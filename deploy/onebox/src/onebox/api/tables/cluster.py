"""The rows of nodes, events, namespaces, quotas, configuration and access."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from onebox.api.resources import Obj
from onebox.api.tables.cells import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    Cell,
    Column,
    age,
    format_selector,
    name_of,
    since,
    wide,
)

NODE = (
    NAME,
    Column("Status"),
    Column("Roles"),
    AGE,
    Column("Version"),
    wide("Internal-IP"),
    wide("External-IP"),
    wide("OS-Image"),
    wide("Kernel-Version"),
    wide("Container-Runtime"),
)
EVENT = (
    Column("Last Seen"),
    Column("Type"),
    Column("Reason"),
    Column("Object"),
    wide("Subobject"),
    wide("Source"),
    Column("Message"),
    wide("First Seen"),
    wide("Count"),
    Column("Name", priority=1, format="name"),
)
NAMESPACE = (NAME, Column("Status"), AGE)
QUOTA = (NAME, Column("Request"), Column("Limit"), AGE)
CONFIG_MAP = (NAME, Column("Data"), AGE)
SECRET = (NAME, Column("Type"), Column("Data"), AGE)
PLAIN = (NAME, AGE)
LEASE = (NAME, Column("Holder"), AGE)
POLICY = (NAME, Column("Pod-Selector"), AGE)
PRIORITY = (
    NAME,
    Column("Value", "integer"),
    Column("Global-Default", "boolean"),
    AGE,
    wide("PreemptionPolicy"),
)
BINDING = (NAME, Column("Role"), AGE, wide("Users"), wide("Groups"), wide("ServiceAccounts"))
DEFAULT = (NAME, Column("Created At", "date"))

_ROLE_LABEL = "node-role.kubernetes.io/"


def node_row(obj: Obj, now: datetime) -> list[Cell]:
    """Give the cells of a Node."""
    status = obj.get("status", {})
    words = [
        "Ready" if condition["status"] == "True" else "NotReady"
        for condition in status.get("conditions", ())
        if condition["type"] == "Ready"
    ] or ["Unknown"]
    if obj.get("spec", {}).get("unschedulable"):
        words.append("SchedulingDisabled")
    labels = obj["metadata"].get("labels", {})
    roles = sorted(key.removeprefix(_ROLE_LABEL) for key in labels if key.startswith(_ROLE_LABEL))
    info = status.get("nodeInfo", {})
    addresses = {entry["type"]: entry["address"] for entry in status.get("addresses", ())}
    kernel = info.get("kernelVersion") or UNKNOWN
    if info.get("architecture"):
        kernel = f"{kernel} ({info['architecture']})"
    return [
        name_of(obj),
        ",".join(words),
        ",".join(roles) or NONE,
        age(obj, now),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP", NONE),
        addresses.get("ExternalIP", NONE),
        info.get("osImage") or UNKNOWN,
        kernel,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def event_row(obj: Obj, now: datetime) -> list[Cell]:
    """Give the cells of an Event."""
    about, series = obj.get("involvedObject", {}), obj.get("series")
    first = since(obj.get("firstTimestamp") or obj.get("eventTime"), now)
    last = since(obj.get("lastTimestamp"), now) if obj.get("lastTimestamp") else first
    count = obj.get("count") or 1
    if series:
        last, count = since(series.get("lastObservedTime"), now), series.get("count", count)
    kind = about.get("kind", "").lower()
    source = obj.get("source", {})
    reporter = (
        source.get("component") or obj.get("reportingComponent", ""),
        source.get("host") or obj.get("reportingInstance", ""),
    )
    return [
        last,
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{kind}/{about['name']}" if about.get("name") else kind,
        about.get("fieldPath", ""),
        ", ".join(part for part in reporter if part),
        obj.get("message", "").strip(),
        first,
        count,
        name_of(obj),
    ]


def namespace_row(obj: Obj, now: datetime) -> list[Cell]:
    """Give the cells of a Namespace."""
    return [name_of(obj), obj.get("status", {}).get("phase", ""), age(obj, now)]


def quota_row(obj: Obj, now: datetime) -> list[Cell]:
    """Give the cells of a ResourceQuota."""
    status = obj.get("status", {})
    used = status.get("used", {})
    requests: list[str] = []
    limits: list[str] = []
    for name, hard in sorted(status.get("hard", {}).items()):
        side = limits if name.startswith("limits.") else requests
        side.append(f"{name}: {used.get(name, '0')}/{hard}")
    return [name_of(obj), ", ".join(requests), ", ".join(limits), age(obj, now)]


def config_map_row(obj: Obj, now: datetime) -> list[Cell]:
    """Give the cells of a ConfigMap."""
    count = len(obj.get("data", {})) + len(obj.get("binaryData", {}))
    return [name_of(obj), count, age(obj, now)]


def secret_row(obj: Obj, now: datetime) -> list[Cell]:
    """Give the cells of a Secret."""
    return [name_of(obj), obj["type"], len(obj.get("data", {})), age(obj, now)]


def plain_row(obj: Obj, now: datetime) -> list[Cell]:
    """Give name and age."""
    return [name_of(obj), age(obj, now)]


def lease_row(obj: Obj, now: datetime) -> list[Cell]:
    """Give the cells of a Lease."""
    return [name_of(obj), obj["spec"].get("holderIdentity", ""), age(obj, now)]


def policy_row(obj: Obj, now: datetime) -> list[Cell]:
    """Give the cells of a NetworkPolicy."""
    return [name_of(obj), format_selector(obj["spec"].get("podSelector")), age(obj, now)]


def priority_row(obj: Obj, now: datetime) -> list[Cell]:
    """Give the cells of a PriorityClass."""
    return [
        name_of(obj),
        obj["value"],
        bool(obj.get("globalDefault")),
        age(obj, now),
        obj.get("preemptionPolicy", ""),
    ]


def binding_row(obj: Obj, now: datetime) -> list[Cell]:
    """Give the cells of a RoleBinding or ClusterRoleBinding."""
    role, subjects = obj["roleRef"], obj.get("subjects", ())
    return [
        name_of(obj),
        f"{role.get('kind')}/{role.get('name')}",
        age(obj, now),
        *(_subjects(subjects, kind) for kind in ("User", "Group", "ServiceAccount")),
    ]


def _subjects(subjects: Iterable[Obj], kind: str) -> str:
    names = []
    for subject in subjects:
        if subject.get("kind") == kind:
            space = f"{subject['namespace']}/" if subject.get("namespace") else ""
            names.append(f"{space}{subject.get('name')}")
    return ", ".join(names)


def default_row(obj: Obj, now: datetime) -> list[Cell]:
    """Give name and time of creation."""
    return [name_of(obj), obj["metadata"].get("creationTimestamp", "")]
