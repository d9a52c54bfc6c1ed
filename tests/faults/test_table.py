"""Each call of each operation x each fault: it comes out as if nothing had happened, within 30 s."""

import os
from zlib import crc32

import pytest

from portal.cluster.faults import ALWAYS, POINTS
from tests.faults.operations import OPERATIONS, Operation
from tests.faults.table import Clean, Point, Table

pytestmark = pytest.mark.django_db(transaction=True)

# Which part of the table is tried: one point of so many, spread over it. 1: all of it.
EVERY = int(os.environ.get("HOMEPORT_FAULT_TABLE", "24"))
REPEATED = ("403", "404", "409", "422", "429", "500", "timeout", "lost")
PASSES = 5
REFUSED = ("403", "422")

cleans: dict[str, Clean] = {}


def named(operation: Operation) -> str:
    return operation.name


async def clean_run(faults: Table, operation: Operation) -> Clean:
    if operation.name not in cleans:
        cleans[operation.name] = await faults.clean(operation)
    return cleans[operation.name]


async def try_all(faults: Table, operation: Operation, point: str, times: int) -> None:
    clean = await clean_run(faults, operation)
    wrong = []
    for call, nth in clean.rows(point):
        one = Point(call, nth, point, times)
        if crc32(f"{operation.name} {one}".encode()) % EVERY:
            continue
        try:
            await faults.strike(operation, clean, one)
        except AssertionError as error:
            wrong.append(str(error))
    assert not wrong, f"{len(wrong)} of {len(clean.calls)}\n" + "\n\n".join(wrong)


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("operation", OPERATIONS, ids=named)
async def test_a_fault_at_each_call(faults: Table, operation: Operation, point: str) -> None:
    await try_all(faults, operation, point, 1)


@pytest.mark.parametrize("point", REPEATED)
@pytest.mark.parametrize("operation", OPERATIONS, ids=named)
async def test_a_call_that_fails_again_and_again_and_then_heals(
    faults: Table, operation: Operation, point: str
) -> None:
    await try_all(faults, operation, point, PASSES)


@pytest.mark.parametrize("point", REFUSED)
@pytest.mark.parametrize("operation", OPERATIONS, ids=named)
async def test_a_call_that_is_always_refused_is_told_and_stops_nobody_else(
    faults: Table, operation: Operation, point: str
) -> None:
    await try_all(faults, operation, point, ALWAYS)
