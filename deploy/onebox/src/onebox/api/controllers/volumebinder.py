"""Binds PersistentVolumeClaims to PersistentVolumes, and keeps used ones from being removed.

https://kubernetes.io/docs/concepts/storage/persistent-volumes/ ; rules and sentences of
k8s.io/kubernetes/pkg/controller/volume/persistentvolume. A binding is written in steps that each
survive a kill: the volume's claimRef (with the claim's uid) first, then the claim's volumeName,
then both phases. A Released volume is never bound again; provisioning is the node's work.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from onebox.api.controllers.objects import (
    Key,
    annotations_of,
    finalizers_of,
    is_deleting,
    key_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    uid_of,
)
from onebox.api.controllers.ownership import remove_finalizer
from onebox.api.controllers.podstate import is_terminal
from onebox.api.controllers.runtime import Controller
from onebox.api.controllers.volume_match import claim_ref, find_volume, is_named, misfit
from onebox.api.resources import Obj
from onebox.api.store import clone

if TYPE_CHECKING:
    from onebox.api.registry import Api

COMPONENT = "persistentvolume-controller"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
PROVISIONER = "volume.kubernetes.io/storage-provisioner"
OLD_PROVISIONER = "volume.beta.kubernetes.io/storage-provisioner"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
CLAIM_PROTECTION = "kubernetes.io/pvc-protection"
VOLUME_PROTECTION = "kubernetes.io/pv-protection"
NO_PROVISIONER = "kubernetes.io/no-provisioner"


class VolumeBinder(Controller):
    """Keys are (namespace, name) of claims and (name,) of volumes."""

    name = COMPONENT
    kinds = ("persistentvolumes", "persistentvolumeclaims", "storageclasses", "pods")

    def __init__(self, api: Api) -> None:
        super().__init__(api)
        self._told: dict[str, tuple[str, str]] = {}  # by uid: the last Event about waiting

    def keys(self, event: str, plural: str, obj: Obj) -> Iterable[Key]:
        """A claim and a volume wake each other; a class wakes its claims, a pod those it used."""
        match plural:
            case "persistentvolumeclaims":
                if event == "DELETED":
                    self._told.pop(uid_of(obj), None)
                volumes = [(name_of(v),) for v in self._volumes() if _refers(v, obj)]
                return [key_of(obj), *volumes]
            case "persistentvolumes":
                return [(name_of(obj),), *self._claims_near(obj)]
            case "storageclasses":
                return [
                    key_of(claim)
                    for claim in self.api.list("persistentvolumeclaims")
                    if spec_of(claim).get("storageClassName") == name_of(obj)
                ]
            case _:
                if event != "DELETED" and not is_terminal(obj):
                    return ()
                return [(namespace_of(obj), name) for name in _claims_used(obj)]

    def _volumes(self) -> list[Obj]:
        return self.api.list("persistentvolumes")

    def _claims_near(self, volume: Obj) -> list[Key]:
        """The claim of a volume; for a free volume all that are not bound yet."""
        ref = claim_ref(volume)
        if ref:
            return [(str(ref.get("namespace")), str(ref.get("name")))]
        return [
            key_of(claim)
            for claim in self.api.list("persistentvolumeclaims")
            if BIND_COMPLETED not in annotations_of(claim)
            or spec_of(claim).get("volumeName") == name_of(volume)
        ]

    def sync(self, key: Key) -> float | None:
        """Bring one claim or one volume in order."""
        if len(key) == 1:
            volume = self.api.find("persistentvolumes", None, key[0])
            if volume is not None:
                self._sync_volume(volume)
            return None
        claim = self.api.find("persistentvolumeclaims", key[0], key[1])
        if claim is None:
            return None
        if is_deleting(claim):
            self._release_claim(claim)
            return None
        claim = self._protect("persistentvolumeclaims", claim, CLAIM_PROTECTION)
        if BIND_COMPLETED in annotations_of(claim):
            self._sync_bound(claim)
        else:
            self._sync_unbound(claim)
        return None

    def _sync_unbound(self, claim: Obj) -> None:
        wanted = spec_of(claim).get("volumeName")
        if wanted:
            volume = self.api.find("persistentvolumes", None, str(wanted))
            if volume is None or not self._may_have(volume, claim):
                self._set_claim_phase(claim, "Pending")
                return
        else:
            volume = None if self._waits_for_node(claim) else find_volume(claim, self._volumes())
        if volume is None:
            self._set_claim_phase(claim, "Pending")
            self._ask_provisioner(claim)
            return
        self._bind(volume, claim)

    def _may_have(self, volume: Obj, claim: Obj) -> bool:
        """Check a volume that the claim names itself, and say why not."""
        if claim_ref(volume) and not is_named(volume, claim):
            text = f'volume "{name_of(volume)}" already bound to a different claim.'
            self._tell(claim, "Warning", "FailedBinding", text)
            return False
        problem = misfit(volume, claim)
        if problem is not None:
            text = f'Cannot bind to requested volume "{name_of(volume)}": {problem}'
            self._tell(claim, "Warning", "VolumeMismatch", text)
            return False
        return not is_deleting(volume)

    def _storage_class(self, claim: Obj) -> Obj | None:
        name = spec_of(claim).get("storageClassName")
        return self.api.find("storageclasses", None, str(name)) if name else None

    def _waits_for_node(self, claim: Obj) -> bool:
        found = self._storage_class(claim)
        late = found is not None and found.get("volumeBindingMode") == "WaitForFirstConsumer"
        return late and SELECTED_NODE not in annotations_of(claim)

    def _ask_provisioner(self, claim: Obj) -> None:
        class_name = spec_of(claim).get("storageClassName")
        if not class_name:
            text = "no persistent volumes available for this claim and no storage class is set"
            self._tell(claim, "Normal", "FailedBinding", text)
            return
        storage_class = self._storage_class(claim)
        if storage_class is None:
            text = f'storageclass.storage.k8s.io "{class_name}" not found'
            self._tell(claim, "Warning", "ProvisioningFailed", text)
            return
        if self._waits_for_node(claim):
            text = "waiting for first consumer to be created before binding"
            self._tell(claim, "Normal", "WaitForFirstConsumer", text)
            return
        provisioner = str(storage_class.get("provisioner"))
        if provisioner == NO_PROVISIONER:
            text = "no volume plugin matched name: kubernetes.io/no-provisioner"
            self._tell(claim, "Warning", "ProvisioningFailed", text)
            return
        self._annotate(claim, {PROVISIONER: provisioner, OLD_PROVISIONER: provisioner})
        text = (
            f"Waiting for a volume to be created either by the external provisioner "
            f"'{provisioner}' or manually by the system administrator. If volume creation is "
            "delayed, please verify that the provisioner is running and correctly registered."
        )
        self._tell(claim, "Normal", "ExternalProvisioning", text)

    def _tell(self, claim: Obj, type_: str, reason: str, text: str) -> None:
        """Record an Event about a claim that waits, unless it was the last one said of it."""
        if self._told.get(uid_of(claim)) != (reason, text):
            self._told[uid_of(claim)] = (reason, text)
            self.api.event(claim, type_, reason, text, COMPONENT)

    def _bind(self, volume: Obj, claim: Obj) -> None:
        self._claim_volume(volume, claim)
        changed = clone(self.api.get("persistentvolumeclaims", *_where(claim)))
        annotations = changed["metadata"].setdefault("annotations", {})
        if not changed["spec"].get("volumeName"):
            changed["spec"]["volumeName"] = name_of(volume)
            annotations[BOUND_BY_CONTROLLER] = "yes"
        annotations[BIND_COMPLETED] = "yes"
        bound = self.api.update("persistentvolumeclaims", *_where(claim), changed)
        self._sync_bound(bound)

    def _claim_volume(self, volume: Obj, claim: Obj) -> None:
        changed = clone(volume)
        spec = changed["spec"]
        if not claim_ref(volume):
            changed["metadata"].setdefault("annotations", {})[BOUND_BY_CONTROLLER] = "yes"
        spec["claimRef"] = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": namespace_of(claim),
            "name": name_of(claim),
            "uid": uid_of(claim),
            "resourceVersion": claim["metadata"]["resourceVersion"],
        }
        if claim_ref(volume).get("uid") == uid_of(claim):
            spec["claimRef"] = claim_ref(volume)
        self.api.update("persistentvolumes", None, name_of(volume), changed)

    def _sync_bound(self, claim: Obj) -> None:
        name = str(spec_of(claim).get("volumeName") or "")
        volume = self.api.find("persistentvolumes", None, name) if name else None
        if volume is None:
            text = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
            self._lose(claim, "ClaimLost", text)
        elif not claim_ref(volume) or is_named(volume, claim):
            self._claim_volume(volume, claim)
            self._finish_binding(claim, volume)
        else:
            text = "Two claims are bound to the same volume, this one is bound incorrectly"
            self._lose(claim, "ClaimMisbound", text)

    def _finish_binding(self, claim: Obj, volume: Obj) -> None:
        self._set_volume_phase(name_of(volume), "Bound")
        status = {
            "phase": "Bound",
            "accessModes": spec_of(volume).get("accessModes") or [],
            "capacity": spec_of(volume).get("capacity") or {},
        }
        self._put_claim_status(claim, status)

    def _lose(self, claim: Obj, reason: str, text: str) -> None:
        if status_of(claim).get("phase") != "Lost":
            self._set_claim_phase(claim, "Lost")
            self.api.event(claim, "Warning", reason, text, COMPONENT)

    def _set_claim_phase(self, claim: Obj, phase: str) -> None:
        self._put_claim_status(claim, {"phase": phase})

    def _put_claim_status(self, claim: Obj, fields: Obj) -> None:
        current = clone(self.api.get("persistentvolumeclaims", *_where(claim)))
        current["status"] = {**status_of(current), **fields}
        self.api.update("persistentvolumeclaims", *_where(claim), current, subresource="status")

    def _annotate(self, claim: Obj, annotations: dict[str, str]) -> None:
        current = clone(self.api.get("persistentvolumeclaims", *_where(claim)))
        current["metadata"].setdefault("annotations", {}).update(annotations)
        self.api.update("persistentvolumeclaims", *_where(claim), current)

    def _protect(self, plural: str, obj: Obj, finalizer: str) -> Obj:
        if finalizer in finalizers_of(obj):
            return obj
        changed = clone(obj)
        changed["metadata"]["finalizers"] = [*finalizers_of(obj), finalizer]
        return self.api.update(plural, namespace_of(obj) or None, name_of(obj), changed)

    def _release_claim(self, claim: Obj) -> None:
        """Let a claim go once no pod on a node uses it any more."""
        for pod in self.api.list("pods", namespace_of(claim)):
            in_use = spec_of(pod).get("nodeName") and not is_terminal(pod)
            if in_use and name_of(claim) in _claims_used(pod):
                return
        remove_finalizer(self.api, "persistentvolumeclaims", claim, CLAIM_PROTECTION)

    def _sync_volume(self, volume: Obj) -> None:
        if is_deleting(volume):
            if status_of(volume).get("phase") != "Bound" or not self._claim_exists(volume):
                remove_finalizer(self.api, "persistentvolumes", volume, VOLUME_PROTECTION)
            return
        self._protect("persistentvolumes", volume, VOLUME_PROTECTION)
        ref = claim_ref(volume)
        if not ref or not ref.get("uid"):
            # Reserved by name only counts as available until its claim comes.
            self._set_volume_phase(name_of(volume), "Available")
        elif not self._claim_exists(volume):
            self._set_volume_phase(name_of(volume), "Released")
        # Else the claim's own sync finishes the binding.

    def _claim_exists(self, volume: Obj) -> bool:
        ref = claim_ref(volume)
        place = (str(ref.get("namespace")), str(ref.get("name")))
        claim = self.api.find("persistentvolumeclaims", *place) if ref else None
        return claim is not None and uid_of(claim) == ref.get("uid")

    def _set_volume_phase(self, name: str, phase: str) -> None:
        current = self.api.get("persistentvolumes", None, name)
        if status_of(current).get("phase") == phase:
            return
        changed = clone(current)
        changed["status"] = {**status_of(current), "phase": phase}
        self.api.update("persistentvolumes", None, name, changed, subresource="status")


def _where(claim: Obj) -> tuple[str, str]:
    return namespace_of(claim), name_of(claim)


def _refers(volume: Obj, claim: Obj) -> bool:
    ref = claim_ref(volume)
    return (ref.get("namespace"), ref.get("name")) == (namespace_of(claim), name_of(claim))


def _claims_used(pod: Obj) -> list[str]:
    names = []
    for volume in spec_of(pod).get("volumes") or ():
        if volume.get("persistentVolumeClaim"):
            names.append(str(volume["persistentVolumeClaim"].get("claimName")))
        elif volume.get("ephemeral"):
            names.append(f"{name_of(pod)}-{volume.get('name')}")
    return names
