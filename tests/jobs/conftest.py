"""What tests of jobs have in common: a store of their own, and ears."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from portal import live
from portal.storage import get_store
from portal.storage.folder import FolderStore


@pytest.fixture
def store(settings: Any) -> Iterator[FolderStore]:
    root = Path(tempfile.mkdtemp(prefix="homeport-internal-"))
    settings.HOMEPORT_HOME = root
    found = get_store()
    assert isinstance(found, FolderStore)
    yield found
    shutil.rmtree(root)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What browsers and the reconciler were told."""
    found: list[Any] = []
    monkeypatch.setattr(live, "wake_reconciler", lambda: found.append("wake"))
    monkeypatch.setattr(live, "changed", lambda *what: found.append(what[:2]))
    monkeypatch.setattr(live, "tell_pages", lambda kind, _: found.append(kind))
    return found
