"""What one viewer has read of a job serves the others, and nobody who may not see it."""

import asyncio
from typing import Any
from uuid import UUID

import pytest
from asgiref.sync import sync_to_async
from django.db import OperationalError

from jobs.logs import state
from jobs.models import Workload
from jobs.rules.states import WorkloadState
from tests.factories import make_user
from tests.jobs.logs.served import World, a_job

pytestmark = pytest.mark.django_db(transaction=True)


async def test_one_reading_serves_all_who_may_see_it_and_is_never_older_than_a_change(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await a_job(world)
    admin = await sync_to_async(make_user)("root", role="admin")
    stranger = await sync_to_async(make_user)("eve")
    clock_s, read, readings = asyncio.get_running_loop().time, state._load, list[UUID]()

    def counted(job_id: UUID, attempt: str) -> Any:
        readings.append(job_id)
        return read(job_id, attempt)

    monkeypatch.setattr(state, "_load", counted)
    changed_s = clock_s()
    both = [state.load(job.pk, who, "", changed_s) for who in (job.owner, admin)]
    one, other = await asyncio.gather(*both)
    assert one is not None
    assert one is other
    assert await state.load(job.pk, stranger, "", changed_s) is None
    assert len(readings) == 1

    await Workload.objects.filter(pk=job.pk).aupdate(state=WorkloadState.STOPPING)
    assert await state.load(job.pk, admin, "", changed_s) is one, "no change was told"
    seen = await state.load(job.pk, admin, "", clock_s())
    assert seen is not None
    assert seen.state == WorkloadState.STOPPING

    def away(job_id: UUID, attempt: str) -> Any:
        raise OperationalError("the database is away")

    monkeypatch.setattr(state, "_load", away)
    failed_s = clock_s()
    with pytest.raises(OperationalError):
        await state.load(job.pk, admin, "", failed_s)
    monkeypatch.setattr(state, "_load", counted)
    assert await state.load(job.pk, admin, "", failed_s) is not None, "a failure is not kept"
