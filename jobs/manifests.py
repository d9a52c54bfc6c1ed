"""A training as Kubernetes objects: the values that `templates/manifests/job.yaml.j2` renders.

What is rendered at admission is stored with the job and never rendered again; `completed` adds at
the moment of creation what must not be stored: the root's uid and the token. Pure except for
reading the template files.
"""

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings

from jobs.models import Job
from jobs.rules.hosts import PORT, addresses
from jobs.rules.topologies import Topology, get_topology
from portal import quantity
from portal.catalog import get_catalog
from portal.cluster import labels, names
from portal.cluster.manifests import Object, render, spec_hash
from tenants.manifests import ACCOUNT

PRIVATE_FILE = "private.json"  # in the Secret, beside the token
GRACE_S = 120  # between SIGTERM and SIGKILL: time for a checkpoint and the upload of the log's end
# What has a deadline gives its resources back within a minute of it, whatever its program does.
DEADLINE_GRACE_S = 60
DEAD_MAN_S = 6 * 3600  # after `ttl_s` the cluster itself removes what Homeport did not
SEGMENT_BYTES = 4 * 1024**2
SEGMENT_S = 60
UPLOAD_RETRY_S = (
    600  # how long the runner tries to reach the portal before it leaves it to a rescue
)
RESCUE_DEADLINE_S = 1800
DATA_DIR = "/data"
LOG_ROOT = "/log/jobs"
TEMPLATE_VERSION = "job-1"
JOB_LABEL = "homeport.dev/job"  # NAME; on the replicas' pods, which the Service selects by it
RESCUE_ROLE = "rescue"


@dataclass(frozen=True)
class PodSettings:
    """What all pods have in common in this installation; limits in bytes.

    Attributes:
        account: ServiceAccount of the tenant's namespace; it may do nothing and has no token.
    """

    portal_url: str
    portal_image: str
    uid: int
    gid: int
    log_archive_bytes: int
    artifacts_bytes: int
    bundle_bytes: int
    account: str = ACCOUNT


@dataclass(frozen=True)
class Training:
    """What was asked for, as plain data; `replicas` as `jobs.models.Job.replicas` has it."""

    job_id: UUID
    name: str
    namespace: str
    topology: str
    image: str
    command: Sequence[str]
    source: Mapping[str, Any] | None
    replicas: Mapping[str, Mapping[str, int]]
    env: Mapping[str, str]
    cluster_flags: Sequence[str]
    retries: int
    deadline_s: int | None
    ttl_s: int
    shm_bytes: int | None


@dataclass(frozen=True)
class RoleManifest:
    """One role (the workers' Job) or one replica of it (a server's Deployment)."""

    role: str
    name: str
    labels: Mapping[str, str]
    cpu: str
    memory: str
    gpu_count: int
    count: int = 1
    index: int | None = None

    @property
    def resources(self) -> dict[str, str]:
        """Requests and limits alike."""
        resources = {"cpu": self.cpu, "memory": self.memory}
        if self.gpu_count:
            resources["nvidia.com/gpu"] = str(self.gpu_count)
        return resources


@dataclass(frozen=True)
class JobManifest:
    """Variables of `job.yaml.j2`."""

    owner: str
    namespace: str
    kube_name: str
    template_version: str
    attempt: int
    labels: Mapping[str, str]
    selector: Mapping[str, str]
    workers: RoleManifest
    servers: Sequence[RoleManifest]
    is_coupled: bool
    retries: int
    deadline_s: int | None
    dead_man_ttl_s: int
    grace_s: int
    shm_bytes: int | None
    image: str
    job_json: str
    port: int
    pods: PodSettings


@dataclass(frozen=True)
class RescueManifest:
    """Variables of `rescue.yaml.j2`."""

    owner: str
    namespace: str
    name: str
    kube_name: str
    template_version: str
    labels: Mapping[str, str]
    role: str
    index: int
    attempt: int
    lost_pod_uid: str
    deadline_s: int
    pods: PodSettings


@dataclass(frozen=True)
class Lost:
    """A replica whose log has to be rescued, and which try this is (1 is the first)."""

    role: str
    index: int
    attempt: int
    pod_uid: str
    number: int


def pod_settings() -> PodSettings:
    """The settings as they are now."""
    catalog = get_catalog()
    return PodSettings(
        portal_url=settings.POD_PORTAL_URL,
        portal_image=catalog.portal_image,
        uid=catalog.run_as_uid,
        gid=catalog.run_as_gid,
        log_archive_bytes=settings.LOG_ARCHIVE_MAX_BYTES,
        artifacts_bytes=settings.ARTIFACTS_MAX_BYTES,
        bundle_bytes=settings.BUNDLE_MAX_BYTES,
    )


