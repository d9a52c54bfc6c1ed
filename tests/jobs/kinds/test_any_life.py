"""Whatever happens to workloads, in whatever order: no room is given twice, nothing is made twice, and
each of them ends, as soon as its cluster does what it is told, and leaves nothing.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from jobs.kinds.registry import KINDS
from jobs.kinds.state import Observed, ReplicaKey, WorkloadRow
from jobs.rules import conditions
from jobs.rules.amounts import Amount, NodeCapacity, ReplicaRequest
from jobs.rules.queue.look import Queued, QueueSnapshot, QuotaHeadroom, look
from jobs.rules.reasons import Reason
from jobs.rules.states import FINAL_STATES, FOLLOWERS, IDLE_STATES, WorkloadState
from tests.jobs.kinds.cluster import HOLD_GPUS, Workload

START = datetime(2026, 11, 20, 12, tzinfo=UTC)
QUOTA = 3
MOST_EACH = 2  # GPUs of a workload
HARD = Amount(gpu=QUOTA, pods=10**6)
NODE = NodeCapacity("a", HARD, HARD)
TRAINING = {
    "kind": "job",
    "memory": dict.fromkeys(("chief", "worker", "ps", "evaluator"), "1Gi"),
}
ASKED = {
    "tf-ps": {**TRAINING, "topology": "tf-ps", "counts": {"worker": 2, "ps": 1}},
    "chief": {
        **TRAINING,
        "topology": "tf-ps",
        "counts": {"chief": 1, "worker": 1, "ps": 1, "evaluator": 1},
    },
    "single": {**TRAINING, "topology": "single", "counts": {"worker": 1}},
    "notebook": {"kind": "notebook", "memory": {"notebook": "1Gi"}, "observed_generation": 0},
}
NAMES = {"namespace": "u-a", "kube_name": "w", "root_name": "w", "image": "tf:2"}
FATES = ("ok", "hang", "fail", "oom", "evict", "unplaced")
WHICH = st.integers(0, 9)
MOST_TURNS = 300


class AnyLife(RuleBasedStateMachine):
    """Some workloads of one tenant, and all that people and clusters do."""

    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self.workloads: list[Workload] = []
        self.submit("notebook", "ok", 0, "all", None)
        self.submit("single", "fail", 3, "all", None)

    def _one(self, which: int) -> Workload:
        return self.workloads[which % len(self.workloads)]

    # --- people ---
    @precondition(lambda self: len(self.workloads) < 4)
    @rule(
        what=st.sampled_from(sorted(ASKED)),
        fate=st.sampled_from(FATES),
        retries=st.integers(0, 3),
        clean_policy=st.sampled_from(["all", "running", "none"]),
        deadline_s=st.sampled_from([None, 60]),
    )
    def submit(
        self, what: str, fate: str, retries: int, clean_policy: str, deadline_s: int | None
    ) -> None:
        number = len(self.workloads)
        at = self.now + timedelta(milliseconds=number)
        policy = {"retries": retries, "clean_policy": clean_policy, "deadline_s": deadline_s}
        policy["ttl_s"] = 600
        row = WorkloadRow(id=str(number), queued_at=at, run_policy=policy, **NAMES, **ASKED[what])
        self.workloads.append(
            Workload(row, max(1, sum(row.counts.get(r, 0) for r in HOLD_GPUS)), fate)
        )

    @rule(which=WHICH, desired=st.sampled_from(["stop", "stop", "delete"]))
    def end(self, which: int, desired: str) -> None:
        one = self._one(which)
        if one.row.desired != "delete":
            one.row = replace(one.row, desired=desired)

    @rule(which=WHICH)
    def suspend(self, which: int) -> None:
        row = self._one(which).row
        may = row.kind == "job" and row.state not in FINAL_STATES | {WorkloadState.STOPPING}
        if row.desired == "run" and may:
            self._one(which).row = replace(row, desired="suspend")

    @rule(which=WHICH)
    def resume(self, which: int) -> None:
        row = self._one(which).row
        if row.desired == "suspend" and row.state in IDLE_STATES:
            self._one(which).row = replace(row, desired="run", queued_at=self.now)

    @rule(which=WHICH)
    def start_again(self, which: int) -> None:
        row = self._one(which).row
        if row.desired != "delete" and row.kind != "job":
            again = replace(row, desired="run", generation=row.generation + 1, queued_at=self.now)
            self._one(which).row = again

    @rule(which=WHICH, closed=st.sampled_from(["", "suspended", "deleting"]))
    def close_the_tenant(self, which: int, closed: str) -> None:
        one = self._one(which)
        one.row = replace(one.row, tenant_closed=closed)

    # --- the cluster ---
    @rule(which=WHICH, fate=st.sampled_from(FATES), turns=st.sampled_from([0, 12]))
    def change_fate(self, which: int, fate: str, turns: int) -> None:
        """For so long that an attempt may end by it, and the next one begin."""
        self._one(which).fate = fate
        for _ in range(turns):
            self._turn(5)

    @rule(which=WHICH)
    def lose_root(self, which: int) -> None:
        self._one(which).root = None

    # --- time ---
    @rule(seconds=st.sampled_from([1, 1, 5, 40, 400]), times=st.integers(1, 6))
    def pass_time(self, seconds: int, times: int) -> None:
        for _ in range(times):
            self._turn(seconds)

    @rule(which=WHICH, done=st.integers(0, 3), is_heard=st.booleans())
    def break_off(self, which: int, done: int, is_heard: bool) -> None:
        """The engine dies while it makes its calls, or they are refused."""
        if not self._one(which).is_gone:
            self._one(which).look(self.now, done, is_heard=is_heard)

    def _turn(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)
        for one in self.workloads:
            one.step(self.now)
            if not one.is_gone:
                one.look(self.now)
        self._admit()

    def _admit(self) -> None:
        queued = {
            one.row.id: one
            for one in self.workloads
            if one.row.state is WorkloadState.QUEUED
            and not one.is_gone
            and one.row.desired == "run"
            and not one.row.tenant_closed
            and one.row.observed_generation == one.row.generation
        }
        waiting = []
        for one in queued.values():
            request = ReplicaRequest("worker", one.size, Amount(gpu=1, pods=1))
            row = one.row
            waiting.append(Queued(row.id, "t", "w", row.queued_at, (request,), row.not_before))
        left = HARD - Amount(gpu=sum(one.held for one in self.workloads))
        asked = QueueSnapshot(waiting, {"t": QuotaHeadroom(HARD, left)}, [NODE])
        for decision in look(asked, self.now).decisions:
            one = queued[decision.queued.workload_id]
            life = KINDS[one.row.kind].lifecycle(one.row, Observed(), self.now)
            one.is_admitted = decision.fit.kind == "now"
            why = Reason(decision.fit.code, decision.fit.text)
            one.commit(life.admit() if one.is_admitted else life.keep_waiting(why))

    def _turn_until(self, is_so: Callable[[], bool]) -> None:
        for _ in range(MOST_TURNS):
            if is_so():
                return
            self._turn(30)
            self.is_never_over_quota()
        raise AssertionError(f"never: {self.workloads}")

    def _are_served(self) -> bool:
        """Whether everything has ended or answers, or waits because the quota is held by these."""
        going = [one for one in self.workloads if not is_over(one)]
        waiting = [one for one in going if one.row.state is WorkloadState.QUEUED]
        is_full = sum(one.held for one in going) > QUOTA - MOST_EACH
        are_up = all(
            one in waiting or (one.row.state is WorkloadState.RUNNING and one.row.kind != "job")
            for one in going
        )
        return are_up and (is_full or not waiting)

    # --- what must be true ---
    @invariant()
    def is_never_over_quota(self) -> None:
        assert sum(one.gpus for one in self.workloads) <= QUOTA

    @invariant()
    def what_is_suspended_holds_nothing(self) -> None:
        for one in self.workloads:
            if one.row.state is WorkloadState.SUSPENDED:
                assert (one.objects, one.secret, one.held, one.row.root_uid) == ([], None, 0, "")
                if one.row.attempt in one.attempts:  # else it was suspended before that began
                    its_logs_are_known(one)

    @invariant()
    def has_one_replica_of_the_current_attempt(self) -> None:
        """Where one replica is all, that of an earlier generation is forgotten."""
        for one in self.workloads:
            if one.row.kind != "job":
                assert {key.attempt for key in one.replicas} <= {one.row.attempt}

    def teardown(self) -> None:
        """From now on the cluster does what it is told: who serves does so until told to stop."""
        for one in self.workloads:
            one.fate = "ok"
            if one.row.desired == "suspend":
                wish = "run" if one.row.state in IDLE_STATES else "stop"
                one.row = replace(one.row, desired=wish)
            if one.row.tenant_closed and one.row.desired == "run":
                one.row = replace(one.row, desired="stop")
        self._turn_until(self._are_served)
        for one in self.workloads:
            if one.row.kind != "job" and one.row.desired == "run":
                one.row = replace(one.row, desired="stop")
        self._turn_until(lambda: all(map(is_over, self.workloads)))
        for one in self.workloads:
            assert not one.objects
            assert one.secret is None
            if not one.is_gone:
                one.look(self.now)  # may write what became of its replicas
                rest = one.look(self.now)
                assert (rest.steps, rest.writes) == ((), False)
            if one.row.kind == "job" and not one.is_gone:
                attempts_logs_and_conditions_agree(one)


def attempts_logs_and_conditions_agree(one: Workload) -> None:
    """Of a training that has ended, and of which nothing is left in the cluster."""
    told = [one.attempts[number] for number in sorted(one.attempts)]
    texts = [(event.reason, event.message, START) for event in one.events]
    began = sum(reason == "admitted" for reason, _, _ in texts)
    again = sum(text.startswith("restarting -> starting") for _, text, _ in texts)
    # Each begins by an admission, or after a back-off, and ends before the next one begins.
    assert [attempt.number for attempt in told] == list(range(1, began + again + 1))
    assert again == sum(attempt.cause in {"retry", "disrupted"} for attempt in told)
    for before, attempt in pairwise(told):
        assert before.admitted_at <= before.ended_at <= attempt.admitted_at
        assert before.reason_code
    if told:
        last = told[-1]
        assert (last.exit_code == 0, last.reason_code == "") == (one.row.state == "succeeded",) * 2
        assert last.ended_at <= one.row.finished_at
    its_logs_are_known(one)
    for reason, text, _ in texts:
        if reason == conditions.CHANGED:
            before, after, *_ = re.findall(r"\w+", text)
            assert after in FOLLOWERS[WorkloadState(before)]
    # In the end, one condition says how it ended.
    found = {one.type for one in conditions.find(START, texts) if one.is_true}
    assert found == {"Created", one.row.state.value.capitalize()}


def its_logs_are_known(one: Workload) -> None:
    """What ran is of an attempt that is told, and its log is kept, or known to be lost."""
    ran = {key for key, row in one.replicas.items() if row.started_at is not None}
    assert {key.attempt for key in ran} <= set(one.attempts)
    kept = {key.text for key, row in one.archives.items() if row.is_complete}
    notes = one.row.notes
    assert {key.text for key in ran} <= kept | set(notes.lost) | set(notes.rescued)


def is_over(one: Workload) -> bool:
    row = one.row
    if row.desired == "delete":
        return one.is_gone
    is_clean = row.state in FINAL_STATES and row.cleaned_at is not None
    return is_clean and row.observed_generation == row.generation


TestAnyLife = AnyLife.TestCase
TestAnyLife.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)


def test_what_ends_in_the_queue_has_kept_the_log_of_an_earlier_attempt() -> None:
    """As the machine once found it: evicted, tried again, not placed in time, then stopped."""
    machine = AnyLife()
    one = machine.workloads[1]
    machine.change_fate(which=1, fate="evict", turns=12)
    machine.pass_time(seconds=400, times=1)
    machine._turn_until(lambda: one.row.state is WorkloadState.QUEUED)
    machine.close_the_tenant(which=1, closed="suspended")
    machine.teardown()
    assert (one.row.state, set(one.attempts)) == (WorkloadState.STOPPED, {1, 2})
    assert one.archives[ReplicaKey("worker", 0, 1)].is_complete
