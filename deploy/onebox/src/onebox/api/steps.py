"""The steps that every write runs through, between the request and the commit.

Order and rules follow https://github.com/kubernetes/apiserver/blob/v0.36.3/pkg/registry/rest/
(create.go, update.go).
"""

from __future__ import annotations

import logging
from datetime import datetime

import msgspec

from onebox.api import metadata
from onebox.api.kinds import STRATEGIES
from onebox.api.managed.track import track
from onebox.api.resources import Obj, Resource
from onebox.api.rules import fields, names
from onebox.api.rules.meta import check_meta, check_meta_update
from onebox.api.schema import read as read_shape
from onebox.api.schema import shape_of
from onebox.api.shape import ShapeError
from onebox.api.status import (
    StatusError,
    bad_request,
    conflict,
    invalid,
    invalid_patch,
    quote,
)
from onebox.api.store import clone
from onebox.api.strategy import Context, Strategy
from onebox.api.timestamps import format_time

log = logging.getLogger(__name__)


def read(ctx: Context, resource: Resource, obj: Obj) -> Obj:
    """Read an object as upstream's typed decoder does; gives a fresh one in canonical form.

    Fields that the kind does not have are dropped: silently, with a warning or with a refusal,
    as the request wants it. Controllers get them logged, for that is a mistake of ours.

    Raises:
        StatusError: 400, a value has the wrong type or, under Strict, a field is unknown.
    """
    try:
        new, unknown = read_shape(shape_of(resource), obj)
    except ShapeError as error:
        raise _unreadable(ctx, resource, obj, str(error)) from error
    sentences = [f'unknown field "{path}"' for path in unknown]
    sentences.extend(f'duplicate field "{path}"' for path in ctx.options.duplicates)
    if not sentences:
        return new
    if ctx.options.is_internal:
        log.warning("a controller wrote %s with %s", resource.kind, ", ".join(sentences))
    elif ctx.options.field_validation == "Strict":
        text = f"strict decoding error: {', '.join(sentences)}"
        raise _unreadable(ctx, resource, obj, text)
    elif ctx.options.field_validation == "Warn":
        ctx.options.warnings.extend(sentences)
    return new


def _unreadable(ctx: Context, resource: Resource, obj: Obj, why: str) -> StatusError:
    if ctx.is_patch:
        return invalid_patch(msgspec.json.encode(obj).decode(), why)
    failed = f"{resource.kind} in version {quote(resource.version)} cannot be handled as a "
    return bad_request(f"{failed}{resource.kind}: {why}")


def apply_defaults(resource: Resource, obj: Obj) -> None:
    """Fill in what the client left out."""
    STRATEGIES[resource.plural].defaults(obj)


def note_owner(
    ctx: Context, resource: Resource, new: Obj, old: Obj | None, subresource: str | None
) -> None:
    """Write down who owns the fields of an object after this write."""
    if not ctx.is_applied:
        track(resource, new, old, ctx.options.manager, subresource, format_time(ctx.now))


def prepare_and_validate_create(ctx: Context, resource: Resource, new: Obj) -> None:
    """Set what only the server may set, and check the whole object.

    Raises:
        StatusError: 422.
    """
    strategy = STRATEGIES[resource.plural]
    strategy.prepare_create(ctx, new)
    meta = new["metadata"]
    causes = check_meta(meta, _name_rule(strategy))
    causes.extend(strategy.validate(new))
    if causes:
        raise invalid(resource, meta["name"], causes)
    if resource.create_warning:
        ctx.options.warnings.append(resource.create_warning)
    ctx.options.warnings.extend(strategy.warnings(new))


def _name_rule(strategy: Strategy) -> metadata.NameRule:
    return strategy.name_rule or names.dns_subdomain


def prepare_and_validate_update(
    ctx: Context, resource: Resource, new: Obj, old: Obj, subresource: str | None
) -> Obj:
    """Carry over what does not change, and check the rest.

    Returns:
        the object as it is to be stored; equal to `old` when nothing has changed.

    Raises:
        StatusError: 422; 409 when the client relies on a version it does not name.
    """
    strategy = STRATEGIES[resource.plural]
    if subresource == "status":
        new = {**old, "metadata": new["metadata"], "status": new.get("status", {})}
        note_owner(ctx, resource, new, old, subresource)
        causes = strategy.validate_status(new, old)
    elif subresource == "finalize":
        finalizers = new.get("spec", {}).get("finalizers", [])
        spec = {**old.get("spec", {}), "finalizers": finalizers}
        if not finalizers:
            del spec["finalizers"]
        new = {**old, "metadata": new["metadata"], "spec": spec}
        note_owner(ctx, resource, new, old, subresource)
        causes = []
    else:
        if resource.has_status:
            _keep_status(new, old)
        strategy.defaults(new)
        note_owner(ctx, resource, new, old, subresource)
        strategy.prepare_update(ctx, new, old)
        _count_generation(resource, new, old)
        if new == old:
            return new
        wrong = strategy.validate(new) if strategy.checks_whole_on_update else []
        changed = strategy.validate_update(new, old)
        causes = [*changed, *wrong] if strategy.checks_change_first else [*wrong, *changed]
    causes.extend(check_meta(new["metadata"], _name_rule(strategy)))
    causes.extend(check_meta_update(new["metadata"], old["metadata"]))
    if causes:
        once = list(dict.fromkeys(causes))  # several of the checks look at the same
        raise invalid(resource, old["metadata"]["name"], once)
    return new


def _keep_status(new: Obj, old: Obj) -> None:
    if "status" in old:
        new["status"] = old["status"]
    else:
        new.pop("status", None)


def _count_generation(resource: Resource, new: Obj, old: Obj) -> None:
    if not resource.has_generation:
        return
    ignored = ("metadata", "status")
    after = {key: value for key, value in new.items() if key not in ignored}
    before = {key: value for key, value in old.items() if key not in ignored}
    if after != before:
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def bound(resource: Resource, old: Obj, node_name: str, uid: str | None, now: datetime) -> Obj:
    """Give a pod as it is once bound to a node.

    https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/registry/core/pod/storage/storage.go

    Raises:
        StatusError: 409, 422.
    """
    name, meta = old["metadata"]["name"], old["metadata"]
    metadata.check_preconditions(resource, old, uid, None)
    if not node_name:
        raise invalid(resource, name, [fields.required("target.name")])
    if "deletionTimestamp" in meta:
        raise conflict(resource, name, f"pod {name} is being deleted, cannot be assigned to a host")
    if old["spec"].get("nodeName"):
        taken = old["spec"]["nodeName"]
        raise conflict(resource, name, f"pod {name} is already assigned to node {quote(taken)}")
    if old["spec"].get("schedulingGates"):
        raise conflict(resource, name, f"pod {name} has non-empty .spec.schedulingGates")
    new = clone(old)
    new["spec"]["nodeName"] = node_name
    conditions = [c for c in new["status"].get("conditions", []) if c["type"] != "PodScheduled"]
    conditions.append(
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": format_time(now)}
    )
    new["status"]["conditions"] = conditions
    return new
