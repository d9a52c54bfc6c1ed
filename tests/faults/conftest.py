"""Worlds whose clocks all stand still unless the test turns them, and how many points were tried."""

from types import SimpleNamespace

import pytest

from tests.faults import table
from tests.faults.table import Table
from tests.faults.world import FaultWorld


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Table:
    def watch(world: FaultWorld) -> None:
        clock = SimpleNamespace(monotonic=lambda: world.sim.seconds)
        for module in ("tenants.reconcile", "tenants.provision"):
            monkeypatch.setattr(f"{module}.time", clock)

    return Table(watch)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if table.tried:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(table.tried.items()))
        total = sum(table.tried.values())
        terminalreporter.write_line(f"points of fault that came out right: {total:,} ({kinds})")
