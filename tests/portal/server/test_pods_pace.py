"""Calls of pods, in a loop whose time passes only while everybody waits: what one token gets, and what others get."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from portal.asgi_answer import STRANGERS, Message, report_pods, send_answer
from portal.server import pods_pace
from portal.server.pods_pace import (
    AT_ONCE,
    LEAST_WAITING,
    MOST_PAUSING,
    PAUSE_S,
    PER_S,
    REFUSED_PER_S,
    WAIT_S,
    PodsPace,
)
from portal.storage.folder import STORE_PATH

STORED = f"{STORE_PATH}a/jobs/b/c"


class _Loop(asyncio.SelectorEventLoop):
    """Nobody really waits."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        select = self._selector.select  # type: ignore[attr-defined]

        def skip(timeout: float | None = None) -> Any:
            found = select(0 if timeout else timeout)
            if timeout and not found:
                self._now += timeout
            return found

        self._selector.select = skip  # type: ignore[attr-defined]

    def time(self) -> float:
        return self._now


def run(test: Callable[["Door"], Awaitable[None]], **about: Any) -> None:
    async def go() -> None:
        async with asyncio.timeout(3600):
            await test(Door(**about))

    with asyncio.Runner(loop_factory=_Loop) as runner:
        runner.run(go())


class Door:
    """A `PodsPace` before an application that works on each call for `work_s`.

    Attributes:
        most: how many of a token, and of what kind of path, it has worked on at once.
        reports: token -> by what later calls of so many pods are counted.
    """

    def __init__(self, pods: dict[str, int] | None = None, work_s: float = 0.01) -> None:
        self._pods = pods or {}
        self._work_s = work_s
        self._working: Counter[tuple[str, str]] = Counter()
        self.most: Counter[tuple[str, str]] = Counter()
        self.begun: list[float] = []
        self.reports: dict[str, tuple[str, int]] = {}
        self._app = PodsPace(self._answer, lambda scope: scope["token"])

    async def _answer(self, scope: Message, _receive: Any, send: Any) -> None:
        who = (scope["token"], scope["path"])
        self._working[who] += 1
        self.most[who] = max(self.most[who], self._working[who])
        self.begun.append(asyncio.get_running_loop().time())
        try:
            await asyncio.sleep(self._work_s)
            if scope["token"] in self.reports:
                holder, pods = self.reports[scope["token"]]
                report_pods(scope, pods, holder)
            if scope["token"] in self._pods:
                report_pods(scope, self._pods[scope["token"]])
            await send_answer(send, 200, b"{}", b"application/json")
        finally:
            self._working[who] -= 1

    async def call(self, token: str = "a", path: str = "/internal/v1/x/") -> tuple[int, Any]:
        """Status, and `Retry-After`."""
        told: list[Message] = []

        async def send(message: Message) -> None:
            told.append(message)

        async def receive() -> Message:
            raise AssertionError("a body was read before its turn")

        await self._app({"type": "http", "path": path, "token": token}, receive, send)
        return told[0]["status"], dict(told[0]["headers"]).get(b"retry-after")

    async def together(self, count: int, **where: Any) -> Counter[int]:
        """Statuses of so many calls at the same moment."""
        found = await asyncio.gather(*(self.call(**where) for _ in range(count)))
        for status, retry_after in found:
            assert (status == 429) == (retry_after is not None and int(retry_after) > 0)
        return Counter(status for status, _retry_after in found)


def test_what_is_more_than_one_pod_sends_is_refused_and_others_do_not_notice() -> None:
    async def flood(door: Door) -> None:
        assert (await door.call())[0] == 200  # one pod is told, as the first answer has it
        flooding = asyncio.create_task(door.together(50))
        await asyncio.sleep(0)
        others = await asyncio.gather(*(door.call(f"other {n}") for n in range(100)))
        assert Counter(status for status, _ in others) == {200: 100}
        assert asyncio.get_running_loop().time() < 0.1  # nobody else has waited
        found = await flooding
        assert found == {200: AT_ONCE + LEAST_WAITING, 429: 50 - AT_ONCE - LEAST_WAITING}
        assert door.most["a", "/internal/v1/x/"] == AT_ONCE
        assert asyncio.get_running_loop().time() == pytest.approx(PAUSE_S, abs=0.1)

    run(flood)


@pytest.mark.parametrize("callers", [24, 400])
@pytest.mark.parametrize("path", ["/internal/v1/x/", STORED])
def test_however_long_it_goes_on_the_pace_is_kept(path: str, callers: int) -> None:
    async def flood(door: Door) -> None:
        loop, statuses = asyncio.get_running_loop(), Counter[int]()

        async def ask() -> None:
            while loop.time() < 10:
                statuses[(await door.call(path=path))[0]] += 1
                await asyncio.sleep(0.02)

        await asyncio.gather(*(ask() for _ in range(callers)))
        began = sorted(door.begun)
        for second in range(10):
            per_second = sum(second <= at < second + 1 for at in began)
            assert per_second <= (PER_S + 1) * (2 if second == 0 else 1)
        assert statuses[200] >= PER_S * 10  # and it is given
        if path != STORED:
            # It does not come as fast as it could, with however many connections.
            assert 0 < statuses[429] <= callers + 10 * min(callers / PAUSE_S, REFUSED_PER_S)

    run(flood, work_s=0.001)


