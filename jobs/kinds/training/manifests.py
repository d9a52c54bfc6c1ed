"""A training as Kubernetes objects: the values that `templates/manifests/job.yaml.j2` renders.

What is rendered at admission is stored with the row and never rendered again; `with_private` and
`completed` add at the moment of creation what must not be stored: the environment, the token, the
root's uid. Pure except for reading the template files.
"""

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from jobs.kinds.manifests import (
    Grant,
    Manifest,
    PodPlace,
    PodSettings,
    amounts,
    kube_name,
    with_owner,
)
from jobs.kinds.plan import Rescue
from jobs.kinds.spec import spec_of
from jobs.kinds.training.spec import TrainingSpec
from jobs.models import Workload
from jobs.pod.protocol.codes import OWN_CODES, SIGNAL_BASE
from jobs.rules.hosts import PORT, addresses
from jobs.rules.requests import RoleRequest, at_once, indexes_of
from jobs.rules.restarts import RestartPolicy
from jobs.rules.topologies import (
    RoleKind,
    Topology,
    environment,
    get_topology,
    needed,
    success_policy,
)
from portal.cluster import labels, names
from portal.cluster.manifests import Object, render

PRIVATE_FILE = "private.json"  # in the Secret, beside the token
DEAD_MAN_S = 6 * 3600  # after `ttl_s` the cluster itself removes what Homeport did not
SEGMENT_BYTES = 4 * 1024**2
SEGMENT_S = 60
UPLOAD_RETRY_S = 600  # the runner tries to reach the portal before it leaves it to a rescue
RESCUE_DEADLINE_S = 1800
# Files of a log folder that are older than a training that continues in it, by so much, are not its own.
CLOCKS_S = 60  # by which the file server's clock may be behind ours
# Of a replica that may fail alone, as others go on meanwhile.
REPLICA_RESTARTS = 3
# What ends a replica for good by `exit_code`; what those of ours mean tells its reason, not the number.
FINAL_CODES = tuple(code for code in range(1, SIGNAL_BASE) if code not in OWN_CODES)
DATA_DIR = "/data"
LOG_ROOT = "/log/jobs"
TEMPLATE_VERSION = "job-2"
JOB_LABEL = "homeport.dev/job"  # NAME; on the replicas' pods, which the Service selects by it
RESCUE_ROLE = "rescue"
NOTHING_GRANTED = Grant()


@dataclass(frozen=True)
class RoleManifest:
    """One role (a Job) or one replica of it (a server's Deployment)."""

    role: str
    name: str
    image: str
    labels: Mapping[str, str]
    resources: Mapping[str, str]
    gpu_count: int
    count: int
    parallelism: int
    index: int | None
    replaces_lost: bool
    place: PodPlace


@dataclass(frozen=True, kw_only=True)
class JobManifest(Manifest):
    """Variables of `job.yaml.j2`.

    Attributes:
        is_alone: replicas of the root are tried again one by one.
        max_failed: so many of these may fail for good before the others are stopped; None: all.
        final_codes: exit codes after which one that is tried again alone has failed for good.
    """

    attempt: int
    selector: Mapping[str, str]
    workers: RoleManifest
    servers: Sequence[RoleManifest]
    serving_jobs: Sequence[RoleManifest]
    replica_restarts: int
    is_alone: bool
    root_restarts: int
    max_failed: int | None
    final_codes: Sequence[int]
    deadline_s: int | None
    dead_man_ttl_s: int | None
    grace_s: int
    shm_bytes: int | None
    job_json: str
    port: int


@dataclass(frozen=True, kw_only=True)
class RescueManifest(Manifest):
    """Variables of `rescue.yaml.j2`."""

    name: str
    role: str
    index: int
    attempt: int
    lost_pod_uid: str
    deadline_s: int


def own_folder(training: Workload) -> str:
    """The training's own on the log volume; the same for all attempts."""
    return f"{LOG_ROOT}/{kube_name(training.name, training.pk, 1)}"


def log_dir(training: Workload) -> str:
    """LOG_DIR of its programs: its own folder, or that of the first of those that it continues."""
    return spec_of(training, TrainingSpec).log_folder or own_folder(training)


