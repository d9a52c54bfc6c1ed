"""A replica of each topology is lost in each way: who begins anew, what that costs, and that nothing is left."""

from typing import Any
from uuid import UUID

import pytest

from jobs.engine import store
from tests.jobs.engine.kubelet import Life, who_of
from tests.jobs.engine.world import ROLE, World

pytestmark = pytest.mark.django_db(transaction=True)
ALONE, ALL = "it alone", "all, as another attempt"
W1 = "worker-1"


def shape(
    topology: str, who: str, killed: str, taken: str, *, about: str = "", **roles: int
) -> Any:
    """A row: who is lost, who begins anew when its program is killed, and when the cluster takes it.

    Args:
        about: a word for the name of the row.
    """
    return pytest.param(topology, roles, who, killed, taken, id=f"{topology}{about} {who}")


SHAPES = (
    shape("single", "worker-0", ALL, ALL, worker=1),
    shape("array", W1, ALONE, ALONE, worker=2),
    shape("tf-ps", W1, ALL, ALONE, worker=2, ps=1),
    shape("tf-ps", "ps-0", ALONE, ALONE, worker=2, ps=1),
    shape("tf-ps", W1, ALONE, ALONE, worker=2, ps=1, sparse_spec=True, about=", sparse"),
    shape("tf-ps", "chief-0", ALL, ALL, chief=1, worker=2, ps=1, evaluator=1, about=", chief"),
    shape("tf-ps", W1, ALONE, ALONE, chief=1, worker=2, ps=1, about=", chief"),
    shape("tf-ps", "evaluator-0", ALONE, ALONE, chief=1, worker=1, ps=1, evaluator=1),
    shape("tf-multiworker", W1, ALL, ALL, worker=2),
    shape("tf-ingraph", "master-0", ALL, ALL, master=1, worker=2, ps=1),
    shape("tf-ingraph", W1, ALL, ALL, master=1, worker=2, ps=1),
    shape("tf-ingraph", "ps-0", ALONE, ALONE, master=1, worker=2, ps=1),
    shape("torch-ddp", W1, ALL, ALL, worker=2),
    shape("torch-ddp", W1, ALONE, ALONE, worker=2, min_count=1, about=", elastic"),
    shape("jax", W1, ALL, ALL, worker=2),
    shape("mpi", "launcher-0", ALL, ALL, launcher=1, worker=2),
    shape("mpi", W1, ALL, ALL, launcher=1, worker=2),
)


def lose(world: World, who: str, loss: str) -> None:
    """Its program is killed; the cluster deletes its pod; or its node is cut off, with all others."""
    pods = {who_of(pod): pod for pod in world.sim.of("Pod")}
    if loss == "killed":
        world.sim.change_life(who, Life("fail", 137))
    elif loss == "taken":
        why = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
        pods[who]["status"]["conditions"] = [why]
        pods[who]["metadata"]["deletionTimestamp"] = world.sim.stamp()
        world.sim.touch(pods[who])
    else:
        for other in pods:
            world.sim.change_life(other, Life("evict"))


@pytest.mark.parametrize("loss", ["killed", "taken", "cut off"])
@pytest.mark.parametrize(("topology", "roles", "who", "killed", "taken"), SHAPES)
async def test_a_lost_replica(
    topology: str, roles: dict[str, int], who: str, killed: str, taken: str, loss: str
) -> None:
    world, roles = World(), dict(roles)
    least, is_sparse = roles.pop("min_count", None), bool(roles.pop("sparse_spec", False))
    replicas: dict[str, Any] = {role: {**ROLE, "count": count} for role, count in roles.items()}
    if least is not None:
        replicas["worker"]["min_count"] = least
    everybody = [f"{role}-{n}" for role, count in roles.items() for n in range(count)]
    world.sim.lives = {one: [Life("hang")] for one in everybody}
    asked = {"topology": topology, "replicas": replicas, "retries": 1, "clean_policy": "all"}
    await world.submit(**asked, sparse_spec=is_sparse)

    async def pods() -> dict[str, tuple[str, str]]:
        return {name: (row.pod_uid, row.state) for name, row in (await world.replicas()).items()}

    await world.until(lambda job: job.state == "running")
    before = await pods()
    assert set(before) == set(everybody)
    lose(world, who, loss)
    # Where all are cut off, those that may not be replaced alone end the attempt.
    is_whole = (killed if loss == "killed" else taken) == ALL
    if loss == "cut off" and topology != "array" and not is_sparse and least is None:
        is_whole = not (topology == "tf-ps" and "chief" not in roles)
    lost = set(everybody) if is_whole or loss == "cut off" else {who}
    for _round in range(90):
        await world.round()
        job, now = await world.row(), await pods()
        others = {name for name in now if now[name][0] not in {"", before[name][0]}}
        if others == lost and {state for _uid, state in now.values()} == {"running"}:
            break
    assert (others, job.state, job.attempt) == (lost, "running", 1 + is_whole)
    for one in everybody:
        world.sim.change_life(one, Life("hang" if one.startswith("ps") else "ok"))
    job = await world.until(lambda job: job.cleaned_at)
    assert (job.state, world.sim.live_things()) == ("succeeded", [])
    assert job.notes.get("retries_used", 0) == (is_whole and loss == "killed")
    reasons = {"killed": "signal", "taken": "drained", "cut off": "node_lost"}
    causes = {"killed": "retry"}
    told = [(row.cause, row.reason_code) async for row in job.attempts.all()]
    again = [("first", reasons[loss]), (causes.get(loss, "disrupted"), "")]
    assert told == (again if is_whole else [("first", "")])


async def test_one_that_goes_while_the_rows_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last status, which tells that it was taken, comes after the tick has begun."""
    world = World()
    roles = {"launcher": ROLE, "worker": {**ROLE, "count": 2}}
    world.sim.lives = {who: [Life("hang")] for who in ("launcher-0", "worker-0", W1)}
    await world.submit(topology="mpi", replicas=roles, retries=1)
    await world.until(lambda job: job.state == "running")
    lose(world, W1, "taken")
    while W1 in map(who_of, world.sim.of("Pod")):
        world.feed()
        world.sim.step()
    load = store.load

    def later(ids: list[UUID]) -> store.Loaded:
        world.feed()
        return load(ids)

    monkeypatch.setattr(store, "load", later)
    world.is_view_frozen = True
    job = await world.until(lambda job: job.attempt == 2)
    assert [row.cause async for row in job.attempts.all()] == ["first", "disrupted"]
