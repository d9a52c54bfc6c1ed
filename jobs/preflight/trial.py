"""Two pods on two nodes, in a namespace as Homeport makes it for a person: what they find, then nothing is left."""

import asyncio
import json
import time
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.utils import timezone

from jobs.engine.network import UnknownError
from jobs.engine.site_files import SiteFiles
from jobs.kinds.manifests import PULL_SECRET, PodSettings, pod_settings
from jobs.preflight import pod
from jobs.rules.check_results import NAMESPACE as HOME
from jobs.rules.preflight import TrialFacts, made_for, not_abandoned
from portal.cluster import labels
from portal.cluster.client import Cluster, Object
from portal.cluster.errors import AlreadyExists, ClusterError, NotFound, QuotaExceeded
from portal.cluster.resources import GPU
from portal.environment import is_in_pod
from portal.errors import ConfigurationError
from portal.pools import GPU_TOLERATION
from tenants.manifests import ACCOUNT, render_tenant
from tenants.models import Tenant

NAMESPACE = "homeport-preflight-trial"
CLAIM_BYTES = 2**27
_PULL_S = 600.0
_CLAIM_S = 120.0
_CLIENT_S = _PULL_S + 300.0  # its node may have to pull, too; what it tries takes 220 s at most
_GPU_S = 60.0
_REMOVAL_S = 120.0
_REFUSED_FOR_S = 15.0
_LOOK_S = 0.5
_TRY_S = 3.0
_HERE_S = 20.0
_NO_IMAGE = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})


