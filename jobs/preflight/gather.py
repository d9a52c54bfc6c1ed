"""Gathers the facts of a preflight: what the cluster says, and what two pods find in a namespace of their own."""

import asyncio
import base64
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

from jobs.engine.network import UnknownError, namespaces
from jobs.preflight.trial import NAMESPACE, Trial
from jobs.rules.check_results import NAMESPACE as HOME
from jobs.rules.preflight import IN_TREE, KEY_MIN, STATIC, ClusterFacts, is_taken_over
from portal.cluster import access, labels, preflight
from portal.cluster.client import Cluster, Object
from portal.cluster.errors import ClusterError, NotFound
from portal.cluster.resources import GPU
from portal.environment import is_in_pod
from portal.environment.table import SETTINGS
from portal.pools import closing, get_pool

_REVIEW = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_OWN_REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
_BOUND = ("homeport-accounts", "homeport-tenant-services")
_CHECKS = "u-network-check-a-"
_KEYS = ("HOMEPORT_SECRET_KEY", "HOMEPORT_SECRET_KEY_FALLBACKS")
_PORTS = 2768  # 30000 to 32767
_TAKEN = frozenset(filter(is_taken_over, (setting.name for setting in SETTINGS)))


async def installed_settings(cluster: Cluster) -> dict[str, str]:
    """Those settings of the installation that hold outside its pods, and its keys; empty: there is none.

    Nothing but settings: they become the environment of a process of an administrator.

    Raises:
        ClusterError: it cannot be read.
    """
    try:
        web = await cluster.get("Deployment", HOME, "web")
    except NotFound:
        return {}
    found: dict[str, str] = {}
    for source in web["spec"]["template"]["spec"]["containers"][0].get("envFrom") or []:
        if name := (source.get("configMapRef") or {}).get("name"):
            data = (await cluster.get("ConfigMap", HOME, name)).get("data") or {}
            found |= {key: data[key] for key in _TAKEN & data.keys()}
        if name := (source.get("secretRef") or {}).get("name"):
            held = (await cluster.get("Secret", HOME, name)).get("data") or {}
            found |= {key: base64.b64decode(held[key]).decode() for key in _KEYS if key in held}
    return found


async def gather(
    cluster: Cluster,
    site: Mapping[str, str],
    missing: tuple[str, ...],
    tell: Callable[[ClusterFacts], None],
    *,
    is_kept: bool,
) -> ClusterFacts:
    """Everything. The namespace of the trial is removed again, whatever happens, unless it `is_kept`.

    Args:
        site: what `installed_settings` found.
        missing: what `missing_rights` found; where there are some, nothing is made and little is read.
        tell: gets what is known before anything is tried in pods.

    Raises:
        ClusterError: something cannot be read.
        UnknownError: it was in vain, and the namespace does not go.
    """
    if missing:
        seen = await preflight.look(cluster, settings.STORAGE_CLASS, "")
        facts = ClusterFacts(version=seen.version, is_old=seen.is_old, missing=missing)
        tell(facts)
        return facts
    provisioner = await _provisioner(cluster)
    trial, known = Trial(cluster, has_claim=provisioner != STATIC), None
    try:
        problem = await trial.frame()
        read = await _read(cluster)
        facts = await _facts(cluster, site, read, "" if problem else NAMESPACE)
        facts = replace(facts, provisioner=provisioner)
        tell(facts)
        if problem:
            tried = trial.failed(*problem)
        elif facts.nodes and provisioner in {"", IN_TREE}:
            tried = trial.failed("not tried: the class binds no claim", "Mend the class first.")
        else:
            nodes, has_gpus = _nodes(read["nodes"])[0], bool(facts.gpu_nodes)
            tried = await trial.run(nodes, is_installed=bool(site), has_gpus=has_gpus)
        known = replace(facts, trial=tried)
    finally:
        left = () if is_kept else await _left(trial)
        if left and known is None:
            raise UnknownError(*left)
    return replace(known, left=left)


async def _left(trial: Trial) -> tuple[str, ...]:
    """Clears up; why that was in vain, and what to do, or nothing."""
    removing = asyncio.ensure_future(trial.remove())
    try:
        await asyncio.shield(removing)
    except asyncio.CancelledError:
        await removing  # ended while it clears up
        raise
    except UnknownError as error:
        return error.args
    except ClusterError as error:
        return (error.message, f"kubectl delete namespace {NAMESPACE}")
    return ()


async def _facts(
    cluster: Cluster, site: Mapping[str, str], read: Mapping[str, list[Any]], namespace: str
) -> ClusterFacts:
    seen = await preflight.look(cluster, settings.STORAGE_CLASS, namespace)
    gpu_nodes = tuple(
        node["metadata"]["name"]
        for node in read["nodes"]
        if int(((node.get("status") or {}).get("allocatable") or {}).get(GPU, 0))
    )
    return ClusterFacts(
        version=seen.version,
        is_old=seen.is_old,
        accounts=(*await _accounts(cluster, read["namespaces"]), *await _unbounded(cluster))
        if site
        else (),
        is_installed=bool(site),
        pod_security=seen.pod_security.state,
        class_name=settings.STORAGE_CLASS,
        volumes=tuple(map(_old_volume, filter(_is_old, read["volumes"]))),
        nodes=tuple(node["metadata"]["name"] for node in read["nodes"]),
        selector=",".join(f"{k}={v}" for k, v in settings.NODE_SELECTOR.items()),
        unlabelled=_nodes(read["nodes"])[1],
        portal_host=urlsplit(settings.PUBLIC_URL).hostname or "",
        node_host=settings.NODE_HOST,
        key=_key(site, read["namespaces"]),
        ports_free=_PORTS - len(read["node_ports"]),
        gpu_nodes=gpu_nodes,
        is_in_pod=is_in_pod(),
    )


