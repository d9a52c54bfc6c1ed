"""Secrets on their way into the cluster, replaced, deleted and lost, with workloads that use them."""

from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db.models import F

from jobs.models import UserSecret, Workload
from jobs.secrets import actions
from jobs.secrets.sealing import seal
from portal.errors import Refused
from tenants.models import Tenant
from tests.jobs.engine.kubelet import Life
from tests.jobs.engine.world import World

pytestmark = pytest.mark.django_db(transaction=True)
LATER = timedelta(minutes=2)


async def put(world: World, name: str = "wandb", **values: str) -> None:
    about = {"kind": "generic", "keys": sorted(values), "values": values}

    def write() -> None:
        tenant = world._tenant("alice")
        actions.put(by=tenant.owner, tenant=tenant, name=name, **about)

    await sync_to_async(write)()


async def look(world: World, *, later: bool = False, check: bool = False) -> None:
    """What the reconciler does about secrets, two minutes later or when it looks at all."""
    if later:
        await UserSecret.objects.aupdate(changed_at=F("changed_at") - LATER)
    assert world.shift is not None
    if check:
        world.shift._secrets._checked_at = float("-inf")
    await world.shift._secrets.run_once()


def objects(world: World) -> dict[str, dict[str, str]]:
    found = [one for one in world.sim.of("Secret") if one["metadata"]["name"].startswith("user-")]
    assert all(one["immutable"] for one in found)
    return {one["metadata"]["name"]: one["stringData"] for one in found}


async def row() -> Any:
    return await UserSecret.objects.select_related("tenant").afirst()


async def test_an_attempt_keeps_the_revision_that_it_began_with() -> None:
    world = World()
    world.sim.lives = {"worker-0": [Life("hang"), Life("ok")]}
    await put(world, A="1")
    await world.start()
    training = await world.submit(secrets={"wandb": "env"}, clean_policy="all")
    await world.round()
    # It waits for values that are on their way.
    await world.until(lambda now: now.reason_code == "secret_pending", rounds=5)
    await look(world)
    assert (objects(world), (await row()).sealed) == ({"user-wandb-1": {"A": "1"}}, "")
    await world.until(lambda now: now.state == "running")
    await put(world, A="2")
    await look(world, later=True)
    await look(world, later=True)
    assert objects(world) == {"user-wandb-1": {"A": "1"}, "user-wandb-2": {"A": "2"}}
    await world.intend(desired="stop")
    await world.until(lambda now: now.cleaned_at, of=training, rounds=200)
    await look(world)
    assert objects(world) == {"user-wandb-2": {"A": "2"}}
    assert not (await row()).has_work


async def test_what_is_deleted_goes_and_what_is_lost_is_told() -> None:
    world = World()
    await put(world, A="1")
    await world.start()
    await look(world)
    [secret] = world.sim.of("Secret")
    world.sim.remove(secret)
    await look(world, later=True, check=True)
    assert (await row()).state == "lost"
    # Asked for meanwhile, it fails with the reason and without a pod.
    await world.submit(secrets={"wandb": "files"})
    failed = await world.until(lambda now: now.state == "failed")
    assert (failed.reason_code, world.sim.of("Pod")) == ("secret_gone", [])
    note = await world.submit("notebook", secrets={"wandb": "env"})
    failed = await world.until(lambda now: now.state == "failed", of=note)
    assert (failed.reason_code, world.sim.of("Pod")) == ("secret_gone", [])
    await put(world, A="2")
    await look(world)
    assert objects(world) == {"user-wandb-2": {"A": "2"}}
    # Started again it has the new values, and they stay as long as it runs.
    again = {"desired": "run", "generation": 2, "state": "queued"}
    await Workload.objects.filter(pk=note.pk).aupdate(**again)
    runs = await world.until(lambda now: now.state == "running", of=note)
    [pod] = world.sim.of("Pod")
    assert pod["spec"]["containers"][0]["envFrom"] == [{"secretRef": {"name": "user-wandb-2"}}]
    with pytest.raises(Refused, match="my notebook"):
        await sync_to_async(actions.delete)(by=runs.owner, secret=await row())
    await Workload.objects.filter(pk=note.pk).aupdate(desired="stop")
    await world.until(lambda now: now.cleaned_at, of=note)
    await sync_to_async(actions.delete)(by=failed.owner, secret=await row())
    await look(world, later=True)
    assert (objects(world), await row()) == ({}, None)


async def test_values_of_before_a_restore_are_never_taken_for_these() -> None:
    world = World()
    await put(world, A="of later")
    await world.start()
    await look(world)
    # A database from before, in which the number is free, and other values get it.
    await UserSecret.objects.aupdate(sealed=await sync_to_async(seal)({"A": "3"}), has_work=True)
    await look(world)
    await look(world, later=True)
    await look(world, later=True)
    assert objects(world) == {"user-wandb-2": {"A": "3"}}
    # Values that nobody can read any more are lost, and asked for again.
    await UserSecret.objects.aupdate(sealed="not ours", has_work=True)
    await look(world)
    assert ((await row()).state, (await row()).sealed) == ("lost", "")


async def test_nothing_is_left_of_a_purged_namespace() -> None:
    world = World()
    await put(world, A="1")
    await world.start()
    await Tenant.objects.aupdate(desired=Tenant.Desired.PURGED)
    await look(world)
    assert (await row(), objects(world)) == (None, {})
