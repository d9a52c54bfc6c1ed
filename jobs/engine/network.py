"""Tries with real pods whether people's namespaces are apart on the network.

Two namespaces are kept for it, made as people's are and named like them, but of nobody: no row knows
them, so no list, usage or budget does. A server runs in each; a client in one of them has to reach
the server beside it, and must not reach the other. Asked by the health reporter at its start and
daily; all pods are gone afterwards. What is in the way (no image, no room, no right) makes it
`unknown`, with the reason.
"""

import asyncio
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from django.utils.crypto import salted_hmac

from jobs.engine.site_files import SiteFiles
from jobs.kinds.manifests import pod_settings
from portal.cluster import manifests
from portal.cluster.client import Cluster, Object
from portal.cluster.errors import AlreadyExists, ClusterError, NotFound
from portal.cluster.preflight import CheckResult
from portal.errors import ConfigurationError
from tenants.manifests import ACCOUNT, render_tenant
from tenants.models import Tenant

PORT = 8080
_SIDES = ("a", "b")
_PODS = (("a", "server"), ("b", "server"), ("b", "client"))
_LIFE_S = 900  # of a pod that nobody could remove
_PATIENCE_S = 300.0  # an image may have to be pulled
_REMOVAL_S = 60.0
_LOOK_S = 1.0
_REFUSED_FOR_S = 15.0  # a right in a namespace made just now takes effect a moment later
_NO_IMAGE = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
_NOT_THERE, _REACHED = 2, 3  # exit codes of the client
_SERVER = f"""
import socket
server = socket.create_server(("", {PORT}))
while True:
    peer, _ = server.accept()
    peer.sendall(b"homeport")
    peer.close()
"""
# A network may let the first connections of a new pod through, or none: the last try counts.
_CLIENT = f"""
import socket, sys, time
def reaches(ip):
    try:
        with socket.create_connection((ip, {PORT}), 3) as peer:
            return peer.recv(8) == b"homeport"
    except OSError:
        return False
end = time.monotonic() + 60
while not reaches(sys.argv[1]):
    if time.monotonic() > end:
        sys.exit({_NOT_THERE})
    time.sleep(1)
end = time.monotonic() + 8
while True:
    is_reached = reaches(sys.argv[2])
    if time.monotonic() > end:
        sys.exit({_REACHED} if is_reached else 0)
    time.sleep(1)
"""


class UnknownError(Exception):
    """It cannot be told; the first text says why, a second one what to do."""


@dataclass(frozen=True)
class PodManifest:
    """Variables of `network_check.yaml.j2`."""

    owner: str
    name: str
    namespace: str
    image: str
    uid: int
    gid: int
    command: tuple[str, ...]
    is_server: bool
    pull: tuple[str, ...]
    port: int = PORT
    deadline_s: int = _LIFE_S
    account: str = ACCOUNT


def namespaces(key: str | None = None) -> tuple[str, str]:
    """The names of the two, the same for as long as the installation keeps its secret key (or `key`)."""
    salted = salted_hmac("homeport.network", "namespaces", secret=key, algorithm="sha256")
    digest = salted.hexdigest()[:8]
    first, second = (f"u-network-check-{side}-{digest}" for side in _SIDES)
    return first, second


