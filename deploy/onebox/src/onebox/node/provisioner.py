"""Makes a folder and a PersistentVolume for every claim of a class that asks for one.

The external provisioner of StorageClasses with provisioner `homeport.dev/folder`. The claim and
the volume are bound by the control plane. A folder has no size limit: the capacity of such a
volume is what was asked for, and an annotation says that it is not enforced. A folder says whose
it is (`ownership`): when the cluster's state was lost, its claim gets it again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import stat
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import aiohttp

from onebox.node.client import ApiError, Client, Json, resource_path
from onebox.node.events import Recorder, reference_to
from onebox.node.ownership import (
    Owner,
    describe_strays,
    find_folder,
    forget,
    read_owner,
    release,
    write_owner,
)
from onebox.node.podspec import DEFAULT_GID, DEFAULT_UID
from onebox.node.watch import Watch

log = logging.getLogger(__name__)

PROVISIONER = "homeport.dev/folder"
# The control plane says so which claims it found no volume for and whose turn it is.
ASKED = (
    "volume.kubernetes.io/storage-provisioner",
    "volume.beta.kubernetes.io/storage-provisioner",
)
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
STORAGE = "storage.k8s.io/v1"
# The group of the pods may write, and new files keep that group.
FOLDER_MODE = 0o2770
_EXPECTED = (ApiError, aiohttp.ClientError, OSError, TimeoutError)
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0


class Provisioner:
    """Provisions for all namespaces, one claim at a time.

    Args:
        folder: where the volumes lie (may be on a mounted network file system).
        is_root: volumes may be given to the user that pods run as.
        tell_strays: gets sentences about folders that are given to nobody, once at the start.
    """

    def __init__(
        self,
        client: Client,
        recorder: Recorder,
        folder: Path,
        *,
        is_root: bool,
        tell_strays: Callable[[Sequence[str]], None] = lambda _sentences: None,
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._folder = folder
        self._is_root = is_root
        self._tell_strays = tell_strays
        self._claims: dict[str, Json] = {}
        self._released: dict[str, Json] = {}
        self._to_mark: dict[str, Json] = {}
        self._wake = asyncio.Event()
        self._claim_watch = Watch(
            client, resource_path("v1", "persistentvolumeclaims"), _Feed(self._see_claim)
        )
        self._volume_watch = Watch(
            client, resource_path("v1", "persistentvolumes"), _Feed(self._see_volume)
        )

    async def run(self) -> None:
        """Provision until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._claim_watch.run())
            group.create_task(self._volume_watch.run())
            group.create_task(self._work())

    def _see_claim(self, claim: Json, exists: bool) -> None:
        uid = claim["metadata"]["uid"]
        phase = (claim.get("status") or {}).get("phase", "Pending")
        is_open = phase == "Pending" and not claim["spec"].get("volumeName")
        if exists and is_open and not claim["metadata"].get("deletionTimestamp"):
            self._claims[uid] = claim
            self._wake.set()
        else:
            self._claims.pop(uid, None)

    def _see_volume(self, volume: Json, exists: bool) -> None:
        meta, spec = volume["metadata"], volume["spec"]
        is_ours = (meta.get("annotations") or {}).get(PROVISIONED_BY) == PROVISIONER
        is_released = (volume.get("status") or {}).get("phase") == "Released"
        wants_removal = spec.get("persistentVolumeReclaimPolicy") == "Delete"
        if not (exists and is_ours):
            return
        if is_released and wants_removal:
            self._released[meta["name"]] = volume
        else:
            self._to_mark[meta["name"]] = volume
        self._wake.set()

    async def _work(self) -> None:
        pause_s = FIRST_PAUSE_S
        # Which folders are taken must be known before one is given to anybody.
        await self._volume_watch.synced.wait()
        await self._report_strays()
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                is_done = await self._one_pass()
            except Exception:
                # The fence of one odd claim or volume: the others must go on.
                log.exception("provisioning stumbled")
                is_done = False
            if is_done:
                pause_s = FIRST_PAUSE_S
                continue
            asyncio.get_running_loop().call_later(pause_s, self._wake.set)
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)

    async def _one_pass(self) -> bool:
        """Look at everything that is open; False when something has to be tried again."""
        is_done = await self._mark_all()
        for uid in list(self._claims):
            claim = self._claims.get(uid)
            if claim is None:
                continue
            try:
                await self._provision(claim)
                # A newer version that came meanwhile is looked at in the next pass.
                if self._claims.get(uid) is claim:
                    del self._claims[uid]
            except _EXPECTED as error:
                is_done = False
                text = f"failed to provision volume: {error}"
                self._tell(claim, "Warning", "ProvisioningFailed", text)
        for name, volume in list(self._released.items()):
            try:
                await self._remove(volume)
                self._released.pop(name, None)
            except _EXPECTED as error:
                is_done = False
                log.warning("volume %s could not be removed: %s", name, error)
        return is_done

    async def _mark_all(self) -> bool:
        """Say beside each volume's folder whose it is; False when one has to be tried again."""
        is_done = True
        for name, volume in list(self._to_mark.items()):
            try:
                await asyncio.to_thread(mark, volume, self._folder)
                if self._to_mark.get(name) is volume:
                    del self._to_mark[name]
            except OSError as error:
                is_done = False
                log.warning("whose the volume %s is could not be written down: %s", name, error)
        return is_done

    async def _report_strays(self) -> None:
        """Name the folders that nobody gets; those of the volumes that are there are marked first."""
        await self._mark_all()
        try:
            used = {name for name, _uid in await self._volumes()}
            strays = await asyncio.to_thread(describe_strays, self._folder, used)
        except _EXPECTED as error:
            log.warning("the folders of volumes could not be looked at: %s", error)
            return
        for sentence in strays:
            log.warning("no volume has this folder, and nobody is given it: %s", sentence)
        self._tell_strays(strays)

    async def _volumes(self) -> list[tuple[str, str]]:
        """Name and uid of the claim of all volumes that the cluster knows."""
        answer = await self._client.get(resource_path("v1", "persistentvolumes"))
        return [
            (volume["metadata"]["name"], str((volume["spec"].get("claimRef") or {}).get("uid")))
            for volume in answer.get("items") or []
        ]

    async def _provision(self, claim: Json) -> None:
        """Make folder and volume for one claim; leaves claims that others are asked for alone."""
        annotations = claim["metadata"].get("annotations") or {}
        if PROVISIONER not in (annotations.get(key) for key in ASKED):
            return
        class_name = claim["spec"].get("storageClassName")
        storage_class = await self._class(class_name) if class_name else None
        if storage_class is None or storage_class.get("provisioner") != PROVISIONER:
            return
        waits = storage_class.get("volumeBindingMode") == "WaitForFirstConsumer"
        if waits and SELECTED_NODE not in annotations:
            return
        volumes = await self._volumes()
        if claim["metadata"]["uid"] in (uid for _name, uid in volumes):
            return  # made before, when its answer was lost
        used = {name for name, _uid in volumes}
        path, is_old = await asyncio.to_thread(self._own_folder, claim, used)
        volume = volume_object(claim, storage_class, path)
        try:
            await self._client.create(resource_path("v1", "persistentvolumes"), volume)
        except ApiError as error:
            if error.code != 409:
                raise
        text = f"Successfully provisioned volume {path.name}"
        if is_old:
            text += ", with the data that this claim had before the cluster's state was lost"
            log.warning(
                "the folder %s belongs to the claim %s of %s, which gets it again",
                path,
                claim["metadata"]["name"],
                claim["metadata"]["namespace"],
            )
        self._tell(claim, "Normal", "ProvisioningSucceeded", text)

    def _own_folder(self, claim: Json, used: Collection[str]) -> tuple[Path, bool]:
        """The folder of a claim, and whether it was there before; blocking."""
        meta = claim["metadata"]
        found = find_folder(self._folder, meta["namespace"], meta["name"], used)
        path = found or self._folder / f"pvc-{meta['uid']}"
        if found is None:
            # Before the folder, so that none is ever without.
            made_at = str(meta.get("creationTimestamp") or "")
            write_owner(path, Owner(meta["namespace"], meta["name"], made_at))
        make_folder(path, is_root=self._is_root)
        return path, found is not None

    async def _class(self, name: str) -> Json | None:
        try:
            return await self._client.get(resource_path(STORAGE, "storageclasses", name=name))
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    async def _remove(self, volume: Json) -> None:
        """Remove a released volume of reclaim policy Delete, and its folder before.

        Raises:
            OSError: the folder is still there, and so are the volume and whose it is.
        """
        meta = volume["metadata"]
        path = Path((volume["spec"].get("hostPath") or {}).get("path", ""))
        if path.parent != self._folder or path.name != meta["name"]:
            log.warning("volume %s is not removed: %s is no folder of ours", meta["name"], path)
            return
        await asyncio.to_thread(remove_folder, path)
        await asyncio.to_thread(forget, path)
        try:
            await self._client.delete(
                resource_path("v1", "persistentvolumes", name=meta["name"]), uid=meta["uid"]
            )
        except ApiError as error:
            if error.code not in (404, 409):
                raise

    def _tell(self, claim: Json, type_: str, reason: str, message: str) -> None:
        reference = {**reference_to(claim), "kind": "PersistentVolumeClaim"}
        self._recorder.record(reference, type_, reason, message)


