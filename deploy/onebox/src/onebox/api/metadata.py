"""Object metadata: what the server sets, what an update may not change, preconditions."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable
from datetime import datetime

import msgspec

from onebox.api.golang import unregistered
from onebox.api.resources import RESOURCES, Obj, Resource
from onebox.api.status import (
    Cause,
    StatusError,
    bad_request,
    conflict,
    invalid,
    invalid_patch,
    quote,
    unmet_precondition,
)
from onebox.api.timestamps import format_time

NameRule = Callable[[str], list[str]]

SERVER_FIELDS = ("uid", "creationTimestamp", "generation", "selfLink")
_DELETION_FIELDS = ("deletionTimestamp", "deletionGracePeriodSeconds")
# Upstream's alphabet: no vowels and no look-alikes, so that no words appear by chance.
_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5
_DRAWS = 8
_GENERATED_BASE_LENGTH = 63 - _SUFFIX_LENGTH


def random_suffix() -> str:
    """Give five characters as upstream appends them to a generateName."""
    return "".join(secrets.choice(_SUFFIX_ALPHABET) for _ in range(_SUFFIX_LENGTH))


def prepare_create(resource: Resource, namespace: str | None, obj: Obj, now: datetime) -> None:
    """Set namespace, type, uid and time; take away what only the server may set.

    Raises:
        StatusError: 400 when kind or namespace contradict the request, 500 (as upstream) for an
            object with a resourceVersion.
    """
    check_type(resource, obj)
    meta = obj.setdefault("metadata", {})
    if meta.get("resourceVersion"):
        raise StatusError(500, "", "resourceVersion should not be set on objects to be created")
    # The generation of kinds that do not count it is what the client says, as upstream has it.
    for field in ("uid", "creationTimestamp", "selfLink", *_DELETION_FIELDS):
        meta.pop(field, None)
    set_namespace(resource, namespace, meta)
    meta["uid"] = str(uuid.uuid4())
    meta["creationTimestamp"] = format_time(now)
    if resource.has_generation:
        meta["generation"] = 1
    elif resource.first_generation:
        meta["generation"] = resource.first_generation


def draw_name(resource: Resource, obj: Obj, is_taken: Callable[[str], bool]) -> None:
    """Make the name from generateName when there is none.

    A name that is taken by chance is drawn again a few times, as upstream does.

    Raises:
        StatusError: 422, neither is given.
    """
    meta = obj["metadata"]
    if meta.get("name"):
        return
    base = meta.get("generateName")
    if not base:
        text = "Required value: name or generateName is required"
        raise invalid(resource, "", [Cause("FieldValueRequired", "metadata.name", text)])
    for _ in range(_DRAWS):
        meta["name"] = base[:_GENERATED_BASE_LENGTH] + random_suffix()
        if not is_taken(meta["name"]):
            return


def check_type(resource: Resource, obj: Obj) -> None:
    """Check apiVersion and kind, and set them when absent.

    Raises:
        StatusError: 400.
    """
    given = (obj.get("apiVersion") or resource.api_version, obj.get("kind") or resource.kind)
    if given != (resource.api_version, resource.kind):
        raise bad_request(_wrong_type(resource, *given))
    obj["apiVersion"], obj["kind"] = given


def _wrong_type(resource: Resource, api_version: str, kind: str) -> str:
    version = api_version.rpartition("/")[2]
    if any(known.kind == kind and known.api_version == api_version for known in RESOURCES):
        package = resource.group.partition(".")[0] or "core"
        why = f"converting ({version}.{kind}) to ({package}.{resource.kind}): unknown conversion"
    else:
        why = unregistered(kind, api_version)
    handled = f"cannot be handled as a {resource.kind}"
    return f"{kind} in version {quote(version)} {handled}: {why}"


def set_namespace(resource: Resource, namespace: str | None, meta: Obj) -> None:
    """Set the namespace of the request.

    Raises:
        StatusError: 400 when the object names another one.
    """
    if not resource.namespaced:
        meta.pop("namespace", None)
        return
    if meta.get("namespace") and meta["namespace"] != namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if not namespace:
        raise bad_request(f"{resource.kind} lives in a namespace: name one")
    meta["namespace"] = namespace


def prepare_update(resource: Resource, new: Obj, old: Obj, *, is_patch: bool = False) -> None:
    """Carry over what an update cannot change.

    Raises:
        StatusError: 400 when name, kind or namespace contradict; 409 for another uid (in a
            patch: left for validation); 422 for a patch that changes the kind.
    """
    if is_patch:
        _check_patched_type(resource, new)
    check_type(resource, new)
    meta, before = new.setdefault("metadata", {}), old["metadata"]
    if meta.get("name"):
        check_name(meta["name"], before["name"])
    set_namespace(resource, before.get("namespace"), meta)
    uid = meta.get("uid")
    if uid and uid != before["uid"] and not is_patch:
        raise conflict(resource, before["name"], _storage_error(resource, before, uid))
    for field in ("name", "generateName", "resourceVersion", *SERVER_FIELDS, *_DELETION_FIELDS):
        if field in before:
            meta[field] = before[field]
        else:
            meta.pop(field, None)
    if uid and is_patch:
        meta["uid"] = uid


def _check_patched_type(resource: Resource, new: Obj) -> None:
    kind = new.get("kind", resource.kind)
    if kind != resource.kind:
        why = (
            f"converting ({resource.version}.{kind}) to "
            f"({resource.group.partition('.')[0] or 'core'}.{resource.kind}): unknown conversion"
        )
        raise invalid_patch(msgspec.json.encode(new).decode(), why)


def _storage_error(resource: Resource, meta: Obj, uid: str) -> str:
    parts = [resource.group, resource.plural, meta.get("namespace", ""), meta["name"]]
    key = "/".join(part for part in parts if part)
    return (
        f"StorageError: invalid object, Code: 4, Key: /registry/{key}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, "
        f"UID in object meta: {meta['uid']}"
    )


def check_name(given: str, name: str) -> None:
    """Compare the name in an object with the one in the URL.

    Raises:
        StatusError: 400.
    """
    if not given:
        raise bad_request(
            f"the name of the object ({name} based on URL) was undeterminable: "
            "name must be provided"
        )
    if given != name:
        raise bad_request(
            f"the name of the object ({given}) does not match the name on the URL ({name})"
        )


def mark_reset(obj: Obj) -> Obj:
    """Keep the wish to forget all managers, `managedFields: []`, from vanishing as it is empty."""
    meta = obj.get("metadata")
    if not isinstance(meta, dict) or meta.get("managedFields") != []:
        return obj
    return {**obj, "metadata": {**meta, "managedFields": [{}]}}


def check_preconditions(
    resource: Resource, obj: Obj, uid: str | None, resource_version: str | None
) -> None:
    """Compare what a DELETE takes for granted with what is.

    Raises:
        StatusError: 409.
    """
    meta = obj["metadata"]
    if resource.plural == "namespaces" and uid is not None and uid != meta["uid"]:
        text = f"UID in precondition: {uid}, UID in object meta: {meta['uid']}"
        raise conflict(resource, meta["name"], f"Precondition failed: {text}")
    if uid is not None and uid != meta["uid"]:
        raise unmet_precondition(
            resource,
            meta["name"],
            f"the UID in the precondition ({uid}) does not match the UID in record "
            f"({meta['uid']}). The object might have been deleted and then recreated",
        )
    if resource_version is not None and resource_version != meta["resourceVersion"]:
        raise unmet_precondition(
            resource,
            meta["name"],
            f"the ResourceVersion in the precondition ({resource_version}) does not match the "
            f"ResourceVersion in record ({meta['resourceVersion']}). "
            "The object might have been modified",
        )