@pytest.mark.parametrize("pods", [1, 2, 64, 100])
@pytest.mark.parametrize("is_known", [False, True])
def test_all_pods_of_a_training_may_come_at_once(pods: int, is_known: bool) -> None:
    """They end together. What older runners do with a 429 wastes their time: none is given for this."""

    async def end(door: Door) -> None:
        if is_known:
            assert (await door.call())[0] == 200
        assert await door.together(2 * pods) == {200: 2 * pods}
        assert await door.together(2 * pods, path=STORED) == {200: 2 * pods}
        assert door.most["a", STORED] <= max(pods, pods_pace.AT_ONCE_OF_STORE)

    run(end, pods={"a": pods})


def test_the_largest_array_ends_at_once_and_its_older_runners_bring_everything() -> None:
    """They try again after 1, 2, 4, ... 30 s, whatever `Retry-After` says, and give up after 600 s."""

    async def bring(door: Door) -> float:
        began, pause_s = asyncio.get_running_loop().time(), 1.0
        for _ in range(5):  # a segment and its end, artifacts and their end, the end
            while (await door.call())[0] != 200:
                await asyncio.sleep(pause_s)
                pause_s = min(30.0, 2 * pause_s)
        return asyncio.get_running_loop().time() - began

    async def end(door: Door) -> None:
        assert max(await asyncio.gather(*(bring(door) for _ in range(1000)))) < 120

    run(end, pods={"a": 1000})


def test_who_waits_in_vain_is_told_so_and_takes_no_turn() -> None:
    async def hang(door: Door) -> None:
        assert await door.together(10) == {200: AT_ONCE, 429: 10 - AT_ONCE}
        # In vain for `WAIT_S`, and then the pause.
        assert asyncio.get_running_loop().time() == pytest.approx(100)
        leaving = asyncio.create_task(door.call())
        working = [asyncio.create_task(door.call()) for _ in range(AT_ONCE)]
        await asyncio.sleep(WAIT_S / 2)
        leaving.cancel()
        await asyncio.wait([leaving, *working])
        assert await door.together(AT_ONCE) == {200: AT_ONCE}

    run(hang, work_s=100.0)


def test_strangers_wait_in_few_places() -> None:
    """However many tokens they try: all of them are one."""

    async def come(door: Door) -> None:
        found = await door.together(500, token=STRANGERS)
        assert found == {200: AT_ONCE + LEAST_WAITING, 429: 500 - AT_ONCE - LEAST_WAITING}
        transfers = await door.together(500, token=STRANGERS, path=STORED)
        most = pods_pace.AT_ONCE_OF_STORE + LEAST_WAITING
        assert transfers == {200: most, 429: 500 - most}

    run(come)


@pytest.mark.parametrize("path", ["/internal/v1/x/", STORED])
def test_one_of_whom_nothing_is_known_leaves_places_for_others(path: str) -> None:
    async def come(door: Door) -> None:
        flooding = asyncio.create_task(door.together(3000, path=path))
        await asyncio.sleep(0)
        calls = [door.together(8, token=f"other {n}") for n in range(100)]
        others = await asyncio.gather(*calls)
        assert sum(others, Counter()) == {200: 800}
        assert (await flooding)[200] < 1000

    run(come)


def test_all_pods_of_a_training_may_fetch_its_code_at_once() -> None:
    """Their links are counted by the namespace; how many pods there are a call of the training says."""

    async def fetch(door: Door) -> None:
        door.reports["a"] = ("bundles", 100)
        assert (await door.call())[0] == 200
        door.reports["small"] = ("bundles", 1)  # another training of the namespace
        assert (await door.call("small"))[0] == 200
        assert await door.together(100, token="bundles", path=STORED) == {200: 100}
        assert door.most["bundles", STORED] > pods_pace.AT_ONCE_OF_STORE

    # As large code does on a slow network.
    run(fetch, work_s=30.0)


def test_there_is_an_end_of_those_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pods_pace, "MOST_WAITING", 30)

    async def come(door: Door) -> None:
        tokens = [f"training {n}" for n in range(20)]
        found = await asyncio.gather(*(door.together(10, token=token) for token in tokens))
        assert sum(found, Counter()) == {200: 20 * AT_ONCE + 30, 429: 20 * (10 - AT_ONCE) - 30}

    run(come)


def test_there_is_an_end_of_those_that_pause() -> None:
    async def flood(door: Door) -> None:
        assert (await door.call())[0] == 200
        refused = [asyncio.create_task(door.call()) for _ in range(1000)]
        await asyncio.sleep(PAUSE_S / 2)
        assert sum(one.done() for one in refused) == 1000 - MOST_PAUSING
        await asyncio.wait(refused)

    run(flood)


def test_tokens_that_nobody_uses_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pods_pace, "_MOST_HOLDERS", 10)

    async def come(door: Door) -> None:
        for number in range(100):
            assert (await door.call(f"training {number}"))[0] == 200
        assert len(door._app._holders) == 10
        door.most.clear()
        await asyncio.gather(*(door.together(5, token=f"training {n}") for n in range(50)))
        assert all(most <= AT_ONCE for most in door.most.values())

    run(come)
