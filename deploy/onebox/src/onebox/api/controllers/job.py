"""The Job controller (batch/v1): does what `job_plan` decides and writes what `job_status` says.

Besides it, `JobFinalizers` takes the tracking finalizer off pods whose Job is gone or finished,
so that no pod is kept by a count that nobody makes any more.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from onebox.api.controllers import job_status
from onebox.api.controllers.creationhold import CreationHolds
from onebox.api.controllers.job_backoff import Backoff, after
from onebox.api.controllers.job_facts import TRACKING, Facts, is_failed, is_tracked, look
from onebox.api.controllers.job_plan import (
    COMPLETED,
    PodPlan,
    Verdict,
    is_complete,
    plan_pods,
)
from onebox.api.controllers.job_pods import render_pod
from onebox.api.controllers.matching import meets_selector
from onebox.api.controllers.objects import (
    Key,
    find_controller,
    is_controlled_by,
    is_deleting,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    spec_of,
    uid_of,
)
from onebox.api.controllers.ownership import Claim, claim_owned, remove_finalizer
from onebox.api.controllers.podstate import is_active, is_ready, is_terminating, phase_of
from onebox.api.controllers.podwriter import PodWriter
from onebox.api.controllers.runtime import Controller
from onebox.api.resources import Obj
from onebox.api.store import clone

if TYPE_CHECKING:
    from onebox.api.registry import Api

log = logging.getLogger(__name__)

COMPONENT = "job-controller"
MANAGER = "kubernetes.io/job-controller"


class JobController(Controller):
    """Runs Jobs to completion."""

    name = COMPONENT
    kinds = ("jobs", "pods", "resourcequotas")

    def __init__(self, api: Api) -> None:
        super().__init__(api)
        self._writer = PodWriter(api, COMPONENT)
        self._backoffs: dict[str, Backoff] = {}  # by uid of the Job
        self._holds = CreationHolds()

    def keys(self, event: str, plural: str, obj: Obj) -> Iterable[Key]:
        """A Job wakes itself, a pod its Job, a quota the Jobs that it may hold up."""
        if plural == "jobs":
            if event == "DELETED":
                self._backoffs.pop(uid_of(obj), None)
                self._holds.forget(key_of(obj))
            return (key_of(obj),)
        if plural == "resourcequotas":
            return self._holds.relieve(event, obj)
        ref = find_controller(obj)
        if ref is not None:
            return ((namespace_of(obj), str(ref["name"])),) if ref.get("kind") == "Job" else ()
        return [
            key_of(job)
            for job in self.api.list("jobs", namespace_of(obj))
            if meets_selector(spec_of(job).get("selector"), labels_of(obj))
        ]

    def sync(self, key: Key) -> float | None:
        """Bring one Job and its pods a step further."""
        namespace, name = key
        job = self.api.find("jobs", namespace, name)
        if job is None or spec_of(job).get("managedBy") not in (None, MANAGER):
            return None
        if job_status.is_finished(job):
            self._backoffs.pop(uid_of(job), None)
            return None
        pods = claim_owned(self.api, Claim(job, "pods", TRACKING))
        facts = look(job, pods, self.api.clock(), self._backoff(job, pods))
        plan = plan_pods(facts)
        hold_s = self._apply(key, facts, plan)
        self._track(facts, plan)
        waits = [wait_s for wait_s in (hold_s, plan.wake_after_s) if wait_s is not None]
        return min(waits, default=None)

    def _backoff(self, job: Obj, pods: list[Obj]) -> Backoff:
        """The back-off before newly finished pods; after a restart, from what the pods tell."""
        uid = uid_of(job)
        if uid not in self._backoffs:
            counted = [pod for pod in pods if not is_tracked(pod)]
            self._backoffs[uid] = after(
                Backoff(),
                [pod for pod in counted if phase_of(pod) == "Succeeded"],
                [pod for pod in counted if phase_of(pod) == "Failed"],
            )
        return self._backoffs[uid]

    def _apply(self, key: Key, facts: Facts, plan: PodPlan) -> float | None:
        """Remove and create pods; returns the seconds to wait if the API refuses one."""
        for pod in plan.drop:
            # First the finalizer: a pod without it is never counted, and if we die here the
            # next sync knows it as condemned.
            remove_finalizer(self.api, "pods", pod, TRACKING)
            self._writer.delete(facts.job, pod)
        hold = self._holds.find(key, facts.now)
        if hold is not None:
            return hold.left_s(facts.now) if plan.create else None
        for new in plan.create:
            refusal = self._writer.create(facts.job, render_pod(facts.job, new))
            if refusal is not None:  # the others would fare no better
                return self._holds.refused(key, refusal, facts.now).left_s(facts.now)
        self._holds.forget(key)
        return None

    def _track(self, facts: Facts, plan: PodPlan) -> None:
        """Note what has ended, end what has to, let go of what is noted, count it.

        The verdict and what it counts are written before the first pod is deleted: a kill in
        between changes neither.
        """
        tally = self._tally(facts.job, ended=len(plan.end))
        verdict = plan.verdict
        if verdict is None and is_complete(facts, tally.active):
            verdict = COMPLETED
        may_suspend = verdict is None and not is_deleting(facts.job)
        status, suspension = job_status.begin(facts, may_suspend=may_suspend)
        job_status.put_tally(status, tally)
        # What an earlier sync noted and released, but was killed before it could count.
        job_status.settle(status, {uid_of(pod) for pod in facts.pods if is_tracked(pod)})
        release = job_status.note(status, facts, verdict)
        self._put(facts.job, status)
        self._backoffs[uid_of(facts.job)] = self._settled_backoff(facts, release)
        if suspension:
            text = f"Job {suspension.lower()}"
            self.api.event(facts.job, "Normal", suspension, text, COMPONENT)
        for pod in plan.end:
            self._writer.delete(facts.job, pod)
        for pod in release:
            remove_finalizer(self.api, "pods", pod, TRACKING)
        self._count(facts, status, verdict)

    def _settled_backoff(self, facts: Facts, release: Iterable[Obj]) -> Backoff:
        # A failed pod that keeps its finalizer is still "new" next time: it must not be added to
        # the back-off twice.
        pods = list(release)
        return after(
            self._backoffs.get(uid_of(facts.job), Backoff()),
            [pod for pod in pods if phase_of(pod) == "Succeeded"],
            [pod for pod in pods if is_failed(pod, facts.spec)],
        )

    def _count(self, facts: Facts, status: Obj, verdict: Verdict | None) -> None:
        job = facts.job
        owned = self._owned(job)
        job_status.settle(status, {uid_of(pod) for pod in owned if is_tracked(pod)})
        tally = self._tally(job)
        job_status.put_tally(status, tally)
        closed = verdict is not None and job_status.close(status, verdict, tally, facts.now)
        self._put(job, status)
        if not closed or verdict is None:
            return
        if verdict.final == "Complete":
            self.api.event(job, "Normal", "Completed", "Job completed", COMPONENT)
        else:
            self.api.event(job, "Warning", verdict.reason, verdict.message, COMPONENT)

    def _owned(self, job: Obj) -> list[Obj]:
        return [
            pod for pod in self.api.list("pods", namespace_of(job)) if is_controlled_by(pod, job)
        ]

    def _tally(self, job: Obj, *, ended: int = 0) -> job_status.Tally:
        """Count the pods; `ended` of them, which is all, are about to be deleted."""
        owned = self._owned(job)
        active = [] if ended else [pod for pod in owned if is_active(pod)]
        return job_status.Tally(
            active=len(active),
            ready=sum(1 for pod in active if is_ready(pod)),
            terminating=sum(1 for pod in owned if is_terminating(pod)) + ended,
        )

    def _put(self, job: Obj, status: Obj) -> None:
        current = clone(self.api.get("jobs", namespace_of(job), name_of(job)))
        current["status"] = clone(status)
        self.api.update("jobs", namespace_of(job), name_of(job), current, subresource="status")


class JobFinalizers(Controller):
    """Takes the tracking finalizer off pods that no unfinished Job counts any more."""

    name = "job-finalizers"
    kinds = ("jobs", "pods")

    def keys(self, event: str, plural: str, obj: Obj) -> Iterable[Key]:
        """A tracked pod wakes itself; a Job that ended or went wakes its tracked pods."""
        if plural == "pods":
            return (key_of(obj),) if event != "DELETED" and is_tracked(obj) else ()
        if event != "DELETED" and not job_status.is_finished(obj):
            return ()
        return [
            key_of(pod)
            for pod in self.api.list("pods", namespace_of(obj))
            if is_tracked(pod) and is_controlled_by(pod, obj)
        ]

    def sync(self, key: Key) -> float | None:
        """Release one pod unless an unfinished Job owns it."""
        pod = self.api.find("pods", *key)
        if pod is None or not is_tracked(pod):
            return None
        ref = find_controller(pod)
        if ref is not None and ref.get("kind") != "Job":
            return None
        job = self.api.find("jobs", key[0], str(ref["name"])) if ref else None
        if job is not None and ref is not None and uid_of(job) == ref.get("uid"):
            foreign = spec_of(job).get("managedBy") not in (None, MANAGER)
            if foreign or not job_status.is_finished(job):
                return None
        remove_finalizer(self.api, "pods", pod, TRACKING)
        return None
