"""The migrations to one table: every row and column arrives, and is read."""

import json
from typing import Any

import pytest
from django.core.management import call_command
from django.db.migrations.exceptions import IrreversibleError

from jobs.kinds import notes
from jobs.kinds.registry import KINDS
from jobs.kinds.spec import columns_of, spec_of
from jobs.models import Workload
from tests.portal.databases import ALIAS, migrate
from tests.upgrade.old_rows import BEFORE, OldTables
from tests.upgrade.places import all_were_read, compare, rows_of


def test_every_row_and_column_has_its_place(tables: OldTables) -> None:
    before = rows_of(tables)
    migrate()
    compare(before)
    all_were_read(before)
    with pytest.raises(IrreversibleError):
        call_command("migrate", *BEFORE, database=ALIAS, verbosity=0)
    migrate()  # what came later may have gone back
    compare(before)


def known_then(now: Any, then: Any) -> Any:
    """Without the fields that came later, which have their defaults."""
    if not (isinstance(now, dict) and isinstance(then, dict)):
        return now
    return {name: known_then(part, then[name]) for name, part in now.items() if name in then}


def test_what_was_moved_is_read_by_the_engine(tables: OldTables) -> None:
    """Every request as a spec, and every note that is not odd."""
    migrate()
    rows = list(Workload.objects.using(ALIAS).select_related("tenant"))
    assert {row.kind for row in rows} == set(KINDS)
    for row in rows:
        spec = spec_of(row, KINDS[row.kind].spec)
        columns = json.loads(json.dumps(columns_of(spec)))
        assert row.spec == known_then(columns["spec"], row.spec)
        assert row.replicas == known_then(columns["replicas"], row.replicas)
    full = [row.notes for row in rows if "children_of" in row.notes]
    assert len(full) == 2
    for kept in full:
        assert json.loads(json.dumps(notes.dump(notes.load(kept)))) == kept