def _job_json(
    training: Workload,
    spec: TrainingSpec,
    attempt: int,
    pods: PodSettings,
    deadline_at: datetime | None,
) -> str:
    """What the programs in the pods read from /etc/homeport/job.json."""
    base = kube_name(training.name, training.pk, attempt)
    topology = get_topology(spec.topology)
    hosts = addresses(
        topology,
        {role: asked.count for role, asked in spec.replicas.items()},
        lambda role, index: names.replica_address(base, role, index),
    )
    content = {
        "id": str(training.pk),
        "name": spec.name,
        "kube_name": base,
        "folder": own_folder(training),
        "attempt": attempt,
        "topology": spec.topology,
        "command": list(spec.command),
        "commands": {role: list(one.command) for role, one in spec.replicas.items() if one.command},
        "cluster_flags": list(spec.cluster_flags),
        "source": None if _is_private(spec.source) else spec.source,
        "private": PRIVATE_FILE,
        "hosts": hosts,
        "addresses": spec.run_policy.addresses,
        "counts": {role: asked.count for role, asked in spec.replicas.items()},
        # Where the place of a pod in its Job is not its index.
        "indexes": spec.indexes_of("worker") if spec.indexes else None,
        "environment": environment_of(spec),
        "data_dir": DATA_DIR,
        "limits": {
            "log_archive_bytes": pods.log_archive_bytes,
            "artifacts_bytes": pods.artifacts_bytes,
            "bundle_bytes": pods.bundle_bytes,
            "segment_bytes": SEGMENT_BYTES,
            "segment_s": SEGMENT_S,
        },
        "retry_s": UPLOAD_RETRY_S,
        "grace_s": spec.run_policy.pod_grace_s,
        **_programs(topology, spec),
    }
    if pods.secrets.variables:  # whose values the runner removes from what it reports
        content["secret_env"] = list(pods.secrets.variables)
    if spec.run_policy.sparse_spec:
        content["sparse_spec"] = True
    if deadline_at is not None:
        content["deadline_at"] = f"{deadline_at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    if spec.log_folder:
        since = training.created_at.timestamp() - CLOCKS_S
        content |= {"log_dir": spec.log_folder, "since": since}
    return json.dumps(content, ensure_ascii=False, indent=1)


def _programs(topology: Topology, spec: TrainingSpec) -> dict[str, Any]:
    """Roles that run a program of ours, with what it needs; nothing for most topologies."""
    present = topology.present(spec.replicas)
    found = {role.name: role.program for role in present if role.program}
    if not found:
        return {}
    waits_s = spec.run_policy.starting_deadline_s
    slots = mpi_slots(spec.replicas["worker"])
    return {"programs": found, "slots": slots, "starting_deadline_s": waits_s}


