"""One workload on plain data: its rows, and its objects in a cluster that does what plans tell it.

Just enough of the controllers for planning: of Jobs, Deployments and garbage, and of how pods live.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from jobs.kinds import plan as planned
from jobs.kinds import state
from jobs.kinds.registry import KINDS
from jobs.rules import reasons
from jobs.rules.endings import ContainerExit, Disruption
from jobs.rules.states import WorkloadState
from jobs.rules.topologies import Role, RoleKind, get_topology
from tests.jobs.kinds import plan

ALIVE = {WorkloadState.STARTING, WorkloadState.RUNNING, WorkloadState.RESTARTING}
ENDS = {"fail": ContainerExit(1, "Error"), "oom": ContainerExit(137, "OOMKilled")}
KILLED = ContainerExit(143, "Error")
HOLD_GPUS = {"chief", "worker", "notebook"}
REPLICA_RESTARTS = 3  # of each index of a Job that serves


@dataclass
class Workload:
    """See the module.

    Attributes:
        size: how many of its pods hold a GPU.
        fate: what becomes of its pods: `ok`, `hang`, `fail`, `oom`, `evict` or `unplaced`.
        secret: uid of the root that owns its Secret, empty when none does; None without a Secret.
        news: what the last steps found out.
        is_admitted: it was given room, and has not given that back.
        is_gone: its row was deleted.
    """

    row: state.WorkloadRow
    size: int = 1
    fate: str = "ok"
    replicas: dict[state.ReplicaKey, state.ReplicaRow] = field(default_factory=dict)
    archives: dict[state.ReplicaKey, state.ArchiveRow] = field(default_factory=dict)
    attempts: dict[int, state.AttemptRow] = field(default_factory=dict)
    events: list[planned.EventNote] = field(default_factory=list)
    root: state.Root | None = None
    owned: list[state.ObjectRef] = field(default_factory=list)  # Deployments, Services, ConfigMaps
    pods: list[state.PodFacts] = field(default_factory=list)
    rescues: list[state.PodFacts] = field(default_factory=list)
    deleted_pods: list[state.PodFacts] = field(default_factory=list)
    secret: str | None = None
    failures: int = 0
    failed_serving: Counter[state.ReplicaKey] = field(default_factory=Counter)
    absent: str = ""
    news: dict[str, Any] = field(default_factory=dict)
    is_admitted: bool = False
    is_gone: bool = False
    made: int = 0

    @property
    def is_training(self) -> bool:
        return self.row.kind == "job"

    @property
    def objects(self) -> list[state.ObjectRef]:
        roots = [self.root] if self.root is not None else []
        return [*roots, *self.owned, *self.pods, *self.rescues]

    @property
    def has_room(self) -> bool:
        """Whether it was admitted, and has not begun to give that back."""
        is_wanted = not self.is_gone and self.row.desired != "delete"
        return is_wanted and self.row.state in ALIVE and self.row.notes.teardown in {"", "retry"}

    @property
    def gpus(self) -> int:
        """Held by pods."""
        return sum(pod.key.role in HOLD_GPUS and not pod.has_ended for pod in self.pods)

    @property
    def root_role(self) -> str:
        row = self.row
        return (
            get_topology(row.topology).deciding(row.counts).name if self.is_training else row.kind
        )

    @property
    def serving(self) -> tuple[Role, ...]:
        row = self.row
        return get_topology(row.topology).serving(row.counts) if self.is_training else ()

    @property
    def serving_jobs(self) -> list[state.ServingJob]:
        return [one for one in self.owned if isinstance(one, state.ServingJob)]

    @property
    def held(self) -> int:
        """GPUs that nobody else may have: also those of pods that may still be made."""
        root = self.root
        goes_on = root is not None and not root.verdict and not root.is_suspended
        return self.size if self.has_room or goes_on or self.serving_jobs else self.gpus

    # --- the engine ---
    def observe(self) -> state.Observed:
        is_absent = self.root is None and self.absent == self.row.root_name
        found = state.Observed(
            root=self.root,
            is_root_absent=is_absent,
            servers=tuple(one for one in self.owned if isinstance(one, state.ServerDeployment)),
            serving_jobs=tuple(self.serving_jobs),
            services=tuple(one for one in self.owned if isinstance(one, state.GateService)),
            others=tuple(one for one in self.owned if one.kind == "ConfigMap"),
            pods=tuple(self.pods),
            rescues=tuple(self.rescues),
            deleted_pods=tuple(self.deleted_pods),
            replicas=dict(self.replicas),
            archives=dict(self.archives),
            attempt=self.attempts.get(self.row.attempt),
            **self.news,
        )
        self.deleted_pods, self.news = [], {}
        return found

    def look(self, now: datetime, done: int = 99, *, is_heard: bool = True) -> planned.Plan:
        """Plans, commits and makes so many of the calls; their results may get lost."""
        was_torn_down = self.row.notes.teardown
        made = plan(self.row, self.observe(), now)
        self.commit(made)
        if any(map(_sets_going, made.steps)):
            assert self.is_admitted, "set going without room"
            assert not was_torn_down, "set going while it is taken down"
        for step in made.steps[:done]:
            self._do(step)
        if done < len(made.steps):
            self.news["trouble"] = reasons.make("change_refused", detail="not now")
        if not is_heard:
            self.news = {}
        return made

    def commit(self, made: planned.Plan) -> None:
        was_torn_down = self.row.notes.teardown
        self.row = replace(self.row, **made.columns)
        if made.render:
            self.row = replace(self.row, has_plan=True)
        name = f"w-{self.row.attempt}"
        if name != self.row.root_name:
            assert not self.objects, "the next try begins while something of the last one is left"
            self.failures = 0
            self.failed_serving.clear()
            self.row = replace(self.row, kube_name=name, root_name=name)
        self.replicas |= {one.key: one for one in made.replicas}
        ended = {number for number, one in self.attempts.items() if one.ended_at is not None}
        assert not ended & {one.number for one in made.attempts}, (
            "an attempt that had ended changed"
        )
        self.attempts |= {one.number: one for one in made.attempts}
        self.events += made.events
        for key in made.forgotten:
            del self.replicas[key]
        self.is_gone = made.delete_row
        if self.row.state not in ALIVE or (
            was_torn_down == "queue" and not self.row.notes.teardown
        ):
            self.is_admitted = False

    def _do(self, step: planned.Step) -> None:
        match step:
            case planned.CreateAll():
                self._create()
            case planned.PatchRoot(_, uid, spec):
                self._patch(uid, spec)
            case planned.Delete(_, _, uid):
                self._delete(uid)
            case planned.Verify(name):
                self.absent = "" if self.root is not None else name
            case planned.Rescue(key, _, number):
                alive = [pod for pod in self.pods if pod.key == key and not pod.has_ended]
                assert not alive, "two would write one log"
                pod = state.PodFacts(
                    "Pod", f"rescue-{number}", self._uid(), key=key, is_rescue=True
                )
                known = {(one.key, one.name) for one in self.rescues}
                self.rescues += [pod] if (key, pod.name) not in known else []
                self.secret = self.secret or ""
            case planned.Sweep():
                self.secret, self.news["is_swept"] = None, True
            case planned.Erase():
                self.news["is_erased"] = True

    def _create(self) -> None:
        row = self.row
        assert row.has_plan, "its manifests have not been rendered"
        kind = KINDS[row.kind].lifecycle.root_kind
        if self.root is None:
            self.root = state.Root(kind, row.root_name, self._uid(), is_suspended=self.is_training)
        assert self.root.name == row.root_name, "two roots at once"
        children: list[state.ObjectRef] = [
            state.ServerDeployment(
                "Deployment", f"{row.kube_name}-{role.name}-{n}", "", role=role.name
            )
            for role in self.serving
            if role.kind is RoleKind.DEPLOYMENT
            for n in range(row.counts[role.name])
        ]
        children += [
            state.ServingJob("Job", f"{row.kube_name}-{role.name}", "", role=role.name)
            for role in self.serving
            if role.kind is RoleKind.JOB
        ]
        if children or not self.is_training:
            children.append(state.GateService("Service", row.kube_name, "", node_port=30001))
        if self.is_training:
            children.append(state.ObjectRef("ConfigMap", row.kube_name, ""))
        known = {(one.kind, one.name) for one in self.owned}
        fresh = [one for one in children if (one.kind, one.name) not in known]
        self.owned += [replace(one, uid=self._uid()) for one in fresh]
        self.secret, self.absent = self.root.uid, ""
        self.news["made_root"] = self.root.uid

    def _patch(self, uid: str, spec: Mapping[str, Any]) -> None:
        names = {"suspend": "is_suspended", "replicas": "replicas"}
        if self.root is None:
            self.absent = self.row.root_name
        elif self.root.uid == uid:
            self.root = replace(self.root, **{names[key]: value for key, value in spec.items()})

    def _delete(self, uid: str) -> None:
        if self.root is not None and self.root.uid == uid:
            self.root = None
        self.owned = [one for one in self.owned if one.uid != uid]
        self.rescues = [one for one in self.rescues if one.uid != uid]
        self.pods = [one for one in self.pods if one.uid != uid or not one.has_ended]
        self._end(pod for pod in self.pods if pod.uid == uid)

    def _uid(self) -> str:
        self.made += 1
        return f"uid-{self.made}"

    # --- the cluster ---
    def step(self, now: datetime) -> None:
        """What the cluster does until then."""
        self._collect()
        for pod in [pod for pod in self.pods if pod.is_terminating]:
            self.pods.remove(pod)
            self.deleted_pods.append(self._ended(pod, "Failed", KILLED, now))
        self.pods = [self._lived(pod, now) for pod in self.pods]
        for rescue in self.rescues:
            known = self.archives.get(rescue.key) or state.ArchiveRow(rescue.key)
            self.archives[rescue.key] = replace(known, is_complete=True, pod_uid="")
        self.rescues = [replace(one, phase="Succeeded") for one in self.rescues]
        if self.root is None:
            return
        if self.is_training:
            self._go_on(self.root, now)
        elif self.root.replicas:
            self._make([self._key(self.row.kind, 0)], now)
        servers = [one for one in self.owned if isinstance(one, state.ServerDeployment)]
        self._make([self._key("ps", int(one.name.rpartition("-")[2])) for one in servers], now)
        for job in self.serving_jobs:
            self._serve(job, now)

    def _collect(self) -> None:
        """Removes what is owned by nothing that exists."""
        if self.root is None:
            self.owned = []
            self.secret = None if self.secret else self.secret
        names = {one.name for one in self.owned}
        orphans = [
            pod
            for pod in self.pods
            if self.root is None
            or (pod.key.role == "ps" and f"{self.row.kube_name}-{pod.key.who}" not in names)
            or (
                self._is_of_serving_job(pod) and f"{self.row.kube_name}-{pod.key.role}" not in names
            )
        ]
        self.pods = [pod for pod in self.pods if pod not in orphans or not pod.has_ended]
        self._end(orphans)

    def _end(self, pods: Iterable[state.PodFacts]) -> None:
        uids = {pod.uid for pod in pods}
        self.pods = [replace(p, is_terminating=True) if p.uid in uids else p for p in self.pods]

    def _key(self, role: str, index: int) -> state.ReplicaKey:
        return state.ReplicaKey(role, index, self.row.attempt)

    def _make(self, keys: Iterable[state.ReplicaKey], now: datetime) -> None:
        """A pod for each of these that has none."""
        busy = Counter(pod.key for pod in self.pods if not pod.has_ended)
        assert max(busy.values(), default=0) <= 1, "two pods of one replica"
        for key in keys:
            if not busy[key]:
                uid = self._uid()
                self.pods.append(state.PodFacts("Pod", f"pod-{uid}", uid, key=key, created_at=now))

    def _is_of_serving_job(self, pod: state.PodFacts) -> bool:
        return any(r.name == pod.key.role and r.kind is RoleKind.JOB for r in self.serving)

    def _serve(self, job: state.ServingJob, now: datetime) -> None:
        """What the Job controller does for replicas that are started again one by one."""
        of_it = [pod for pod in self.pods if pod.key.role == job.role]
        done = {pod.key.index for pod in of_it if pod.phase == "Succeeded"}
        failed = {
            key.index
            for key, times in self.failed_serving.items()
            if key.role == job.role and times > REPLICA_RESTARTS
        }
        known = replace(job, completed=frozenset(done), failed=frozenset(failed))
        self.owned = [known if one.uid == job.uid else one for one in self.owned]
        missing = set(range(self.row.counts[job.role])) - done - failed
        self._make([self._key(job.role, index) for index in sorted(missing)], now)

    def _go_on(self, root: state.Root, now: datetime) -> None:
        """What the Job controller does."""
        role = self.root_role
        workers = [pod for pod in self.pods if pod.key.role == role]
        alive = [pod for pod in workers if not pod.has_ended]
        done = {pod.key.index for pod in workers if pod.phase == "Succeeded"}
        if root.verdict:
            return
        if root.is_suspended:
            self._end(alive)
        elif self.failures:
            self.root = replace(root, verdict="failed", failed_count=self.failures)
            self._end(alive)
        elif len(done) == self.row.counts[role]:
            self.root = replace(root, verdict="complete", completed=frozenset(done))
        else:
            self.root = replace(root, completed=frozenset(done), failed_count=self.failures)
            missing = set(range(self.row.counts[role])) - done
            self._make([self._key(role, index) for index in sorted(missing)], now)

    # --- pods ---
    def _lived(self, pod: state.PodFacts, now: datetime) -> state.PodFacts:
        if pod.has_ended:
            return pod
        if not pod.node:
            if self.fate == "unplaced":
                return replace(pod, unplaced_why="0/1 nodes are available")
            return replace(pod, node="a", unplaced_why="", scheduled_at=now, prepared_from=now)
        if not pod.is_running:
            started = {"started_at": now, "pulled_at": now}
            return replace(pod, phase="Running", is_running=True, **started)
        if self.fate == "evict" and pod.key.role != "ps":
            lost = replace(pod, disruption=Disruption("DeletionByTaintManager"))
            self.failures += self.row.topology == "single"  # whose podFailurePolicy says FailJob
            return self._ended(lost, "Failed", None, now)
        if pod.key.role == "ps" or self.fate == "hang":
            return pod
        if not self.is_training:
            if end := ENDS.get(self.fate):
                return replace(pod, restarts=pod.restarts + 1, last_end=end, is_ready=False)
            return replace(pod, is_ready=True, ready_at=now)
        if end := ENDS.get(self.fate):
            if self._is_of_serving_job(pod):
                self.failed_serving[pod.key] += 1
            else:
                self.failures += 1
            return self._ended(pod, "Failed", end, now)
        return self._ended(pod, "Succeeded", ContainerExit(0, "Completed"), now)

    def _ended(
        self, pod: state.PodFacts, phase: str, end: ContainerExit | None, now: datetime
    ) -> state.PodFacts:
        """It has, and has told the portal so when it could."""
        if pod.started_at is not None and end is not None and end is not ENDS["oom"]:
            self.archives[pod.key] = state.ArchiveRow(pod.key, True, pod.uid, end.exit_code, now)
        return replace(pod, phase=phase, end=end, is_running=False, is_ready=False, finished_at=now)


def _sets_going(step: planned.Step) -> bool:
    """Whether pods may be made by it, now or later."""
    if isinstance(step, planned.PatchRoot):
        return step.spec.get("suspend") is False or step.spec.get("replicas", 0) > 0
    return isinstance(step, planned.CreateAll)
