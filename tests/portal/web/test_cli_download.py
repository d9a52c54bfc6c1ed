"""The account page offers the command line that fits this portal, if there is one."""

from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from tests.factories import make_tenant

pytestmark = pytest.mark.django_db


@pytest.fixture
def client(settings: Any, tmp_path: Path) -> Client:
    settings.STATIC_ROOT = tmp_path
    client = Client(headers={"host": "localhost"})
    client.force_login(make_tenant("alice").owner)
    return client


def test_the_package_is_offered_with_its_whole_address(client: Client, tmp_path: Path) -> None:
    (tmp_path / "cli").mkdir()
    (tmp_path / "cli" / "homeport_client-0.1.0-py3-none-any.whl").write_bytes(b"")
    page = client.get("/account/").content.decode()
    name = "homeport_client-0.1.0-py3-none-any.whl"
    assert f"pip install http://localhost/static/cli/{name}" in page
    assert "homeport login http://localhost<" in page


def test_what_is_not_there_is_not_offered(client: Client) -> None:
    page = client.get("/account/").content.decode()
    assert "pip install" not in page
