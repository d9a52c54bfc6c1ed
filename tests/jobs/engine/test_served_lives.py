"""Whole lives of notebooks and TensorBoards on the simulated cluster."""

from typing import Any

import pytest

from jobs.models import Workload
from tenants.models import Tenant, User
from tests.jobs.engine.kubelet import Life
from tests.jobs.engine.world import World

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def world() -> World:
    return World()


def is_state(state: str) -> Any:
    return lambda service: service.state == state


def states(service: Workload) -> list[str]:
    return [step["state"] for step in service.steps]


async def started(world: World, **changes: Any) -> Workload:
    await world.submit("notebook", **changes)
    return await world.until(is_state("running"))


async def test_it_starts_step_by_step_and_tells_its_port(world: World) -> None:
    service = await started(world)
    assert states(service) == ["done"] * 7
    times = [step["at"] for step in service.steps]
    assert times == sorted(times)
    assert (service.node_port, service.replica.node, service.replica.restarts) == (30001, "node", 0)
    assert service.started_at is not None
    assert service.reason_text == ""
    kinds = [thing.split("/")[0] for thing in world.sim.live_things()]
    assert kinds == ["Deployment", "Pod", "Secret", "Service"]
    secret = world.sim.of("Secret")[0]["stringData"]
    assert set(secret) == {"portal_token", "ticket_key", "app_token", "usage_token"}
    assert not any(value in str(service.plan) for value in secret.values())


async def test_a_look_at_one_that_runs_writes_and_calls_nothing(world: World) -> None:
    service = await started(world)
    calls = len(world.sim.mutations)
    await world.rest(15)
    assert len(world.sim.mutations) == calls
    assert (await world.row()).revision == service.revision


async def test_a_stop_removes_everything_and_a_start_begins_anew(world: World) -> None:
    first = await started(world)
    await world.intend(desired="stop", stop_reason="over for today")
    stopped = await world.until(is_state("stopped"))
    assert stopped.reason_text == "Stopped: over for today"
    assert stopped.node_port is None
    await world.until(lambda service: service.cleaned_at)
    assert world.sim.live_things() == []

    await world.intend(desired="run", generation=2, stop_reason="")
    again = await world.until(is_state("running"))
    assert (again.observed_generation, again.attempt, again.replica.restarts) == (2, 2, 0)
    assert await again.replica_rows.acount() == 1
    assert again.plan[0]["metadata"]["name"] == f"{first.plan[0]['metadata']['name']}-2"
    assert world.sim.of("Pod")[0]["metadata"]["labels"]["homeport.dev/attempt"] == "2"


@pytest.mark.parametrize("when", ["queued", "running"])
async def test_a_suspended_tenant_has_nothing_running(world: World, when: str) -> None:
    await (started(world) if when == "running" else world.submit("notebook"))
    await Tenant.objects.aupdate(desired="suspended")
    service = await world.until(is_state("stopped"))
    assert service.reason_code == "tenant_suspended"
    await world.rest(5)
    assert world.sim.live_things() == []
    await Tenant.objects.aupdate(desired="active")
    await world.rest(5)
    assert (await world.row()).state == "stopped"  # nothing starts by itself


async def test_what_a_disabled_person_runs_is_stopped(world: World) -> None:
    await started(world)
    await User.objects.filter(username="alice").aupdate(is_active=False)
    service = await world.until(is_state("stopped"))
    assert service.reason_code == "owner_disabled"
    assert world.sim.live_things() == []


async def test_three_crashes_are_enough(world: World) -> None:
    world.sim.lives = {"notebook-0": [Life("crash", 1)]}
    await world.submit("notebook")
    service = await world.until(is_state("failed"))
    assert service.reason_code == "app_crash_loop"
    assert service.reason_text.startswith("The notebook ended 3 times within 10 minutes.")
    assert "exit code 1" in service.reason_text
    assert "the last words" in service.reason_text
    assert service.reason_next_step == "Start it again with more memory or another image."
    assert states(service)[-1] == "failed"
    assert service.replica.restarts == 3
    assert (await world.events()).count("app_restarting") == 2
    await world.until(lambda service: service.cleaned_at)
    assert world.sim.live_things() == []


