"""The life of what is served behind a gate: one pod that answers until it is stopped. Pure.

A pod that dies takes it back to starting. Stopping removes everything but the volumes; it starts again
as a new generation when nothing of the one before is left.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, ClassVar

from jobs.kinds import crashes
from jobs.kinds.interactive import startup
from jobs.kinds.interactive.startup import ServedApp
from jobs.kinds.lifecycle import VIEW_LAG_S, Lifecycle
from jobs.kinds.plan import CreateAll, PatchRoot, Plan
from jobs.kinds.state import PodFacts, ReplicaKey, ReplicaRow, Root
from jobs.rules import patterns, reasons, waits
from jobs.rules.reasons import Reason
from jobs.rules.states import ReplicaState, WorkloadState

PLACE_S = 300  # not placed in time: everything is given back
PROBLEM_S = 600  # an image or a set-up that fails for so long will not get better by itself
ANSWER_S = 600  # a program that has not answered by then never will
END_S = 120  # from its end until its room is free
SILENCE_S = 30  # a busy program may be slow to answer
# Families of reasons: waits that may be cured by room.
_PLACING = frozenset({"", "creating", "placing", "quota_refused", "refused", "leftover"})


class InteractiveLifecycle(Lifecycle):
    """See the module; `app` names what it serves."""

    root_kind = "Deployment"
    confirm_s = 90  # pods have a grace of 30 s
    needs_owner = True
    app: ClassVar[ServedApp]

    # --- generations, the queue ---
    def advance(self) -> None:
        row = self.row
        if row.desired != "delete" and row.observed_generation != row.generation:
            self._begin()
        else:
            super().advance()

    def _begin(self) -> None:
        """Another start was asked for: nothing of the one before may be left."""
        if not self.is_untouched and self.row.cleaned_at is None:
            if self.row.state in {WorkloadState.STARTING, WorkloadState.RUNNING}:
                self.turn(WorkloadState.STOPPING, reasons.make("starting_again"))
            if not self.delete_objects():
                return
        is_first = not self.row.observed_generation
        self.set(
            observed_generation=self.row.generation,
            attempt=self.row.generation,
            requeued_count=0,
            admitted_at=None,
            started_at=None,
            finished_at=None,
            not_before=None,
            node_port=None,
            event_files=None,
            has_plan=False,
            root_uid="",
            cleaned_at=None,
            steps=(),
            notes=self.notes.for_new_generation(),
        )
        self.replicas.clear()
        if not is_first:
            self.say("start", f"Start number {self.row.generation}.")
        self.turn(WorkloadState.QUEUED)
        self._show_request()
        self.wait_in_queue()

    def admit(self, *, had_claim: bool = False, pools: Mapping[str, str] | None = None) -> Plan:
        self._show_steps([(self.row.queued_at, ""), (self.now, "")], "", failed=False)
        return super().admit(had_claim=had_claim, pools=pools)

    def refuse(self, reason: Reason) -> Plan:
        self._show_request(reason.text, failed=True)
        return super().refuse(reason)

    def keep_waiting(self, reason: Reason) -> Plan:
        self._show_request(reason.text)
        return super().keep_waiting(reason)

    def wait_in_queue(self) -> None:
        if self.leaves_queue:
            self._show_request(self.stop_reason().text, failed=True)
        super().wait_in_queue()

    # --- its one replica ---
    @property
    def replica(self) -> ReplicaRow:
        """As it is by now; one that is not stored is as all are at first."""
        key = ReplicaKey(self.row.kind, 0, self.row.attempt)
        return self.replicas.get(key) or ReplicaRow(key)

    def _set_replica(self, **columns: Any) -> None:
        changed = replace(self.replica, **columns)
        if changed != self.replica:
            self.replicas[changed.key] = changed

    # --- starting and running ---
    @property
    def is_incomplete(self) -> bool:
        return all(service.is_terminating for service in self.observed.services)

    def release(self, root: Root) -> None:
        if root.replicas != 1:
            self.call(PatchRoot(root.name, root.uid, {"replicas": 1}))

    def follow_creation(self, trouble: Reason) -> None:
        self._show(trouble.text)
        self.begin("starting_since")
        self._withdraw_late(trouble)

    def follow(self, root: Root) -> None:
        """What the Service and the pod mean."""
        if (why := self._find_end()) is not None:
            self.begin_teardown("stop", why)
            self.tear_down()
            return
        self._follow_service()
        pod = self.observed.pod
        if pod is not None:
            self._note_replacement(pod)
            facts = {"node": pod.node, "gpus": pod.gpus, "state": pod.replica_state}
            began = pod.started_at or self.replica.started_at
            self._set_replica(pod=pod.name, started_at=began, **facts)
            if self._note_ends(pod):
                return
        elif self.replica.pod_uid:
            self._set_replica(state=ReplicaState.PENDING)
        self._show()
        is_up = pod is not None and pod.is_running and not pod.is_terminating
        if pod is not None and is_up and pod.is_ready:
            self._answer()
        elif pod is not None and is_up and self.row.state is WorkloadState.RUNNING:
            # It answered once and still runs: a slow answer is no new start.
            self._be_silent(pod)
        else:
            self._start(pod)

    def _find_end(self) -> Reason | None:
        """Set when it has run for as long as it could when it was given room."""
        ends_by, since = self.row.ends_by, self.row.admitted_at
        if ends_by is None or since is None:
            return None
        ends_at = ends_by - timedelta(seconds=END_S)
        if not self.wait(ends_at, 0):
            return None
        most = reasons.duration_text(60 * round((ends_at - since).total_seconds() / 60))
        return reasons.make("max_duration", program=self.app.program, most=most)

    def _follow_service(self) -> None:
        """The port that the cluster picked; a Service that somebody deleted is made again."""
        services = [one for one in self.observed.services if not one.is_terminating]
        if services:
            if services[0].node_port is not None:
                self.set(node_port=services[0].node_port)
            return
        if self.wait_from("missing_since", VIEW_LAG_S):
            self.call(CreateAll())

    def _note_replacement(self, pod: PodFacts) -> None:
        """Another pod than the one before: the cluster, or somebody, took it away."""
        before = self.replica.pod_uid
        if pod.uid == before:
            return
        self._set_replica(pod_uid=pod.uid)
        self.note(pod_restarts=0, running_since=None)
        if not before:
            return
        self._set_replica(restarts=self.replica.restarts + 1)
        # The steps begin again with the new pod.
        self.set(steps=self.row.steps[:2])
        known = [*self.observed.deleted_pods, *self.observed.pods]
        gone = next((old for old in known if old.uid == before), None)
        self.say_again(startup.reason_of_replacement(self.app, gone))

    def _note_ends(self, pod: PodFacts) -> bool:
        """Counts the ends of the program within the pod; True when that was the last one."""
        count = pod.restarts + (1 if pod.end is not None else 0)
        fresh = count - self.notes.pod_restarts
        end = pod.end or pod.last_end
        if fresh <= 0 or end is None or pod.is_terminating:
            return False
        self.note(pod_restarts=count, running_since=None)
        cause = startup.reason_of_end(self.app, self.row, end)
        is_ended_by_us = cause.code == "volume_lost"
        if end.exit_code == 0 and self.notes.was_ready and not is_ended_by_us:
            self.begin_teardown("stop", reasons.make("shut_down", program=self.app.program))
            self.tear_down()
            return True
        if cause.code == "app_missing":
            self._give_up(cause)
            return True
        self._set_replica(restarts=self.replica.restarts + fresh)
        if not is_ended_by_us:  # no fault of the program's, which may come back with the volume
            self.note(crashes=crashes.counted(self.notes.crashes, fresh, self.now))
        if crashes.is_loop(self.notes.crashes, self.now):
            facts = {"who": self.app.who, "cause": cause.text}
            why = reasons.make("app_crash_loop", count=crashes.CRASHES_MAX, **facts)
            self._give_up(replace(why, next_step=cause.next_step or why.next_step))
            return True
        again = reasons.make("app_restarting", cause=cause.text)
        self.say_again(replace(again, next_step="") if is_ended_by_us else again)
        return False

    def _answer(self) -> None:
        if self.row.state is not WorkloadState.RUNNING:
            self.turn(WorkloadState.RUNNING)
        self.note(
            was_ready=True,
            restart_reason=(),
            starting_since=None,
            problem_since=None,
            running_since=None,
            silent_since=None,
        )
        self.explain(reasons.NONE)
        if self.row.started_at is None:
            self.set(started_at=self.now)

    def _be_silent(self, pod: PodFacts) -> None:
        if self.wait_from("silent_since", SILENCE_S):
            facts = {"program": self.app.program, "detail": startup.probe_words(pod)}
            self.explain(reasons.make("not_answering", **facts))

    def _start(self, pod: PodFacts | None) -> None:
        """It does not run yet: says why, and gives up, or gives back, when that lasts."""
        waiting = startup.reason_of_wait(self.app, self.row, self.observed.root, pod)
        family = patterns.family_of(waiting.code)
        self.start(waiting, startup.PROBLEMS | {"placing", "quota_refused"})
        self.note(silent_since=None)
        if family not in startup.PROBLEMS or startup.lost_its_volume(waiting, pod):
            self.note(problem_since=None)
        elif self._wait_for_repair(family):
            self._give_up(waiting)
            return
        if pod is not None and pod.is_running and self.wait_from("running_since", ANSWER_S):
            waited, detail = reasons.duration_text(ANSWER_S), startup.probe_words(pod)
            facts = {"program": self.app.program, "waited": waited, "detail": detail}
            self._give_up(reasons.make("never_ready", **facts))
            return
        self._withdraw_late(waiting)

    def _wait_for_repair(self, family: str) -> bool:
        """True when what is broken will not get better."""
        self.begin("problem_since")
        return family in waits.HOPELESS or self.wait(self.notes.problem_since, PROBLEM_S)

    def _withdraw_late(self, waiting: Reason) -> None:
        pod = self.observed.pod
        if (pod is not None and pod.node) or patterns.family_of(waiting.code) not in _PLACING:
            return
        if self.observed.is_current and self.wait(self.notes.starting_since, PLACE_S):
            self.withdraw(PLACE_S, waiting.text)

    def _give_up(self, why: Reason) -> None:
        self._show(why.text, failed=True)
        self.fail(why)

    # --- down ---
    def come_back(self, goal: str, why: Reason) -> None:
        self._set_replica(pod="", pod_uid="", node="", gpus="", state=ReplicaState.PENDING)
        self.set(node_port=None, notes=self.notes.for_new_attempt())
        self.requeue(why)
        self._show_request(why.text)

    def conclude(self, goal: str, why: Reason) -> None:
        state = ReplicaState.FAILED if goal == "fail" else ReplicaState.STOPPED
        self._set_replica(node="", gpus="", state=state)
        self.set(node_port=None)
        super().conclude(goal, why)

    # --- steps of the start-up ---
    def _show(self, problem: str = "", *, failed: bool = False) -> None:
        """Writes the steps as the pod shows them."""
        seen = self.observed
        done, detail = startup.read(self.app, self.row, seen.root, seen.pod, problem)
        self._show_steps(done, detail, failed=failed)

    def _show_request(self, detail: str = "", *, failed: bool = False) -> None:
        """Writes the steps of one that is in the queue."""
        self._show_steps([(self.row.queued_at, "")], detail, failed=failed)

    def _show_steps(
        self, done: Sequence[tuple[datetime | None, str]], detail: str, *, failed: bool
    ) -> None:
        before = self.row.steps
        self.set(steps=startup.line(done, before, self.now, detail=detail, failed=failed))