class _Feed:
    """Passes a watch on as (object, exists)."""

    def __init__(self, see: Callable[[Json, bool], None]) -> None:
        self._see = see

    def replace(self, objects: list[Json]) -> None:
        for obj in objects:
            self._see(obj, True)

    def apply(self, event_type: str, obj: Json) -> None:
        self._see(obj, event_type != "DELETED")


def mark(volume: Json, root: Path) -> None:
    """Say beside the folder of a volume whose it is, as the cluster knows it; blocking.

    Raises:
        OSError: it cannot be written.
    """
    meta, spec = volume["metadata"], volume["spec"]
    path = Path((spec.get("hostPath") or {}).get("path", ""))
    claim = spec.get("claimRef")
    if path.parent != root or not claim or not path.is_dir():
        return
    if read_owner(path) is None:
        made_at = str(meta.get("creationTimestamp") or "")
        write_owner(path, Owner(claim["namespace"], claim["name"], made_at))
    if (volume.get("status") or {}).get("phase") == "Released":
        release(path)


def make_folder(path: Path, *, is_root: bool) -> None:
    """Make a volume's folder, writable for the group that pods run with."""
    path.mkdir(parents=True, exist_ok=True)
    if is_root:
        os.chown(path, DEFAULT_UID, DEFAULT_GID)
    path.chmod(FOLDER_MODE)


