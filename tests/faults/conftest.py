"""Worlds whose clocks all stand still unless the test turns them, and how many points were tried."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import AsyncToSync, SyncToAsync

from tests.faults import table
from tests.faults.table import Table
from tests.faults.world import FaultWorld


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """What blocks is called at once: the hundreds of hops between threads would take most of the time."""

    async def at_once(self: SyncToAsync[Any, Any], *args: Any, **named: Any) -> Any:
        return self.func(*args, **named)

    async def to_thread(act: Callable[..., Any], *args: Any, **named: Any) -> Any:
        return act(*args, **named)

    def unheard(self: AsyncToSync[Any, Any], *args: Any, **named: Any) -> None:
        """Messages to browsers, of which there are none; the reconciler looks around by itself."""

    monkeypatch.setattr(AsyncToSync, "__call__", unheard)
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
    monkeypatch.setattr(SyncToAsync, "__call__", at_once)
    monkeypatch.setattr(asyncio, "to_thread", to_thread)


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Table:
    def watch(world: FaultWorld) -> None:
        clock = SimpleNamespace(monotonic=lambda: world.sim.seconds)
        for module in ("tenants.reconcile.controller", "tenants.reconcile.apply"):
            monkeypatch.setattr(f"{module}.time", clock)

    return Table(watch)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if table.tried:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(table.tried.items()))
        total = sum(table.tried.values())
        terminalreporter.write_line(f"points of fault that came out right: {total:,} ({kinds})")
        terminalreporter.write_line(
            f"part {table.PART} of {table.EVERY} of the table of faults; again with "
            f"HOMEPORT_FAULT_TABLE={table.EVERY} HOMEPORT_FAULT_PART={table.PART}"
        )
