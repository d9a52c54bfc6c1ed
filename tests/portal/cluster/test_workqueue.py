"""The work queue does what a plain list of what was asked of it says, whatever the order."""

from hypothesis import assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from portal.cluster.workqueue import RateLimiter, WorkQueue

FIRST_S, MOST_S = 1.0, 8.0
KEYS = st.integers(0, 4)
SECONDS = st.integers(0, 12).map(float)


class Queues(RuleBasedStateMachine):
    """Keys are added, given out, done; the model knows which must come, and when."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.queue = WorkQueue[int](lambda: self.now, FIRST_S, MOST_S)
        self.added: dict[int, None] = {}
        self.due: dict[int, float] = {}
        self.flying: set[int] = set()
        self.not_before: dict[int, tuple[float, float]] = {}  # the bounds of its back-off
        self.failures: dict[int, int] = {}

    @rule(seconds=SECONDS)
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(key=KEYS)
    def add(self, key: int) -> None:
        self.queue.add(key)
        self.added.setdefault(key)

    @rule(key=KEYS, seconds=SECONDS.filter(bool))
    def add_after(self, key: int, seconds: float) -> None:
        self.queue.add_after(key, seconds)
        self.due[key] = min(self.now + seconds, self.due.get(key, self.now + seconds))

    @rule(key=KEYS, least_s=st.sampled_from([0.0, 20.0]))
    def fail(self, key: int, least_s: float) -> None:
        self.queue.add_rate_limited(key, least_s=least_s)
        count = self.failures[key] = self.failures.get(key, 0) + 1
        step_s = min(FIRST_S * 2 ** (count - 1), MOST_S)
        bounds = (max(step_s / 2, least_s), max(step_s, least_s))
        self.not_before[key] = (self.now + bounds[0], self.now + bounds[1])
        self.added.setdefault(key)

    @rule(key=KEYS)
    def succeed(self, key: int) -> None:
        self.queue.forget(key)
        self.failures.pop(key, None)
        self.not_before.pop(key, None)

    @rule(key=KEYS)
    def retry_one(self, key: int) -> None:
        self.queue.retry_now([key])
        self.not_before.pop(key, None)
        self.added.setdefault(key)

    @rule()
    def retry_all(self) -> None:
        left_alone = self.queue.backing_off()
        assert {k for k, at in self.not_before.items() if at[0] > self.now} <= {*left_alone}
        self.queue.retry_now()
        for key in left_alone:
            self.added.setdefault(key)
        self.not_before.clear()

    @rule(key=KEYS)
    def remove(self, key: int) -> None:
        self.queue.remove(key)
        for table in (self.added, self.due, self.not_before, self.failures):
            table.pop(key, None)

    @rule(most=st.sampled_from([1, 2, None]))
    def get(self, most: int | None) -> None:
        for key in sorted(self.due, key=lambda key: self.due[key]):
            if self.due[key] <= self.now:
                del self.due[key]
                self.added.setdefault(key)
        free = [k for k in self.added if k not in self.flying]
        must = [k for k in free if self.not_before.get(k, (0.0, 0.0))[1] <= self.now]
        may = [k for k in free if self.not_before.get(k, (0.0, 0.0))[0] <= self.now]
        got = self.queue.get(most)
        assert {*got} <= {*may}, "in flight, backing off, or not asked for"
        assert len({*got}) == len(got)
        assert {*must} <= {*got} or len(got) == most
        assert got == [k for k in self.added if k in got], "the first one first, due ones as due"
        for key in got:
            del self.added[key]
            self.due.pop(key, None)
        self.flying |= {*got}

    @precondition(lambda self: self.flying)
    @rule(number=st.integers(0, 4))
    def done(self, number: int) -> None:
        assume(number in self.flying)
        self.queue.done(number)
        self.flying.discard(number)

    @invariant()
    def it_says_how_long_there_is_nothing(self) -> None:
        wait_s = self.queue.next_s()
        times = {**self.due, **dict.fromkeys(self.added, self.now)}
        bounds = [
            [max(at, self.not_before.get(key, (0.0, 0.0))[end]) for end in (0, 1)]
            for key, at in times.items()
            if key not in self.flying
        ]
        if not bounds:
            assert wait_s is None
            return
        assert wait_s is not None
        assert wait_s >= 0.0
        earliest, latest = (min(one[end] for one in bounds) for end in (0, 1))
        assert max(earliest, self.now) <= self.now + wait_s <= max(latest, self.now)

    @invariant()
    def it_knows_its_keys(self) -> None:
        assert self.queue.in_flight() == self.flying
        assert {k: n for k in range(5) if (n := self.queue.failures(k))} == self.failures


TestQueues = Queues.TestCase
TestQueues.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)


def test_waits_grow_up_to_a_limit_and_begin_anew_after_a_success() -> None:
    now = 0.0
    limiter = RateLimiter[str](lambda: now, FIRST_S, MOST_S)
    waits = []
    for _ in range(6):
        limiter.back_off("a")
        waits.append(limiter.until("a"))
    steps = [1.0, 2.0, 4.0, 8.0, 8.0, 8.0]
    assert all(step / 2 <= wait <= step for step, wait in zip(steps, waits, strict=True))
    limiter.forget_after("a", 60.0)
    assert limiter.count("a") == 6
    now = 61.0
    limiter.forget_after("a", 60.0)
    limiter.back_off("a")
    assert now + 0.5 <= limiter.until("a") <= now + 1.0
    limiter.postpone("a", 30.0)
    assert limiter.until("a") == now + 30.0
