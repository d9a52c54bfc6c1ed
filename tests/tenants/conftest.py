"""An admin with a browser and a REST client; Alice's tenant, a fake API server, a cache of it and the
controller of tenants."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar

import pytest
from asgiref.sync import sync_to_async
from django.db import transaction
from django.db.models import F
from django.test import Client
from django.utils import timezone

from jobs.archive.purged import forget_of_tenant
from portal.cluster.cache import ClusterCache
from portal.cluster.client import Cluster
from portal.cluster.listwatch import WatchTiming
from tenants.models import Tenant, TenantObject, User
from tenants.reconcile.controller import TenantController
from tests.factories import make_tenant, make_user
from tests.portal.cluster.fake_api import FakeApi
from tests.tenants.people.people import rest

T = TypeVar("T")


@pytest.fixture
def root() -> User:
    """An admin."""
    return make_user("root", role="admin")


@pytest.fixture
def page(root: User) -> Client:
    """The admin's browser."""
    client = Client(HTTP_HOST="localhost")
    client.force_login(root)
    return client


@pytest.fixture
def api(root: User) -> Client:
    """The admin's REST client."""
    return rest(root)


class DirectWriter:
    """Commits as the reconciler does, without a lease; counts."""

    def __init__(self) -> None:
        self.commits = 0

    async def commit(self, write: Callable[[], T]) -> T:
        self.commits += 1

        def inside() -> T:
            with transaction.atomic():
                return write()

        return await sync_to_async(inside)()


@dataclass
class Lab:
    """A cluster, its cache, and a reconciler that makes Alice's namespace follow its row."""

    cluster: Cluster
    view: ClusterCache
    tenant: Tenant
    writer: DirectWriter = field(default_factory=DirectWriter)

    def __post_init__(self) -> None:
        self.reconciler = TenantController(self.view, self.cluster, self.writer, forget_of_tenant)

    async def one_pass(self, *, everything: bool = True) -> float | None:
        """One pass over what changed (or everything)."""
        return await self.reconciler.run_once(self.view.take_changes(), everything=everything)

    async def until(self, what: Callable[[Self], Any], timeout_s: float = 15) -> None:
        """Passes as the reconciler's loop makes them until the condition holds on fresh rows."""
        deadline = time.monotonic() + timeout_s
        while True:
            again_s = await self.one_pass(everything=False)
            await self.refresh()
            if what(self):
                return
            told = f"{self.tenant.state}: {self.tenant.reason_text}"
            assert time.monotonic() < deadline, told
            wait_s = 0.05 if again_s is None else min(again_s, 0.05)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.view.changed.wait(), wait_s)

    async def until_active(self) -> None:
        await self.until(lambda lab: lab.tenant.state == "active", 30)

    async def refresh(self) -> None:
        self.tenant = await Tenant.objects.aget(pk=self.tenant.pk)

    async def rows(self) -> dict[str, TenantObject]:
        """Kind/name -> row, in the order of the page."""
        return {
            f"{row.kind}/{row.name}": row
            async for row in TenantObject.objects.filter(tenant=self.tenant)
        }

    @property
    def namespace(self) -> str:
        return self.tenant.namespace


@dataclass
class Room(Lab):
    """One on a fake API server."""

    api: FakeApi = field(default_factory=FakeApi)

    async def want(self, desired: str, **more: Any) -> None:
        """What an action writes into the row."""
        rows = Tenant.objects.filter(pk=self.tenant.pk)
        changes = {"desired": desired, "desired_at": timezone.now(), **more}
        await rows.aupdate(revision=F("revision") + 1, **changes)

    def run_pod(self, phase: str = "Running") -> None:
        """A pod `p` in the namespace, in this phase from now on."""
        meta = {"name": "p", "namespace": self.namespace, "uid": "pod-1"}
        spec = {"containers": [{"name": "main"}]}
        self.api.put({"kind": "Pod", "metadata": meta, "spec": spec, "status": {"phase": phase}})

    def writes(self) -> list[str]:
        """What was sent to change the cluster: `POST quotas`, ..."""
        return [
            f"{asked.method} {asked.path.rpartition('/')[2]}"
            for asked in self.api.asked
            if asked.method != "GET"
        ]


@asynccontextmanager
async def followed(kubeconfig: str, timing: WatchTiming | None = None) -> AsyncIterator[Lab]:
    """A cluster that is watched, with a tenant in it that nothing has been made of."""
    cluster = await Cluster.connect(kubeconfig)
    view = ClusterCache(cluster, timing) if timing else ClusterCache(cluster)
    task = asyncio.create_task(view.run())
    tenant = await sync_to_async(make_tenant)("alice", active=False)
    try:
        await asyncio.wait_for(view.wait_synced(), 20)
        yield Lab(cluster, view, tenant)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await cluster.close()


@pytest.fixture
async def room(transactional_db: None, tmp_path: Path) -> AsyncIterator[Room]:
    api = FakeApi()
    await api.start()
    timing = WatchTiming(first_wait_s=0.01, most_wait_s=0.05)
    try:
        async with followed(api.kubeconfig(tmp_path), timing) as lab:
            yield Room(lab.cluster, lab.view, lab.tenant, lab.writer, api)
    finally:
        await api.stop()
