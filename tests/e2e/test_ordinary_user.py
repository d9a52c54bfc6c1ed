"""The main job where nobody is root: the whole Homeport started by an ordinary user."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.main_job import do_the_main_job
from tests.e2e.portal import PASSWORD, Portal
from tests.onebox.cluster import AS_USER

pytestmark = [pytest.mark.e2e, pytest.mark.tensorflow]

NOBODY = "65534"


@pytest.fixture
def portal() -> Iterator[Portal]:
    folder = Path(tempfile.mkdtemp(prefix="homeport-ordinary-"))
    os.chown(folder, int(NOBODY), int(NOBODY))
    running = Portal(folder / "home")
    user = (sys.executable, str(AS_USER), NOBODY, NOBODY, str(folder))
    settings = {
        "HOMEPORT_HOME": str(running.home),
        "PORT": str(running.port),
        "HOMEPORT_DEMO_PASSWORD": PASSWORD,
    }
    running.wrapper = (*user, "env", *(f"{name}={text}" for name, text in settings.items()))
    try:
        running.start()
        yield running
        assert running.stop() == 0
    finally:
        running.kill_everything()
        if not os.environ.get("KEEP_E2E"):
            shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.skipif(os.getuid() != 0, reason="the other tests run as an ordinary user already")
def test_the_main_job_as_an_ordinary_user(portal: Portal) -> None:
    owner = (portal.home / "onebox" / "kubeconfig").stat().st_uid
    assert str(owner) == NOBODY
    do_the_main_job(portal)
