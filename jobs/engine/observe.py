"""Turns what the view holds of one job into the plain data that planning works on.

Runs on the event loop, between two events of the view, so that one look is one moment. No I/O.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

from jobs.kinds.state import (
    ArchiveRow,
    GateService,
    ObjectRef,
    Observed,
    PodFacts,
    ReplicaKey,
    ReplicaRow,
    Root,
    ServerDeployment,
    WorkloadRow,
)
from jobs.manifests import RESCUE_ROLE
from jobs.rules import reasons
from jobs.rules.endings import Disruption, End
from jobs.rules.reasons import Reason
from jobs.rules.waits import MOUNT_EVENTS
from portal.cluster import objects
from portal.cluster.view import ClusterView

_GPU_MAX = 100  # characters of Replica.gpus
IsRescue = bool  # whether a pod rescues logs, and is no replica


@dataclass(frozen=True)
class Rows:
    """A job's rows, as loaded in one go."""

    job: WorkloadRow
    replicas: Mapping[ReplicaKey, ReplicaRow] = field(default_factory=dict)
    archives: Mapping[ReplicaKey, ArchiveRow] = field(default_factory=dict)


@dataclass(frozen=True)
class Knowledge:
    """What the loop knows of a job from its own calls; nothing of it outlives the process.

    Attributes:
        absent_root: name of a root that a fresh read did not find, else empty.
        made_root, is_swept, is_erased: see `Observed`.
        blocked: why its objects can never be created.
        trouble: why they cannot be created now.
        departed: pods that went since the last look.
    """

    absent_root: str = ""
    made_root: str = ""
    is_swept: bool = False
    is_erased: bool = False
    blocked: Reason = reasons.NONE
    trouble: Reason = reasons.NONE
    departed: Sequence[objects.PodSeen] = ()


class ReadPods:
    """What was read of pods, kept as long as they stay as they are: of many, few change at a time."""

    def __init__(self) -> None:
        # job id -> pod's uid -> what was read, and of what
        self._kept: dict[str, dict[str, tuple[objects.PodSeen, int, IsRescue, PodFacts]]] = {}

    def of_job(self, view: ClusterView, job: WorkloadRow) -> list[tuple[IsRescue, PodFacts]]:
        """The pods that a job has now."""
        before = self._kept.pop(job.id, {})
        kept = {}
        for pod in view.pods.of_owner(job.id):
            uid = pod.metadata.uid
            read = before.get(uid)
            # Each change of an object is a new struct.
            if read is None or read[0] is not pod or read[1] != job.attempt:
                read = (pod, job.attempt, *_pod(job, pod))
            kept[uid] = read
        if kept:
            self._kept[job.id] = kept
        return [(read[2], _with_mounts(view, job, read[3])) for read in kept.values()]

    def forget(self, job_id: str) -> None:
        """The job is gone, though pods of it may be there."""
        self._kept.pop(job_id, None)


def observe(view: ClusterView, rows: Rows, known: Knowledge, pods_read: ReadPods) -> Observed:
    """All that is known of one job now; `pods_read` makes it cheaper, and nothing else."""
    job = rows.job
    name = job.root_name
    jobs = view.jobs.of_owner(job.id)
    pods = pods_read.of_job(view, job)
    departed = [_pod(job, pod) for pod in known.departed]
    found = [seen for seen in jobs if seen.metadata.name == name]
    others = [thing("Job", seen.metadata) for seen in jobs if seen.metadata.name != name]
    others += [thing("ConfigMap", s.metadata) for s in view.config_maps.of_owner(job.id)]
    return Observed(
        is_current=view.synced and not view.problem,
        namespace=namespace_state(view, job.namespace),
        root=_root(found[0]) if found else None,
        is_root_absent=known.absent_root == name and not found,
        made_root=known.made_root,
        is_swept=known.is_swept,
        is_erased=known.is_erased,
        blocked=known.blocked,
        trouble=known.trouble,
        servers=tuple(_server(seen) for seen in view.deployments.of_owner(job.id)),
        services=tuple(service(seen) for seen in view.services.of_owner(job.id)),
        others=tuple(others),
        pods=tuple(pod for is_rescue, pod in pods if not is_rescue),
        rescues=tuple(pod for is_rescue, pod in pods if is_rescue),
        departed=tuple(pod for is_rescue, pod in departed if not is_rescue),
        replicas=rows.replicas,
        archives=rows.archives,
        refusal=_refusal(view, job.namespace, name),
    )


