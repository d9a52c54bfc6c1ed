"""The ways out of a job's life: stop, what follows an outcome, taking down, deleting. Pure."""

from jobs.reconciler import rescue
from jobs.reconciler.draft import Draft
from jobs.reconciler.record import (
    Erase,
    JobRow,
    PodFacts,
    SetSuspended,
    Sweep,
    Thing,
    Verify,
)
from jobs.reconciler.replicas import is_server
from jobs.rules import reasons
from jobs.rules.reasons import Reason
from jobs.rules.states import JobState
from jobs.rules.topologies import SuccessPolicy, get_topology, success_policy

RECYCLE_S = 30  # servers outlive the deciding replicas by so long
# Pods have a grace of 120 s; what has not confirmed its end by then is on a node that is lost.
CONFIRM_S = 180


# --- stop ---
def wants_stop(job: JobRow) -> bool:
    """Whether a person, or the tenant's suspension, ends what runs."""
    return job.desired == "stop" or bool(job.tenant_closed)


def stop_reason(job: JobRow) -> Reason:
    """Who ended it, in words."""
    if job.desired == "stop":
        return reasons.stopped(by=job.stopped_by, why=job.stop_reason)
    code = "tenant_deleting" if job.tenant_closed == "deleting" else "tenant_suspended"
    return reasons.make(code)


def begin_stop(draft: Draft) -> None:
    """A running job ends with grace; one that was never set going is taken down at once."""
    why = stop_reason(draft.job)
    if draft.memo.committed_at is None:
        begin_leaving(draft, "stop", why)
        draft.turn(JobState.STOPPING, why)
        draft.due(draft.now)
        return
    draft.note(stopping_at=draft.now)
    draft.turn(JobState.STOPPING, why)
    stop(draft)


def stop(draft: Draft) -> None:
    """stopping: the root is suspended, so each pod gets SIGTERM; servers go when workers are gone.

    https://kubernetes.io/docs/concepts/workloads/controllers/job/#suspending-a-job
    """
    if draft.memo.stopping_at is None:
        draft.note(stopping_at=draft.now)
    is_late = draft.is_past(draft.memo.stopping_at, CONFIRM_S)
    end_workers(draft)
    if active_workers(draft) and not is_late:
        return
    recycle(draft)
    waiting = active_pods(draft)
    if waiting and not is_late:
        return
    why = stop_reason(draft.job) if wants_stop(draft.job) else draft.job.reason
    if waiting:
        who = ", ".join(sorted({pod.key.who for pod in waiting}))
        why = reasons.make("stop_unconfirmed", who=who)
    conclude_stop(draft, why)


def conclude_stop(draft: Draft, why: Reason) -> None:
    """Everything has ended: the job is stopped, and what follows an outcome begins."""
    draft.set(finished_at=draft.now)
    if draft.job.deciders_ended_at is None:
        draft.set(deciders_ended_at=draft.now)
    draft.turn(JobState.STOPPED, why)
    settle(draft)


# --- pods ---
def active_pods(draft: Draft) -> list[PodFacts]:
    """Pods of replicas that have not ended."""
    return [pod for pod in draft.seen.pods if not pod.has_ended]


def active_workers(draft: Draft) -> list[PodFacts]:
    role = get_topology(draft.job.topology).deciding.name
    return [pod for pod in active_pods(draft) if pod.key.role == role]


def end_workers(draft: Draft) -> None:
    """Ends deciding replicas that still run, with their grace."""
    root = draft.seen.root
    if root is None or root.uid != draft.job.root_uid or root.is_terminating:
        return
    if not root.is_suspended and root.verdict != "complete" and not _has_failed_alone(draft):
        draft.call(SetSuspended(root.name, root.uid, value=True))


def _has_failed_alone(draft: Draft) -> bool:
    """The controller ends the others by itself once its verdict is "failed"."""
    return draft.seen.root is not None and draft.seen.root.verdict == "failed"


# --- after the outcome ---
def settle(draft: Draft) -> None:
    """What follows an outcome, in order: workers, servers, archive, objects."""
    if draft.job.cleaned_at is not None:
        draft.is_settled = True
        return
    if _is_untouched(draft):
        _clean(draft)
        return
    if not _workers_ended(draft):
        return
    if _keeps_servers(draft):
        draft.is_settled = rescue.archive_ended(draft)
        return
    if not _servers_ended(draft):
        return
    if not rescue.archive(draft):
        return
    if not _may_remove(draft):
        draft.is_settled = True
        return
    if vacate(draft):
        _clean(draft)


def _is_untouched(draft: Draft) -> bool:
    """Nothing of it was ever asked of the cluster."""
    return not draft.job.has_plan and not draft.job.root_uid and not things(draft)


