"""Each call of each operation x each fault: it comes out as if nothing had happened, within 30 s."""

import pytest

from tests.faults.fault import ALWAYS, POINTS
from tests.faults.operations import OPERATIONS, Operation
from tests.faults.table import EVERY, PART, Point, Table, place

pytestmark = pytest.mark.django_db(transaction=True)

REPEATED = ("403", "404", "409", "422", "429", "500", "timeout", "lost")
PASSES = 5
REFUSED = ("403", "422")


def named(operation: Operation) -> str:
    return operation.name


async def try_all(faults: Table, operation: Operation, point: str, times: int) -> None:
    clean = await faults.clean(operation)
    wrong = []
    for call, nth in clean.rows(point):
        one = Point(call, nth, point, times)
        if place(f"{operation.name} {one}") % EVERY != PART:
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