async def missing_rights(cluster: Cluster) -> tuple[str, ...]:
    """What this account lacks of an administrator's rights."""
    asked = {"verb": "*", "group": "*", "resource": "*"}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    try:
        status = (await cluster.review(_OWN_REVIEW, body)).get("status") or {}
    except ClusterError as error:
        return (error.message,)
    return () if status.get("allowed") else ("everything on everything",)


async def _read(cluster: Cluster) -> dict[str, list[Any]]:
    ports = [
        port["nodePort"]
        for service in await cluster.list("Service")
        for port in service["spec"].get("ports") or []
        if port.get("nodePort")
    ]
    return {
        "nodes": await cluster.list("Node"),
        "volumes": await cluster.list("PersistentVolume"),
        "namespaces": await cluster.list("Namespace"),
        "node_ports": ports,
    }


async def _provisioner(cluster: Cluster) -> str:
    try:
        return str((await cluster.get("StorageClass", None, settings.STORAGE_CLASS))["provisioner"])
    except ClusterError:
        return ""


def _nodes(nodes: list[Object]) -> tuple[list[Object], tuple[str, ...]]:
    """Those that people's pods may run on, and the names of those that lack a label for it."""
    open_ones = [node for node in nodes if takes_pods(node)]
    wanted = settings.NODE_SELECTOR.items()
    chosen = [n for n in open_ones if wanted <= (n["metadata"].get("labels") or {}).items()]
    return chosen, tuple(n["metadata"]["name"] for n in open_ones if n not in chosen)


def takes_pods(node: Object) -> bool:
    """Whether people's pods may come to it; those with a GPU tolerate the taint of nodes that have one."""
    spec, conditions = node.get("spec") or {}, (node.get("status") or {}).get("conditions") or []
    is_ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    taints = [(t["key"], t.get("value", ""), t["effect"]) for t in spec.get("taints") or []]
    closed_by, _ = closing(taints, get_pool("default", ()))
    return is_ready and not spec.get("unschedulable") and not closed_by


def _is_old(volume: Object) -> bool:
    return "glusterfs" in volume["spec"]


def _old_volume(volume: Object) -> str:
    claim = volume["spec"].get("claimRef") or {}
    of = f" of {claim['namespace']}/{claim['name']}" if claim else ""
    return f"{volume['metadata']['name']} ({volume['spec']['glusterfs'].get('path', '?')}{of})"


async def _accounts(cluster: Cluster, spaces: list[Object]) -> tuple[str, ...]:
    """What the installed reconciler lacks, asked as the cluster would judge each call of it."""
    owned = [s for s in spaces if labels.OWNER in (s["metadata"].get("labels") or {})]
    people = [s["metadata"]["name"] for s in owned if s["metadata"]["name"].startswith("u-")]
    asked: list[tuple[str, tuple[str, str]]] = [
        ("", pair) for pair in access.pairs(access.EVERYWHERE)
    ]
    asked += [(people[0], pair) for pair in access.pairs(access.IN_NAMESPACES)] if people else []
    limit = asyncio.Semaphore(8)

    async def lacks(namespace: str, verb: str, what: str) -> str:
        resource, _, group = what.partition(".")
        attributes: Object = {
            "verb": verb,
            "resource": resource,
            "group": group,
            "namespace": namespace,
        }
        if verb == "bind":
            attributes["name"] = "homeport-tenant"
        spec = {
            "user": f"system:serviceaccount:{HOME}:reconciler",
            "groups": ["system:serviceaccounts", "system:authenticated"],
            "resourceAttributes": attributes,
        }
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": spec,
        }
        async with limit:
            status = (await cluster.review(_REVIEW, body)).get("status") or {}
        return "" if status.get("allowed") else f"{verb} {what}"

    found = await asyncio.gather(*(lacks(ns, verb, what) for ns, (verb, what) in asked))
    return tuple(filter(None, found))


async def _unbounded(cluster: Cluster) -> tuple[str, ...]:
    """What an interrupted apply has left out of that which bounds the accounts and Homeport's own pods: all runs without it."""
    try:
        found = (await cluster.read(_BINDINGS)).get("items") or []
    except NotFound:
        found = []
    names = {one["metadata"]["name"] for one in found}
    lacking = [f"ValidatingAdmissionPolicyBinding {name}" for name in _BOUND if name not in names]
    if not await cluster.list("NetworkPolicy", HOME):
        lacking.append(f"every NetworkPolicy of {HOME}")
    return tuple(lacking)


def _key(site: Mapping[str, str], spaces: list[Object]) -> str:
    """Whether the installation's key is the one by which the namespaces of its network check are named."""
    if not site:
        return "unknown"
    if len(site.get(_KEYS[0], "")) < KEY_MIN:
        return "short"
    names = {s["metadata"]["name"] for s in spaces if s["metadata"]["name"].startswith(_CHECKS)}
    keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    if not names:
        return "unknown"
    return "right" if names & {namespaces(key)[0] for key in keys} else "wrong"
