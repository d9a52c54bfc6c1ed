"""The main job where nobody is root: the whole Homeport started by an ordinary user."""

import os
from collections.abc import Iterator

import pytest

from onebox.testing import as_user
from tests.e2e.main_job import do_the_main_job
from tests.e2e.portal import PASSWORD, Portal, new_home, thrown_away

pytestmark = [pytest.mark.e2e, pytest.mark.tensorflow]

NOBODY = 65534


@pytest.fixture
def portal() -> Iterator[Portal]:
    running = Portal(new_home("ordinary"))
    folder = running.home.parent
    os.chown(folder, NOBODY, NOBODY)
    settings = {
        "HOMEPORT_HOME": str(running.home),
        "PORT": str(running.port),
        "POD_PORT": str(running.pod_port),
        "HOMEPORT_DEMO_PASSWORD": PASSWORD,
    }
    running.wrapper = (
        *as_user(NOBODY, folder),
        "env",
        *(f"{name}={text}" for name, text in settings.items()),
    )
    with thrown_away(running):
        yield running


@pytest.mark.skipif(os.getuid() != 0, reason="the other tests run as an ordinary user already")
def test_the_main_job_as_an_ordinary_user(portal: Portal) -> None:
    owner = (portal.home / "onebox" / "kubeconfig").stat().st_uid
    assert owner == NOBODY
    do_the_main_job(portal)
