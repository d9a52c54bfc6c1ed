"""What kinds share in turning what the cache holds of a workload into the data that planning works on.

Runs on the event loop, between two events of the cache, so that one look is one moment. No I/O.
"""

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from jobs.kinds.state import (
    GateService,
    LoadedRow,
    ObjectRef,
    Observed,
    PodFacts,
    ReplicaKey,
    Root,
    WorkloadRow,
)
from jobs.rules import reasons
from jobs.rules.endings import ContainerExit, Disruption
from jobs.rules.reasons import Reason
from jobs.rules.waits import MOUNT_EVENTS
from portal.cluster import objects
from portal.cluster.cache import ClusterCache

_GPU_MAX = 100  # characters of Replica.gpus

R = TypeVar("R", bound=ObjectRef)
ReadPod = Callable[[WorkloadRow, objects.KubePod], PodFacts]


@dataclass(frozen=True)
class CallResults:
    """What our own calls found out about a workload; nothing of it outlives the process.

    Attributes:
        absent_root: name of a root that a fresh read did not find, else empty.
        made_root, is_swept, is_erased: see `Observed`.
        blocked: why its objects can never be created.
        trouble: why they cannot be created now.
    """

    absent_root: str = ""
    made_root: str = ""
    is_swept: bool = False
    is_erased: bool = False
    blocked: Reason = reasons.NONE
    trouble: Reason = reasons.NONE


class PodReader:
    """What was read of pods, kept as long as they stay as they are: of many, few change at a time."""

    def __init__(self) -> None:
        # workload's id -> pod's uid -> what was read, and of what
        self._kept: dict[str, dict[str, tuple[objects.KubePod, int, PodFacts]]] = {}

    def read(self, cache: ClusterCache, row: WorkloadRow, read_pod: ReadPod) -> list[PodFacts]:
        """The pods that a workload has now, without what events say of them."""
        before = self._kept.pop(row.id, {})
        kept = {}
        for pod in cache.pods.of_owner(row.id):
            uid = pod.metadata.uid
            known = before.get(uid)
            # Each change of an object is a new struct.
            if known is None or known[0] is not pod or known[1] != row.attempt:
                known = (pod, row.attempt, read_pod(row, pod))
            kept[uid] = known
        if kept:
            self._kept[row.id] = kept
        return [known[2] for known in kept.values()]

    def forget(self, workload_id: str) -> None:
        """The workload is gone, though pods of it may be there."""
        self._kept.pop(workload_id, None)


# --- all of it ---
def observed(
    cache: ClusterCache, loaded: LoadedRow, results: CallResults, root: Root | None, **more: Any
) -> Observed:
    """What is known of every kind's workload, and what `more` there is to know of this kind's."""
    row = loaded.row
    return Observed(
        is_current=cache.synced and not cache.problem,
        namespace=_namespace_state(cache, row.namespace),
        root=root,
        is_root_absent=results.absent_root == row.root_name and root is None,
        made_root=results.made_root,
        is_swept=results.is_swept,
        is_erased=results.is_erased,
        blocked=results.blocked,
        trouble=results.trouble,
        replicas=loaded.replicas,
        archives=loaded.archives,
        attempt=loaded.attempt,
        **more,
    )


def _namespace_state(cache: ClusterCache, name: str) -> Literal["active", "terminating", "gone"]:
    """Whether things can be made in it."""
    seen = cache.namespaces.get("", name)
    if seen is None:
        return "gone"
    is_going = seen.status.phase == "Terminating" or seen.metadata.deletion_timestamp is not None
    return "terminating" if is_going else "active"


# --- parts of objects ---
def thing(kind: str, meta: objects.ObjectMeta) -> ObjectRef:
    """Enough of an object to delete exactly it."""
    return seen_as(ObjectRef, kind, meta)


