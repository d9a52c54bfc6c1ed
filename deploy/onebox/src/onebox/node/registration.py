"""The Node object and its Lease: what this machine offers, and that it is alive.

The lease is renewed every 10 s; the Node's status is sent on change and every 5 minutes, as the
kubelet does. https://kubernetes.io/docs/concepts/architecture/nodes/#node-heartbeats
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

import aiohttp

from onebox.node import gpus
from onebox.node.client import ApiError, Client, Json, resource_path
from onebox.node.nodestatus import Offer, folders_condition, labels, node_status
from onebox.node.record import format_time
from onebox.node.watch import Watch

log = logging.getLogger(__name__)

LEASE_SECONDS = 40
RENEW_S = 10.0
STATUS_S = 300.0
RETRY_S = 1.0
NODE_PATH = "nodes"
LEASES = "coordination.k8s.io/v1"
LEASE_NAMESPACE = "kube-node-lease"


class Registration:
    """Registers the node, then keeps lease and status fresh until cancelled.

    Args:
        lacks: tells what the machine lacks for each image that it knows, by full references; "": nothing.

    Attributes:
        registered: set when the API knows the node as ready for the first time.
    """

    def __init__(
        self,
        client: Client,
        offer: Offer,
        *,
        log_port: int,
        lacks: Callable[[], Mapping[str, str]],
    ) -> None:
        self._client = client
        self._lacks = lacks
        self._told_images = ""
        self._offer = offer
        self._log_port = log_port
        self._uid = ""
        self._removed = asyncio.Event()
        self._strays: Sequence[str] = ()
        self._is_told = True
        self.registered = asyncio.Event()
        self._path = resource_path("v1", NODE_PATH, name=offer.name)
        self._lease_path = resource_path(LEASES, "leases", LEASE_NAMESPACE, offer.name)

    async def register(self) -> None:
        """Create or update the Node and its lease; tries until it succeeds."""
        while True:
            try:
                await self._ensure_node()
                await self.send_status(is_ready=True)
                await self._renew_lease()
                self.registered.set()
                return
            except ApiError as error:
                log.warning("registration was refused: %s", error.message)
            except (aiohttp.ClientError, TimeoutError) as error:
                log.info("registration has to wait for the API: %s", error or type(error))
            await asyncio.sleep(RETRY_S)

    async def run(self) -> None:
        """Renew the lease every 10 s and the status every 5 minutes; come back when removed."""
        fields = {"fieldSelector": f"metadata.name={self._offer.name}"}
        path = resource_path("v1", NODE_PATH)
        watching = asyncio.create_task(Watch(self._client, path, self, fields).run())
        try:
            await self._beat()
        finally:
            watching.cancel()

    def tell_strays(self, sentences: Sequence[str]) -> None:
        """Say of the node, from the next beat on, that there are folders of volumes of nobody."""
        self._is_told = self._strays == sentences
        self._strays = sentences

    async def _beat(self) -> None:
        beats = 0
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RENEW_S):
                    await self._removed.wait()
            if self._removed.is_set():
                log.warning("the Node %s was removed; registering it again", self._offer.name)
                self._removed.clear()
                await self.register()
                continue
            beats += 1
            try:
                await self._renew_lease()
                await self._report_images()
                if beats % round(STATUS_S / RENEW_S) == 0 or not self._is_told:
                    await self.send_status(is_ready=True)
                    self._is_told = True
            except ApiError as error:
                log.warning("the node's lease was refused: %s", error.message)
            except (aiohttp.ClientError, TimeoutError) as error:
                log.info("the node's lease has to wait for the API: %s", error or type(error))

    def replace(self, objects: list[Json]) -> None:
        """Take the list of Nodes with our name (handler of the watch)."""
        if not objects:
            self._removed.set()

    def apply(self, event_type: str, _obj: Json) -> None:
        """Take a change of our Node (handler of the watch)."""
        if event_type == "DELETED":
            self._removed.set()

    async def send_status(self, *, is_ready: bool) -> None:
        """Send the whole status; transition times stay where a condition stays."""
        now = datetime.now(UTC)
        status = node_status(self._offer, self._log_port, now, is_ready=is_ready)
        if self._strays:
            status["conditions"].append(folders_condition(self._strays, now))
        present = await self._client.get(self._path)
        known = {c["type"]: c for c in (present.get("status") or {}).get("conditions") or []}
        for condition in status["conditions"]:
            before = known.get(condition["type"], {})
            same = before.get("status") == condition["status"]
            kept = before.get("lastTransitionTime") if same else None
            condition["lastTransitionTime"] = kept or format_time(now)
        await self._client.patch(f"{self._path}/status", {"status": status}, kind="strategic")

    async def _report_images(self) -> None:
        """Say which images can be had here and what others lack, where that has changed."""
        told = self._images_text()
        if told != self._told_images:
            await self._client.patch(self._path, {"metadata": {"annotations": {_IMAGES: told}}})
            self._told_images = told

    def _images_text(self) -> str:
        return json.dumps(self._lacks(), separators=(",", ":"))

    async def _ensure_node(self) -> None:
        told = self._images_text()
        meta = {
            "name": self._offer.name,
            "labels": labels(self._offer),
            "annotations": {**_annotations(self._offer), _IMAGES: told},
        }
        body = {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {}}
        try:
            node = await self._client.create(resource_path("v1", NODE_PATH), body)
        except ApiError as error:
            if error.code != 409:
                raise
            node = await self._client.patch(self._path, {"metadata": _replacing(meta)})
        self._uid, self._told_images = node["metadata"]["uid"], told

    async def _renew_lease(self) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {
            "holderIdentity": self._offer.name,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": now,
        }
        try:
            await self._client.patch(self._lease_path, {"spec": spec})
        except ApiError as error:
            if error.code != 404:
                raise
            body = {
                "apiVersion": LEASES,
                "kind": "Lease",
                "metadata": {
                    "name": self._offer.name,
                    "namespace": LEASE_NAMESPACE,
                    "ownerReferences": [
                        {
                            "apiVersion": "v1",
                            "kind": "Node",
                            "name": self._offer.name,
                            "uid": self._uid,
                        }
                    ],
                },
                "spec": spec,
            }
            await self._client.create(resource_path(LEASES, "leases", LEASE_NAMESPACE), body)


_OUR_LABELS = ("homeport.dev/simulated-gpu",)
# {full reference: what the machine lacks for it, after its name in a sentence; "": nothing}
_IMAGES = "homeport.dev/images"
_OUR_ANNOTATIONS = ("homeport.dev/gpu-note", "homeport.dev/gpu-models")


def _annotations(offer: Offer) -> Mapping[str, str]:
    return gpus.summary(offer.inventory)


def _replacing(meta: Json) -> Json:
    """Make a merge patch that also removes what this node said earlier and says no more."""
    gone_labels = dict.fromkeys(_OUR_LABELS)
    gone_annotations = dict.fromkeys(_OUR_ANNOTATIONS)
    return {
        "labels": {**gone_labels, **meta["labels"]},
        "annotations": {**gone_annotations, **meta["annotations"]},
    }
