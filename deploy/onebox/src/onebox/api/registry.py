"""The verbs of the API on stored objects; the HTTP server and the controllers both go through it.

Every write runs the same steps as upstream: reading (shape), defaults, mutating admission,
preparation, validation, validating admission (quota last), one commit. All methods are
synchronous and run in the one event loop thread, so a read followed by a write is atomic.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from onebox.api import admission, metadata, patch, steps
from onebox.api.admission.lifecycle import check_deletion
from onebox.api.allocate import Allocator
from onebox.api.deletion import DeleteRequest, Step, decide_deletion, is_finished_deleting
from onebox.api.managed.apply import ApplyRequest, apply
from onebox.api.recorder import Recorder
from onebox.api.resources import Obj, Resource, resource_named
from onebox.api.status import (
    STALE_OBJECT,
    already_exists,
    conflict,
    internal,
    not_found,
)
from onebox.api.store import Change, Objects, Put, Remove, Store, Write
from onebox.api.strategy import Context, WriteOptions
from onebox.api.timestamps import format_time, utc_now

log = logging.getLogger(__name__)

Selector = Callable[[Obj], bool]
Callback = Callable[[str, str, Obj], None]


class Api:
    """The API in process.

    Objects handed out are the stored ones: read them, `store.clone` before changing.

    Attributes:
        store: where objects lie; its `subscribe` also tells the previous state.
        clock: the present moment, aware, in UTC; tests replace it.
        allocator: addresses and ports of Services.
    """

    def __init__(
        self,
        store: Store,
        *,
        clock: Callable[[], datetime] = utc_now,
        allocator: Allocator | None = None,
    ) -> None:
        self.store = store
        self.clock = clock
        self.allocator = allocator or Allocator(store)
        self._recorder = Recorder(self)

    def get(self, plural: str, namespace: str | None, name: str) -> Obj:
        """Give an object.

        Raises:
            StatusError: 404.
        """
        obj = self.store.get(plural, namespace, name)
        if obj is None:
            raise not_found(resource_named(plural), name)
        return obj

    def find(self, plural: str, namespace: str | None, name: str) -> Obj | None:
        """Give an object, or None."""
        return self.store.get(plural, namespace, name)

    def list(
        self, plural: str, namespace: str | None = None, selector: Selector | None = None
    ) -> Objects:
        """Give the objects of a kind in the order of namespace and name."""
        objects = self.store.list(resource_named(plural).plural, namespace)
        return [obj for obj in objects if selector(obj)] if selector else objects

    def create(
        self,
        plural: str,
        namespace: str | None,
        obj: Obj,
        *,
        user: str = "system:onebox",
        options: WriteOptions | None = None,
    ) -> Obj:
        """Create an object.

        Raises:
            StatusError: 400, 403 (admission), 404 (no such namespace), 409 (name taken),
                422 (invalid).
        """
        resource = resource_named(plural)
        ctx = self._context(options or WriteOptions(user=user, is_internal=True))
        return self._create(ctx, resource, namespace, obj)

    def _create(
        self,
        ctx: Context,
        resource: Resource,
        namespace: str | None,
        obj: Obj,
    ) -> Obj:
        plural = resource.plural
        new = steps.read(ctx, resource, obj)
        metadata.prepare_create(resource, namespace, new, ctx.now)
        space = new["metadata"].get("namespace")
        metadata.draw_name(
            resource, new, lambda name: self.store.get(plural, space, name) is not None
        )
        steps.apply_defaults(resource, new)
        steps.note_owner(ctx, resource, new, None, None)
        admission.admit_create(ctx, resource, new)
        steps.prepare_and_validate_create(ctx, resource, new)
        charges = admission.charge_create(ctx, resource, new)
        name = new["metadata"]["name"]
        found = self.store.get(plural, space, name)
        if found is not None:
            raise already_exists(resource, name, found)
        if ctx.options.dry_run:
            return new
        return self._commit([*charges, Put(plural, new)])[-1]

    def read(self, resource: Resource, obj: Obj, options: WriteOptions) -> Obj:
        """Read an object that is not kept, as upstream's typed decoder does.

        Raises:
            StatusError: 400, it is none of this kind.
        """
        metadata.check_type(resource, obj)
        return steps.read(self._context(options), resource, obj)

    def update(
        self,
        plural: str,
        namespace: str | None,
        name: str,
        obj: Obj,
        *,
        subresource: str | None = None,
        options: WriteOptions | None = None,
    ) -> Obj:
        """Replace an object, or a part of it by its subresource.

        `subresource` is "status", for Namespaces "finalize" (their spec.finalizers), or for workloads
        "scale" (`obj` is the workload). A change of nothing writes nothing and tells nobody. An
        update that takes the last finalizer of a deleted object removes it.

        Raises:
            StatusError: 404, 409 (metadata.resourceVersion or uid is not the current one), 422.
        """
        resource = resource_named(plural)
        old = self.get(plural, namespace, name)
        return self._replace(self._context(options), resource, old, obj, subresource)

    def apply(
        self,
        plural: str,
        namespace: str | None,
        name: str,
        config: Obj,
        *,
        subresource: str | None = None,
        options: WriteOptions,
    ) -> tuple[Obj, bool]:
        """Carry out a server-side apply: `config` has the fields that the manager wants.

        Returns:
            the object, and whether it was created.

        Raises:
            StatusError: as `update`; 409 when others own a field that would change; 404 for a
                subresource of an object that does not exist.
        """
        resource = resource_named(plural)
        old = self.find(plural, namespace, name)
        if old is None and subresource:
            raise not_found(resource, name)
        ctx = Context(self, self.clock(), options, is_applied=True)
        now = format_time(ctx.now)
        request = ApplyRequest(config, options.manager, options.force, subresource or "", now)
        applied = apply(resource, old, request)
        obj = {**applied.obj, "metadata": {**applied.obj["metadata"]}}
        meta = obj["metadata"]
        meta["managedFields"] = applied.entries
        if old is None:
            if meta.get("uid"):
                text = (
                    f"uid mismatch: the provided object specified uid {meta['uid']}, "
                    "and no existing object was found"
                )
                raise conflict(resource, name, text)
            metadata.check_name(meta.get("name", ""), name)
            return self._create(ctx, resource, namespace, obj), True
        return self._replace(ctx, resource, old, obj, subresource), False

    def patch(  # noqa: PLR0913 - the parts of a PATCH request
        self,
        plural: str,
        namespace: str | None,
        name: str,
        patch_body: Any,
        *,
        kind: str = "merge",
        subresource: str | None = None,
        options: WriteOptions | None = None,
    ) -> Obj:
        """Change an object by a patch of kind "merge", "strategic" or "json".

        Raises:
            StatusError: as `update`; 400 or 422 for a patch that cannot be applied.
        """
        resource = resource_named(plural)
        old = self.get(plural, namespace, name)
        new = patch.apply(kind, resource, old, patch_body)
        ctx = replace(self._context(options), is_patch=True)
        return self._replace(ctx, resource, old, new, subresource)

    def _replace(
        self, ctx: Context, resource: Resource, old: Obj, obj: Obj, subresource: str | None
    ) -> Obj:
        plural, name = resource.plural, old["metadata"]["name"]
        new = steps.read(ctx, resource, metadata.mark_reset(obj))
        given = new.get("metadata", {}).get("resourceVersion")
        if given and given != old["metadata"]["resourceVersion"]:
            raise conflict(resource, name, STALE_OBJECT)
        metadata.prepare_update(resource, new, old, is_patch=ctx.is_patch)
        new = steps.prepare_and_validate_update(ctx, resource, new, old, subresource)
        if new == old:
            return old
        charges: Sequence[Write] = ()
        if subresource in (None, "scale"):
            charges = admission.charge_update(ctx, resource, new, old)
        if ctx.options.dry_run:
            return new
        if is_finished_deleting(new, old):
            # Watchers see the last state that was stored, whoever asked what he wanted.
            self._commit([Remove(plural, old)])
            return new
        return self._commit([*charges, Put(plural, new)])[-1]

    def delete(  # noqa: PLR0913 - the parts of a DELETE request
        self,
        plural: str,
        namespace: str | None,
        name: str,
        *,
        propagation: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_s: int | None = None,
        options: WriteOptions | None = None,
    ) -> Obj:
        """Delete an object, or mark it when finalizers or a grace period keep it.

        Args:
            propagation: "Background", "Foreground", "Orphan", or None for the kind's default
                (Orphan for Jobs, as upstream).

        Returns:
            the object as it is afterwards (removed: its last state).

        Raises:
            StatusError: 404, 409 (a precondition does not hold), 403 (a namespace that stays).
        """
        resource = resource_named(plural)
        old = self.get(plural, namespace, name)
        check_deletion(resource, name)
        metadata.check_preconditions(resource, old, uid, resource_version)
        request = DeleteRequest(propagation, grace_s)
        decision = decide_deletion(resource, old, request, self.clock())
        if decision.step is Step.NOTHING or (options and options.dry_run):
            return decision.obj
        if decision.step is Step.MARK:
            return self._commit([Put(plural, decision.obj)])[-1]
        if decision.obj is not old:
            return self._commit([Put(plural, decision.obj), Remove(plural, decision.obj)])[-1]
        return self._commit([Remove(plural, decision.obj)])[-1]

    def bind(
        self, namespace: str | None, name: str, node_name: str, *, uid: str | None = None
    ) -> Obj:
        """Bind a pod to a node: one write of spec.nodeName and the condition PodScheduled.

        Raises:
            StatusError: 404, 409 (bound already, being deleted, another uid), 422.
        """
        resource = resource_named("pods")
        old = self.get("pods", namespace, name)
        new = steps.bound(resource, old, node_name, uid, self.clock())
        return self._commit([Put("pods", new)])[-1]

    def subscribe(self, callback: Callback) -> Callable[[], None]:
        """Call back with (ADDED|MODIFIED|DELETED, plural, object) after each commit, in order.

        Returns:
            the function that ends it.
        """

        def tell(change: Change) -> None:
            callback(change.type, change.plural, change.obj)

        return self.store.subscribe(tell)

    def event(self, involved: Obj, type_: str, reason: str, message: str, component: str) -> None:
        """Record an Event about an object, or count up the one that says the same."""
        self._recorder.record(involved, type_, reason, message, component)

    def _context(self, options: WriteOptions | None) -> Context:
        return Context(self, self.clock(), options or WriteOptions(is_internal=True))

    def _commit(self, writes: Sequence[Write]) -> Sequence[Obj]:
        try:
            return self.store.commit(writes)
        except sqlite3.Error as error:
            log.exception("the state could not be written")
            raise internal(f"the state could not be written: {error}") from error


__all__ = ["Api", "Callback", "Resource", "Selector"]