def remove_folder(path: Path) -> None:
    """Remove a volume's folder, also where it has folders without the right to write; blocking.

    Raises:
        OSError: something of it is still there.
    """
    if not os.path.lexists(path):
        return
    try:
        shutil.rmtree(path)
    except PermissionError:
        _allow_all(path)
        shutil.rmtree(path)


def _allow_all(path: Path) -> None:
    """Give the owner all rights on all folders: what is in them is removed by their rights, not its own."""
    path.chmod(path.stat().st_mode | stat.S_IRWXU)
    for parent, names, _files in os.walk(path):
        for folder in (Path(parent, name) for name in names):
            if not folder.is_symlink():
                folder.chmod(folder.stat().st_mode | stat.S_IRWXU)


def volume_object(claim: Json, storage_class: Json, path: Path) -> Json:
    """Write the PersistentVolume for a claim."""
    meta, spec = claim["metadata"], claim["spec"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": path.name,
            "annotations": {PROVISIONED_BY: PROVISIONER, "homeport.dev/size-enforced": "false"},
        },
        "spec": {
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "accessModes": spec["accessModes"],
            "volumeMode": "Filesystem",
            "storageClassName": spec["storageClassName"],
            "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy", "Delete"),
            "hostPath": {"path": str(path), "type": "Directory"},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": meta["namespace"],
                "name": meta["name"],
                "uid": meta["uid"],
            },
        },
    }
