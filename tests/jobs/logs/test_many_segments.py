"""A log that has been written for days has a segment for each minute: who looks at it loads those of one
replica at most."""

import gc
import tracemalloc
from collections.abc import Awaitable, Callable

import pytest
from asgiref.sync import sync_to_async

from jobs.archive.logs import Which, find_log
from jobs.logs import state, text
from jobs.models import LogSegment, Workload
from portal.storage.store import Store
from tests.factories import make_job, make_tenant
from tests.jobs.kept_logs import keep

pytestmark = pytest.mark.django_db(transaction=True)

REPLICAS, ATTEMPTS, SEGMENTS = 4, 2, 1000
DATA = b"step\n" * 200
MIB = 1024**2


@pytest.fixture
def job(store: Store) -> Workload:
    """All its segments are one object in the store; the second attempt of worker-3 has printed nothing."""
    asked = {"count": REPLICAS, "cpu_millicores": 1, "memory_bytes": 1, "gpu_count": 0}
    made = make_job(make_tenant("alice"), replicas={"worker": asked}, attempt=ATTEMPTS)
    for index in range(REPLICAS):
        for attempt in range(1, ATTEMPTS + 1):
            keep(made, [(0, DATA)], replica=("worker", index), attempt=attempt)
    LogSegment.objects.filter(archive__index=REPLICAS - 1, archive__attempt=ATTEMPTS).delete()
    LogSegment.objects.bulk_create(
        LogSegment(
            archive_id=first.archive_id,
            number=number,
            start_byte=(number - 1) * len(DATA),
            size_bytes=len(DATA),
            sha256=first.sha256,
            storage_key=first.storage_key,
        )
        for first in LogSegment.objects.all()
        for number in range(2, SEGMENTS + 1)
    )
    assert LogSegment.objects.count() == (REPLICAS * ATTEMPTS - 1) * SEGMENTS
    return made


async def peak_bytes(read: Callable[[], Awaitable[object]]) -> int:
    """Of reading it a second time, as the first one imports; what nobody holds any more does not wait for the collector."""
    await read()
    thresholds = gc.get_threshold()
    gc.collect()
    gc.set_threshold(50, 2, 2)
    tracemalloc.start()
    try:
        await read()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        gc.set_threshold(*thresholds)


async def test_whether_a_replica_has_an_archive_loads_none_of_its_segments(job: Workload) -> None:
    async def read() -> None:
        found = await state.load(job.pk, job.owner, "all")
        assert found is not None
        kept = {(one.attempt, one.index) for one in found.replicas if one.has_archive}
        assert kept == {(1, 0), (1, 1), (1, 2), (1, 3), (2, 0), (2, 1), (2, 2)}

    assert await peak_bytes(read) < MIB / 2


@pytest.mark.parametrize(("which", "count"), [("latest", 4), (1, 4), ("all", 8)])
async def test_the_text_of_all_replicas_loads_the_segments_of_one_after_the_other(
    job: Workload, which: Which, count: int
) -> None:
    asked = text.LogRequest(tail_lines=1, which=which)

    async def read() -> None:
        lines = b"".join([chunk async for chunk in text.job_text(job, asked)]).splitlines()
        assert lines.count(b"worker-3 | step") == 1
        assert sum(line.endswith(b" | step") for line in lines) == count - (which == "all")

    assert await peak_bytes(read) < MIB


@pytest.mark.parametrize(("index", "attempt"), [(2, 2), (3, 1)])
async def test_the_latest_log_of_a_replica_loads_no_other_attempt(
    job: Workload, index: int, attempt: int
) -> None:
    async def read() -> None:
        found = await sync_to_async(find_log)(job, "worker", index)
        assert found is not None
        assert (found.attempt, found.end_byte) == (attempt, SEGMENTS * len(DATA))

    assert await peak_bytes(read) < MIB