def namespace_state(view: ClusterView, name: str) -> Literal["active", "terminating", "gone"]:
    """Whether things can be made in it."""
    seen = view.namespaces.get("", name)
    if seen is None:
        return "gone"
    is_going = seen.status.phase == "Terminating" or seen.metadata.deletion_timestamp is not None
    return "terminating" if is_going else "active"


def thing(kind: str, meta: objects.Marks) -> ObjectRef:
    """Enough of an object to delete exactly it."""
    return ObjectRef(kind, meta.name, meta.uid, meta.deletion_timestamp is not None)


def service(seen: objects.ServiceSeen) -> GateService:
    """A Service, with the port that the cluster picked for its gate."""
    ports = [port.node_port for port in seen.spec.ports if port.name == "gate" and port.node_port]
    meta = seen.metadata
    return GateService(
        "Service",
        meta.name,
        meta.uid,
        meta.deletion_timestamp is not None,
        node_port=ports[0] if ports else None,
    )


def condition(conditions: Sequence[objects.Condition], kind: str) -> objects.Condition | None:
    """The condition of this type when it is true."""
    return next((c for c in conditions if c.type == kind and c.status == "True"), None)


# --- Job, Deployment ---
def parse_indexes(text: str) -> frozenset[int]:
    """`1,3-5` as a set; what is no number is left out.

    https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/job-v1/#JobStatus
    """
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if not part.isascii():  # "²" is a digit and no number
            continue
        if first.isdigit() and (not last or last.isdigit()):
            found.update(range(int(first), min(int(last or first), int(first) + 10_000) + 1))
    return frozenset(found)


def _root(seen: objects.JobSeen) -> Root:
    conditions = seen.status.conditions
    complete = condition(conditions, "Complete") or condition(conditions, "SuccessCriteriaMet")
    failed = condition(conditions, "Failed") or condition(conditions, "FailureTarget")
    meta = seen.metadata
    return Root(
        "Job",
        meta.name,
        meta.uid,
        meta.deletion_timestamp is not None,
        is_suspended=seen.spec.suspend,
        verdict="failed" if failed else "complete" if complete else "",
        fail_reason=failed.reason if failed else "",
        fail_message=failed.message if failed else "",
        completed=parse_indexes(seen.status.completed_indexes),
        failed_count=seen.status.failed,
    )


def _server(seen: objects.DeploymentSeen) -> ServerDeployment:
    refused = condition(seen.status.conditions, "ReplicaFailure")
    meta = seen.metadata
    return ServerDeployment(
        "Deployment",
        meta.name,
        meta.uid,
        meta.deletion_timestamp is not None,
        refused=refused.message if refused else "",
    )


def _refusal(view: ClusterView, namespace: str, root: str) -> str:
    """A quota that says no to a Job's pods shows as an event of the Job only."""
    events = view.events_about(namespace, "Job", root)
    refused = [event.message for event in events if event.reason == "FailedCreate"]
    return refused[-1] if refused else ""


# --- pods ---
def _number(text: str, default: int = 0) -> int:
    return int(text) if text.isascii() and text.isdigit() else default


def _key(job: WorkloadRow, pod: objects.PodSeen) -> tuple[IsRescue, ReplicaKey]:
    """Whether it is a rescue pod, and the replica that it is (or rescues)."""
    marks = pod.metadata.labels
    index = _number(marks.index or marks.completion_index)
    if marks.role == RESCUE_ROLE:
        attempt = _number(marks.rescued_attempt, job.attempt)
        return True, ReplicaKey(marks.rescued_role, index, attempt)
    return False, ReplicaKey(marks.role, index, _number(marks.attempt, job.attempt))