def mpi_slots(worker: RoleRequest) -> int:
    """How many processes mpirun starts in each worker: one for each GPU, else for each whole CPU."""
    return worker.gpu_count or max(1, worker.cpu_millicores // 1000)


def environment_of(spec: TrainingSpec) -> dict[str, dict[str, str]]:
    """Role -> variable -> template of what the topology tells each replica."""
    gpus = {role: asked.gpu_count for role, asked in spec.replicas.items()}
    return environment(get_topology(spec.topology), gpus, spec.least)


def _is_private(source: Mapping[str, str] | None) -> bool:
    """Whether where the code comes from may hold a secret, as an address may."""
    return source is not None and ("url" in source or "git" in source)


def with_private(training: Workload, document: Object) -> Object:
    """A stored document; a Secret with what is not stored and not secret to the reconciler.

    The commit of code from git is there as soon as an earlier pod has told it.

    That is what `job.json` leaves to a file beside the token, since others may read a ConfigMap.
    """
    if document["kind"] != "Secret":
        return document
    spec = spec_of(training, TrainingSpec)
    content: dict[str, Any] = {"env": spec.env}
    if _is_private(spec.source):
        commit = {"commit": training.source_commit} if training.source_commit else {}
        content["source"] = {**(spec.source or {}), **commit}
    return {**document, "stringData": {PRIVATE_FILE: json.dumps(content, ensure_ascii=False)}}


def _role(
    training: Workload,
    spec: TrainingSpec,
    attempt: int,
    pods: PodSettings,
    role: str,
    index: int | None = None,
) -> RoleManifest:
    """All replicas of a role, or the one of this index."""
    asked = training.replicas[role]
    of_role = get_topology(spec.topology).role(role)
    base = kube_name(training.name, training.pk, attempt)
    marks = {JOB_LABEL: base, labels.ROLE: role, labels.ATTEMPT: str(attempt)}
    name = names.role_name(base, role)
    if index is not None:
        marks[labels.INDEX] = str(index)
        name = names.replica_name(base, role, index)
    return RoleManifest(
        role=role,
        name=name,
        image=spec.image_of(role),
        labels={**marks, labels.OWNER: str(training.pk)},
        resources=amounts(asked["cpu_millicores"], asked["memory_bytes"], asked["gpu_count"]),
        gpu_count=asked["gpu_count"],
        count=len(indexes_of(asked)) if index is None else 1,
        parallelism=at_once(asked) if index is None else 1,
        index=index,
        replaces_lost=of_role.replaced_when_lost or "min_count" in asked,
        place=pods.place_of(role, spec.placement),
    )


def render_training(
    training: Workload, *, attempt: int, pods: PodSettings, grant: Grant = NOTHING_GRANTED
) -> list[Object]:
    """All objects of one attempt: the root first, then what it will own, without secret values.

    Args:
        training: its row, which need not be saved.
        grant: what it may have; without a deadline there the training's own counts.

    Raises:
        ConfigurationError: see portal/cluster/manifests.py.
    """
    spec = spec_of(training, TrainingSpec)
    policy, topology = spec.run_policy, get_topology(spec.topology)
    deciding = topology.deciding(spec.replicas)
    counts = {role: asked.count for role, asked in spec.replicas.items()}
    success = success_policy(topology, policy.success_policy, counts)
    must = needed(topology, success, counts)
    decides_after = any(role != deciding.name for role, _ in must)
    is_retried = policy.restart_policy != RestartPolicy.NEVER
    replica_restarts = max(REPLICA_RESTARTS, policy.retries) if is_retried else 0
    root_restarts = 0
    least = len(must) if policy.sparse_spec else spec.least.get(deciding.name)
    max_failed: int | None = 0
    if least is not None:
        root_restarts, max_failed = replica_restarts, counts[deciding.name] - least
    elif topology.is_array:
        root_restarts, max_failed = policy.retries, spec.max_failed
    is_alone = topology.is_array or least is not None
    is_by_code = policy.restart_policy == RestartPolicy.EXIT_CODE
    owner, base = str(training.pk), kube_name(training.name, training.pk, attempt)
    context = JobManifest(
        owner=owner,
        namespace=training.tenant.namespace,
        kube_name=base,
        template_version=TEMPLATE_VERSION,
        attempt=attempt,
        labels={labels.OWNER: owner, JOB_LABEL: base, labels.ATTEMPT: str(attempt)},
        selector={JOB_LABEL: base, labels.OWNER: owner},
        workers=_role(training, spec, attempt, pods, deciding.name),
        servers=tuple(
            _role(training, spec, attempt, pods, role.name, index)
            for role in topology.serving(spec.replicas)
            if role.kind is RoleKind.DEPLOYMENT
            for index in range(spec.replicas[role.name].count)
        ),
        serving_jobs=tuple(
            _role(training, spec, attempt, pods, role.name)
            for role in topology.serving(spec.replicas)
            if role.kind is RoleKind.JOB
        ),
        replica_restarts=replica_restarts,
        is_alone=is_alone,
        root_restarts=root_restarts,
        max_failed=max_failed,
        final_codes=FINAL_CODES if is_by_code else (),
        deadline_s=policy.deadline_s if grant.deadline_s is None else grant.deadline_s,
        # What it owns would go with it, and must still succeed where a chief does not decide.
        dead_man_ttl_s=None if decides_after else policy.ttl_s + DEAD_MAN_S,
        grace_s=spec.run_policy.pod_grace_s,
        shm_bytes=spec.shm_bytes,
        job_json=_job_json(training, spec, attempt, pods, grant.deadline_at),
        port=PORT,
        pods=pods,
    )
    return render("job.yaml.j2", context)


def render_rescue(training: Workload, lost: Rescue, *, attempt: int, pods: PodSettings) -> Object:
    """The pod that uploads what a lost replica left on the log volume.

    Args:
        attempt: the training's last one, whose ConfigMap and Secret are mounted.
    """
    key = lost.key
    marks = {
        labels.ROLE: RESCUE_ROLE,
        labels.ATTEMPT: str(attempt),
        labels.INDEX: str(key.index),
        labels.RESCUED_ROLE: key.role,
        labels.RESCUED_ATTEMPT: str(key.attempt),
    }
    of_lost = kube_name(training.name, training.pk, key.attempt)
    context = RescueManifest(
        owner=str(training.pk),
        namespace=training.tenant.namespace,
        name=f"{of_lost}-{RESCUE_ROLE}-{key.who}-{lost.number}",
        kube_name=kube_name(training.name, training.pk, attempt),
        template_version=TEMPLATE_VERSION,
        labels=marks,
        role=key.role,
        index=key.index,
        attempt=key.attempt,
        lost_pod_uid=lost.pod_uid,
        deadline_s=RESCUE_DEADLINE_S,
        pods=pods,
    )
    return render("rescue.yaml.j2", context)[0]


def completed(document: Object, *, root: Object | None, token: str) -> Object:
    """A stored document as it is sent: with its owner and, in a Secret, the token.

    What a Secret holds is no part of the spec hash.

    Args:
        document: from `render_training`, or from `with_private`.
        root: the root as the cluster has it; None for the root itself and for orphans.
        token: see jobs/kinds/training/tokens.py.
    """
    bare = {key: value for key, value in document.items() if key != "stringData"}
    sent = copy.deepcopy(bare) if root is None else with_owner(bare, root)
    if sent["kind"] == "Secret":
        sent["stringData"] = {**document.get("stringData", {}), "token": token}
    return sent
