"""A whole Homeport in a plain container, and a onebox in one."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.portal import Portal, Rest
from tests.onebox.cluster import OneBox, launch

DROP = (sys.executable, str(Path(__file__).with_name("drop.py")))


@pytest.fixture(scope="module")
def box() -> Iterator[OneBox]:
    folder = Path(tempfile.mkdtemp(prefix="homeport-plain-"))
    home = folder / "onebox"
    home.mkdir()
    options = ("--home", str(home), "--gpus", "2", "--grace", "2", "--egress", "off")
    command = [*DROP, sys.executable, "-m", "deploy.onebox", *options]
    with contextlib.closing(launch(command, home, folder / "onebox.log")) as started:
        yield started
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def portal() -> Iterator[Portal]:
    folder = Path(tempfile.mkdtemp(prefix="homeport-plain-e2e-"))
    folder.chmod(0o755)
    running = Portal(folder / "home", wrapper=DROP)
    try:
        running.start()
        yield running
        assert running.stop() == 0
    finally:
        running.kill_everything()
        if not os.environ.get("KEEP_E2E"):
            shutil.rmtree(folder, ignore_errors=True)
            running.log.unlink(missing_ok=True)


@pytest.fixture(scope="module")
def ada(portal: Portal) -> Rest:
    rest = portal.sign_in("ada")
    rest.tenant()
    return rest
