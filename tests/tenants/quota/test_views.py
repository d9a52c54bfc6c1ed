"""Changing a quota over REST and by the form: who may, what is refused, what the form keeps."""

from typing import Any

import pytest

from tenants.models import Team, Tenant
from tests.browsing import client_of, page_of
from tests.factories import make_tenant, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def alice() -> Tenant:
    """Alice's tenant in `vision`, which Lee leads, with a budget of 4 GPUs; Bob holds 2 of them."""
    team = Team.objects.create(name="vision", budget_gpu_count=4)
    team.leads.add(make_user("lee", team=team))
    make_tenant("bob", team=team)
    make_tenant("mallory")
    make_user("root", role="admin")
    return make_tenant("alice", team=team)


def patch(name: str, tenant: Tenant, body: Any) -> Any:
    return client_of(name).patch(
        f"/api/v1/tenants/{tenant.pk}/", body, content_type="application/json"
    )


def test_the_form_says_what_is_held_and_what_the_budget_leaves(alice: Tenant):
    alice.observed_used = {"gpu": 1}
    alice.save()
    page = page_of(client_of("lee").get(f"/tenants/{alice.pk}/quota/"))
    assert page.value("gpu") == "2"
    assert page.one("p", id="gpu-hint").text == "1 in use. At most 2 within the team's budget."
    # An admin is bound by no budget.
    page = page_of(client_of("root").get(f"/tenants/{alice.pk}/quota/"))
    assert page.one("p", id="gpu-hint").text == "1 in use."


def test_a_refused_form_keeps_what_was_typed_and_says_why(alice: Tenant):
    answer = client_of("lee").post(
        f"/tenants/{alice.pk}/quota/", {"cpu": "lots", "gpu": "1"}, headers={"HX-Request": "true"}
    )
    page = page_of(answer)
    assert page.value("cpu") == "lots"
    assert "not a quantity" in page.one("p", id="cpu-error").text
    assert page.value("gpu") == "1"
    alice.refresh_from_db()
    assert alice.quota_gpu_count == 2


def test_what_somebody_else_changed_meanwhile_is_not_set_back(alice: Tenant):
    sent = {"cpu": "4", "was-cpu": "8", "gpu": "2", "was-gpu": "2"}
    Tenant.objects.filter(pk=alice.pk).update(quota_gpu_count=1)
    answer = client_of("lee").post(f"/tenants/{alice.pk}/quota/", sent)
    assert answer.status_code == 302
    alice.refresh_from_db()
    assert (alice.quota_cpu_millicores, alice.quota_gpu_count) == (4000, 1)


def test_afterwards_one_is_back_where_one_came_from_but_never_elsewhere(alice: Tenant):
    for given, gone_to in (("/trainings/?q=a", "/trainings/?q=a"), ("https://evil.test/", "/")):
        sent = {"gpu": "1", "next": given}
        answer = client_of("lee").post(f"/tenants/{alice.pk}/quota/", sent)
        assert answer["Location"] == gone_to
    answer = client_of("lee").post(
        f"/tenants/{alice.pk}/quota/", {"gpu": "0"}, headers={"HX-Request": "true"}
    )
    assert answer["HX-Refresh"] == "true"
