"""One real onebox for all tests of this folder; each test gets a namespace of its own."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.onebox.cluster import OneBox, start_onebox
from tests.onebox.whole.kube import Kube, Space, names

_names = names()


@pytest.fixture(scope="session")
def box() -> Iterator[OneBox]:
    folder = Path(tempfile.mkdtemp(prefix="onebox-whole-"))
    started = start_onebox(folder / "onebox")
    yield started
    code = started.stop()
    text = started.tail(200)
    shutil.rmtree(folder, ignore_errors=True)
    assert code == 0, text
    assert "Traceback" not in text, text


@pytest.fixture(scope="session")
def kube(box: OneBox) -> Kube:
    return Kube(box.kubeconfig)


@pytest.fixture
def space(kube: Kube) -> Iterator[Space]:
    made = Space(kube, next(_names))
    yield made
    for pod in kube.items(made.path("pods")):
        kube.delete(made.path("pods", pod["metadata"]["name"]), grace_s=0)
    kube.delete(f"/api/v1/namespaces/{made.name}")