def training_of(job: Job) -> Training:
    """The request of a job's row."""
    return Training(
        job_id=job.pk,
        name=job.name,
        namespace=job.tenant.namespace,
        topology=job.topology,
        image=job.image,
        command=tuple(job.command),
        source=job.source,
        replicas=job.replicas,
        env=job.env,
        cluster_flags=tuple(job.cluster_flags),
        retries=job.retries,
        deadline_s=job.deadline_s,
        ttl_s=job.ttl_s,
        shm_bytes=job.shm_bytes,
    )


def log_dir(training: Training) -> str:
    """The training's own folder on the log volume; the same for all attempts."""
    return f"{LOG_ROOT}/{names.job_name(training.name, training.job_id)}"


def hosts(training: Training, attempt: int) -> dict[str, list[str]]:
    """role -> addresses of the replicas in this attempt."""
    kube_name = names.job_name(training.name, training.job_id, attempt)
    counts = {role: asked["count"] for role, asked in training.replicas.items()}
    return addresses(
        get_topology(training.topology),
        counts,
        lambda role, index: names.replica_address(kube_name, role, index),
    )


def _job_json(training: Training, attempt: int, pods: PodSettings) -> str:
    """What the programs in the pods read from /etc/homeport/job.json."""
    content = {
        "id": str(training.job_id),
        "name": training.name,
        "kube_name": names.job_name(training.name, training.job_id, attempt),
        "folder": log_dir(training),
        "attempt": attempt,
        "topology": training.topology,
        "command": list(training.command),
        "cluster_flags": list(training.cluster_flags),
        "source": None if _is_private(training.source) else training.source,
        "private": PRIVATE_FILE,
        "hosts": hosts(training, attempt),
        "data_dir": DATA_DIR,
        "limits": {
            "log_archive_bytes": pods.log_archive_bytes,
            "artifacts_bytes": pods.artifacts_bytes,
            "bundle_bytes": pods.bundle_bytes,
            "segment_bytes": SEGMENT_BYTES,
            "segment_s": SEGMENT_S,
        },
        "retry_s": UPLOAD_RETRY_S,
        "grace_s": grace_s(training),
    }
    return json.dumps(content, ensure_ascii=False, indent=1)


def _is_private(source: Mapping[str, str] | None) -> bool:
    """Whether where the code comes from may hold a secret, as an address may."""
    return source is not None and "url" in source


def _private_json(training: Training) -> str:
    """What `job.json` leaves to a file beside the token, since others may read a ConfigMap."""
    content: dict[str, Any] = {"env": dict(training.env)}
    if _is_private(training.source):
        content["source"] = training.source
    return json.dumps(content, ensure_ascii=False)


def with_private(document: Object, training: Training) -> Object:
    """A stored document; a Secret with what is not stored and not secret to the reconciler."""
    if document["kind"] != "Secret":
        return document
    return {**document, "stringData": {PRIVATE_FILE: _private_json(training)}}


def grace_s(training: Training) -> int:
    """Seconds from SIGTERM to SIGKILL of each pod."""
    return GRACE_S if training.deadline_s is None else DEADLINE_GRACE_S


def _role(
    training: Training, kube_name: str, attempt: int, role: str, index: int | None
) -> RoleManifest:
    asked = training.replicas[role]
    marks = {JOB_LABEL: kube_name, labels.ROLE: role, labels.ATTEMPT: str(attempt)}
    if index is not None:
        marks[labels.INDEX] = str(index)
    return RoleManifest(
        role=role,
        name=(
            names.role_name(kube_name, role)
            if index is None
            else names.replica_name(kube_name, role, index)
        ),
        labels={**marks, labels.OWNER: str(training.job_id)},
        cpu=quantity.cpu_text(asked["cpu_millicores"]),
        memory=quantity.memory_text(asked["memory_bytes"]),
        gpu_count=asked["gpu_count"],
        count=asked["count"] if index is None else 1,
        index=index,
    )


def _servers(
    training: Training, shape: Topology, kube_name: str, attempt: int
) -> tuple[RoleManifest, ...]:
    return tuple(
        _role(training, kube_name, attempt, role.name, index)
        for role in shape.serving
        for index in range(training.replicas[role.name]["count"])
    )