class Trial:
    """One run; `frame`, then `run`, then `remove`."""

    def __init__(self, cluster: Cluster, *, has_claim: bool) -> None:
        self._cluster = cluster
        self._has_claim = has_claim
        self._run = uuid.uuid4().hex
        self._has_begun = False
        self._found = TrialFacts()
        self._policies: list[Object] = []
        self._began = 0.0

    def failed(self, problem: str, next_step: str = "") -> TrialFacts:
        return replace(self._found, problem=problem, next_step=next_step)

    async def frame(self) -> tuple[str, ...]:
        """Makes the namespace without its policies; what an earlier run left goes first.

        Returns:
            what is in the way, and what to do; empty: nothing.
        """
        try:
            with suppress(NotFound):
                meta = (await self._cluster.get("Namespace", None, NAMESPACE))["metadata"]
                run = (meta.get("labels") or {}).get(labels.PREFLIGHT, "")
                self._refuse(not_abandoned(run, meta["creationTimestamp"], timezone.now()))
                await self._remove(meta["uid"])
            self._has_begun = True
            for document in await asyncio.to_thread(_documents, self._run):
                if document["kind"] == "NetworkPolicy":
                    self._policies.append(document)
                elif document["kind"] != "PersistentVolumeClaim" or self._has_claim:
                    await self._make(document)
                if document["kind"] == "Namespace" and not await self._uid():
                    self._refuse("is of a preflight that began at the same time")
            await self._logins()
        except UnknownError as error:
            return error.args
        except (ClusterError, ConfigurationError, TimeoutError, OSError) as error:
            return (str(error),)
        return ()

    @staticmethod
    def _refuse(why: str) -> None:
        if why:
            step = f"Wait for it, or remove it: kubectl delete namespace {NAMESPACE}."
            raise UnknownError(f"the namespace {NAMESPACE} {why}", step)

    async def run(self, nodes: list[Object], *, is_installed: bool, has_gpus: bool) -> TrialFacts:
        """Tries everything, and tells what it found until something was in the way."""
        try:
            await self._try(nodes, is_installed=is_installed)
            if has_gpus:
                await self._gpus()
        except UnknownError as error:
            return self.failed(*error.args)
        except (ClusterError, ConfigurationError, TimeoutError, OSError) as error:
            return self.failed(str(error) or "it took too long")
        return self._found

    async def remove(self) -> None:
        """Removes the namespace that `frame` has made and waits until it is gone.

        Raises:
            ClusterError: it cannot be removed.
            UnknownError: it does not go.
        """
        if self._has_begun and (uid := await self._uid()):
            await self._remove(uid)

    async def _uid(self) -> str:
        """Of the namespace, where it is this run's."""
        with suppress(NotFound):
            meta = (await self._cluster.get("Namespace", None, NAMESPACE))["metadata"]
            if (meta.get("labels") or {}).get(labels.PREFLIGHT) == self._run:
                return str(meta["uid"])
        return ""

    async def _remove(self, uid: str) -> None:
        try:
            async with asyncio.timeout(_REMOVAL_S):
                await self._free_volume()
                with suppress(NotFound):
                    while True:
                        found = await self._cluster.get("Namespace", None, NAMESPACE)
                        if found["metadata"]["uid"] != uid:
                            return
                        await self._cluster.delete("Namespace", None, NAMESPACE, uid=uid)
                        await asyncio.sleep(_LOOK_S)
        except TimeoutError:
            text = f"the namespace {NAMESPACE} is being removed and does not go"
            step = f"Its status.conditions say why: kubectl get namespace {NAMESPACE} -o yaml."
            raise UnknownError(text, step) from None

    async def _free_volume(self) -> None:
        """Has the volume that the class made for the claim go with it, whatever the class says."""
        with suppress(NotFound):
            claim = await self._cluster.get("PersistentVolumeClaim", NAMESPACE, "data")
            if name := (claim.get("spec") or {}).get("volumeName"):
                volume = await self._cluster.get("PersistentVolume", None, name)
                if made_for(volume, claim):
                    meta = {"uid": volume["metadata"]["uid"]}
                    policy = {"persistentVolumeReclaimPolicy": "Delete"}
                    patch = {"metadata": meta, "spec": policy}
                    await self._cluster.merge_patch("PersistentVolume", None, name, patch)

    # --- what is tried ---
    async def _try(self, nodes: list[Object], *, is_installed: bool) -> None:
        if not nodes:
            step = "Look at kubectl get nodes, and at NODE_SELECTOR."
            raise UnknownError("no node takes people's pods", step)
        pods = await asyncio.to_thread(pod_settings)
        self._tell(image=pods.portal_image, claim_bytes=CLAIM_BYTES, quota=await self._quota(pods))
        places = (nodes[0]["metadata"]["name"], nodes[-1]["metadata"]["name"])
        self._tell(places=places)
        api = ("kubernetes.default.svc", 443)
        folder = "/data" if self._has_claim else ""
        told: dict[str, Any] = {"role": "server", "folder": folder, "api": api}
        began = self._began = time.monotonic()
        await self._make(_pod("server", told, pods, places[0]))
        server = await self._until(self._ready, "server", _PULL_S)
        self._tell(pull_s=time.monotonic() - began)
        await self._make(_service())
        ports = await self._ports()
        addresses = {n["metadata"]["name"]: _address(n) for n in (nodes[0], nodes[-1])}
        doors = addresses | _node_host(is_installed=is_installed)
        heard = {name: await _hear(address, ports[0]) for name, address in doors.items()}
        self._tell(peers={name: said.get("peer", "") for name, (said, _at) in heard.items()})
        for said, at in heard.values():
            if said:
                self._tell(server=said, clock_s=round(said["time"] - at, 2))
        was_other_open = bool((await _hear(addresses[places[0]], ports[1]))[0])
        for document in self._policies:
            await self._make(document)
        needed = _needed(pods) if is_installed else {}
        closed = {"the API server": api, "the metadata of a cloud": ("169.254.169.254", 80)}
        closed |= {f"kubelet of {name}": (address, 10250) for name, address in addresses.items()}
        told = {"role": "client", "folder": folder, "server": server["status"]["podIP"]}
        told |= {"needed": needed, "closed": closed}
        await self._make(_pod("client", told, pods, places[1]))
        self._tell(client=await self._ended("client", _CLIENT_S))
        if was_other_open:  # first: rules that are late would leave gates open to everybody
            self._tell(other=await _stays_open(addresses[places[0]], ports[1]))
        gates = {n: bool((await _hear(doors[n], ports[0]))[0]) for n in doors if heard[n][0]}
        self._tell(gates=gates)

    async def _quota(self, pods: PodSettings) -> str:
        """Tries (dry) a pod beyond what the namespace may."""
        much = _pod("much", {}, pods, "")
        much["spec"]["containers"][0]["resources"] = {
            what: {"cpu": "64", "memory": "64Mi"} for what in ("requests", "limits")
        }
        try:
            await self._cluster.try_create(much)
        except QuotaExceeded:
            return "yes"
        except ClusterError:
            return "unknown"
        return "no"

    async def _gpus(self) -> None:
        """What nvidia-smi says in a pod with a GPU, where one is free."""
        pods = await asyncio.to_thread(pod_settings)
        body = _pod("gpu", {"role": "gpu"}, pods, "")
        body["spec"]["containers"][0]["resources"]["limits"][GPU] = "1"
        body["spec"]["containers"][0]["resources"]["requests"][GPU] = "1"
        await self._make(body)
        try:
            found = await self._ended("gpu", _GPU_S)
        except UnknownError as error:
            self._tell(gpus_why=error.args[0])
        else:
            self._tell(gpus=str(found.get("gpus") or found.get("problem") or "it says nothing"))

    def _tell(self, **found: Any) -> None:
        self._found = replace(self._found, **found)

    async def _logins(self) -> None:
        """Those of registries which the installation has; before there is one, this machine's."""
        try:
            web = await self._cluster.get("Deployment", HOME, "web")
        except NotFound:
            await SiteFiles(self._cluster).ensure_pull_secret(NAMESPACE)
            return
        for named in web["spec"]["template"]["spec"].get("imagePullSecrets") or []:
            held = await self._cluster.get("Secret", HOME, named["name"])
            kept = {key: held[key] for key in ("apiVersion", "kind", "type", "data")}
            await self._make({**kept, "metadata": {"name": PULL_SECRET, "namespace": NAMESPACE}})

    # --- pods ---
    async def _make(self, document: Object) -> None:
        """Quotas and accounts of a new namespace take a moment."""
        until = time.monotonic() + _REFUSED_FOR_S
        while True:
            creating = asyncio.ensure_future(self._cluster.create(document))
            try:
                await asyncio.shield(creating)
            except asyncio.CancelledError:
                await asyncio.wait([creating])  # or it would come after the removal
                raise
            except AlreadyExists:
                return
            except ClusterError:
                if time.monotonic() > until:
                    raise
                await asyncio.sleep(_LOOK_S)
            else:
                return

    async def _until(
        self, look: Callable[[str], Awaitable[Object | None]], name: str, patience_s: float
    ) -> Object:
        began, found = time.monotonic(), None
        while found is None:
            found = await look(name)
            if found is None and time.monotonic() - began > patience_s:
                raise UnknownError(await self._why(name), "Look at kubectl get events -A.")
            await asyncio.sleep(_LOOK_S if found is None else 0)
        return found

    async def _ready(self, name: str) -> Object | None:
        await self._claim()
        body = await self._pod(name)
        conditions = (body.get("status") or {}).get("conditions") or []
        is_ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
        return body if is_ready else None

    async def _claim(self) -> None:
        """Notes when the claim is bound; one that waits for its pod binds with it."""
        if self._has_claim and self._found.bound_s is None:
            claim = await self._cluster.get("PersistentVolumeClaim", NAMESPACE, "data")
            if (claim.get("status") or {}).get("phase") == "Bound":
                self._tell(bound_s=time.monotonic() - self._began)
            elif time.monotonic() - self._began > _CLAIM_S:
                raise UnknownError(
                    await self._why("server"), "Look at the provisioner of the class."
                )

    async def _ended(self, name: str, patience_s: float) -> Any:
        """What its program has found."""

        async def look(name: str) -> Object | None:
            statuses = ((await self._pod(name)).get("status") or {}).get("containerStatuses") or []
            return (statuses[0].get("state") or {}).get("terminated") if statuses else None

        ended = await self._until(look, name, patience_s)
        try:
            found = json.loads(ended.get("message") or "")
        except ValueError:
            found = {"problem": f"code {ended['exitCode']}"}
        if name != "gpu" and "problem" in found:
            text = f"the pod {name} ended with: {found['problem']}"
            raise UnknownError(text, "Try again; with --keep its pods stay, to be looked at.")
        return found

    async def _pod(self, name: str) -> Object:
        """
        Raises:
            UnknownError: its image cannot be pulled.
        """
        body = await self._cluster.get("Pod", NAMESPACE, name)
        for container in (body.get("status") or {}).get("containerStatuses") or []:
            waiting = (container.get("state") or {}).get("waiting") or {}
            if waiting.get("reason") in _NO_IMAGE:
                said = waiting.get("message") or waiting["reason"]
                step = "Push it, or import it on the nodes; PORTAL_IMAGE names it, PORTAL_PULL_SECRET_FILE the login."
                raise UnknownError(f"the image {container['image']} cannot be pulled: {said}", step)
        return body

    async def _why(self, name: str) -> str:
        """The last warning about a pod or the claim, in the cluster's words."""
        events = await self._cluster.list("Event", NAMESPACE)
        warned = [e for e in events if e.get("type") == "Warning"]
        last = max(warned, key=_seen_at, default={"message": "the cluster does not say why"})
        said = str(last.get("message"))
        return f"the pod {name} did not come so far: {said[:600]}"

    async def _ports(self) -> list[int]:
        found = await self._cluster.get("Service", NAMESPACE, "server")
        return [port["nodePort"] for port in found["spec"]["ports"]]


