"""Whatever people ask for, short of a purge: no claim and no volume is ever removed.

Hypothesis makes sequences of 50 calls to REST: every route of the portal but the purge, by people of
every role, with bodies that mean something and bodies that do not, while the real reconciler makes a
simulated cluster follow.
"""

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from asgiref.sync import sync_to_async
from django.core.management import call_command
from django.urls import URLPattern, URLResolver, get_resolver
from django.urls.converters import UUIDConverter
from django.utils import timezone
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from rest_framework.test import APIClient

from jobs.models import Workload
from tenants.models import Team, Tenant, User
from tenants.reconcile import status
from tests.factories import make_job, make_tenant, make_user, submit_body
from tests.jobs.engine.simulation import Sim
from tests.jobs.engine.world import World

STEPS = 50
PEOPLE = ("alice", "bob", "lee", "mallory", "root")
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
QUOTA = {"quota": {"cpu": 0, "memory": 0, "gpu": 0, "pods": 0, "nodeports": 0}}


def rest_routes() -> list[str]:
    """Every route of REST with an id in it or none, but for what purges."""
    found = []
    for entry in get_resolver().url_patterns:
        if not isinstance(entry, URLResolver) or str(entry.pattern) != "api/v1/":
            continue
        for pattern in entry.url_patterns:
            assert isinstance(pattern, URLPattern)
            path = str(pattern.pattern)
            known = all(isinstance(c, UUIDConverter) for c in pattern.pattern.converters.values())
            if known and "purge" not in path and "schema" not in path:
                found.append(path)
    return sorted(set(found))


class Portal(RuleBasedStateMachine):
    """People who call REST, and a reconciler that follows."""

    def __init__(self) -> None:
        super().__init__()
        call_command("flush", verbosity=0, interactive=False)
        self.runner = asyncio.Runner()
        self.world = World.with_tenants()
        self.claims: set[str] = set()
        self.volumes: set[str] = set()
        self.answers: set[int] = set()

    @initialize()
    def people(self) -> None:
        team = Team.objects.create(name="vision", budget_gpu_count=100)
        make_tenant("alice", team=team, active=False)
        make_tenant("bob", team=team, active=False)
        make_tenant("mallory", active=False)
        team.leads.add(make_user("lee", team=team))
        make_user("root", role="admin")
        self.time_passes(3)
        assert len(self.claims) == 6
        assert set(Tenant.objects.values_list("state", flat=True)) == {"active"}

    @rule(rounds=st.integers(1, 3))
    def time_passes(self, rounds: int) -> None:
        async def pass_on() -> None:
            for _ in range(rounds):
                await self.world.round()

        self.runner.run(pass_on())
        self.claims |= self.world.sim.uids("PersistentVolumeClaim")
        self.volumes |= self.world.sim.uids("PersistentVolume")

    @rule(
        who=st.sampled_from(PEOPLE),
        verb=st.sampled_from(["suspend", "resume", "delete", "restore"]),
        data=st.sampled_from(["keep", "delete", "archive"]),
        whose=st.integers(0, 5),
    )
    def verb_of_a_namespace(self, who: str, verb: str, data: str, whose: int) -> None:
        tenant = self._tenant(whose)
        body = {"confirm": tenant.namespace, "data": data} if verb == "delete" else {}
        self._call(who, "POST", f"tenants/{tenant.pk}/{verb}/", body)
        self.time_passes(1)

    @rule(who=st.sampled_from(PEOPLE))
    def submit(self, who: str) -> None:
        self._call(who, "POST", "jobs/", submit_body())

    @rule(
        who=st.sampled_from(PEOPLE),
        kind=st.sampled_from(["notebooks", "tensorboards"]),
        verb=st.sampled_from(["", "", "start/", "stop/", "open/"]),
        whose=st.integers(0, 5),
    )
    def service(self, who: str, kind: str, verb: str, whose: int) -> None:
        of_kind = Workload.objects.filter(kind=kind.removesuffix("s")).order_by("pk")
        ids = list(of_kind.values_list("pk", flat=True))
        if not verb or not ids:
            self._call(who, "POST", f"{kind}/", {"name": "n"})
        else:
            self._call(who, "POST", f"{kind}/{ids[whose % len(ids)]}/{verb}", {})

    @rule()
    def all_graces_end(self) -> None:
        """A week passes: what was deleted may be purged, and nobody asks for it."""
        past = timezone.now() - timedelta(hours=1)
        Tenant.objects.filter(purge_after__isnull=False).update(purge_after=past)
        self.time_passes(1)

    @rule(
        data=st.data(),
        who=st.sampled_from(PEOPLE),
        method=st.sampled_from(METHODS),
        choice=st.integers(0, 20),
    )
    def any_call(self, data: Any, who: str, method: str, choice: int) -> None:
        path = data.draw(st.sampled_from(rest_routes()))
        tenant = self._tenant(choice)
        bodies = [
            {},
            [],
            QUOTA,
            submit_body(),
            {"confirm": tenant.namespace, "data": "delete"},
            {"owner": tenant.owner.username},
            {"username": tenant.owner.username, "is_active": False},
            {"is_active": False, "team": None, "role": "admin"},
            {"desired": "purged", "state": "gone", "purge_data": "delete"},
            {"name": "x"},
        ]
        self._call(who, method, self._filled(path, choice), data.draw(st.sampled_from(bodies)))

    @invariant()
    def nothing_is_lost(self) -> None:
        sim = self.world.sim
        assert self.claims <= sim.uids("PersistentVolumeClaim")
        assert self.volumes <= sim.uids("PersistentVolume")
        policies = {v["spec"]["persistentVolumeReclaimPolicy"] for v in sim.of("PersistentVolume")}
        assert policies <= {"Retain"}

    @invariant()
    def nothing_answers_with_a_fault(self) -> None:
        assert not {status for status in self.answers if status >= 500}

    def teardown(self) -> None:
        self.runner.close()

    # --- calls ---
    def _tenant(self, choice: int) -> Tenant:
        tenants = list(Tenant.objects.select_related("owner").order_by("namespace"))
        return tenants[choice % len(tenants)]

    def _filled(self, path: str, choice: int) -> str:
        """The path with ids of things that exist, where there are any."""
        for converter in ("<uuid:pk>", "<uuid:artifact_id>"):
            path = path.replace(converter, str(self._some_id(path, choice)))
        return path

    @staticmethod
    def _some_id(path: str, choice: int) -> UUID:
        models: dict[str, Any] = {
            "tenants": Tenant,
            "jobs": Workload,
            "notebooks": Workload,
            "tensorboards": Workload,
            "users": User,
            "teams": Team,
        }
        model = models.get(path.partition("/")[0])
        ids = list(model.objects.order_by("pk").values_list("pk", flat=True)) if model else []
        return ids[choice % len(ids)] if ids else uuid4()

    def _call(self, who: str, method: str, path: str, body: Any) -> None:
        client = APIClient(raise_request_exception=False, HTTP_HOST="localhost")
        client.force_authenticate(User.objects.get(username=who))
        answer = client.generic(method, f"/api/v1/{path}", json.dumps(body), "application/json")
        self.answers.add(answer.status_code)


