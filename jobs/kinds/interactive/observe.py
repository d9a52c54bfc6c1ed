"""Turns what the cache holds of what is served behind a gate into the data of planning. No I/O."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from jobs.kinds.observe import (
    CallResults,
    condition,
    container_end,
    container_status,
    latest_event,
    mount_problem,
    number,
    observed,
    pod_facts,
    refusal,
    seen_as,
    service,
    thing,
)
from jobs.kinds.state import LoadedRow, ObjectRef, Observed, PodFacts, ReplicaKey, Root, WorkloadRow
from jobs.rules.endings import ContainerExit
from portal.cluster import objects
from portal.cluster.cache import ClusterCache

_PULL_EVENTS = frozenset({"Pulling", "Pulled", "Failed", "BackOff", "ErrImageNeverPull"})
# A container whose turn has not come, or that is just being created: that is no trouble to tell of.
_NOT_YET = frozenset({"", "PodInitializing", "ContainerCreating"})
_NO_ATTEMPT = -1  # of a pod whose label tells none


def observe(
    cache: ClusterCache,
    loaded: LoadedRow,
    results: CallResults,
    pods: Sequence[PodFacts],
    deleted_pods: Sequence[PodFacts],
) -> Observed:
    """All that is known of it now."""
    row = loaded.row
    deployments = cache.deployments.of_owner(row.id)
    services = cache.services.of_owner(row.id)
    roots = [seen for seen in deployments if seen.metadata.name == row.root_name]
    others: list[ObjectRef] = [
        thing(kind, seen.metadata)
        for kind, found in (("Deployment", deployments), ("Service", services))
        for seen in found
        if seen.metadata.name != row.kube_name
    ]
    others += [
        ObjectRef("Pod", pod.name, pod.uid, pod.is_terminating)
        for pod in pods
        if not _is_of(pod, row)
    ]
    ours = [_with_events(cache, row, pod) for pod in pods if _is_of(pod, row)]
    return observed(
        cache,
        loaded,
        results,
        _root(roots[0]) if roots else None,
        services=tuple(service(s) for s in services if s.metadata.name == row.kube_name),
        others=tuple(others),
        pods=tuple(sorted(ours, key=PodFacts.age)),
        deleted_pods=tuple(pod for pod in deleted_pods if _is_of(pod, row)),
    )


def _is_of(pod: PodFacts, row: WorkloadRow) -> bool:
    """Whether it is a pod of the current attempt."""
    return pod.key.attempt == row.attempt


def _root(seen: objects.KubeDeployment) -> Root:
    more = {"replicas": seen.spec.replicas, "refused": refusal(seen)}
    return seen_as(Root, "Deployment", seen.metadata, **more)


def read_pod(row: WorkloadRow, pod: objects.KubePod) -> PodFacts:
    """A pod with its containers `prepare`, `gate` and `app`, without what events say of it."""
    status, marks = pod.status, pod.metadata.labels
    prepare = container_status(status.init_container_statuses, "prepare")
    gate = container_status(status.init_container_statuses, "gate")
    app = container_status(status.container_statuses, "app")
    running = app.state.running
    waiting_in, waiting = _waiting(prepare, gate, app)
    placed, ready = (
        condition(status.conditions, "PodScheduled"),
        condition(status.conditions, "Ready"),
    )
    return pod_facts(
        pod,
        ReplicaKey(marks.role, 0, number(marks.attempt, _NO_ATTEMPT)),
        "app",
        scheduled_at=placed.last_transition_time if placed is not None else None,
        prepared_from=_first_started(prepare, gate, app),
        pull_progress=pod.metadata.annotations.pull_progress,
        waiting_in=waiting_in,
        waiting_reason=waiting.reason,
        waiting_message=waiting.message,
        prepare_end=_failure(prepare),
        gate_end=_failure(gate),
        is_running=running is not None,
        started_at=running.started_at if running is not None else None,
        end=container_end(app.state.terminated),
        last_end=container_end(app.last_state.terminated),
        restarts=app.restart_count,
        is_ready=ready is not None,
        ready_at=ready.last_transition_time if ready is not None else None,
    )


def _waiting(
    prepare: objects.ContainerStatus, gate: objects.ContainerStatus, app: objects.ContainerStatus
) -> tuple[str, objects.ContainerStateWaiting]:
    """Which container says why things do not go on, the first in their order, and what it says."""
    named: tuple[tuple[str, objects.ContainerStatus], ...] = (
        ("prepare", prepare),
        ("gate", gate),
        ("app", app),
    )
    for name, status in named:
        waiting = status.state.waiting
        if waiting is not None and waiting.reason not in _NOT_YET:
            return name, waiting
    return "", objects.ContainerStateWaiting()


def _failure(status: objects.ContainerStatus) -> ContainerExit | None:
    """How a container of ours failed, now or the time before; None when it has not."""
    ended = container_end(status.state.terminated) or (
        container_end(status.last_state.terminated) if status.state.running is None else None
    )
    return ended if ended is not None and ended.exit_code != 0 else None


def _first_started(*statuses: objects.ContainerStatus) -> datetime | None:
    """When the first container of the pod was started: its volumes were mounted by then."""
    for status in statuses:
        for state in (status.last_state, status.state):
            began = state.terminated or state.running
            if began is not None and began.started_at is not None:
                return began.started_at
    return None


# --- events ---
def _with_events(cache: ClusterCache, row: WorkloadRow, pod: PodFacts) -> PodFacts:
    """Adds what events say of its volumes, image and probes: they come without the pod being changed."""
    pull, pulled_at = _pull(cache, row, pod)
    return replace(
        pod,
        mount_problem=mount_problem(cache, row.namespace, pod.name),
        pull=pull,
        pulled_at=pulled_at,
        probe_problem=latest_event(cache, row.namespace, "Pod", pod.name, {"Unhealthy"}),
    )


def _pull(cache: ClusterCache, row: WorkloadRow, pod: PodFacts) -> tuple[str, datetime | None]:
    """The latest words about the app's image, and when it was there."""
    events = [
        event
        for event in cache.events_about(row.namespace, "Pod", pod.name)
        if event.reason in _PULL_EVENTS and f'"{row.image}"' in event.message
    ]
    if not events:
        return "", None
    latest = events[-1]
    pulled = [event.at for event in events if event.reason == "Pulled"]
    if latest.reason == "Pulling" and pod.pull_progress:
        return f"{latest.message}: {pod.pull_progress}", None
    return latest.message, pulled[-1] if pulled else None
