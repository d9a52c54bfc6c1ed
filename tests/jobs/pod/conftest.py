"""Fixtures of the tests of pod programs."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.jobs.pod.pods import FakeDoor, Pod


@pytest.fixture
def door() -> Iterator[FakeDoor]:
    fake = FakeDoor()
    yield fake
    fake.close()


@pytest.fixture
def pod(door: FakeDoor) -> Iterator[Pod]:
    root = Path(tempfile.mkdtemp(prefix="homeport-pod-"))
    made = Pod(root, door)
    yield made
    made.close()
    shutil.rmtree(root)