class NetworkCheck:
    """Tries it out with pods of two namespaces of its own."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def look(self) -> CheckResult:
        """Whether pods of different namespaces are kept from each other.

        Returns:
            `yes`; `no`; or `unknown`, with the reason.
        """
        try:
            async with asyncio.timeout(_PATIENCE_S):
                try:
                    found = await self._try_out()
                except BaseException:
                    # What becomes of it must not stand for why: we may have been asked to end.
                    with suppress(ClusterError, TimeoutError):
                        await asyncio.shield(self._clear())
                    raise
                await asyncio.shield(self._clear())
                return found
        except UnknownError as error:
            return CheckResult(detail=str(error))
        except ClusterError as error:
            return CheckResult(detail=error.message)
        except (ConfigurationError, OSError) as error:
            return CheckResult(detail=str(error))
        except TimeoutError:
            return CheckResult(detail=f"its pods did not end within {_PATIENCE_S:g} s")

    async def _try_out(self) -> CheckResult:
        for namespace in namespaces():
            for document in await asyncio.to_thread(_frame, namespace):
                await self._make(document)
            await SiteFiles(self._cluster).ensure_pull_secret(namespace)
        await self._clear()
        servers = []
        for side in _SIDES:
            await self._start(side, "server", _SERVER)
        for side in _SIDES:
            servers.append(await self._address(side))
        other, own = servers
        await self._start("b", "client", _CLIENT, own, other)
        code = await self._exit_code()
        if code == 0:
            return CheckResult("yes")
        if code == _REACHED:
            return CheckResult("no", f"a pod of {namespaces()[1]} reached one of {namespaces()[0]}")
        if code == _NOT_THERE:
            raise UnknownError(f"pods of {namespaces()[1]} did not reach each other either")
        raise UnknownError(f"its client ended with code {code}")

    async def _make(self, document: Object) -> None:
        """Makes an object; a policy of other settings is made anew, all else that is there will do."""
        until = time.monotonic() + _REFUSED_FOR_S
        while True:
            try:
                await self._cluster.create(document)
                return
            except AlreadyExists:
                if document["kind"] != "NetworkPolicy" or await self._keep_same(document):
                    return
            except ClusterError:
                if time.monotonic() > until:
                    raise
                await asyncio.sleep(_LOOK_S)

    async def _keep_same(self, document: Object) -> bool:
        """Removes the policy that is there unless it says the same; True when it does."""
        meta = document["metadata"]
        found = await self._cluster.get(document["kind"], meta["namespace"], meta["name"])
        if found["metadata"].get("annotations") == meta.get("annotations"):
            return True
        uid = found["metadata"]["uid"]
        await self._cluster.delete(document["kind"], meta["namespace"], meta["name"], uid=uid)
        return False

    async def _start(self, side: str, role: str, program: str, *arguments: str) -> None:
        pods = await asyncio.to_thread(pod_settings)
        context = PodManifest(
            owner=str(_owner(_namespace(side))),
            name=f"network-check-{role}",
            namespace=_namespace(side),
            image=pods.portal_image,
            uid=pods.uid,
            gid=pods.gid,
            command=("python3", "-c", program, *arguments),
            is_server=role == "server",
            pull=pods.secrets.pull,
        )
        [document] = await asyncio.to_thread(manifests.render, "network_check.yaml.j2", context)
        del document["metadata"]["labels"]  # by which the pods of workloads are known
        await self._make(document)

    async def _address(self, side: str) -> str:
        """The address of a server that answers its node."""
        while True:
            pod = await self._pod(side, "server")
            conditions = (pod.get("status") or {}).get("conditions") or []
            if any(c["type"] == "Ready" and c["status"] == "True" for c in conditions):
                return str(pod["status"]["podIP"])
            await asyncio.sleep(_LOOK_S)

    async def _exit_code(self) -> int:
        while True:
            pod = await self._pod("b", "client")
            for container in (pod.get("status") or {}).get("containerStatuses") or []:
                ended = (container.get("state") or {}).get("terminated")
                if ended:
                    return int(ended["exitCode"])
            await asyncio.sleep(_LOOK_S)

    async def _pod(self, side: str, role: str) -> Object:
        """The pod as it is now.

        Raises:
            UnknownError: it will not run.
        """
        pod = await self._cluster.get("Pod", _namespace(side), f"network-check-{role}")
        status: dict[str, Any] = pod.get("status") or {}
        for container in status.get("containerStatuses") or []:
            waiting = (container.get("state") or {}).get("waiting") or {}
            reason = str(waiting.get("reason") or "")
            if reason in _NO_IMAGE:
                detail = waiting.get("message") or reason
                raise UnknownError(f"the image {container['image']} cannot be pulled: {detail}")
        is_over = status.get("phase") in {"Failed", "Succeeded"}
        if is_over and (role == "server" or not status.get("containerStatuses")):
            detail = status.get("reason") or status.get("message") or ""
            raise UnknownError(f"its pod ended: {detail}")
        return pod

    async def _clear(self) -> None:
        """Removes the pods, also those that an earlier try left, and waits until they are gone.

        Raises:
            TimeoutError: one stays.
        """
        async with asyncio.timeout(_REMOVAL_S):
            for side, role in _PODS:
                name, namespace = f"network-check-{role}", _namespace(side)
                with suppress(NotFound):
                    while True:
                        pod = await self._cluster.get("Pod", namespace, name)
                        uid = pod["metadata"]["uid"]
                        await self._cluster.delete("Pod", namespace, name, uid=uid, grace_s=0)
                        await asyncio.sleep(_LOOK_S / 4)


def _frame(namespace: str) -> list[Object]:
    """What a tenant's namespace is made of, without volumes; blocking."""
    nobodys = Tenant(
        pk=_owner(namespace),
        namespace=namespace,
        quota_cpu_millicores=1000,
        quota_memory_bytes=2**29,
        quota_gpu_count=0,
        quota_pods=3,
        quota_nodeports=0,
        data_volume_bytes=0,
        log_volume_bytes=0,
    )
    return [d for d in render_tenant(nobodys) if d["kind"] != "PersistentVolumeClaim"]


def _owner(namespace: str) -> uuid.UUID:
    """An id that no row has."""
    return uuid.uuid5(uuid.NAMESPACE_URL, namespace)


def _namespace(side: str) -> str:
    return namespaces()[_SIDES.index(side)]
