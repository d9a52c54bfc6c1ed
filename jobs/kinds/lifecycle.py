"""The life that all kinds of workloads share: what follows from one look at a row and its objects. Pure.

Level-triggered: no step depends on having seen an event, and each may be repeated. The life:

    queued -> (admission) -> starting: root and children are made, the root is released
    -> running: what its kind makes of its pods -> an end, after which nothing is left in the cluster

Everything else is a way out of it: stop, delete, withdrawal (not placed in time: back to the queue)
and another attempt.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import ClassVar

from jobs.kinds.plan import CreateAll, Plan, Sweep, Verify
from jobs.kinds.planner import Planner, words_of
from jobs.kinds.state import ObjectRef, Root
from jobs.rules import conditions, patterns, reasons
from jobs.rules.queue.look import backoff_s
from jobs.rules.reasons import Reason
from jobs.rules.states import FINAL_STATES, IDLE_STATES, WorkloadState

# A watch may be so much behind what we have just made; after that a fresh read decides.
VIEW_LAG_S = 2
# The cluster removes what a root owned within seconds; a minute later, when its API server has just
# been away. A pod that we delete before its ReplicaSet has gone would be made once more.
CASCADE_S = 10
REPLICA_SETS_S = 90
REST_S = 3600  # for so long nothing is stopped for what was stopped for in vain
# Goals of taking everything down after which it comes up again, and the state until then.
_STATE_OF = {"queue": WorkloadState.STARTING, "retry": WorkloadState.RESTARTING}
NOT_PREEMPTED = {"preempted_at": None, "preempted_for": "", "preempted_why": ""}
_WITHOUT_CALLS = FINAL_STATES | IDLE_STATES


class Lifecycle(Planner, ABC):
    """Plans one workload."""

    root_kind: ClassVar[str]
    confirm_s: int  # what has not confirmed its end by then is on a node that is lost
    needs_owner: ClassVar[bool] = False  # it ends when its owner may not sign in any more

    def plan(self) -> Plan:
        """What follows. Call it once."""
        self._take_results()
        self.advance()
        trouble = self.observed.trouble
        if trouble.code and self._steps and self.row.state not in _WITHOUT_CALLS:
            # Why its calls could not be made the last time outdoes all other reasons. With a namespace
            # that goes our rights in it go first.
            is_going = self.observed.namespace == "terminating"
            self.explain(reasons.make("namespace_going") if is_going else trouble)
        return self.made()

    # --- admission ---
    def admit(self, *, had_claim: bool = False, pools: Mapping[str, str] | None = None) -> Plan:
        """It has room: what is written together with its manifests. Call it instead of `plan`.

        Args:
            had_claim: others were stopped for it.
            pools: role -> the pool where its replicas run; None: there are no pools.
        """
        self.say(conditions.ADMITTED, "Admitted")
        self.set(state=WorkloadState.STARTING, reason=reasons.make("creating"))
        self.set(admitted_at=self.now, not_before=None, stops_from=None)
        # An older version that took over in between knows nothing of these.
        self.set(**NOT_PREEMPTED)
        self.note(had_claim=had_claim, pools=pools or {})
        self.renders = True
        return self.made()

    def refuse(self, reason: Reason) -> Plan:
        """It has room, but its manifests cannot be rendered."""
        self.turn(WorkloadState.FAILED, reason)
        self.set(finished_at=self.now, cleaned_at=self.now)
        return self.made()

    def keep_waiting(self, reason: Reason) -> Plan:
        """Why it has no room."""
        self.explain(reason)
        return self.made()

    # --- what kinds do otherwise ---
    @abstractmethod
    def release(self, root: Root) -> None:
        """Sets the root going, once: its uid and its children are in the database by now."""

    @abstractmethod
    def follow(self, root: Root) -> None:
        """What the pods of a released root mean."""

    @abstractmethod
    def follow_creation(self, trouble: Reason) -> None:
        """While objects are being made, which `trouble` may hinder."""

    @abstractmethod
    def come_back(self, goal: str, why: Reason) -> None:
        """Everything is down and it is not over: to the queue ("queue"), or once more ("retry").

        It may wait: it is called again at each look until the teardown is over.
        """

    def stop(self) -> None:
        """Ends what runs, because somebody wants it; called until it is over."""
        self.begin_teardown("stop", self.stop_reason())
        self.tear_down()

    def fail(self, reason: Reason) -> None:
        """It cannot go on."""
        self.begin_teardown("fail", reason)
        self.tear_down()

    def lose_root(self, reason: Reason) -> None:
        """Somebody deleted the root."""
        self.fail(reason)

    def conclude(self, goal: str, why: Reason) -> None:
        """Everything is down for good; `goal` is "stop" or "fail"."""
        self.set(finished_at=self.now, cleaned_at=self.now)
        self.turn(WorkloadState.FAILED if goal == "fail" else WorkloadState.STOPPED, why)
        self.is_settled = True

    def leave_cluster(self, goal: str) -> bool:
        """Everything goes on the way to `goal`, see `begin_teardown`; True when nothing is left."""
        return self.delete_objects()

    def finish(self) -> bool:
        """What must be over after an end before objects may go; True when it is."""
        return True

    def purge(self) -> bool:
        """Removes what is stored elsewhere than in the cluster; True when nothing is."""
        return True

    @property
    def is_incomplete(self) -> bool:
        """Whether something is missing beside a root that is there."""
        return False

    @property
    def leaves_queue(self) -> bool:
        """Whether it ends before it was admitted."""
        return self.wants_stop

    def is_made_again(self, thing: ObjectRef) -> bool:
        """Whether a ReplicaSet would make it once more if it were deleted."""
        return thing.kind == "Pod"

    # --- the way ---
    def advance(self) -> None:
        """The one thing to do now."""
        if self.row.desired == "delete":
            self._remove_all()
        elif self.row.state in IDLE_STATES:
            self.wait_in_queue()
        elif self.row.state in FINAL_STATES:
            self.settle()
        elif self.notes.teardown:
            self.tear_down()
        elif self.row.state is WorkloadState.STOPPING or self.wants_stop or self.leaves_for_now:
            self.stop()
        else:
            self._drive()

    def _take_results(self) -> None:
        """What our last steps did is committed before anything follows from it."""
        if self.observed.made_root:
            self.set(root_uid=self.observed.made_root)
            self.note(children_of=self.observed.made_root, missing_since=None)
        if self.observed.is_swept:
            self.note(swept=True)
        if self.observed.is_erased:
            self.note(purged=True)

    def wait_in_queue(self) -> None:
        """Only a person (or the tenant's end) takes it out of the queue here; admission does else."""
        if self.leaves_queue:
            self.set(finished_at=self.now)
            self.turn(WorkloadState.STOPPED, self.stop_reason())
            self.settle()

    def _drive(self) -> None:
        """starting and running: objects, then pods, then what they mean."""
        if self.observed.blocked.code:
            self.fail(self.observed.blocked)
            return
        root = self.observed.root
        if root is None:
            self._miss_root()
            return
        if not self.is_incomplete:
            self.note(missing_since=None)
        if self.row.root_uid and root.uid != self.row.root_uid:
            self.fail(reasons.make("root_deleted"))
            return
        if root.is_terminating:
            # Somebody deletes it; what follows is decided when it is gone.
            return
        if self.notes.children_of != root.uid or not self.row.root_uid:
            self._create()
            return
        self.begin("committed_at")
        self.release(root)
        self.follow(root)

    def _create(self) -> None:
        self.call(CreateAll())
        trouble = self.observed.trouble
        self.explain(trouble if trouble.code else reasons.make("creating"))
        self.follow_creation(trouble)

    def _miss_root(self) -> None:
        """Not made yet, not seen yet, or deleted by somebody."""
        row = self.row
        if not row.root_uid:
            if self.observed.namespace == "gone" and self.observed.is_current:
                self.fail(reasons.make("namespace_gone", namespace=row.namespace))
            else:
                self._create()
        elif self.observed.is_root_absent:
            code = "namespace_gone" if self.observed.namespace != "active" else "root_deleted"
            self.lose_root(reasons.make(code, namespace=row.namespace))
        elif self.wait_from("missing_since", VIEW_LAG_S):
            self.call(Verify(row.root_name))

    def start(self, waiting: Reason, telling: Collection[str]) -> None:
        """It does not run yet: says why, or why it starts once more, unless this wait tells more.

        Args:
            telling: families of reasons that do.
        """
        again = Reason(*self.notes.restart_reason)
        is_shown = patterns.family_of(waiting.code) in telling or not again.code
        self.turn(WorkloadState.STARTING, waiting if is_shown else again)
        self.begin("starting_since")

    # --- ways out ---
    @property
    def wants_stop(self) -> bool:
        """Whether a person, the tenant's suspension or the owner's end stops it.

        What a person suspends soon holds nothing, and waits for the tenant as what is queued does.
        """
        row = self.row
        if row.desired == "suspend" and row.tenant_closed == "suspended":
            return False
        is_orphaned = self.needs_owner and not row.is_owner_active
        return row.desired == "stop" or bool(row.tenant_closed) or is_orphaned

    @property
    def is_suspending(self) -> bool:
        """Whether a person wants it to hold nothing, and nobody wants its end."""
        return self.row.desired == "suspend" and not self.wants_stop

    @property
    def is_preempted(self) -> bool:
        """Whether it gives its room to another one, and nobody wants anything else of it."""
        is_wanted = self.row.desired == "run" and not self.wants_stop
        return self.row.preempted_at is not None and is_wanted

    @property
    def leaves_for_now(self) -> bool:
        """Whether it is to hold nothing, and to go on later."""
        return self.is_suspending or self.is_preempted

    def stop_reason(self) -> Reason:
        """Who ended or suspended it, in words."""
        row = self.row
        if self.is_preempted:
            return reasons.preempted(
                row.preempted_for, row.preempted_why, self.notes.preemptions + 1
            )
        if self.is_suspending:
            return reasons.suspended(by=row.stopped_by)
        if row.desired == "stop":
            return reasons.stopped(by=row.stopped_by, why=row.stop_reason)
        if row.tenant_closed:
            is_deleting = row.tenant_closed == "deleting"
            return reasons.make("tenant_deleting" if is_deleting else "tenant_suspended")
        return reasons.make("owner_disabled")

    def withdraw(self, waited_s: int, detail: str) -> None:
        """Our packing was only a guess about the scheduler: what was not placed is given back."""
        waited = reasons.duration_text(waited_s)
        detail = f"Last seen: {detail}" if detail else "The cluster has not said why."
        why = reasons.make("not_placed", waited=waited, detail=detail)
        self.say("withdrawn", why.text, warning=True)
        self.begin_teardown("queue", why)
        self.tear_down()

    def requeue(self, why: Reason) -> None:
        """Back in the queue, where it rests the longer the more often that has happened."""
        count = self.row.requeued_count + 1
        not_before = self.now + timedelta(seconds=backoff_s(count))
        if self.notes.had_claim:  # what others gave up for it was no help
            self.set(stops_from=self.now + timedelta(seconds=REST_S))
        self.set(
            requeued_count=count,
            not_before=not_before,
            admitted_at=None,
            ends_by=None,
            has_plan=False,
            root_uid="",
        )
        self.turn(WorkloadState.QUEUED, reasons.make("withdrawn", text=why.text))
        self.due(not_before)

    def begin_teardown(self, goal: str, why: Reason) -> None:
        """From now on everything is taken down; `goal` is "queue", "retry", "stop" or "fail"."""
        self.note(teardown=goal, teardown_at=self.now, teardown_reason=words_of(why))

    def tear_down(self) -> None:
        """Takes everything down, then goes where it was meant to go."""
        why = Reason(*self.notes.teardown_reason)
        goal = self.notes.teardown
        if goal in _STATE_OF and self.wants_stop:
            goal, why = "stop", self.stop_reason()
            self.note(teardown=goal, teardown_reason=words_of(why))
        self.turn(_STATE_OF.get(goal, WorkloadState.STOPPING), why)
        if not self.leave_cluster(goal):
            return
        if goal in _STATE_OF:
            self.come_back(goal, why)
            return
        self.note(teardown="", teardown_at=None)
        self.conclude(goal, why)

    def settle(self) -> None:
        """Ended: what must still be over, and then nothing of it may be left in the cluster."""
        if self.row.cleaned_at is None:
            if not self.is_untouched and not (self.finish() and self.delete_objects()):
                return
            self.set(cleaned_at=self.now)
        self.is_settled = True

    def _remove_all(self) -> None:
        """Deleted in any state: objects, then what is stored, then the row. Volumes are the user's."""
        if self.row.cleaned_at is None and not self.is_untouched and not self.delete_objects():
            return
        if self.purge():
            self.deletes_row = True

    # --- taking down ---
    @property
    def is_untouched(self) -> bool:
        """Nothing of it was ever asked of the cluster."""
        return not self.row.has_plan and not self.row.root_uid and not self.observed.objects

    def delete_objects(self) -> bool:
        """Deletes everything; True when nothing is left, or only what a lost node has to confirm.

        The root goes first, and the cluster removes what it owns. What is still there long after the
        root is known to be gone is deleted one by one, and what no watch shows is swept.
        """
        seen = self.observed
        self.begin("teardown_at")
        if seen.namespace == "gone" and seen.is_current:
            return True
        left = seen.objects
        if roots := [thing for thing in left if thing.kind == self.root_kind]:
            self.delete(*roots, *seen.rescues)
            return False
        may_exist = bool(self.row.has_plan or self.row.root_uid)
        if may_exist and not seen.is_root_absent:
            self.call(Verify(self.row.root_name))
            return False
        self._delete_left(left)
        if not self.notes.swept and may_exist:
            self.call(Sweep())
            return False
        if not left:
            return True
        all_marked = all(thing.is_terminating for thing in left)
        return self.wait(self.notes.teardown_at, self.confirm_s) and all_marked

    def _delete_left(self, left: Sequence[ObjectRef]) -> None:
        """Deletes what the cluster should have removed with its owner since the teardown began."""
        since = self.notes.teardown_at
        if self.wait(since, CASCADE_S):
            is_all_late = self.wait(since, REPLICA_SETS_S)
            self.delete(*(one for one in left if is_all_late or not self.is_made_again(one)))
