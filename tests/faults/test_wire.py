"""What the table raises above the transport, over HTTP: real statuses and bodies, lost and late
replies.

One operation of each sort, one of its calls for each answer, each day another; all operations and
all calls when the whole table is tried.
"""

import pytest

from onebox.testing.relay import POINTS
from tests.faults.operations import OPERATIONS, Operation
from tests.faults.table import EVERY, PART, Clean, Point, Table, place
from tests.faults.world import Call

pytestmark = pytest.mark.django_db(transaction=True)

SORTS = ("provision", "purge-keep", "tf-ps", "stop", "notebook")
CHOSEN = [one for one in OPERATIONS if one.name in SORTS or EVERY == 1]


def rows(clean: Clean, operation: Operation, point: str) -> list[tuple[Call, int]]:
    found = clean.rows("lost" if point == "late" else point)
    if EVERY == 1:
        return found
    return [found[(place(f"{operation.name} {point}") + PART) % len(found)]]


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("operation", CHOSEN, ids=lambda operation: operation.name)
async def test_an_answer_over_http(faults: Table, operation: Operation, point: str) -> None:
    clean = await faults.clean(operation)
    wrong = []
    for call, nth in rows(clean, operation, point):
        try:
            await faults.strike(operation, clean, Point(call, nth, point), relayed=True)
        except AssertionError as error:
            wrong.append(str(error))
    assert not wrong, "\n\n".join(wrong)
