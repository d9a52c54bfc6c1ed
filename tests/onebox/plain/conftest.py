"""A whole Homeport in a plain container, and a onebox in one."""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from onebox.testing import IN_PLAIN_CONTAINER, OneBox, launch
from tests.e2e.portal import Portal, Rest, new_home, thrown_away


@pytest.fixture(scope="module")
def box() -> Iterator[OneBox]:
    folder = Path(tempfile.mkdtemp(prefix="homeport-plain-"))
    home = folder / "onebox"
    home.mkdir()
    options = ("--home", str(home), "--gpus", "2", "--grace", "2", "--egress", "off")
    command = [*IN_PLAIN_CONTAINER, sys.executable, "-m", "onebox", *options]
    with contextlib.closing(launch(command, home, folder / "onebox.log")) as started:
        yield started
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def portal() -> Iterator[Portal]:
    with thrown_away(Portal(new_home("plain-e2e"), wrapper=IN_PLAIN_CONTAINER)) as running:
        yield running


@pytest.fixture(scope="module")
def ada(portal: Portal) -> Rest:
    rest = portal.sign_in("ada")
    rest.tenant()
    return rest
