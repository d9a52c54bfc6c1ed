"""Whether a cluster has what Homeport relies on: its version, the StorageClass, Pod Security, metrics;
and whether our account may do what it has to.

Asked when the reconciler starts and every few minutes after that, never by a page. Each answer is a
word that a program can use and a sentence of the cluster where it refused.
"""

import re
from dataclasses import asdict, dataclass, field
from typing import Any

from portal.cluster import access
from portal.cluster.access import AccountAccess
from portal.cluster.client import Cluster, Object
from portal.cluster.errors import ClusterError, Forbidden, NotFound, QuotaExceeded

OLDEST = (1, 33)  # the oldest Kubernetes that Homeport supports
_METRICS = "/apis/metrics.k8s.io/v1beta1"
_NAME = "homeport-preflight"


@dataclass(frozen=True)
class CheckResult:
    """One question.

    Attributes:
        state: `yes`, `no`, or `unknown` when it could not be asked.
        detail: what else is known, or why it could not be asked.
    """

    state: str = "unknown"
    detail: str = ""


@dataclass(frozen=True)
class Preflight:
    """All answers; `version` is the API server's, such as `v1.33.2`, empty when it is not known."""

    server: str
    version: str = ""
    is_old: bool = False
    storage_class: CheckResult = field(default_factory=CheckResult)
    pod_security: CheckResult = field(default_factory=CheckResult)
    metrics: CheckResult = field(default_factory=CheckResult)
    rights: AccountAccess = field(default_factory=AccountAccess)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def is_complete(self) -> bool:
        """Whether every question was answered."""
        answers = (self.storage_class, self.pod_security, self.metrics, self.rights)
        return bool(self.version) and all(answer.state != "unknown" for answer in answers)


async def look(cluster: Cluster, storage_class: str, namespace: str) -> Preflight:
    """Asks everything.

    Args:
        cluster: whom.
        storage_class: which one volumes are made of.
        namespace: one that is labelled for Pod Security `restricted`; empty: there is none yet.
    """
    version = await _version(cluster)
    return Preflight(
        server=cluster.server,
        version=version,
        is_old=is_older(version, OLDEST),
        storage_class=await _storage_class(cluster, storage_class),
        pod_security=await _pod_security(cluster, namespace),
        metrics=await _metrics(cluster),
        rights=await access.look(cluster, namespace),
    )


def is_older(version: str, oldest: tuple[int, int]) -> bool:
    """Whether `v1.32.4+k3s1` is older than (1, 33); an unreadable version is not."""
    found = re.match(r"v?(\d+)\.(\d+)", version)
    return found is not None and (int(found[1]), int(found[2])) < oldest


async def _version(cluster: Cluster) -> str:
    try:
        return str((await cluster.read("/version")).get("gitVersion") or "")
    except ClusterError:
        return ""


async def _storage_class(cluster: Cluster, name: str) -> CheckResult:
    try:
        found = await cluster.get("StorageClass", None, name)
    except NotFound:
        return CheckResult("no")
    except ClusterError as error:
        return CheckResult(detail=error.message)
    mode = found.get("volumeBindingMode") or "Immediate"
    return CheckResult("yes", f"{found.get('provisioner') or '?'}, {mode}")


async def _pod_security(cluster: Cluster, namespace: str) -> CheckResult:
    """Tries (dry) to make a privileged pod where none may be."""
    if not namespace:
        return CheckResult()
    try:
        await cluster.try_create(_privileged(namespace))
    except QuotaExceeded:
        return CheckResult("no")  # quotas are looked at last: nothing before them minded
    except Forbidden as error:
        if "PodSecurity" in error.message:
            return CheckResult("yes")
        return CheckResult(detail=error.message)
    except ClusterError as error:
        return CheckResult(detail=error.message)
    return CheckResult("no")


def _privileged(namespace: str) -> Object:
    amounts = {"cpu": "1m", "memory": "1Mi"}
    container = {
        "name": "main",
        "image": "none",
        "securityContext": {"privileged": True},
        "resources": {"requests": amounts, "limits": amounts},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": _NAME, "namespace": namespace},
        "spec": {"containers": [container], "automountServiceAccountToken": False},
    }


async def _metrics(cluster: Cluster) -> CheckResult:
    try:
        await cluster.read(_METRICS)
    except NotFound:
        return CheckResult("no")
    except ClusterError as error:
        return CheckResult(detail=error.message)
    return CheckResult("yes")
