"""Alice with a namespace in a team, her browser, that of who leads the team; a catalog of an admin's own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.test import Client

from tenants.models import Team, Tenant
from tests.browsing import client_of, tenant_with_a_node
from tests.factories import make_user


@pytest.fixture
def alice() -> Tenant:
    return tenant_with_a_node("alice", team=Team.objects.create(name="vision"))


@pytest.fixture
def client(alice: Tenant) -> Client:
    return client_of(alice)


@pytest.fixture
def lead(alice: Tenant) -> Client:
    lead = make_user("lee")
    assert alice.team
    alice.team.leads.add(lead)
    return client_of(lead)


@pytest.fixture
def catalog(settings: Any, tmp_path: Path) -> Callable[..., None]:
    """`catalog(gpu={"locked": True, "max": 1})` changes the section of notebooks."""
    path = tmp_path / "catalog.yaml"
    raw = yaml.safe_load(Path(settings.CATALOG).read_text())

    def change(**sections: dict[str, Any]) -> None:
        for name, values in sections.items():
            raw["notebooks"][name] |= values
        path.write_text(yaml.safe_dump(raw))
        settings.CATALOG = str(path)

    return change