def render_training(
    training: Training, *, attempt: int, pods: PodSettings, deadline_s: int | None = None
) -> list[Object]:
    """All objects of one attempt: the root first, then what it will own, without secret values.

    Args:
        training: the request.
        attempt: 1 is the first; part of every name.
        pods: from `pod_settings()`.
        deadline_s: seconds that this attempt may run; the training's own deadline when None.

    Raises:
        ConfigurationError: see portal/cluster/manifests.py.
        ValueError: attempt beyond 999.
    """
    shape = get_topology(training.topology)
    kube_name = names.job_name(training.name, training.job_id, attempt)
    own = {
        labels.OWNER: str(training.job_id),
        JOB_LABEL: kube_name,
        labels.ATTEMPT: str(attempt),
    }
    context = JobManifest(
        owner=str(training.job_id),
        namespace=training.namespace,
        kube_name=kube_name,
        template_version=TEMPLATE_VERSION,
        attempt=attempt,
        labels=own,
        selector={JOB_LABEL: kube_name, labels.OWNER: str(training.job_id)},
        workers=_role(training, kube_name, attempt, shape.deciding.name, None),
        servers=_servers(training, shape, kube_name, attempt),
        is_coupled=shape.is_coupled,
        retries=training.retries,
        deadline_s=deadline_s if deadline_s is not None else training.deadline_s,
        dead_man_ttl_s=training.ttl_s + DEAD_MAN_S,
        grace_s=grace_s(training),
        shm_bytes=training.shm_bytes,
        image=training.image,
        job_json=_job_json(training, attempt, pods),
        port=PORT,
        pods=pods,
    )
    return render("job.yaml.j2", context)


def render_rescue(training: Training, lost: Lost, *, attempt: int, pods: PodSettings) -> Object:
    """The pod that uploads what a lost replica left on the log volume.

    Args:
        training: the request.
        lost: whose log.
        attempt: the training's last attempt, whose ConfigMap and Secret are mounted.
        pods: from `pod_settings()`.
    """
    marks = {
        labels.ROLE: RESCUE_ROLE,
        labels.ATTEMPT: str(attempt),
        labels.INDEX: str(lost.index),
        labels.RESCUED_ROLE: lost.role,
        labels.RESCUED_ATTEMPT: str(lost.attempt),
    }
    context = RescueManifest(
        owner=str(training.job_id),
        namespace=training.namespace,
        name=rescue_name(training, lost),
        kube_name=names.job_name(training.name, training.job_id, attempt),
        template_version=TEMPLATE_VERSION,
        labels=marks,
        role=lost.role,
        index=lost.index,
        attempt=lost.attempt,
        lost_pod_uid=lost.pod_uid,
        deadline_s=RESCUE_DEADLINE_S,
        pods=pods,
    )
    return render("rescue.yaml.j2", context)[0]


def rescue_name(training: Training, lost: Lost) -> str:
    """Name of a rescue pod: one for each lost replica and try."""
    kube_name = names.job_name(training.name, training.job_id, lost.attempt)
    return f"{kube_name}-{RESCUE_ROLE}-{lost.role}-{lost.index}-{lost.number}"


def completed(document: Object, *, root: Object | None, token: str) -> Object:
    """A stored document as it is sent: with its owner and, in a Secret, the token.

    What a Secret holds is no part of the spec hash.

    Args:
        document: from `render_training`, or from `with_private`.
        root: the root as the cluster has it; None for the root itself and for orphans.
        token: see jobs/tokens.py.
    """
    bare = {key: value for key, value in document.items() if key != "stringData"}
    sent = copy.deepcopy(bare) if root is None else with_owner(bare, root)
    if sent["kind"] == "Secret":
        sent["stringData"] = {**document.get("stringData", {}), "token": token}
    return sent


def with_owner(document: Object, root: Object) -> Object:
    """A copy of a stored document that goes when the root goes.

    The spec hash is taken anew over the owner, so that what an earlier root owned (and the cluster
    is about to remove) is never adopted.
    """
    sent = copy.deepcopy(document)
    sent["metadata"]["ownerReferences"] = [
        {
            "apiVersion": root["apiVersion"],
            "kind": root["kind"],
            "name": root["metadata"]["name"],
            "uid": root["metadata"]["uid"],
            "controller": False,
            # The root goes without waiting for what it owns.
            "blockOwnerDeletion": False,
        }
    ]
    sent["metadata"]["annotations"][labels.SPEC_HASH] = spec_hash(sent)
    return sent