def _seen_at(event: Object) -> str:
    """When it last happened; which of the fields says so differs by who tells it."""
    fields = ("lastTimestamp", "eventTime", "firstTimestamp")
    return max(str(event.get(name) or "") for name in fields)


async def _stays_open(address: str, port: int) -> bool:
    """Whether a NodePort answers still; rules may be late."""
    until = time.monotonic() + _HERE_S
    while (await _hear(address, port, patience_s=0))[0]:
        if time.monotonic() > until:
            return True
        await asyncio.sleep(_LOOK_S)
    return False


async def _hear(
    address: str, port: int, *, patience_s: float = _HERE_S
) -> tuple[dict[str, Any], float]:
    """What the server says at a NodePort, and when it was asked; empty: it does not answer from here."""
    until = time.monotonic() + patience_s
    while True:
        try:
            async with asyncio.timeout(_TRY_S):
                reader, writer = await asyncio.open_connection(address, port)
                began = time.time()
                line = await reader.readline()
                writer.close()
                return json.loads(line), (began + time.time()) / 2
        except (OSError, TimeoutError, ValueError):
            if time.monotonic() > until:
                return {}, 0.0
            await asyncio.sleep(_LOOK_S)


def _documents(run: str) -> list[Object]:
    """Namespace, quota, account, claim and policies of a person, for nobody but a run; blocking."""
    owner = uuid.uuid5(uuid.NAMESPACE_URL, NAMESPACE)
    nobodys = Tenant(
        pk=owner,
        namespace=NAMESPACE,
        quota_cpu_millicores=1000,
        quota_memory_bytes=2**30,
        quota_gpu_count=1,
        quota_pods=5,
        quota_nodeports=2,
        data_volume_bytes=CLAIM_BYTES,
        log_volume_bytes=0,
    )
    found = []
    for document in render_tenant(nobodys):
        meta = document["metadata"]
        if document["kind"] == "Namespace":
            # Nothing for the reconciler or `adopt`; policies of Homeport's own namespace go by the other label.
            del meta["labels"][labels.MANAGED_BY]
            meta["labels"][labels.PREFLIGHT] = run
        is_of_accounts = document["kind"] == "RoleBinding"
        is_other_claim = document["kind"] == "PersistentVolumeClaim" and meta["name"] != "data"
        if not is_of_accounts and not is_other_claim:
            found.append(document)
    return found


