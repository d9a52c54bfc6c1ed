"""What all pods of the node share, handed to whoever runs one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from onebox.node.client import ApiError, Client, Json, resource_path
from onebox.node.events import Recorder
from onebox.node.gpus import Allocator
from onebox.node.images import Images
from onebox.node.projection import VolumeError
from onebox.node.sandbox import Sandbox


@dataclass(frozen=True)
class NodeContext:
    """The node's parts.

    Args:
        home: the node's folder: pods/, logs/, images/.
        allocatable: the node's resources as quantities.
        is_root: files may be given to a pod's user.
        services: gives all Service objects, for the variables of service links.
        pod_environment: gives the variables that containers of a namespace get below their own.
    """

    name: str
    home: Path
    client: Client
    sandbox: Sandbox
    images: Images
    recorder: Recorder
    gpus: Allocator
    allocatable: Mapping[str, str]
    is_root: bool
    services: Callable[[], list[Json]]
    pod_environment: Callable[[str], Mapping[str, str]]

    async def find(self, plural: str, namespace: str | None, name: str) -> Json | None:
        """Read a core object; None when there is none.

        Raises:
            ApiError, aiohttp.ClientError, TimeoutError: the API refused or is away.
        """
        try:
            return await self.client.get(resource_path("v1", plural, namespace, name))
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    async def issue_token(self, pod: Json, source: Json) -> str:
        """Ask for a token of the pod's ServiceAccount that ends with the pod.

        It is not renewed: a pod that lives longer than `expirationSeconds` keeps the old one.

        Args:
            source: a ServiceAccountTokenProjection.

        Raises:
            VolumeError: the control plane issues no tokens.
            ApiError, aiohttp.ClientError, TimeoutError: the API refused or is away.
        """
        meta = pod["metadata"]
        account = pod["spec"].get("serviceAccountName") or "default"
        path = resource_path("v1", "serviceaccounts", meta["namespace"], account, "token")
        bound = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
        spec: Json = {
            "audiences": [source["audience"]] if source.get("audience") else [],
            "expirationSeconds": source.get("expirationSeconds") or 3600,
            "boundObjectRef": bound,
        }
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        try:
            answer = await self.client.create(path, body)
        except ApiError as error:
            if error.code in (404, 405):
                text = f"no token can be had for the ServiceAccount {account}: {error.message}"
                raise VolumeError(text) from error
            raise
        return str(answer["status"]["token"])

    def pod_folder(self, uid: str) -> Path:
        """Where the volumes of a pod lie."""
        return self.home / "pods" / uid

    def log_folder(self, pod: Json) -> Path:
        """Where the logs of a pod lie: one folder per container, one file per restart."""
        meta = pod["metadata"]
        return self.home / "logs" / f"{meta['namespace']}_{meta['name']}_{meta['uid']}"
