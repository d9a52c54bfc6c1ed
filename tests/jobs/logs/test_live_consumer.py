"""`/ws/live/`: who hears of which changes, and how soon."""

import asyncio
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import OperationalError
from websockets.exceptions import ConnectionClosed

from portal import live
from tenants import live_socket, sockets
from tenants.models import Team, User
from tests.factories import make_tenant, make_user
from tests.jobs.logs.fakes import until
from tests.jobs.logs.served import (
    World,
    frame,
    groups,
)

pytestmark = pytest.mark.django_db(transaction=True)


async def test_a_page_hears_of_its_own_tenant_and_leads_of_theirs(world: World) -> None:
    team = await Team.objects.acreate(name="vision")
    own = await sync_to_async(make_tenant)("alice", team=team)
    other = await sync_to_async(make_tenant)("mallory")
    lead = await sync_to_async(make_user)("lee")
    root = await sync_to_async(make_user)("root", role="admin")
    await team.leads.aadd(lead)
    path = "/ws/live/"
    async with (
        world.open(path, own.owner) as alice,
        world.open(path, other.owner) as mallory,
        world.open(path, lead) as lee,
        world.open(path, root) as admin,
    ):
        joined = {
            live.EVERYBODY_GROUP: 4,
            live.ADMIN_GROUP: 1,
            live.tenant_group(own.pk): 2,  # alice and her lead
            live.tenant_group(other.pk): 1,
        }
        assert {group: groups()[group] for group in joined} == joined
        await live.achanged("job", "1", 7, own.pk)
        await live.achanged("tenant", "2", 8, other.pk)
        await live.achanged("health", "", 9, "")
        mine = {"type": "changed", "kind": "job", "id": "1", "revision": 7}
        theirs = {"type": "changed", "kind": "tenant", "id": "2", "revision": 8}
        admins = {"type": "changed", "kind": "health", "id": "", "revision": 9}
        assert await frame(alice) == mine
        assert await frame(lee) == mine
        assert await frame(mallory) == theirs
        assert [await frame(admin) for _ in range(3)] == [mine, theirs, admins]
        for socket in (alice, lee, mallory):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(socket.recv(), 0.05)
        await live.tell_everybody("cluster", 10)
        everybodys = {"type": "changed", "kind": "cluster", "id": "", "revision": 10}
        for socket in (alice, lee, mallory, admin):
            assert await frame(socket) == everybodys


async def test_a_websocket_joins_its_groups_before_its_page_knows_that_it_is_open(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page reads what it shows again when it knows: what changes after that it has to hear of."""
    tenant = await sync_to_async(make_tenant)("alice")
    steps: list[str] = []
    join, accept = live_socket.LiveConsumer._join, live_socket.LiveConsumer.accept

    async def noted_join(self: live_socket.LiveConsumer) -> None:
        await join(self)
        steps.append("joined")

    async def noted_accept(self: live_socket.LiveConsumer) -> None:
        steps.append("accepted")
        await accept(self)

    monkeypatch.setattr(live_socket.LiveConsumer, "_join", noted_join)
    monkeypatch.setattr(live_socket.LiveConsumer, "accept", noted_accept)
    async with world.open("/ws/live/", tenant.owner):
        assert steps == ["joined", "accepted"]


async def test_a_page_that_cannot_be_listened_for_is_told_to_come_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a close code: browsers are told nothing of a handshake that is refused."""
    tenant = await sync_to_async(make_tenant)("alice")

    def fail(_user: User) -> set[str]:
        raise OperationalError("it is away")

    monkeypatch.setattr(live_socket, "groups_of", fail)
    async with world.open("/ws/live/", tenant.owner) as socket:
        with pytest.raises(ConnectionClosed):
            await socket.recv()
        assert socket.close_code == sockets.TRY_LATER


async def test_a_burst_is_one_frame_for_each_thing(world: World) -> None:
    tenant = await sync_to_async(make_tenant)("alice")
    async with world.open("/ws/live/", tenant.owner) as socket:
        for revision in range(1, 301):
            await live.achanged("job", "a" if revision % 2 else "b", revision, tenant.pk)
            if revision % 50 == 0:
                await asyncio.sleep(0)
        found: list[dict[str, Any]] = []
        while {row["id"]: row["revision"] for row in found} != {"a": 299, "b": 300}:
            found.append(await frame(socket))
        assert len(found) < 60


async def test_who_becomes_a_lead_hears_of_the_team_soon(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "LOOK_AGAIN_S", 0.05)
    team = await Team.objects.acreate(name="vision")
    tenant = await sync_to_async(make_tenant)("alice", team=team)
    lead = await sync_to_async(make_user)("lee")
    async with world.open("/ws/live/", lead) as socket:
        await team.leads.aadd(lead)
        await until(lambda: groups()[live.tenant_group(tenant.pk)] == 1)
        await live.achanged("job", "1", 1, tenant.pk)
        assert (await frame(socket))["id"] == "1"
        await team.leads.aremove(lead)
        await until(lambda: groups()[live.tenant_group(tenant.pk)] == 0)
        await live.achanged("job", "2", 1, tenant.pk)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(socket.recv(), 0.1)
