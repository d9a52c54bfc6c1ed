"""A log of which the last lines are given says so in a line before them, and only where there are more."""

import pytest
from asgiref.sync import sync_to_async
from django.utils.timezone import now

from jobs.logs import text
from jobs.models import Replica, Workload
from jobs.workloads.log_api import DEFAULT_TAIL, log_request
from tests.jobs.kept_logs import keep
from tests.jobs.logs.served import World, a_job

pytestmark = pytest.mark.django_db(transaction=True)

MORE = (
    f"[homeport] these are the newest {DEFAULT_TAIL:,} lines; download=1 gives all that there are"
)


async def in_pod(world: World, job: Workload, count: int) -> None:
    world.cluster.pods["pod-worker-0"].lines(*(b"%d" % n for n in range(count)))


async def in_archive(world: World, job: Workload, count: int) -> None:
    await Replica.objects.filter(workload=job).aupdate(finished_at=now(), pod="")
    kept = "".join(f"{n}\n" for n in range(count)).encode()
    await sync_to_async(keep)(job, [(0, kept)])


async def in_both(world: World, job: Workload, count: int) -> None:
    """Ten lines of a container that has started again, the others archived."""
    kept = "".join(f"{n}\n" for n in range(count - 10)).encode()
    log = world.cluster.pods["pod-worker-0"]
    log.start_again()
    log.lines(*(b"%d" % n for n in range(count - 10, count)))
    await Replica.objects.filter(workload=job).aupdate(restarts=1)
    await sync_to_async(keep)(
        job, [(0, kept)], pod_uid="uid-worker-0", is_complete=True, run_start_byte=len(kept)
    )


@pytest.mark.parametrize("count", [DEFAULT_TAIL - 1, DEFAULT_TAIL, DEFAULT_TAIL + 1, 3000])
@pytest.mark.parametrize("place", [in_pod, in_archive, in_both])
@pytest.mark.parametrize("query", [{}, {"replica": "worker-0"}], ids=["all", "one"])
async def test_the_last_lines_of_a_longer_log_say_so(
    world: World, place: object, count: int, query: dict[str, str]
) -> None:
    job = await a_job(world)
    await place(world, job, count)  # type: ignore[operator]
    mark = "" if query else "worker-0 | "
    asked = await sync_to_async(log_request)(job, query)
    found = b"".join([chunk async for chunk in text.job_text(job, asked)]).decode().splitlines()
    is_cut = count > DEFAULT_TAIL
    shown = [mark + str(n) for n in range(max(0, count - DEFAULT_TAIL), count)]
    assert found == [mark + MORE] * is_cut + shown


async def test_who_names_a_number_or_wants_all_is_told_nothing(world: World) -> None:
    job = await a_job(world)
    await in_pod(world, job, 30)
    for query, count in (({"tail": "20"}, 20), ({"download": "1"}, 30)):
        asked = await sync_to_async(log_request)(job, {"replica": "worker-0", **query})
        found = b"".join([chunk async for chunk in text.job_text(job, asked)]).decode()
        assert found.splitlines() == [str(n) for n in range(30 - count, 30)]
