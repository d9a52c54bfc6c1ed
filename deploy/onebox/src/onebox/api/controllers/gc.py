"""The garbage collector: what happens to dependents when their owner goes.

https://kubernetes.io/docs/concepts/architecture/garbage-collection/ and
k8s.io/kubernetes/pkg/controller/garbagecollector. Background: dependents are deleted once the
owner is gone. Foreground (finalizer `foregroundDeletion`): the owner waits for the dependents
that block it. Orphan (finalizer `orphan`): dependents lose the reference. An owner that does not
exist with that uid, or lies in another namespace, counts as gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from onebox.api.controllers.gc_graph import OwnerGraph, Place
from onebox.api.controllers.objects import (
    Key,
    finalizers_of,
    is_deleting,
    namespace_of,
    owners_of,
    uid_of,
)
from onebox.api.controllers.ownership import remove_finalizer
from onebox.api.controllers.runtime import Controller
from onebox.api.deletion import FOREGROUND, ORPHAN
from onebox.api.resources import RESOURCES, Obj
from onebox.api.status import StatusError
from onebox.api.store import clone

if TYPE_CHECKING:
    from onebox.api.registry import Api

COMPONENT = "garbage-collector-controller"
SERVED_KINDS = {(r.api_version, r.kind) for r in RESOURCES}
NAMESPACED_KINDS = {(r.api_version, r.kind) for r in RESOURCES if r.namespaced}


@dataclass
class Owners:
    """The ownerReferences of one object by what became of their owners.

    Attributes:
        solid: the owner exists and stays (or cannot be looked up, which is no proof that it went).
        absent: the owner is gone.
        waiting: the owner exists and waits for its dependents to go first.
    """

    solid: list[Obj] = field(default_factory=list)
    absent: list[Obj] = field(default_factory=list)
    waiting: list[Obj] = field(default_factory=list)


class GarbageCollector(Controller):
    """Follows ownerReferences. Keys are uids."""

    name = COMPONENT
    # Events own nothing, are owned by nobody, and come in masses.
    kinds = tuple(r.plural for r in RESOURCES if r.plural != "events")

    def __init__(self, api: Api) -> None:
        super().__init__(api)
        self._graph = OwnerGraph()

    def keys(self, event: str, plural: str, obj: Obj) -> Iterable[Key]:
        """An object with owners or in deletion wakes itself; one that went wakes its dependents."""
        uid = uid_of(obj)
        if event == "DELETED":
            owners = self._graph.drop(obj)
            return [(each,) for each in (*self._graph.dependents(uid), *owners)]
        changed = self._graph.put(plural, obj)
        if is_deleting(obj) and {ORPHAN, FOREGROUND} & set(finalizers_of(obj)):
            return [(each,) for each in (uid, *self._graph.dependents(uid), *changed)]
        return [(each,) for each in (uid, *changed)] if changed else ()

    def sync(self, key: Key) -> float | None:
        """Decide about one object."""
        place = self._graph.find(key[0])
        obj = self._read(place)
        if place is None or obj is None:
            return None
        if is_deleting(obj) and ORPHAN in finalizers_of(obj):
            self._orphan_dependents(place, obj)
        elif is_deleting(obj) and FOREGROUND in finalizers_of(obj):
            self._await_dependents(place, obj)
        elif not is_deleting(obj) and owners_of(obj):
            self._attempt_delete(place, obj)
        return None

    def _read(self, place: Place | None) -> Obj | None:
        if place is None:
            return None
        return self.api.find(place.plural, place.namespace or None, place.name)

    def _orphan_dependents(self, place: Place, owner: Obj) -> None:
        uid = uid_of(owner)
        for dependent_uid in self._graph.dependents(uid):
            where = self._graph.find(dependent_uid)
            dependent = self._read(where)
            if where is not None and dependent is not None:
                self._drop_references(where, dependent, {uid})
        remove_finalizer(self.api, place.plural, owner, ORPHAN)

    def _await_dependents(self, place: Place, owner: Obj) -> None:
        uid = uid_of(owner)
        for dependent_uid in self._graph.dependents(uid):
            dependent = self._read(self._graph.find(dependent_uid))
            if dependent is not None and _blocks(dependent, uid):
                return  # it wakes us when it goes
        remove_finalizer(self.api, place.plural, owner, FOREGROUND)

    def _attempt_delete(self, place: Place, obj: Obj) -> None:
        owners = self._classify(obj)
        if owners.solid:
            gone = {str(ref.get("uid")) for ref in (*owners.absent, *owners.waiting)}
            if gone:
                self._drop_references(place, obj, gone)
            return
        propagation = self._inherited_propagation(obj, owners)
        try:
            self.api.delete(
                place.plural,
                place.namespace or None,
                place.name,
                propagation=propagation,
                uid=uid_of(obj),
            )
        except StatusError as error:
            if error.code != 404:
                raise

    def _inherited_propagation(self, obj: Obj, owners: Owners) -> str:
        if owners.waiting and self._graph.dependents(uid_of(obj)):
            self._break_circle(obj)
            return "Foreground"
        if ORPHAN in finalizers_of(obj):
            return "Orphan"
        return "Foreground" if FOREGROUND in finalizers_of(obj) else "Background"

    def _break_circle(self, obj: Obj) -> None:
        """Of two that own each other and both wait, neither would ever go: stop blocking."""
        for uid in self._graph.dependents(uid_of(obj)):
            dependent = self._read(self._graph.find(uid))
            if dependent is None or not is_deleting(dependent):
                continue
            if FOREGROUND in finalizers_of(dependent):
                self._unblock(obj)
                return

    def _unblock(self, obj: Obj) -> None:
        place = self._graph.find(uid_of(obj))
        current = self._read(place)
        if place is None or current is None:
            return
        new = clone(current)
        for ref in owners_of(new):
            ref["blockOwnerDeletion"] = False
        self.api.update(place.plural, place.namespace or None, place.name, new)

    def _classify(self, obj: Obj) -> Owners:
        owners = Owners()
        for ref in owners_of(obj):
            if (ref.get("apiVersion"), ref.get("kind")) not in SERVED_KINDS:
                owners.solid.append(ref)
                continue
            place = self._graph.find(str(ref.get("uid")))
            if not self._may_own(obj, ref, place):
                # A cluster-scoped object with a namespaced owner is never collected, as upstream.
                (owners.absent if namespace_of(obj) else owners.solid).append(ref)
                continue
            owner = self._read(place)
            if owner is None or uid_of(owner) != ref.get("uid"):
                owners.absent.append(ref)
            elif is_deleting(owner) and FOREGROUND in finalizers_of(owner):
                owners.waiting.append(ref)
            else:
                owners.solid.append(ref)
        return owners

    def _may_own(self, obj: Obj, ref: Obj, place: Place | None) -> bool:
        """False, and an Event, for an owner across namespaces."""
        namespaced_owner = (ref.get("apiVersion"), ref.get("kind")) in NAMESPACED_KINDS
        namespace = namespace_of(obj)
        if not namespaced_owner or (place is None and namespace):
            return True
        if place is not None and place.namespace == namespace:
            return True
        text = (
            f"ownerRef [{ref.get('apiVersion')}/{ref.get('kind')}, namespace: {namespace}, "
            f"name: {ref.get('name')}, uid: {ref.get('uid')}] does not exist in namespace "
            f'"{namespace}"'
        )
        self.api.event(obj, "Warning", "OwnerRefInvalidNamespace", text, COMPONENT)
        return False

    def _drop_references(self, place: Place, obj: Obj, uids: set[str]) -> None:
        new = clone(obj)
        kept = [ref for ref in owners_of(obj) if ref.get("uid") not in uids]
        if kept:
            new["metadata"]["ownerReferences"] = kept
        else:
            new["metadata"].pop("ownerReferences", None)
        self.api.update(place.plural, place.namespace or None, place.name, new)


def _blocks(dependent: Obj, owner_uid: str) -> bool:
    return any(
        ref.get("uid") == owner_uid and ref.get("blockOwnerDeletion")
        for ref in owners_of(dependent)
    )
