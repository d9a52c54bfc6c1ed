"""Follows creates, updates and patches: whoever changes a field owns it from then on."""

from __future__ import annotations

from onebox.api.managed import managers as owners
from onebox.api.managed.fieldset import Tree, difference, intersection, union
from onebox.api.managed.managers import Manager, Managers, Owned
from onebox.api.managed.scope import STRIPPED, reset_fields, zero_object
from onebox.api.managed.typed import Changes, compare
from onebox.api.resources import Obj, Resource
from onebox.api.schema import shape_of


def track(
    resource: Resource, new: Obj, old: Obj | None, manager: str, subresource: str | None, now: str
) -> None:
    """Write into `new` who owns its fields after a write.

    Args:
        new: what the client wants, with defaults and before anything else is filled in; its own
            managedFields count when they can be read, as upstream has it.
        old: the object as it is, None when it is created.
        now: RFC 3339.
    """
    given = new["metadata"].pop("managedFields", None)
    before = old["metadata"].get("managedFields", []) if old is not None else []
    managers = _managers_of(given, before, trust_given=not subresource)
    if managers is None or (old is not None and not managers):
        # Asked to forget, or never followed: tracking begins again with the first apply.
        return
    after = after_update(resource, new, old, managers, manager, subresource, now)
    if after is managers and given == before:
        new["metadata"]["managedFields"] = before
    elif after:
        new["metadata"]["managedFields"] = owners.encode(after)


def _managers_of(
    given: list[Obj] | None, before: list[Obj], *, trust_given: bool
) -> Managers | None:
    """Give the managers that a write starts from; None when the client wants to forget them."""
    if trust_given and given != before:
        if owners.is_reset(given):
            return None
        found = owners.decode(given)
        if found:
            return found
    return owners.trusted(before)


def after_update(  # noqa: PLR0913 - what a write is made of
    resource: Resource,
    new: Obj,
    old: Obj | None,
    managers: Managers,
    manager: str,
    subresource: str | None,
    now: str,
) -> Managers:
    """Give the managers after `manager` has changed `old` into `new`.

    Returns:
        `managers` itself when nothing was changed.
    """
    changes = changes_between(resource, old or zero_object(resource), new, subresource)
    if not (changes.removed or changes.modified or changes.added):
        return managers
    taken = union(changes.modified, changes.added)
    known = served_managers(resource, managers)
    gone: dict[Manager, Tree] = {}
    for each, owned in known.items():
        lost = union(intersection(owned.fields, taken), changes.removed)
        if lost:
            gone[each] = lost
    after = owners.without(known, gone)
    mine = difference(taken, STRIPPED)
    if mine:
        me = owners.updater(manager, resource.api_version, subresource or "")
        before = after[me].fields if me in after else {}
        after[me] = Owned(union(before, mine), resource.api_version, now)
    return owners.cap(after)


def changes_between(resource: Resource, old: Obj, new: Obj, subresource: str | None) -> Changes:
    """Compare two states, without what a write through `subresource` leaves alone."""
    changes = compare(old, new, shape_of(resource))
    reset = reset_fields(resource, subresource)
    if not reset:
        return changes
    return Changes(
        difference(changes.removed, reset, deep=True),
        difference(changes.modified, reset, deep=True),
        difference(changes.added, reset, deep=True),
    )


def served_managers(resource: Resource, managers: Managers) -> Managers:
    """Leave out managers of versions that are not served any more."""
    return {
        manager: owned
        for manager, owned in managers.items()
        if owned.api_version == resource.api_version
    }