def container_status(
    statuses: Sequence[objects.ContainerStatus], name: str
) -> objects.ContainerStatus:
    """The container of this name; an empty one while the node has said nothing of it."""
    return next((s for s in statuses if s.name == name), objects.ContainerStatus())


def container_end(ended: objects.Terminated | None, *, is_fetch: bool = False) -> End | None:
    """How a container ended; 128 + n when signal n ended it."""
    if ended is None:
        return None
    code = ended.exit_code or (128 + ended.signal if ended.signal else 0)
    return End(code, ended.reason, ended.message, is_fetch)


def _with_mounts(view: ClusterView, job: WorkloadRow, facts: PodFacts) -> PodFacts:
    """Adds what events say of its volumes: they come without the pod being changed."""
    problem = mount_problem(view, job.namespace, facts.name)
    return replace(facts, mount_problem=problem) if problem else facts


def _pod(job: WorkloadRow, pod: objects.PodSeen) -> tuple[IsRescue, PodFacts]:
    is_rescue, key = _key(job, pod)
    main = container_status(pod.status.container_statuses, RESCUE_ROLE if is_rescue else "main")
    fetch = container_status(pod.status.init_container_statuses, "fetch")
    failed_fetch = fetch.state.terminated is not None and fetch.state.terminated.exit_code != 0
    ended = main.state.terminated
    holder = fetch if fetch.state.waiting or failed_fetch else main
    waiting = holder.state.waiting or objects.Waiting()
    placed = next((c for c in pod.status.conditions if c.type == "PodScheduled"), None)
    disrupted = condition(pod.status.conditions, "DisruptionTarget")
    meta = pod.metadata
    facts = PodFacts(
        "Pod",
        meta.name,
        meta.uid,
        meta.deletion_timestamp is not None,
        key=key,
        phase=pod.status.phase or "Pending",
        created_at=meta.creation_timestamp,
        node=pod.spec.node_name,
        gpus=gpus_of(meta.annotations.gpu_indices, "main"),
        unplaced_why=placed.message if placed is not None and placed.status == "False" else "",
        fetch_runs=fetch.state.running is not None,
        is_running=main.state.running is not None,
        waiting_reason=waiting.reason,
        waiting_message=waiting.message,
        waiting_in="fetch" if holder is fetch else "main",
        end=container_end(fetch.state.terminated, is_fetch=True)
        if failed_fetch
        else container_end(ended),
        last_end=container_end(main.last_state.terminated)
        or container_end(fetch.last_state.terminated, is_fetch=True),
        restarts=main.restart_count + fetch.restart_count,
        disruption=_disruption(pod, disrupted) if disrupted is not None else None,
        pod_reason=pod.status.reason,
        pod_message=pod.status.message,
        started_at=_started(main),
        finished_at=ended.finished_at if ended is not None else None,
    )
    return is_rescue, facts


def _started(main: objects.ContainerStatus) -> datetime | None:
    running, ended = main.state.running, main.state.terminated or main.last_state.terminated
    if running is not None:
        return running.started_at
    return ended.started_at if ended is not None else None


def _disruption(pod: objects.PodSeen, condition: objects.Condition) -> Disruption:
    return Disruption(condition.reason, condition.message, pod.status.reason, pod.status.message)


def mount_problem(view: ClusterView, namespace: str, pod: str) -> str:
    """The latest event about a volume of a pod that cannot be mounted."""
    events = view.events_about(namespace, "Pod", pod)
    problems = [event.message for event in events if event.reason in MOUNT_EVENTS]
    return problems[-1] if problems else ""


def gpus_of(annotation: str, container: str) -> str:
    """`{"main": [0, 1]}` as `0,1`; empty when the node does not tell."""
    try:
        by_container = json.loads(annotation) if annotation else {}
    except ValueError:
        return ""
    if not isinstance(by_container, dict):
        return ""
    indices = by_container.get(container)
    if not isinstance(indices, list):
        return ""
    return ",".join(str(index) for index in indices)[:_GPU_MAX]
