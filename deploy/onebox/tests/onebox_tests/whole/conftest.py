"""One real onebox for all tests of this folder; each test gets a namespace of its own.

With CONTRACT_KUBECONFIG those tests that look at the API alone run on that cluster, such as an
upstream control plane that onebox's node half has joined.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from onebox.testing import OneBox, start
from onebox.testing.kube import Kube, RefusedError, Space, names

GIVEN = os.environ.get("CONTRACT_KUBECONFIG")
_names = names()


@pytest.fixture(scope="session")
def box() -> Iterator[OneBox]:
    if GIVEN:
        pytest.skip("it looks into onebox's own processes, and a cluster is given")
    folder = Path(tempfile.mkdtemp(prefix="onebox-whole-"))
    started = start(folder / "onebox")
    yield started
    code = started.stop()
    text = started.tail(200)
    shutil.rmtree(folder, ignore_errors=True)
    assert code == 0, text
    assert "Traceback" not in text, text


@pytest.fixture(scope="session")
def kubeconfig(request: pytest.FixtureRequest) -> Path:
    if GIVEN:
        return Path(GIVEN)
    box: OneBox = request.getfixturevalue("box")
    return box.kubeconfig


@pytest.fixture(scope="session")
def kube(kubeconfig: Path) -> Kube:
    return Kube(kubeconfig)


@pytest.fixture
def space(kube: Kube) -> Iterator[Space]:
    made = Space(kube, next(_names))
    yield made
    for pod in kube.items(made.path("pods")):
        try:
            kube.delete(made.path("pods", pod["metadata"]["name"]), grace_s=0)
        except RefusedError as error:
            if error.code != 404:  # it was on its way out
                raise
    kube.delete(f"/api/v1/namespaces/{made.name}")