def _clean(draft: Draft) -> None:
    draft.set(cleaned_at=draft.now)
    draft.is_settled = True


def _workers_ended(draft: Draft) -> bool:
    """Ends workers that the outcome left running; gives up on those whose node is lost."""
    if not active_workers(draft):
        return True
    ended_at = draft.job.deciders_ended_at
    grace_is_over = draft.is_past(ended_at, RECYCLE_S)
    # With `worker0` the others get the grace that the servers get.
    if draft.job.state is not JobState.SUCCEEDED or (_is_worker0(draft) and grace_is_over):
        end_workers(draft)
    if grace_is_over and not _keeps_servers(draft):
        recycle(draft)
    return draft.is_past(ended_at, RECYCLE_S + CONFIRM_S)


def _is_worker0(draft: Draft) -> bool:
    job = draft.job
    return success_policy(get_topology(job.topology), job.success_policy) is SuccessPolicy.WORKER0


def _keeps_servers(draft: Draft) -> bool:
    """The person asked that nothing be removed before its time to live is over."""
    job = draft.job
    if job.clean_policy != "none" or job.state is JobState.STOPPED:
        return False
    return not draft.is_past(job.finished_at, job.ttl_s)


def _servers_ended(draft: Draft) -> bool:
    """Recycles servers and Service when their time has come; True when no server runs."""
    ended_at = draft.job.deciders_ended_at
    has_grace = draft.job.state is JobState.SUCCEEDED and get_topology(draft.job.topology).serving
    if has_grace and not draft.is_past(ended_at, RECYCLE_S):
        return False
    recycle(draft)
    if draft.seen.servers:
        return False
    return not active_pods(draft) or draft.is_past(ended_at, RECYCLE_S + CONFIRM_S)


def recycle(draft: Draft) -> None:
    """Deletes servers and Services; what the servers leave is archived from then on."""
    if any(not server.is_terminating for server in draft.seen.servers):
        draft.note(pods_ended_at=None, rescue_at=None)
    draft.delete(*draft.seen.servers, *draft.seen.services)


def _may_remove(draft: Draft) -> bool:
    job = draft.job
    if draft.memo.committed_at is None:
        return True  # half made, and nothing of it ever ran: there is nothing to look at
    return job.clean_policy == "all" or draft.is_past(job.finished_at, job.ttl_s)


# --- taking down ---
def begin_leaving(draft: Draft, goal: str, why: Reason) -> None:
    """From now on everything is taken down; `goal` is "queue", "retry" or "stop"."""
    draft.note(
        leaving=goal,
        leaving_at=draft.now,
        leaving_why=(why.code, why.text, why.next_step),
    )


def attempt_seconds(draft: Draft) -> int:
    """How long this attempt has been going."""
    since = draft.memo.committed_at
    return 0 if since is None else max(0, int((draft.now - since).total_seconds()))


def things(draft: Draft) -> list[Thing]:
    """Every object of the job that a watch shows."""
    seen = draft.seen
    roots: list[Thing] = [seen.root] if seen.root is not None else []
    return [*roots, *seen.servers, *seen.services, *seen.others, *seen.pods, *seen.rescues]


def vacate(draft: Draft) -> bool:
    """Deletes everything; True when nothing is left, or only what a lost node has to confirm.

    The root goes first, and the cluster removes what it owns. What is still there long after the
    root is known to be gone is deleted one by one, and what no watch shows is swept.
    """
    seen = draft.seen
    if draft.memo.leaving_at is None:
        draft.note(leaving_at=draft.now)
    if seen.namespace == "gone" and seen.is_current:
        return True
    roots = [t for t in things(draft) if t.kind == "Job"]
    if roots:
        draft.delete(*roots, *seen.rescues)
        return False
    may_exist = draft.job.has_plan or draft.job.root_uid
    if may_exist and not seen.is_root_absent:
        draft.call(Verify(draft.job.root_name))
        return False
    left = things(draft)
    draft.delete_left(left, lambda thing: is_server(draft, thing))
    if not draft.memo.swept and may_exist:
        draft.call(Sweep())
        return False
    if not left:
        return True
    all_marked = all(thing.is_terminating for thing in left)
    return draft.is_past(draft.memo.leaving_at, CONFIRM_S) and all_marked


# --- delete ---
def erase(draft: Draft) -> None:
    """Deleted in any state: objects in the cluster, then the object store, then the row.

    The job's folder on the log volume is the user's own and stays.
    """
    if draft.job.cleaned_at is None and not _is_untouched(draft) and not vacate(draft):
        return
    if not draft.memo.erased:
        draft.call(Erase())
        return
    draft.delete_row()
