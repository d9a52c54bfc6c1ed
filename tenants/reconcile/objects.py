"""Compares the objects of a tenant: the wanted document with what the cluster shows.

Pure: no calls, no database, no clock. `apply.py` does what the differences ask for.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from portal import quantity
from portal.cluster import labels
from portal.cluster.mergepatch import difference, is_equal
from portal.cluster.objects import (
    KubeEvent,
    KubeNamespace,
    KubePVC,
    KubeQuota,
    KubeRoleBinding,
    KubeServiceAccount,
)
from tenants.models import TenantObject

Object = dict[str, Any]
State = TenantObject.State

FIRST_CONSUMER = "WaitForFirstConsumer"


@dataclass(frozen=True)
class ClaimContext:
    """What else the difference of a claim depends on.

    Attributes:
        binding_mode: of the claim's StorageClass; empty when not known.
        problem: why the class cannot be used, as a sentence; empty when it can or is not known.
        events: of the claim, oldest first.
    """

    binding_mode: str = ""
    problem: str = ""
    events: Sequence[KubeEvent] = ()


@dataclass(frozen=True)
class Difference:
    """How an object is, and what makes it right.

    Attributes:
        patch: merge patch to send; empty when there is nothing to change.
        is_drift: somebody else changed what we had made; otherwise our own wishes changed.
    """

    state: str
    detail: str = ""
    must_create: bool = False
    patch: Object | None = None
    is_drift: bool = False


def compare(document: Object, seen: Any | None, context: ClaimContext) -> Difference:
    """The difference of one object.

    Args:
        document: as rendered, with our labels and spec hash.
        seen: the struct of the object of this name, or None.
        context: only looked at for a PersistentVolumeClaim.
    """
    if seen is None:
        return Difference(State.MISSING, must_create=True)
    if seen.metadata.owner != document["metadata"]["labels"][labels.OWNER]:
        return Difference(State.REFUSED, foreign(document))
    if seen.metadata.deletion_timestamp is not None:
        return Difference(State.WAITING, _leaving(seen))
    patch = _patch(document, seen)
    state, detail = _condition(document, seen, context)
    if patch:
        wanted_hash = document["metadata"]["annotations"][labels.SPEC_HASH]
        # The record stands outside of the hash, and is new whenever its row is.
        is_drift = seen.metadata.annotations.spec_hash == wanted_hash and not _stale_record(
            document, seen
        )
        return Difference(state, detail, patch=patch, is_drift=is_drift)
    return Difference(state, detail)


def foreign(document: Object) -> str:
    """The sentence about something of the wanted name that is not ours."""
    return (
        f"a {document['kind']} named {document['metadata']['name']} exists that Homeport did "
        "not create for this tenant; it is left alone. Remove it, and Homeport creates its "
        "own"
    )


def _leaving(seen: Any) -> str:
    text = "is being deleted by somebody; it is created again when it is gone"
    if isinstance(seen, KubeNamespace):
        held = [c.message for c in seen.status.conditions if c.status == "True" and c.message]
        return f"{text}. The cluster says: {' '.join(held)}" if held else text
    if isinstance(seen, KubePVC):
        return f"{text}, which waits for the pods that use it"
    return text


def _patch(document: Object, seen: Any) -> Object:
    """What to change, empty when nothing; a volume that would have to shrink is left alone."""
    patch = _content_patch(document, seen)
    meta = document["metadata"]
    marks = {
        key: text for key, text in meta["labels"].items() if seen.metadata.labels.get(key) != text
    }
    wanted_hash = meta["annotations"][labels.SPEC_HASH]
    is_stale = seen.metadata.annotations.spec_hash != wanted_hash
    record = _stale_record(document, seen)
    if not patch and not marks and not record and (not is_stale or _would_shrink(document, seen)):
        return {}
    changed: Object = {"annotations": {labels.SPEC_HASH: wanted_hash, **record}}
    if marks:
        changed["labels"] = marks
    return {**patch, "metadata": changed}


def _stale_record(document: Object, seen: Any) -> dict[str, str]:
    """The annotation that says whose a namespace is, where it says otherwise."""
    wanted = document["metadata"]["annotations"].get(labels.RECORD, "")
    is_same = wanted == seen.metadata.annotations.record
    return {} if is_same or not wanted else {labels.RECORD: wanted}


def _content_patch(document: Object, seen: Any) -> Object:
    if isinstance(seen, KubeNamespace):
        return {}
    if isinstance(seen, KubeServiceAccount):
        wanted = document["automountServiceAccountToken"]
        same = seen.automount_service_account_token == wanted
        return {} if same else {"automountServiceAccountToken": wanted}
    if isinstance(seen, KubeRoleBinding):
        wanted = document["subjects"]
        return {} if seen.subjects == wanted else {"subjects": wanted}
    if isinstance(seen, KubePVC):
        wanted = _storage(document)
        if quantity.parse(wanted) <= quantity.parse(_requested(seen)):
            return {}
        return {"spec": {"resources": {"requests": {"storage": wanted}}}}
    actual = {"hard": seen.spec.hard} if isinstance(seen, KubeQuota) else seen.spec
    inner = difference(actual, document["spec"])
    return {"spec": inner} if inner else {}


def _storage(document: Object) -> str:
    return str(document["spec"]["resources"]["requests"]["storage"])


def _requested(seen: KubePVC) -> str:
    return seen.spec.resources.requests.get("storage", "0")


def _would_shrink(document: Object, seen: Any) -> bool:
    return isinstance(seen, KubePVC) and (
        quantity.parse(_storage(document)) < quantity.parse(_requested(seen))
    )


def _condition(document: Object, seen: Any, context: ClaimContext) -> tuple[str, str]:
    if isinstance(seen, KubeNamespace) and seen.status.phase != "Active":
        return State.WAITING, f"the cluster reports its phase as {seen.status.phase or 'unknown'}"
    if isinstance(seen, KubeQuota) and not is_equal(seen.status.hard, document["spec"]["hard"]):
        return State.WAITING, "the cluster has not confirmed these limits yet"
    if isinstance(seen, KubeRoleBinding) and seen.role_ref != document["roleRef"]:
        return State.REFUSED, (
            f"it names the role {seen.role_ref.get('name') or '?'}, which cannot be changed. "
            "Remove it, and Homeport creates its own"
        )
    if isinstance(seen, KubePVC):
        return _claim_condition(document, seen, context)
    return State.READY, seen.metadata.annotations.warning


def _claim_condition(document: Object, seen: KubePVC, context: ClaimContext) -> tuple[str, str]:
    notes = [seen.metadata.annotations.warning]
    if _would_shrink(document, seen):
        notes.append(f"a volume cannot shrink: it stays at {_requested(seen)}")
    if seen.status.phase == "Bound":
        return State.READY, _sentences(notes)
    if seen.status.phase == "Lost":
        lost = f"its volume {seen.spec.volume_name} is lost; an admin must restore it"
        return State.REFUSED, _sentences([*notes, lost])
    if context.binding_mode == FIRST_CONSUMER:
        return State.READY, _sentences([*notes, "binds on first use"])
    waits = f"waits for a volume of class {seen.spec.storage_class_name or 'default'}"
    said = next((event.message for event in reversed(context.events) if event.message), "")
    return State.WAITING, _sentences([*notes, waits, context.problem or said])


def _sentences(parts: Sequence[str]) -> str:
    return ". ".join(part.rstrip(".") for part in parts if part)
