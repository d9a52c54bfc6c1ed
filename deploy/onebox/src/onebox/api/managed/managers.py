"""The managers of an object: reading and writing metadata.managedFields. Pure.

https://github.com/kubernetes/apimachinery/blob/v0.36.3/pkg/util/managedfields/internal/managedfields.go
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from onebox.api.managed.fieldset import Tree, difference, is_well_formed, union
from onebox.api.resources import Obj
from onebox.api.status import quote

APPLY = "Apply"
UPDATE = "Update"
MAX_UPDATERS = 10
"""More updaters than this are counted together, the oldest first."""
ANCIENT = "ancient-changes"


class Manager(NamedTuple):
    """Who sets fields, and how.

    Attributes:
        operation: "Apply" or "Update".
        api_version: "" for Apply, where a manager is the same in all versions.
        subresource: through which the fields were set, "" for the object itself.
    """

    name: str
    operation: str
    api_version: str = ""
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Owned:
    """What a manager has set.

    Attributes:
        time: RFC 3339, when it last changed; "" when unknown.
    """

    fields: Tree
    api_version: str
    time: str = ""


Managers = dict[Manager, Owned]


def updater(name: str, api_version: str, subresource: str) -> Manager:
    """Give the manager of creates, updates and patches."""
    return Manager(name or "unknown", UPDATE, api_version, subresource)


def applier(name: str, subresource: str) -> Manager:
    """Give the manager of server-side applies."""
    return Manager(name or "unknown", APPLY, "", subresource)


def decode(entries: Any) -> Managers | None:
    """Read metadata.managedFields; None when it cannot be used."""
    managers: Managers = {}
    for entry in entries or ():
        operation, version = entry.get("operation"), entry.get("apiVersion")
        tree = entry.get("fieldsV1", {})
        if operation not in (APPLY, UPDATE) or not version or entry.get("fieldsType") != "FieldsV1":
            return None
        if not is_well_formed(tree):
            return None
        key = Manager(
            entry.get("manager", ""),
            operation,
            version if operation == UPDATE else "",
            entry.get("subresource", ""),
        )
        managers[key] = Owned(tree, version, entry.get("time", ""))
    return managers


def trusted(entries: Iterable[Obj]) -> Managers:
    """Read the managedFields of a stored object, which were checked when they were written."""
    return {
        Manager(
            entry.get("manager", ""),
            entry["operation"],
            entry["apiVersion"] if entry["operation"] == UPDATE else "",
            entry.get("subresource", ""),
        ): Owned(entry.get("fieldsV1", {}), entry["apiVersion"], entry.get("time", ""))
        for entry in entries
    }


def encode(managers: Managers) -> list[Obj]:
    """Write metadata.managedFields."""
    ordered = sorted(
        managers.items(),
        key=lambda item: (
            item[0].operation,
            item[1].time,
            item[0].name,
            item[1].api_version,
            item[0].subresource,
        ),
    )
    return [_entry(manager, owned) for manager, owned in ordered]


def _entry(manager: Manager, owned: Owned) -> Obj:
    entry: Obj = {
        "manager": manager.name,
        "operation": manager.operation,
        "apiVersion": owned.api_version,
        "time": owned.time,
        "fieldsType": "FieldsV1",
        "fieldsV1": owned.fields,
        "subresource": manager.subresource,
    }
    return {key: value for key, value in entry.items() if value or key == "fieldsV1"}


def is_reset(entries: list[Obj] | None) -> bool:
    """Tell whether a client wants to forget all managers: one entry that is empty."""
    return entries == [{}]


def without(managers: Managers, gone: dict[Manager, Tree]) -> Managers:
    """Take fields from managers; those that have none left are dropped."""
    result: Managers = {}
    for manager, owned in managers.items():
        fields = difference(owned.fields, gone[manager]) if manager in gone else owned.fields
        if fields:
            result[manager] = replace(owned, fields=fields)
    return result


def cap(managers: Managers) -> Managers:
    """Count the oldest updaters together when there are more than MAX_UPDATERS."""
    updaters = [manager for manager in managers if manager.operation == UPDATE]
    if len(updaters) <= MAX_UPDATERS:
        return managers
    result, number = dict(managers), len(updaters)
    firsts: dict[str, Manager] = {}
    for manager in sorted(updaters, key=lambda each: (managers[each].time, each)):
        if number <= MAX_UPDATERS:
            break
        owned = managers[manager]
        first = firsts.setdefault(owned.api_version, manager)
        if first == manager:
            continue
        bucket = Manager(ANCIENT, UPDATE, owned.api_version)
        if bucket not in result:
            result[bucket] = result.pop(first)
        fields = union(owned.fields, result[bucket].fields)
        result[bucket] = Owned(fields, owned.api_version, owned.time)
        result.pop(manager, None)
        number -= 1
    return result


def describe(manager: Manager) -> str:
    """Name a manager as sentences about conflicts do."""
    text = quote(manager.name)
    if manager.subresource:
        text += f" with subresource {quote(manager.subresource)}"
    if manager.operation == UPDATE:
        text += f" using {manager.api_version}"
    return text