async def test_a_pod_that_the_cluster_took_comes_back(world: World) -> None:
    world.sim.lives = {"notebook-0": [Life("evict"), Life("serve")]}
    await started(world)
    service = await world.until(is_state("starting"))
    assert service.replica.restarts == 0 or service.reason_code == "node_lost"
    service = await world.until(is_state("running"))
    assert service.replica.restarts == 1
    assert "node_lost" in await world.events()
    assert states(service) == ["done"] * 7


async def test_one_that_never_answers_fails_with_words(world: World) -> None:
    world.sim.lives = {"notebook-0": [Life("mute")]}
    await world.submit("notebook")
    service = await world.until(lambda service: service.reason_code == "app_starting")
    assert states(service) == ["done"] * 6 + ["now"]
    service = await world.until(is_state("failed"), rounds=90, seconds=10)
    assert service.reason_code == "never_ready"
    assert world.sim.live_things() == []


async def test_an_image_that_cannot_be_pulled_is_told_and_given_up(world: World) -> None:
    world.sim.lives = {"notebook-0": [Life("image")]}
    await world.submit("notebook")
    service = await world.until(lambda service: "cannot be pulled" in service.reason_text)
    assert service.state == "starting"
    assert states(service)[4] == "now"
    assert "no such tag" in service.steps[4]["detail"]
    service = await world.until(is_state("failed"), rounds=90, seconds=10)
    assert "no such tag" in service.reason_text


async def test_a_full_volume_is_told(world: World) -> None:
    world.sim.lives = {"notebook-0": [Life("full")]}
    await world.submit("notebook")
    service = await world.until(lambda service: service.reason_code == "volume_full")
    assert states(service)[3] == "now"
    assert "is full" in service.steps[3]["detail"]


async def test_what_is_not_placed_goes_back_to_the_queue_and_comes_again(world: World) -> None:
    world.sim.lives = {"notebook-0": [Life("unplaced"), Life("serve")]}
    await world.submit("notebook")
    service = await world.until(
        lambda service: service.state == "starting" and "node" in service.reason_text
    )
    assert "Insufficient cpu" in service.steps[2]["detail"] or service.steps[2]["detail"]
    service = await world.until(is_state("queued"), rounds=90, seconds=10)
    assert world.sim.live_things() == []
    service = await world.until(is_state("running"), rounds=90, seconds=5)
    assert service.observed_generation == 1


async def test_a_service_that_somebody_deleted_is_made_again(world: World) -> None:
    await started(world)
    world.sim.remove(world.sim.of("Service")[0])
    service = await world.until(lambda service: service.node_port == 30002)
    assert service.state == "running"


# --- in one queue with trainings ---
async def test_notebooks_and_trainings_share_quota_and_queue(world: World) -> None:
    world.sim.lives = {"worker-0": [Life("hang")]}
    worker = {"count": 1, "cpu_millicores": 1000, "memory_bytes": 2**30, "gpu_count": 5}
    training = await world.submit(name="training", replicas={"worker": worker})
    await world.until(is_state("running"))
    wide = await world.submit("notebook", name="wide", gpu_count=5)
    later = await world.submit(name="later", replicas={"worker": {**worker, "gpu_count": 1}})
    await world.rest(3)
    service = await world.row(wide)
    assert (service.state, service.reason_code) == ("queued", "quota")
    assert service.reason_text == "Waiting for quota: needs 5 GPUs, 3 of 8 free"
    assert service.steps[1] == {**service.steps[1], "state": "now", "detail": service.reason_text}
    why = (await world.row(later)).reason_text
    assert why == "Waiting for quota behind “wide”, which needs the same"
    await Workload.objects.filter(pk=training.pk).aupdate(desired="stop")
    await world.until(is_state("running"), of=wide)
    await world.until(is_state("running"), of=later)


async def test_no_more_run_than_there_are_ports(world: World) -> None:
    for number in range(5):
        await world.submit("tensorboard", name=f"board {number}", gpu_count=0)
    for _ in range(8):
        await world.round()
        assert len(world.sim.of("Service")) <= 3
    found = [service.state async for service in Workload.objects.order_by("queued_at")]
    assert found == ["running"] * 3 + ["queued"] * 2
    last = await Workload.objects.order_by("queued_at").alast()
    fourth = await Workload.objects.order_by("queued_at").aget(name="board 3")
    assert fourth.reason_text == "Waiting for quota: needs 1 notebook or TensorBoard, 0 of 3 free"
    assert last is not None
    assert last.reason_code == "queue"
