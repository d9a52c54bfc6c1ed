"""The part of a training's life that ends its pods, and removes what is left of it after its end. Pure."""

from jobs.kinds.plan import PatchRoot
from jobs.kinds.state import PodFacts, Serving
from jobs.kinds.training import decision, rescue
from jobs.kinds.training.archiving import ArchivedLifecycle
from jobs.rules.states import WorkloadState
from jobs.rules.topologies import Role, SuccessPolicy

RECYCLE_S = 30  # servers outlive the deciding replicas by so long


class RecycledLifecycle(ArchivedLifecycle):
    """The life of what has replicas that decide its end, and others that serve these."""

    def active_pods(self) -> list[PodFacts]:
        return [pod for pod in self.observed.pods if not pod.has_ended]

    def active_workers(self) -> list[PodFacts]:
        role = self.topology.deciding(self.row.counts).name
        return [pod for pod in self.active_pods() if pod.key.role == role]

    def end_workers(self) -> None:
        """Ends deciding replicas that still run, with their grace."""
        root = self.observed.root
        if root is None or root.uid != self.row.root_uid or root.is_terminating:
            return
        # Once it has decided, the controller ends the others by itself.
        if not root.is_suspended and not root.verdict:
            self.call(PatchRoot(root.name, root.uid, {"suspend": True}))

    def finish(self) -> bool:
        """In this order: workers, servers, archive, and the time for which a person keeps objects."""
        if not self._finish_workers():
            return False
        if self._keep_servers():
            running = {pod.key for pod in self.active_pods()}
            keys = rescue.with_archive(self.situation)
            self.is_settled = self.complete_archive([key for key in keys if key not in running])
            return False
        if not self._finish_servers() or not self.archive():
            return False
        # Of what is half made nothing ever ran: there is nothing to look at.
        may_go = self.notes.committed_at is None or self.run_policy.clean_policy == "all"
        if not may_go and not self.wait(self.row.finished_at, self.run_policy.ttl_s):
            self.is_settled = True
            return False
        return True

    def _finish_workers(self) -> bool:
        """Ends workers that the outcome left running; gives up on those whose node is lost."""
        if not self.active_workers():
            return True
        ended_at = self.row.deciders_ended_at
        is_grace_over = self.wait(ended_at, RECYCLE_S)
        is_worker0 = decision.policy_of(self.situation) is SuccessPolicy.WORKER0
        # With `worker0` the others get the grace that the servers get.
        if self.row.state is not WorkloadState.SUCCEEDED or (is_worker0 and is_grace_over):
            self.end_workers()
        if is_grace_over and not self._keep_servers():
            self.recycle()
        return self.wait(ended_at, RECYCLE_S + self.confirm_s)

    def _keep_servers(self) -> bool:
        """The person asked that nothing be removed before its time to live is over."""
        if self.run_policy.clean_policy != "none" or self.row.state is WorkloadState.STOPPED:
            return False
        return not self.wait(self.row.finished_at, self.run_policy.ttl_s)

    def _finish_servers(self) -> bool:
        """Recycles what serves, and the Service, when its time has come; True when nothing runs."""
        self.recycle()
        if self._staying() or self.observed.servers or self.observed.serving_jobs:
            return False
        last_s = max((role.outlives_s for role in self._serving), default=RECYCLE_S)
        ended_at = self.row.deciders_ended_at
        return not self.active_pods() or self.wait(ended_at, last_s + self.confirm_s)

    @property
    def _serving(self) -> tuple[Role, ...]:
        return self.topology.serving(self.row.counts)

    def _staying(self) -> list[Role]:
        """Serving roles whose time after a success is not over, and which use it."""
        if self.row.state is not WorkloadState.SUCCEEDED:
            return []
        jobs = {job.role: job for job in self.observed.serving_jobs}
        ended = {
            role
            for role, job in jobs.items()
            if len(job.completed | job.failed) >= self.row.counts[role]
        }
        # Once nothing of it is left there is nothing to wait for.
        ended |= {role.name for role in self._serving if role.is_apart} - set(jobs)
        ended_at = self.row.deciders_ended_at
        return [
            role
            for role in self._serving
            if role.name not in ended and not self.wait(ended_at, role.outlives_s)
        ]

    def recycle(self) -> None:
        """Deletes what serves and has no time left, and Services; what it leaves is archived then."""
        staying = self._staying()
        names = {role.name for role in staying}
        seen = self.observed
        serving: tuple[Serving, ...] = (*seen.servers, *seen.serving_jobs)
        going = [one for one in serving if one.role not in names]
        if any(not one.is_terminating for one in going):
            self.note(pods_ended_at=None, rescue_at=None)
        needs_names = any(not role.is_apart for role in staying)
        self.delete(*going, *(() if needs_names else seen.services))