def _needed(pods: PodSettings) -> dict[str, tuple[str, int]]:
    urls = {"Portal": pods.portal_url}
    if settings.S3_BUCKET:
        urls["Object store"] = settings.S3_POD_ENDPOINT or settings.S3_ENDPOINT
    found = {}
    for name, url in urls.items():
        parts = urlsplit(url)
        if parts.hostname:
            found[name] = (parts.hostname, parts.port or (443 if parts.scheme == "https" else 80))
    return found


def _address(node: Object) -> str:
    """By which somebody outside the cluster best reaches it."""
    known = {a["type"]: a["address"] for a in (node.get("status") or {}).get("addresses") or []}
    return str(known.get("ExternalIP") or known.get("InternalIP") or node["metadata"]["name"])


def _node_host(*, is_installed: bool) -> dict[str, str]:
    """NODE_HOST, by which browsers come: where it may lead to a node from here, and somebody has set it."""
    host = settings.NODE_HOST
    is_set = is_installed or host != "127.0.0.1"
    return {f"NODE_HOST ({host})": host} if is_set and host and not is_in_pod() else {}


def _service() -> Object:
    ports = [("gate", pod.GATE), ("other", pod.OTHER)]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "server", "namespace": NAMESPACE},
        "spec": {
            "type": "NodePort",
            "selector": {"app": "server"},
            "ports": [{"name": name, "port": port, "targetPort": port} for name, port in ports],
        },
    }


def _pod(name: str, told: dict[str, Any], pods: PodSettings, node: str) -> Object:
    program = Path(pod.__file__).read_text()
    amounts = {"cpu": "50m", "memory": "64Mi"}
    container: Object = {
        "name": "main",
        "image": pods.portal_image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-c", program, json.dumps(told)],
        "resources": {"requests": dict(amounts), "limits": dict(amounts)},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    spec: Object = {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": 1800,
        "terminationGracePeriodSeconds": 0,
        "serviceAccountName": ACCOUNT,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "imagePullSecrets": [{"name": secret} for secret in pods.secrets.pull],
        "nodeSelector": dict(pods.node_selector),
        "tolerations": [GPU_TOLERATION.document],  # as people's pods with a GPU have it
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": pods.uid,
            "runAsGroup": pods.gid,
            "fsGroup": pods.gid,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
    }
    if told.get("folder"):
        container["volumeMounts"] = [{"name": "data", "mountPath": told["folder"]}]
        spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    if name == "server":
        container["readinessProbe"] = {"tcpSocket": {"port": pod.GATE}, "periodSeconds": 1}
    if node:
        # By the scheduler, which binds claims that wait for their pod.
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        spec["affinity"] = {"nodeAffinity": required}
    meta = {"name": name, "namespace": NAMESPACE, "labels": {"app": name}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
