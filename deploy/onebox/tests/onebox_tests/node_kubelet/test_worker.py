"""A pod's end cleans up whatever goes wrong beside it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from onebox.node import worker as module
from onebox.node.localdisk import Bounds, Folders, Used
from onebox.node.worker import PodStart, PodWorker
from onebox.quantity import QuantityError
from onebox_tests.node_kubelet.pods import container, pod

FAULTS = [RuntimeError("can't start new thread"), QuantityError("no amount"), KeyError("main")]
LIMITS = {"limits": {"ephemeral-storage": "1Mi"}}


async def test_a_fault_while_looking_at_the_disk_ends_neither_the_looking_nor_the_cleaning_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    context = MagicMock()
    context.pod_folder.return_value = tmp_path / "pod"
    (tmp_path / "pod" / "volumes").mkdir(parents=True)
    worker = PodWorker(context, pod(container("main", resources=LIMITS)), PodStart(records=[]))
    faults = list(FAULTS)

    def measure(_bounds: Bounds, _folders: Folders) -> Used:
        if faults:
            raise faults.pop(0)
        return Used({}, {"main": 2 << 20})

    async def step() -> bool:
        await asyncio.sleep(0.01)
        return worker._ending is not None

    monkeypatch.setattr(module, "used_bytes", measure)
    monkeypatch.setattr(module, "DISK_PERIOD_S", 0.01)
    monkeypatch.setattr(module, "FAULT_PAUSE_S", 0.01)
    monkeypatch.setattr(worker, "_step", step)
    async with asyncio.timeout(10):
        await worker._live()
    assert worker._ending is not None
    assert worker._ending.reason == "Evicted"
    assert worker.is_over
    assert not (tmp_path / "pod").exists()
    assert caplog.text.count("the disk of pod") == len(FAULTS)
