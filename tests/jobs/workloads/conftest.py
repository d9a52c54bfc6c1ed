"""Alice with a namespace in a team, her browser, and that of who leads the team."""

import pytest
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
