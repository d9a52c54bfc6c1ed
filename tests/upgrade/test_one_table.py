"""The migrations to one table: every row and column arrives, and is read."""

import json

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


def test_what_was_moved_is_read_by_the_engine(tables: OldTables) -> None:
    """Every request as a spec, and every note that is not odd."""
    migrate()
    rows = list(Workload.objects.using(ALIAS).select_related("tenant"))
    assert {row.kind for row in rows} == set(KINDS)
    for row in rows:
        spec = spec_of(row, KINDS[row.kind].spec)
        columns = json.loads(json.dumps(columns_of(spec)))
        # A field that came later has its default.
        columns["spec"].get("run_policy", {}).pop("restart_policy", None)
        assert (row.spec, row.replicas) == (columns["spec"], columns["replicas"])
    full = [row.notes for row in rows if "children_of" in row.notes]
    assert len(full) == 2
    for kept in full:
        assert json.loads(json.dumps(notes.dump(notes.load(kept)))) == kept
