"""The graph of owners: which object has which uid, and who depends on whom.

Kept up to date from the Api's changes, so that one deletion costs its dependents and not a scan.
"""

from __future__ import annotations

from dataclasses import dataclass

from onebox.api.controllers.objects import name_of, namespace_of, owners_of, uid_of
from onebox.api.resources import Obj


@dataclass(frozen=True)
class Place:
    """Where an object lies."""

    plural: str
    namespace: str
    name: str


class OwnerGraph:
    """uid -> place, and owner's uid -> uids of its dependents."""

    def __init__(self) -> None:
        self._places: dict[str, Place] = {}
        self._owners: dict[str, frozenset[tuple[str, bool]]] = {}
        self._dependents: dict[str, set[str]] = {}

    def put(self, plural: str, obj: Obj) -> set[str]:
        """Note an object as it is now.

        Returns:
            the uids of the owners whose reference came, went, or began or ceased to block.
        """
        uid = uid_of(obj)
        self._places[uid] = Place(plural, namespace_of(obj), name_of(obj))
        return self._link(uid, frozenset(_edges(obj)))

    def drop(self, obj: Obj) -> set[str]:
        """Forget an object that is gone and return its owners; its dependents stay known."""
        self._places.pop(uid_of(obj), None)
        return self._link(uid_of(obj), frozenset())

    def _link(self, uid: str, owners: frozenset[tuple[str, bool]]) -> set[str]:
        before = self._owners.get(uid, frozenset())
        if owners:
            self._owners[uid] = owners
        else:
            self._owners.pop(uid, None)
        changed = {owner for owner, _ in before ^ owners}
        now = {owner for owner, _ in owners}
        for owner in changed:
            if owner in now:
                self._dependents.setdefault(owner, set()).add(uid)
                continue
            left = self._dependents.get(owner, set())
            left.discard(uid)
            if not left:
                self._dependents.pop(owner, None)
        return changed

    def find(self, uid: str) -> Place | None:
        """Where the object with that uid lies, if it exists."""
        return self._places.get(uid)

    def dependents(self, uid: str) -> list[str]:
        """The uids of the objects that name this owner, sorted."""
        return sorted(self._dependents.get(uid, ()))


def _edges(obj: Obj) -> list[tuple[str, bool]]:
    return [(str(ref.get("uid")), bool(ref.get("blockOwnerDeletion"))) for ref in owners_of(obj)]
