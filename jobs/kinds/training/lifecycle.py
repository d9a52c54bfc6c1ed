"""The life of a training: replicas that run to an end, retries, a stop with grace, and the archive. Pure.

running -> a decision -> succeeded | failed, then servers are recycled, the archive is waited for,
and what the clean policy says is removed

Each retry, of whatever topology, is an attempt: everything of the one before is taken down, the
training waits as `restarting`, and all is made anew under new names, with logs of their own.
What a person suspends ends as by a stop, keeps its logs, and leaves nothing in the cluster; resumed it
is queued for the next attempt.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from jobs.kinds import crashes
from jobs.kinds.lifecycle import NOT_PREEMPTED
from jobs.kinds.plan import LoosenGroup, PatchRoot, Plan
from jobs.kinds.planner import words_of
from jobs.kinds.state import AttemptRow, ObjectRef, Root
from jobs.kinds.training import attempts, decision, replicas
from jobs.kinds.training.decision import Outcome
from jobs.kinds.training.recycling import RecycledLifecycle
from jobs.kinds.training.replicas import is_server
from jobs.kinds.training.spec import longest_grace_s
from jobs.rules import endings, patterns, reasons, restarts, waits
from jobs.rules.reasons import Reason
from jobs.rules.restarts import Cause, ReplicaEnd
from jobs.rules.states import IDLE_STATES, WorkloadState

STRAGGLER_S = 120
# How long the cluster's verdict waits for the pod that explains it; they come by different watches.
EXPLANATION_S = 5
# Why a Job failed whose podFailurePolicy said so. Ours has one rule that fails it: a replica was taken away.
# https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-failure-policy
LOSS = "PodFailurePolicy"
_URGENT = frozenset({"image_name", "image_pull", "container_config", "volume", "quota_refused"})


class TrainingLifecycle(RecycledLifecycle):
    """See the module; `run_policy` is the request's."""

    root_kind = "Job"

    @property
    def deadline_left_s(self) -> int | None:
        deadline_s = self.run_policy.deadline_s
        if deadline_s is None:
            return None
        left_s = deadline_s - self.notes.spent_s
        if (leaves_at := self._leaves_at) is not None:
            left_s = min(left_s, int((leaves_at - self.now).total_seconds()))
        return max(1, left_s)

    @property
    def _leaves_at(self) -> datetime | None:
        """When it must begin to end, whatever its attempts have run: its room was promised from then on."""
        if self.row.ends_by is None:
            return None
        grace_s = longest_grace_s(self.row.topology, self.row.counts)
        return self.row.ends_by - timedelta(seconds=grace_s)

    def advance(self) -> None:
        if self.row.desired != "delete" and self.row.state not in IDLE_STATES:
            self.replicas.update(replicas.update(self.situation))
        super().advance()

    # --- attempts ---
    @property
    def attempt(self) -> AttemptRow:
        """The current one as it is by now; of one that an earlier version began, what is known of it."""
        row = self.row
        if row.attempt in self.attempts:
            return self.attempts[row.attempt]
        since = row.started_at if row.attempt == 1 else self.notes.committed_at
        return AttemptRow(row.attempt, attempts.cause_of(self.row), row.admitted_at, since)

    def _tell_attempt(self, **columns: Any) -> None:
        self.attempts[self.row.attempt] = replace(self.attempt, **columns)

    def _end_attempt(self, why: Reason, exit_code: int | None = None) -> None:
        """Its outcome is known. What is learned later is about the training, not about this attempt."""
        if self.attempt.ended_at is None:
            told = {"reason_code": why.code, "reason_text": why.text, "exit_code": exit_code}
            self._tell_attempt(ended_at=self.now, **told)

    def _begin_attempt(self) -> None:
        number, cause = self.row.attempt, attempts.cause_of(self.row)
        self.attempts[number] = AttemptRow(number, cause, admitted_at=self.now)

    def admit(self, *, had_claim: bool = False, pools: Mapping[str, str] | None = None) -> Plan:
        self._begin_attempt()
        return super().admit(had_claim=had_claim, pools=pools)

    def begin_teardown(self, goal: str, why: Reason) -> None:
        self._end_attempt(why)
        super().begin_teardown(goal, why)

    @property
    def leaves_queue(self) -> bool:
        # What a suspended tenant has in the queue waits there.
        return self.row.desired == "stop" or self.row.tenant_closed == "deleting"

    def is_made_again(self, thing: ObjectRef) -> bool:
        return is_server(self.row, thing)

    # --- starting and running ---
    def release(self, root: Root) -> None:
        if root.is_suspended and not root.verdict:
            self.call(PatchRoot(root.name, root.uid, {"suspend": False}))

    def follow_creation(self, trouble: Reason) -> None:
        self._withdraw_late()

    def follow(self, root: Root) -> None:
        """What the replicas show."""
        for group in self.observed.pod_groups:
            # The scheduler forgets pods that have ended: what is made anew would wait for them.
            if group.is_placed and group.least > 1:
                self.call(LoosenGroup(group.name, group.uid))
        self._extend(root)
        self._count_restarts()
        outcome = self._decide()
        if outcome is not None:
            self._follow_outcome(outcome)
            return
        for why in decision.find_new_starts(self.situation, root):
            if self.notes.restart_reason[:1] != (why.code,):
                self.say_again(why)
        if replicas.all_run(self.situation):
            self._run()
        elif self.row.state is not WorkloadState.RUNNING or self.notes.restart_reason:
            # Else a server's program starts again in its place: an event, not a new start.
            self._start()

    def _extend(self, root: Root) -> None:
        """A lead may have given it more time since its Job was made, which counts from then."""
        deadline_s, since = self.run_policy.deadline_s, self.notes.committed_at
        if deadline_s is None or root.deadline_s is None or since is None or root.verdict:
            return
        wanted_s = deadline_s - self.notes.spent_s
        if self._leaves_at is not None:
            wanted_s = min(wanted_s, int((self._leaves_at - since).total_seconds()))
        if wanted_s > root.deadline_s:
            self.call(PatchRoot(root.name, root.uid, {"activeDeadlineSeconds": wanted_s}))

    def _count_restarts(self) -> None:
        restarts = dict(self.notes.restarts)
        for found in decision.find_restarts(self.situation):
            times = restarts.get(found.who, ())
            restarts[found.who] = crashes.counted(times, found.count, self.now)
            self.say("restarted", found.cause.text, subject=found.who, warning=True)
        if restarts != self.notes.restarts:
            self.note(restarts=restarts)
        # The cluster counts these and gives up by itself.
        for found in decision.find_replaced(self.situation):
            self.say("restarted", found.cause.text, subject=found.who, warning=True)

    def _run(self) -> None:
        if self.row.state is not WorkloadState.RUNNING:
            self.turn(WorkloadState.RUNNING)
            self.note(restart_reason=(), starting_since=None)
            if self.row.started_at is None:
                self.set(started_at=self.now)
            if self.attempt.started_at is None:
                self._tell_attempt(started_at=self.now)
        elif (
            self.situation.least is not None
            and self.notes.restart_reason
            and not self.situation.spare
        ):
            self.note(restart_reason=())
        late = self._wait_for_stragglers()
        if late is not None and self.row.reason.code != late.code:
            self.say("straggler", late.text, warning=True)
        self.explain(late or reasons.NONE)

    def _wait_for_stragglers(self) -> Reason | None:
        """Set when worker 0 has succeeded long ago and others still run."""
        late = decision.find_stragglers(self.situation)
        if not late:
            return None
        if not self.wait_from("worker0_ended_at", STRAGGLER_S):
            return None
        waited = reasons.duration_text(STRAGGLER_S)
        return reasons.make("straggler", who=", ".join(late), waited=waited)

    def _start(self) -> None:
        """Not all replicas run: says why, and gives everything back when it takes too long."""
        waiting = waits.most_specific(decision.waiting_reasons(self.situation))
        self.start(waiting if waiting.code else reasons.make("creating"), _URGENT)
        self._withdraw_late()

    def _withdraw_late(self) -> None:
        since = self.notes.starting_since or self.row.admitted_at
        limit_s = self.run_policy.starting_deadline_s
        if not self.observed.is_current or not self.wait(since, limit_s):
            return
        telling = waits.most_specific(decision.waiting_reasons(self.situation))
        is_stuck = patterns.family_of(telling.code) in waits.WITHDRAW_AFTER_DEADLINE
        if is_stuck or not replicas.all_placed(self.situation):
            self.withdraw(limit_s, telling.text or self.observed.trouble.text)

    # --- decisions ---
    def _decide(self) -> Outcome | None:
        """Success or failure, or None while the training goes on."""
        now = self.situation
        return (
            decision.find_success(now)
            or decision.find_moved(now)
            or self._explain_failure()
            or decision.find_crash_loop(now)
            or self._give_up_start()
        )

    def _explain_failure(self) -> Outcome | None:
        """The cluster's verdict, as soon as it can be explained."""
        now, root = self.situation, self.observed.root
        if root is not None and root.verdict == "complete" and (late := self._watch_deadline()):
            return late
        if root is None or not decision.is_failure(now):
            return None
        if root.fail_reason == "DeadlineExceeded":
            return Outcome(False, self._deadline_reason())
        if self.topology.is_array and root.failed:
            end = decision.failure_of_array(now, root)
            return Outcome(False, end.reason, exit_code=end.exit_code)
        cause = decision.find_cause(now)
        is_loss = root.fail_reason == LOSS
        if cause is None or (is_loss and not cause.is_lost):
            if not self.wait_from("verdict_at", EXPLANATION_S):
                return None
            unseen = ReplicaEnd("", decision.without_cause(now))
            cause = decision.unseen_loss(now) if is_loss else unseen
        elif decision.may_change(now, cause) and not self.wait_from("verdict_at", restarts.NEAR_S):
            return None
        code = cause.exit_code
        may_retry = restarts.is_retried(decision.restart_policy(now), cause.reason.code, code)
        return Outcome(False, cause.reason, may_retry, code, cause.who if cause.is_lost else "")

    def _watch_deadline(self) -> Outcome | None:
        """Set when replicas that must still succeed have run for too long: a Job that is complete, as
        that of a chief may be before its workers are, keeps no time limit any more.
        """
        deadline_s = self.run_policy.deadline_s
        if deadline_s is None:
            return None
        is_late = self.wait(self.notes.committed_at, max(1, deadline_s - self.notes.spent_s))
        return Outcome(False, self._deadline_reason()) if is_late or self._must_leave() else None

    def _must_leave(self) -> bool:
        return self.wait(self._leaves_at, 0)

    def _deadline_reason(self) -> Reason:
        deadline = reasons.duration_text(self.run_policy.deadline_s or 0)
        return reasons.make("deadline", deadline=deadline)

    def _give_up_start(self) -> Outcome | None:
        if not self.observed.is_current:
            return None
        is_late = self.wait(self.notes.starting_since, self.run_policy.starting_deadline_s)
        return decision.find_hopeless_start(self.situation, is_late=is_late)

    def _follow_outcome(self, outcome: Outcome) -> None:
        if outcome.is_success:
            self._succeed()
            return
        self._end_attempt(outcome.reason, outcome.exit_code)
        following = attempts.follow(self.situation, self.attempt, outcome)
        if isinstance(following, Reason):
            self.fail(following)
            return
        self.note(attempt_cause=following.cause.value, **following.counts)
        why = following.why
        self.say(why.code, why.text, warning=True)
        self.begin_teardown("retry", why)
        self.tear_down()

    def _succeed(self) -> None:
        self.set(deciders_ended_at=self.now, finished_at=self.now)
        if self.row.started_at is None:
            self.set(started_at=self.now)
        if self.attempt.started_at is None:
            self._tell_attempt(started_at=self.now)
        self._end_attempt(reasons.NONE, 0)
        self.turn(WorkloadState.SUCCEEDED)
        self.settle()

    def fail(self, reason: Reason) -> None:
        if reason.code == "deadline" and self.topology.deciding(self.row.counts).program:
            # Servers of ours serve until then: that is no failure.
            self.conclude("stop", reason)
            return
        self._end_attempt(reason)
        self.set(deciders_ended_at=self.now, finished_at=self.now)
        self.turn(WorkloadState.FAILED, reason)
        self.settle()

    def lose_root(self, reason: Reason) -> None:
        """Whether it had succeeded may still be known."""
        outcome = self._decide()
        if outcome is not None and outcome.is_success:
            self._succeed()
        else:
            self.fail(reason)

    # --- another attempt ---
    def leave_cluster(self, goal: str) -> bool:
        """Before it is queued again its logs are kept, those of earlier attempts too.

        A rescue mounts what the manifests hold, and these go: an end in the queue could keep no log.
        """
        if goal != "queue":
            return super().leave_cluster(goal)
        # Once, for it deletes rescue pods as well.
        if self.notes.pods_ended_at is None and not self.delete_objects():
            return False
        return self.archive() and self.delete_objects()

    def come_back(self, goal: str, why: Reason) -> None:
        # Its clock goes on while it keeps its room, not while logs of what gave that back are kept.
        until = self.notes.teardown_at if goal == "queue" else None
        spent_s = self.notes.spent_s + self._attempt_s(until)
        deadline_s = self.run_policy.deadline_s
        is_over = deadline_s is not None and deadline_s <= spent_s
        if is_over or (goal == "retry" and self._must_leave()):
            self.note(teardown="", teardown_at=None)
            self.fail(self._deadline_reason())
            return
        rest_s = restarts.backoff_s(self.notes.short_attempts) if goal == "retry" else 0
        if not self.wait(self.notes.teardown_at, rest_s):
            if deadline_s is not None:  # its clock goes on, for the room is kept
                self.wait(self.now, deadline_s - spent_s)
            return
        self._forget_unstarted()
        self.note(spent_s=spent_s)
        notes = self.notes.for_new_attempt()
        self.set(attempt=self.row.attempt + 1, root_uid="", has_plan=False, notes=notes)
        if goal == "queue":
            self.note(attempt_cause=Cause.WITHDRAWN.value)
            self.requeue(why)
            return
        self._begin_attempt()
        self.turn(WorkloadState.STARTING, why)
        self.note(starting_since=self.now, restart_reason=words_of(why))
        self.set(has_plan=True)
        self.renders = True
        self.due(self.now)

    def _attempt_s(self, until: datetime | None = None) -> int:
        """How long this attempt has been going by then; None: now."""
        since = self.notes.committed_at
        until = until or self.now
        return 0 if since is None else max(0, int((until - since).total_seconds()))

    def _forget_unstarted(self) -> None:
        """Of an attempt that is over, what never ran leaves nothing, unless its node is to blame."""
        for row in self.situation.current:
            if row.started_at is None and row.reason_code not in endings.NODE_FAULTS:
                del self.replicas[row.key]

    # --- suspend and resume ---
    def wait_in_queue(self) -> None:
        """Also while it is suspended: people alone take it out of either, but for admission."""
        super().wait_in_queue()
        state, desired = self.row.state, self.row.desired
        if state is WorkloadState.QUEUED and desired == "suspend":
            self.set(not_before=None)
            self.turn(WorkloadState.SUSPENDED, self.stop_reason())
        elif state is WorkloadState.SUSPENDED and desired == "run":
            self._queue_again(Cause.RESUMED)

    def _queue_again(self, cause: Cause, why: Reason = reasons.NONE) -> None:
        """As another attempt, unless it was to leave before this one began; at no cost."""
        if self.observed.attempt is not None:
            spent_s = self.notes.spent_s + self._attempt_s(self.observed.attempt.ended_at)
            notes = self.notes.for_new_attempt()
            self.set(attempt=self.row.attempt + 1, admitted_at=None, ends_by=None, notes=notes)
            self.note(spent_s=spent_s, attempt_cause=cause.value)
        self.turn(WorkloadState.QUEUED, why)

    def tear_down(self) -> None:
        if self.leaves_for_now and self.notes.teardown in {"queue", "retry"}:
            self.note(teardown="suspend", teardown_reason=words_of(self.stop_reason()))
        if self.notes.teardown == "suspend":
            self._suspend()
        else:
            super().tear_down()

    def _suspend(self) -> None:
        """First its logs are kept, then its objects go: nothing of it stays in the cluster."""
        why = Reason(*self.notes.teardown_reason)
        self.turn(WorkloadState.STOPPING, why)
        if self.active_pods() and not self.delete_objects():
            return
        if not (self.archive() and self.delete_objects()):
            return
        self._forget_unstarted()
        self.note(teardown="", teardown_at=None)
        self.set(root_uid="", has_plan=False)
        if self.wants_stop:
            self.conclude("stop", self.stop_reason())
        elif self.is_preempted:
            why = self.stop_reason()
            self.note(preemptions=self.notes.preemptions + 1)
            self.set(**NOT_PREEMPTED)
            self._queue_again(Cause.PREEMPTED, why)
        else:
            self.set(**NOT_PREEMPTED)
            self.turn(WorkloadState.SUSPENDED, why)

    # --- stop ---
    def stop(self) -> None:
        """The root is suspended, so each pod gets SIGTERM; servers go when workers are gone.

        https://kubernetes.io/docs/concepts/workloads/controllers/job/#suspending-a-job
        """
        if self.row.state is not WorkloadState.STOPPING:
            outcome = self._decide() if self.leaves_for_now and self.notes.committed_at else None
            if outcome is not None:  # it has just ended by itself
                self._follow_outcome(outcome)
                return
            if self.notes.committed_at is None:
                # It was never set going, so nothing has a grace.
                self.begin_teardown(
                    "suspend" if self.leaves_for_now else "stop", self.stop_reason()
                )
                self.turn(WorkloadState.STOPPING, self.stop_reason())
                self.due(self.now)
                return
            self.turn(WorkloadState.STOPPING, self.stop_reason())
        is_late = self.wait_from("stopping_at", self.confirm_s)
        self.end_workers()
        if self.active_workers() and not is_late:
            return
        self.recycle()
        waiting = self.active_pods()
        # Servers are told to end when the workers have, and then have as long as they had.
        has_servers = len(waiting) > len(self.active_workers())
        limit_s = 2 * self.confirm_s if has_servers else self.confirm_s
        if waiting and not self.wait(self.notes.stopping_at, limit_s):
            return
        is_asked = self.wants_stop or self.leaves_for_now
        why = self.stop_reason() if is_asked else self.row.reason
        if waiting:
            who = ", ".join(sorted({pod.key.who for pod in waiting}))
            why = reasons.make("stop_unconfirmed", who=who)
        if self.leaves_for_now:
            self.begin_teardown("suspend", why)
            self.tear_down()
        else:
            self.conclude("stop", why)

    def conclude(self, goal: str, why: Reason) -> None:
        self._end_attempt(why)
        self.set(finished_at=self.now)
        if self.row.deciders_ended_at is None:
            self.set(deciders_ended_at=self.now)
        self.turn(WorkloadState.STOPPED, why)
        self.settle()
