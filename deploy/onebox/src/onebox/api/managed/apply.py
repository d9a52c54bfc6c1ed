"""Server-side apply: merge what a manager wants, take away what it wants no more. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from onebox.api.managed import managers as owners
from onebox.api.managed.fieldset import (
    Tree,
    difference,
    has,
    intersection,
    paths,
    show,
    union,
)
from onebox.api.managed.managers import Manager, Managers, Owned
from onebox.api.managed.merge import check, merge
from onebox.api.managed.scope import STRIPPED, reset_fields, zero_object
from onebox.api.managed.track import after_update, changes_between, served_managers
from onebox.api.managed.typed import compare, field_set, remove, with_named_fields
from onebox.api.resources import Obj, Resource
from onebox.api.schema import shape_of
from onebox.api.shape import Shape
from onebox.api.status import StatusError, bad_request

BEFORE_FIRST_APPLY = "before-first-apply"
KUBECTL = "kubectl"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
MAX_ANNOTATIONS_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Applied:
    """The outcome of an apply.

    Attributes:
        obj: the object as it is to be written, without managedFields.
        entries: its managedFields.
    """

    obj: Obj
    entries: list[Obj]


@dataclass(frozen=True, slots=True)
class ApplyRequest:
    """What is asked for.

    Attributes:
        config: the fields that the manager wants, nothing else.
        force: take over fields that others have set to another value.
        now: RFC 3339.
    """

    config: Obj
    manager: str
    force: bool
    subresource: str
    now: str


class _ConflictError(Exception):
    """Others have set fields to other values: (manager, path) of each."""

    def __init__(self, conflicts: list[tuple[Manager, tuple[str, ...]]]) -> None:
        super().__init__(conflicts)
        self.conflicts = conflicts


def apply(resource: Resource, live: Obj | None, request: ApplyRequest) -> Applied:
    """Carry out an apply on an object, or on none.

    Raises:
        StatusError: 400 for a configuration that is none of this kind, 409 for conflicts, 500
            (as upstream) for one that has unknown fields or values of a wrong type.
    """
    _check_config(resource, request.config)
    old = dict(live) if live is not None else zero_object(resource)
    entries = old["metadata"].get("managedFields", [])
    old["metadata"] = {k: v for k, v in old["metadata"].items() if k != "managedFields"}
    managers = owners.trusted(entries)
    if live is not None and not managers:
        managers = after_update(resource, old, None, {}, BEFORE_FIRST_APPLY, None, request.now)
    try:
        new, after = _apply(resource, old, managers, request, force=request.force)
    except _ConflictError as error:
        new, after = _apply_over_client_side(resource, old, managers, request, error)
    if request.manager == KUBECTL:
        new = _renew_last_applied(new, request.config)
    return Applied(new, owners.encode(after))


def _check_config(resource: Resource, config: Obj) -> None:
    given = (config.get("apiVersion", ""), config.get("kind", ""))
    if given != (resource.api_version, resource.kind):
        group, _slash, version = str(given[0]).rpartition("/")
        raise bad_request(f"invalid object type: {group}/{version}, Kind={given[1]}")
    meta = config.get("metadata") or {}
    if isinstance(meta, dict) and meta.get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")
    wrong = check(config, shape_of(resource))
    if wrong:
        name = meta.get("name", "") if isinstance(meta, dict) else ""
        space = meta.get("namespace", "") if isinstance(meta, dict) else ""
        text = wrong[0] if len(wrong) == 1 else "errors:\n" + "\n".join(f"  {w}" for w in wrong)
        gvk = f"{resource.api_version}, Kind={resource.kind}"
        if not resource.group:
            gvk = f"/{gvk}"
        raise StatusError(
            500, "", f"failed to create typed patch object ({space}/{name}; {gvk}): {text}"
        )


def _apply(
    resource: Resource, old: Obj, managers: Managers, request: ApplyRequest, *, force: bool
) -> tuple[Obj, Managers]:
    shape, me = shape_of(resource), owners.applier(request.manager, request.subresource)
    known = served_managers(resource, managers)
    last = known[me].fields if me in known else {}
    reset = reset_fields(resource, request.subresource)
    wanted = difference(field_set(request.config, shape), reset, deep=True)
    new = merge(old, request.config, shape)
    known[me] = Owned(wanted, resource.api_version, known[me].time if me in known else "")
    new = _prune(new, known, last, shape)
    changes = changes_between(resource, old, new, request.subresource)
    taken = union(changes.modified, changes.added)
    conflicts: dict[Manager, Tree] = {}
    for each, owned in known.items():
        shared = intersection(owned.fields, taken) if each != me else {}
        if shared:
            conflicts[each] = shared
    if conflicts and not force:
        raise _ConflictError([(m, path) for m in sorted(conflicts) for path in paths(conflicts[m])])
    gone = {each: union(conflicts.get(each, {}), changes.removed) for each in known if each != me}
    is_same = new == old
    after = owners.without(known, gone)
    mine = difference(wanted, STRIPPED)
    after.pop(me, None)
    if mine:
        time = known[me].time if is_same else request.now
        after[me] = Owned(mine, resource.api_version, time)
    return new, after


def _prune(merged: Obj, managers: Managers, last: Tree, shape: Shape) -> Obj:
    """Take away what the manager applied last time, not this time, and nobody else owns."""
    if not last:
        return merged
    last = with_named_fields(last, shape)
    pruned: Any = remove(merged, last, shape)
    owned: Tree = {}
    for each in managers.values():
        owned = union(owned, each.fields)
    everything = with_named_fields(field_set(merged, shape), shape)
    kept = union(
        with_named_fields(field_set(pruned, shape), shape), with_named_fields(owned, shape)
    )
    pruned = remove(merged, difference(everything, kept), shape)
    left = with_named_fields(field_set(pruned, shape), shape)
    result: Obj = remove(merged, intersection(difference(everything, left), last), shape)
    return result


def _apply_over_client_side(
    resource: Resource, old: Obj, managers: Managers, request: ApplyRequest, error: _ConflictError
) -> tuple[Obj, Managers]:
    """Let kubectl take over what its own client-side apply has set before.

    Raises:
        StatusError: 409, other conflicts are left.
    """
    allowed = _last_applied_fields(resource, old) if request.manager == KUBECTL else None
    if allowed is None:
        raise _conflict(error.conflicts)
    left = [(manager, path) for manager, path in error.conflicts if not has(allowed, path)]
    if left:
        raise _conflict(left)
    return _apply(resource, old, managers, request, force=True)


def _last_applied_fields(resource: Resource, live: Obj) -> Tree | None:
    """Give the fields that still are as the client-side apply has set them; None without one."""
    text = (live["metadata"].get("annotations") or {}).get(LAST_APPLIED)
    if not text:
        return None
    try:
        last = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None
    shape = shape_of(resource)
    is_ours = isinstance(last, dict) and last.get("apiVersion") == resource.api_version
    if not is_ours or check(last, shape):
        return None
    changes = compare(last, live, shape)
    fields = field_set(last, shape)
    for part in (changes.modified, changes.added, changes.removed):
        fields = difference(fields, part)
    return fields


def _renew_last_applied(obj: Obj, config: Obj) -> Obj:
    """Keep the annotation of client-side apply true, where there is one."""
    annotations = obj["metadata"].get("annotations") or {}
    if not annotations.get(LAST_APPLIED):
        return obj
    meta = config.get("metadata") or {}
    if "annotations" in meta:
        own = {k: v for k, v in (meta["annotations"] or {}).items() if k != LAST_APPLIED}
        meta = {**meta, "annotations": own}
    plain = {**config, "metadata": meta}
    text = msgspec.json.encode(plain, order="sorted").decode() + "\n"
    renewed = {**annotations, LAST_APPLIED: text}
    if sum(len(k) + len(v) for k, v in renewed.items()) > MAX_ANNOTATIONS_BYTES:
        del renewed[LAST_APPLIED]
    return {**obj, "metadata": {**obj["metadata"], "annotations": renewed}}


def _conflict(conflicts: list[tuple[Manager, tuple[str, ...]]]) -> StatusError:
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {owners.describe(manager)}",
            "field": show(path),
        }
        for manager, path in conflicts
    ]
    if len(conflicts) == 1:
        text = f"1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        lines: list[str] = []
        for manager in dict.fromkeys(manager for manager, _path in conflicts):
            lines.append(f"conflicts with {owners.describe(manager)}:")
            lines.extend(f"- {show(path)}" for each, path in conflicts if each == manager)
        text = f"{len(conflicts)} conflicts: " + "\n".join(lines)
    return StatusError(409, "Conflict", f"Apply failed with {text}", {"causes": causes})
