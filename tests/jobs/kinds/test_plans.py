"""What follows from each situation: the table of all kinds."""

from dataclasses import replace

import pytest

from tests.jobs.kinds import Case, after, plan
from tests.jobs.kinds.interactive import cases as interactive
from tests.jobs.kinds.training import cases as training

CASES = [*training.CASES, *interactive.CASES]
each = pytest.mark.parametrize("case", CASES, ids=[case.about for case in CASES])


@each
def test_what_follows(case: Case) -> None:
    before, more = case.row, case.more
    made = plan(before, case.seen)
    row = replace(before, **made.columns)
    assert case.steps is None or made.steps == tuple(case.steps)
    assert row.state == (case.state or before.state)
    assert case.code in {None, row.reason.code}
    assert row.notes.teardown == more.get("teardown", "")
    assert sum(map(len, row.notes.restarts.values())) == more.get("restarts", 0)
    assert row.root_uid == more.get("root_uid", before.root_uid)
    assert ("cleaned_at" in made.columns) >= more.get("cleaned", False)
    assert made.is_settled >= more.get("settled", False)
    assert made.delete_row == more.get("deleted", False)


@each
def test_a_plan_leads_to_rest(case: Case) -> None:
    """With nothing new to see, planning again soon changes no row: no loop writes for ever."""
    row, observed = case.row, case.seen
    for _ in range(6):
        made = plan(row, observed)
        if not made.writes or made.delete_row:
            return
        row, observed = after(made, row, observed)
    pytest.fail(f"still writes {made.columns}")