def seen_as(sort: type[R], kind: str, meta: objects.ObjectMeta, **more: Any) -> R:
    """The same as one of a sort of which there is `more` to know."""
    return sort(kind, meta.name, meta.uid, meta.deletion_timestamp is not None, **more)


def service(seen: objects.KubeService) -> GateService:
    """A Service, with the port that the cluster picked for its gate."""
    ports = [port.node_port for port in seen.spec.ports if port.name == "gate" and port.node_port]
    return seen_as(GateService, "Service", seen.metadata, node_port=ports[0] if ports else None)


def refusal(deployment: objects.KubeDeployment) -> str:
    """Why its pod cannot be made; empty when it can."""
    refused = condition(deployment.status.conditions, "ReplicaFailure")
    return refused.message if refused else ""


def condition(conditions: Sequence[objects.Condition], kind: str) -> objects.Condition | None:
    """The condition of this type when it is true."""
    return next((c for c in conditions if c.type == kind and c.status == "True"), None)


def container_status(
    statuses: Sequence[objects.ContainerStatus], name: str
) -> objects.ContainerStatus:
    """The container of this name; an empty one while the node has said nothing of it."""
    return next((s for s in statuses if s.name == name), objects.ContainerStatus())


def container_end(
    ended: objects.ContainerStateTerminated | None, *, is_fetch: bool = False
) -> ContainerExit | None:
    """How a container ended; 128 + n when signal n ended it."""
    if ended is None:
        return None
    code = ended.exit_code or (128 + ended.signal if ended.signal else 0)
    return ContainerExit(code, ended.reason, ended.message, is_fetch)


def latest_event(
    cache: ClusterCache, namespace: str, kind: str, name: str, wanted: Collection[str]
) -> str:
    """What the latest event about an object says that has one of these reasons; empty: there is none."""
    events = cache.events_about(namespace, kind, name)
    found = [event.message for event in events if event.reason in wanted]
    return found[-1] if found else ""


def mount_problem(cache: ClusterCache, namespace: str, pod: str) -> str:
    """Why a volume of a pod cannot be mounted."""
    return latest_event(cache, namespace, "Pod", pod, MOUNT_EVENTS)


def pod_facts(pod: objects.KubePod, key: ReplicaKey, container: str, **more: Any) -> PodFacts:
    """What is read of every pod, and what `more` its kind reads of it.

    Args:
        key: which replica it is.
        container: name of the one that its program runs in.
    """
    status, meta = pod.status, pod.metadata
    placed = next((c for c in status.conditions if c.type == "PodScheduled"), None)
    return seen_as(
        PodFacts,
        "Pod",
        meta,
        key=key,
        phase=status.phase or "Pending",
        created_at=meta.creation_timestamp,
        node=pod.spec.node_name,
        gpus=gpus_of(meta.annotations.gpu_indices, container),
        address=status.pod_ip,
        unplaced_why=placed.message if placed is not None and placed.status != "True" else "",
        disruption=_disruption(pod),
        pod_message=status.message,
        **more,
    )


def gpu_indices(annotation: str) -> dict[str, list[Any]]:
    """`{"main": [0, 1]}` by container; empty when the node does not tell."""
    try:
        told = json.loads(annotation) if annotation else {}
    except ValueError:
        return {}
    by_container = told if isinstance(told, dict) else {}
    return {name: found for name, found in by_container.items() if isinstance(found, list)}


def gpus_of(annotation: str, container: str) -> str:
    """The indices of one container as `0,1`."""
    return ",".join(map(str, gpu_indices(annotation).get(container, ())))[:_GPU_MAX]


def _disruption(pod: objects.KubePod) -> Disruption | None:
    """Why the cluster took a pod away; None when it did not."""
    found = condition(pod.status.conditions, "DisruptionTarget")
    if found is None:
        return None
    return Disruption(found.reason, found.message, pod.status.reason, pod.status.message)


def number(text: str, default: int = 0) -> int:
    """Of a label; what is no number is the default."""
    return int(text) if text.isascii() and text.isdigit() else default
