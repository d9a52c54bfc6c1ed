"""The work queues: de-duplication, back-off, timers, and nothing to do when nothing happens."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from onebox.api.controllers import all_controllers, start
from onebox.api.controllers.objects import Key, key_of
from onebox.api.controllers.runtime import Controller, RetryLaterError
from onebox.api.registry import Api
from onebox.api.status import StatusError
from onebox.api.store import Store
from onebox_tests.controllers.world import Make, Obj, World, pod_spec

MakeWorld = Callable[[Make], World]


class Recording(Controller):
    """Notes its syncs; raises what it is told to."""

    name = "recording"
    kinds = ("configmaps",)

    def __init__(self, api: Api) -> None:
        super().__init__(api)
        self.synced: list[Key] = []
        self.failures: list[Exception] = []
        self.again_in_s: float | None = None

    def keys(self, event: str, plural: str, obj: Obj) -> Iterable[Key]:
        return (key_of(obj),)

    def sync(self, key: Key) -> float | None:
        self.synced.append(key)
        if self.failures:
            raise self.failures.pop(0)
        return self.again_in_s


def one(make_world: MakeWorld) -> tuple[World, Recording]:
    made: list[Recording] = []

    def controllers(api: Api) -> list[Controller]:
        made.append(Recording(api))
        return [made[-1]]

    world = make_world(controllers)
    return world, made[0]


def touch(world: World, name: str, value: str = "") -> None:
    if world.api.find("configmaps", "ada", name):
        world.api.patch("configmaps", "ada", name, {"data": {"k": value}})
    else:
        world.api.create("configmaps", "ada", {"metadata": {"name": name}})


def test_many_changes_of_one_object_are_one_sync(make_world: MakeWorld) -> None:
    world, controller = one(make_world)
    for value in ("", "1", "2", "3"):
        touch(world, "a", value)
    world.settle()
    assert controller.synced == [("ada", "a")]


def test_what_exists_at_the_start_is_synced(make_world: MakeWorld) -> None:
    world, _ = one(make_world)
    touch(world, "a")
    later = Recording(world.api)
    world.make = lambda _api: [later]
    world.restart()
    assert later.synced == [("ada", "a")]


def test_failures_come_back_ever_later(make_world: MakeWorld) -> None:
    world, controller = one(make_world)
    controller.failures = [RetryLaterError("quota")] * 4
    touch(world, "a")
    world.settle()
    waits = []
    while (due_s := world.runtime.next_due_s()) is not None:
        waits.append(round(due_s, 3))
        world.advance(due_s)
    assert waits == [0.2, 0.4, 0.8, 1.6]
    assert len(controller.synced) == 5


def test_an_event_ends_the_wait_of_a_failed_key(make_world: MakeWorld) -> None:
    world, controller = one(make_world)
    controller.failures = [RetryLaterError("quota")]
    touch(world, "a")
    world.settle()
    touch(world, "a", "1")
    world.settle()
    assert len(controller.synced) == 2
    assert world.runtime.next_due_s() is None


def test_a_conflict_is_tried_again_at_once_but_not_for_ever(
    make_world: MakeWorld, caplog: pytest.LogCaptureFixture
) -> None:
    world, controller = one(make_world)
    controller.failures = [StatusError(409, "Conflict", "stale")] * 100
    touch(world, "a")
    world.settle()
    assert len(controller.synced) == 6
    assert world.runtime.next_due_s()
    caplog.clear()


def test_one_broken_key_does_not_stop_the_others(
    make_world: MakeWorld, caplog: pytest.LogCaptureFixture
) -> None:
    world, controller = one(make_world)
    controller.failures = [ValueError("broken")]
    touch(world, "a")
    touch(world, "b")
    world.settle()
    assert controller.synced == [("ada", "a"), ("ada", "b")]
    assert "recording failed on ada/a" in caplog.text
    caplog.clear()


async def settled(api: Api, done: Callable[[], bool], timeout_s: float = 5.0) -> None:
    """Wait for a condition, woken by changes and not by a clock."""
    changed = asyncio.Event()
    unsubscribe = api.subscribe(lambda *_: changed.set())
    try:
        async with asyncio.timeout(timeout_s):
            while not done():
                changed.clear()
                await changed.wait()
    finally:
        unsubscribe()


async def test_all_controllers_run_in_the_loop_and_are_idle_afterwards(tmp_path: Path) -> None:
    store = Store(tmp_path / "state.db")
    api = Api(store)
    stop = start(api, ca_pem="PEM")
    try:
        await settled(api, lambda: bool(api.find("serviceaccounts", "default", "default")))
        amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
        status = {"allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
        api.create("nodes", None, {"metadata": {"name": "box"}, "status": status})
        spec = {"template": {"spec": pod_spec(restartPolicy="Never")}}
        api.create("jobs", "default", {"metadata": {"name": "mnist"}, "spec": spec})

        def is_placed() -> bool:
            pods = api.list("pods", "default")
            return bool(pods) and bool(pods[0]["spec"].get("nodeName"))

        await settled(api, is_placed)
        version = 0
        while version != store.resource_version:  # until what is debounced has come to its end
            version = store.resource_version
            await asyncio.sleep(0.3)
        cpu_s = time.thread_time()
        await asyncio.sleep(0.5)
        assert store.resource_version == version
        assert time.thread_time() - cpu_s < 0.05
    finally:
        await stop()
        store.close()


async def test_nothing_happens_after_stop(tmp_path: Path) -> None:
    store = Store(tmp_path / "state.db")
    api = Api(store)
    stop = start(api)
    await settled(api, lambda: bool(api.find("namespaces", None, "kube-public")))
    await stop()
    version = store.resource_version
    api.create("namespaces", None, {"metadata": {"name": "ada"}})
    await asyncio.sleep(0.05)
    assert store.resource_version == version + 1
    store.close()


def test_the_whole_set_settles_on_a_store_full_of_everything(make_world: MakeWorld) -> None:
    world = make_world(lambda api: all_controllers(api, ca_pem="PEM"))
    world.settle()
    amounts = {"cpu": "64", "memory": "64Gi", "pods": "500"}
    status = {"allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    world.api.create("nodes", None, {"metadata": {"name": "box"}, "status": status})
    for number in range(10):
        template = {"metadata": {"labels": {"n": str(number)}}, "spec": pod_spec()}
        job = {"spec": {**template["spec"], "restartPolicy": "Never"}}
        world.api.create(
            "jobs",
            "ada",
            {
                "metadata": {"name": f"j-{number}"},
                "spec": {"completions": 3, "parallelism": 3, "template": job},
            },
        )
        selector = {"matchLabels": {"n": str(number)}}
        world.api.create(
            "deployments",
            "ada",
            {
                "metadata": {"name": f"d-{number}"},
                "spec": {"replicas": 2, "selector": selector, "template": template},
            },
        )
        service = {"selector": {"n": str(number)}, "ports": [{"port": 80}]}
        world.api.create("services", "ada", {"metadata": {"name": f"s-{number}"}, "spec": service})
    world.settle()
    assert len(world.pods()) == 50
    assert all(pod["spec"].get("nodeName") == "box" for pod in world.pods())
    version = world.store.resource_version
    world.restart()
    assert world.store.resource_version == version  # a restart finds nothing left to do
