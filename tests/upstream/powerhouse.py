"""The scene of the tests of refusals: a person's namespace as Homeport makes it, and somebody else's.

with scene() as scene: ...
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from deploy.testcluster import binaries
from deploy.testcluster.controlplane import ControlPlane, Options
from tenants.manifests import render_tenant
from tenants.models import Tenant
from tests.tools.waiting import wait_for
from tests.upstream.power import Accounts, folder_of, install_on, need_built
from tests.upstream.rest import Caller

OURS = "u-ada-1b2c3d4e"
THEIRS = "theirs"
LABELS = {
    "app.kubernetes.io/managed-by": "homeport",
    "homeport.dev/owner": "9d3f8a52-0d3c-4a0e-b0a3-5f7c2f1d6e11",
    "pod-security.kubernetes.io/enforce": "restricted",
    "pod-security.kubernetes.io/enforce-version": "v1.33",
}
POD_SPEC: dict[str, Any] = {
    "automountServiceAccountToken": False,
    "nodeSelector": {"is": "nowhere"},
    "securityContext": {
        "runAsNonRoot": True,
        "runAsUser": 1000,
        "seccompProfile": {"type": "RuntimeDefault"},
    },
    "containers": [
        {
            "name": "main",
            "image": "none",
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
            },
        }
    ],
}
# What must be as before when everything has been tried. Status and resource versions aside: the
# cluster's own controllers are at work.
KINDS = (
    "namespaces,nodes,persistentvolumes,storageclasses,priorityclasses,clusterroles,"
    "clusterrolebindings,roles,rolebindings,serviceaccounts,secrets,configmaps,pods,deployments,"
    "jobs,persistentvolumeclaims,services,resourcequotas,limitranges,networkpolicies,"
    "validatingadmissionpolicies,validatingadmissionpolicybindings,validatingwebhookconfigurations,"
    "mutatingwebhookconfigurations,customresourcedefinitions,apiservices"
)


def obj(api_version: str, kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **more}


def core(rest: str, namespace: str = "") -> str:
    """The path of something of the core group."""
    return f"/api/v1/namespaces/{namespace}/{rest}" if namespace else f"/api/v1/{rest}"


def pod(**spec: Any) -> dict[str, Any]:
    """A pod that a person's namespace takes, unless `spec` says otherwise."""
    return obj("v1", "Pod", "tried", spec={**POD_SPEC, **spec})


def volume(name: str, namespace: str, claim: str) -> dict[str, Any]:
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "by-hand",
        "persistentVolumeReclaimPolicy": "Retain",
        "hostPath": {"path": "/nowhere"},
        "claimRef": {"namespace": namespace, "name": claim},
    }
    return obj("v1", "PersistentVolume", name, spec=spec)


@dataclass
class Scene:
    """Callers are "web", "reconciler", "purge" and "admin"."""

    accounts: Accounts
    callers: dict[str, Caller]

    def everything(self) -> dict[str, Any]:
        """What the cluster holds, by kind, namespace and name."""
        found = {}
        for item in self.accounts.get(KINDS, "-A")["items"]:
            meta = item["metadata"]
            for name in ("resourceVersion", "managedFields", "generation"):
                meta.pop(name, None)
            item.pop("status", None)
            found[f"{item['kind']} {meta.get('namespace', '')} {meta['name']}"] = item
        return found


def ada() -> Tenant:
    return Tenant(
        id=UUID(LABELS["homeport.dev/owner"]),
        namespace=OURS,
        quota_cpu_millicores=4000,
        quota_memory_bytes=8 * 2**30,
        quota_gpu_count=1,
        quota_pods=5,
        quota_nodeports=1,
        data_volume_bytes=2**30,
        log_volume_bytes=2**30,
    )


@contextmanager
def scene() -> Iterator[Scene]:
    """A control plane of its own, without a node."""
    need_built(binaries.KUBERNETES, binaries.ETCD)
    # As on clusters of real life: it is Pod Security that refuses privileged pods.
    options = Options(flags={"kube-apiserver": ["--allow-privileged=true"]})
    with folder_of("refusals") as folder, ControlPlane(folder, options) as cluster:
        accounts = install_on(cluster)
        callers = {
            name: Caller(path, cluster.ca_file)
            for name, path in {**accounts.kubeconfigs, "admin": cluster.kubeconfig}.items()
        }
        made = Scene(accounts, callers)
        _furnish(made)
        yield made


def _furnish(made: Scene) -> None:
    admin = made.accounts.admin
    # As the reconciler makes it, so that it is what Homeport's namespaces are.
    for document in render_tenant(ada()):

        def is_made(document: dict[str, Any] = document) -> bool:
            # Its rights in the namespace are known a moment after they were given.
            return made.accounts.ask(
                "reconciler", "create", "--validate=false", "-f", "-", body=document
            ).is_done

        wait_for(f"{document['kind']} is made", is_made, timeout_s=20, interval_s=0.5)
    admin("create", "namespace", THEIRS)
    admin("-n", THEIRS, "create", "configmap", "settings", "--from-literal=a=b")
    admin("-n", THEIRS, "create", "secret", "generic", "keys", "--from-literal=a=b")
    admin("-n", OURS, "create", "secret", "generic", "keys", "--from-literal=a=b")
    admin("-n", THEIRS, "create", "deployment", "app", "--image=none", "--replicas=0")
    for namespace in (OURS, THEIRS):
        admin("-n", namespace, "create", "-f", "-", body=obj("v1", "Pod", "one", spec=POD_SPEC))
    for name, namespace in (("ours", OURS), ("theirs", THEIRS)):
        admin("create", "-f", "-", body=volume(name, namespace, "data"))
    admin("create", "-f", "-", body=obj("v1", "Node", "bare"))
    wait_for(
        "the claim has its volume",
        lambda: (
            made.accounts.get("persistentvolume", "ours").get("status", {}).get("phase") == "Bound"
        ),
    )
    wait_for(
        "the quota is counted",
        lambda: (
            made.accounts.get("-n", OURS, "resourcequota", "homeport").get("status", {}).get("hard")
        ),
    )