@pytest.mark.django_db(transaction=True)
def test_no_calls_but_a_purge_remove_a_volume(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(status, "QUIET_S", 0.0)
    run_state_machine_as_test(
        Portal,
        settings=settings(
            max_examples=10,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            # Shrinking a failure takes minutes; the sequence that failed is printed as it was.
            phases=(Phase.explicit, Phase.generate),
            suppress_health_check=list(HealthCheck),
        ),
    )


async def until(world: World, what: Callable[[Sim], bool]) -> None:
    for _ in range(200):
        if what(world.sim):
            return
        await world.round()
    raise AssertionError(f"never; {sorted(world.sim.store)}")


@pytest.mark.django_db(transaction=True)
async def test_a_purge_removes_the_volumes_of_its_own_tenant_only(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(status, "QUIET_S", 0.0)
    world = World.with_tenants()
    alice = await sync_to_async(make_tenant)("alice", active=False)
    await sync_to_async(make_tenant)("bob", active=False)
    await until(world, lambda sim: len(sim.of("PersistentVolumeClaim")) == 4)
    world.about = await sync_to_async(make_job)(alice)
    await world.until(lambda job: job.state == "running")
    await Tenant.objects.filter(pk=alice.pk).aupdate(desired="deleted", purge_data="delete")
    await world.until(lambda job: job.state == "stopped")
    await world.rest(5)
    assert len(world.sim.of("PersistentVolumeClaim")) == 4
    await Tenant.objects.filter(pk=alice.pk).aupdate(desired="purged")
    await until(world, lambda sim: ("Namespace", "", alice.namespace) not in sim.store)
    await world.rest(5)
    assert (await Tenant.objects.aget(pk=alice.pk)).state == "gone"
    left = {volume["spec"]["claimRef"]["namespace"] for volume in world.sim.of("PersistentVolume")}
    assert left == {(await Tenant.objects.aget(owner__username="bob")).namespace}
    done = await world.row()
    assert (done.state, done.reason_code) == ("stopped", "tenant_deleting")
