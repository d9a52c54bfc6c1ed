"""Turns what the cache holds of a training into the data that planning works on. No I/O."""

from collections.abc import Iterable, Sequence
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
from jobs.kinds.state import (
    LoadedRow,
    Observed,
    PodFacts,
    PodGroup,
    ReplicaKey,
    Root,
    ServerDeployment,
    ServingJob,
    WorkloadRow,
)
from jobs.kinds.training.manifests import RESCUE_ROLE
from jobs.rules.requests import parse_indexes
from portal.cluster import labels, names, objects
from portal.cluster.cache import ClusterCache


def observe(
    cache: ClusterCache,
    loaded: LoadedRow,
    results: CallResults,
    pods: Sequence[PodFacts],
    deleted_pods: Sequence[PodFacts],
) -> Observed:
    """All that is known of a training now."""
    row = loaded.row
    jobs = cache.jobs.of_owner(row.id)
    roots = [seen for seen in jobs if seen.metadata.name == row.root_name]
    serving = {names.role_name(row.kube_name, role) for role in row.counts} - {row.root_name}
    current = {row.root_name, *serving}
    others = [thing("Job", s.metadata) for s in jobs if s.metadata.name not in current]
    others += [thing("ConfigMap", s.metadata) for s in cache.config_maps.of_owner(row.id)]
    groups = tuple(_pod_group(seen) for seen in cache.pod_groups.of_owner(row.id))
    why = next((group.why for group in groups if group.name == row.kube_name), "")
    told = [_with_group(_with_mounts(cache, row, pod), why) for pod in pods]
    return observed(
        cache,
        loaded,
        results,
        _root(row, roots[0]) if roots else None,
        servers=tuple(
            seen_as(
                ServerDeployment,
                "Deployment",
                seen.metadata,
                role=seen.metadata.labels.get(labels.ROLE, ""),
                refused=refusal(seen),
            )
            for seen in cache.deployments.of_owner(row.id)
        ),
        serving_jobs=tuple(
            _serving_job(cache, row, seen) for seen in jobs if seen.metadata.name in serving
        ),
        services=tuple(service(seen) for seen in cache.services.of_owner(row.id)),
        pod_groups=groups,
        others=tuple(others),
        pods=tuple(pod for pod in told if not pod.is_rescue),
        rescues=tuple(pod for pod in told if pod.is_rescue),
        deleted_pods=tuple(pod for pod in deleted_pods if not pod.is_rescue),
        # A quota that says no to a Job's pods shows as an event of the Job only.
        refusal=latest_event(cache, row.namespace, "Job", row.root_name, {"FailedCreate"}),
    )


def _with_mounts(cache: ClusterCache, row: WorkloadRow, pod: PodFacts) -> PodFacts:
    """Adds what events say of its volumes: they come without the pod being changed."""
    problem = mount_problem(cache, row.namespace, pod.name)
    return replace(pod, mount_problem=problem) if problem else pod


def _with_group(pod: PodFacts, why: str) -> PodFacts:
    """Adds why its group has no nodes; empty: it has, or there is none."""
    if not why or pod.node or why in pod.unplaced_why:
        return pod
    return replace(pod, unplaced_why=" ".join(filter(None, (pod.unplaced_why, why))))


def _pod_group(seen: objects.KubePodGroup) -> PodGroup:
    found = [c for c in seen.status.conditions if c.type == "PodGroupInitiallyScheduled"]
    is_placed = any(c.status == "True" for c in found)
    return seen_as(
        PodGroup,
        "PodGroup",
        seen.metadata,
        least=seen.spec.scheduling_policy.gang.min_count,
        is_placed=is_placed,
        why="" if is_placed or not found else found[0].message,
    )


# --- Job ---
def _tasks(row: WorkloadRow, places: Iterable[int]) -> frozenset[int]:
    """The indexes of replicas at these places of the root Job, which counts those that run."""
    tasks = row.tasks
    return frozenset(tasks[n] for n in places if n < len(tasks)) if tasks else frozenset(places)


def _root(row: WorkloadRow, seen: objects.KubeJob) -> Root:
    conditions = seen.status.conditions
    complete = condition(conditions, "Complete") or condition(conditions, "SuccessCriteriaMet")
    failed = condition(conditions, "Failed") or condition(conditions, "FailureTarget")
    return seen_as(
        Root,
        "Job",
        seen.metadata,
        is_suspended=seen.spec.suspend,
        retries_itself=seen.spec.backoff_limit_per_index is None,
        deadline_s=seen.spec.active_deadline_seconds,
        verdict="failed" if failed else "complete" if complete else "",
        fail_reason=failed.reason if failed else "",
        fail_message=failed.message if failed else "",
        completed=_tasks(row, parse_indexes(seen.status.completed_indexes)),
        failed=_tasks(row, parse_indexes(seen.status.failed_indexes)),
        failed_count=seen.status.failed,
    )


def _serving_job(cache: ClusterCache, row: WorkloadRow, seen: objects.KubeJob) -> ServingJob:
    name = seen.metadata.name
    return seen_as(
        ServingJob,
        "Job",
        seen.metadata,
        role=seen.metadata.labels.get(labels.ROLE, ""),
        completed=parse_indexes(seen.status.completed_indexes),
        failed=parse_indexes(seen.status.failed_indexes),
        refused=latest_event(cache, row.namespace, "Job", name, {"FailedCreate"}),
    )


# --- pods ---
def read_pod(row: WorkloadRow, pod: objects.KubePod) -> PodFacts:
    """A pod of a replica, or one that rescues its log."""
    marks = pod.metadata.labels
    is_rescue = marks.role == RESCUE_ROLE
    main = container_status(pod.status.container_statuses, RESCUE_ROLE if is_rescue else "main")
    fetch = container_status(pod.status.init_container_statuses, "fetch")
    failed_fetch = fetch.state.terminated is not None and fetch.state.terminated.exit_code != 0
    ended = main.state.terminated
    at_end = fetch.state.terminated if failed_fetch else ended
    holder = fetch if fetch.state.waiting or failed_fetch else main
    waiting = holder.state.waiting or objects.ContainerStateWaiting()
    return pod_facts(
        pod,
        _key(row, marks),
        "main",
        is_rescue=is_rescue,
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
        pod_reason=pod.status.reason,
        started_at=_started(main),
        finished_at=at_end.finished_at if at_end is not None else None,
    )


def _key(row: WorkloadRow, marks: objects.PodLabels) -> ReplicaKey:
    """The replica that it is, or rescues."""
    index = number(marks.index or marks.completion_index)
    if row.tasks and not marks.index:
        index = row.tasks[min(index, len(row.tasks) - 1)]
    if marks.role == RESCUE_ROLE:
        attempt = number(marks.rescued_attempt, row.attempt)
        return ReplicaKey(marks.rescued_role, index, attempt)
    return ReplicaKey(marks.role, index, number(marks.attempt, row.attempt))


def _started(main: objects.ContainerStatus) -> datetime | None:
    running, ended = main.state.running, main.state.terminated or main.last_state.terminated
    if running is not None:
        return running.started_at
    return ended.started_at if ended is not None else None
