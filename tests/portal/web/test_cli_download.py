"""The account page offers the command line that fits this portal, if there is one."""

from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from portal.web.cli_download import WHEEL
from tests.factories import make_tenant

# Of other versions: one by whose name a list ends, and one that a list of names takes for the newest.
OTHERS = [f"homeport_client-{version}-py3-none-any.whl" for version in ("0.10.0", "0.9.0")]

pytestmark = pytest.mark.django_db


@pytest.fixture
def client(settings: Any, tmp_path: Path) -> Client:
    settings.STATIC_ROOT = tmp_path
    client = Client(headers={"host": "localhost"})
    client.force_login(make_tenant("alice").owner)
    return client


def test_the_package_is_offered_with_its_whole_address(client: Client, tmp_path: Path) -> None:
    (tmp_path / "cli").mkdir()
    for name in (WHEEL, *OTHERS):
        (tmp_path / "cli" / name).write_bytes(b"")
    page = client.get("/account/").content.decode()
    assert f"pip install http://localhost/static/cli/{WHEEL}<" in page
    assert "homeport login http://localhost<" in page
    told = client.get("/api/v1/me/").json()["command_line"]
    assert told == f"http://localhost/static/cli/{WHEEL}"


def test_what_is_not_there_is_not_offered(client: Client, tmp_path: Path) -> None:
    (tmp_path / "cli").mkdir()
    for name in OTHERS:
        (tmp_path / "cli" / name).write_bytes(b"")
    page = client.get("/account/").content.decode()
    assert "pip install" not in page
    assert client.get("/api/v1/me/").json()["command_line"] == ""
