"""Teams: making, budgets, leads, members, deleting, and who may."""

import pytest
from django.test import Client

from tenants.models import AuditEntry, Team, Tenant, User
from tests.factories import make_tenant, make_user
from tests.tenants.people.people import codes, last_entry, rest, send

pytestmark = pytest.mark.django_db


def test_a_team_has_leads_a_budget_and_what_is_given(api: Client) -> None:
    make_user("lee")
    body = {"name": "vision", "leads": ["lee"], "budget": {"cpu": "24", "gpu": 4}}
    made = send(api, "POST", "teams/", body)
    assert made.status_code == 201
    team = Team.objects.get()
    make_tenant("alice", team=team)
    make_tenant("bob", team=team)
    shown = send(api, "GET", f"teams/{team.pk}/").json()
    assert shown == {
        "id": str(team.pk),
        "name": "vision",
        "leads": ["lee"],
        "members": 2,
        "budget": {"cpu": "24", "memory": None, "gpu": 4},
        "quota_sum": {"cpu": "16", "memory": "32Gi", "gpu": 4},
        "weight": 1,
    }
    assert send(api, "GET", "teams/").json()["results"] == [shown]
    detail = AuditEntry.objects.get(verb="create", kind="team").detail
    assert detail["leads"] == "lee"
    assert detail["budget gpu"] == "4"


def test_changes_are_one_row_with_before_and_after(api: Client) -> None:
    team = Team.objects.create(name="vision", budget_gpu_count=4)
    make_user("lee")
    body = {"name": "seeing", "leads": ["lee"], "budget": {"gpu": None, "memory": "64Gi"}}
    assert send(api, "PATCH", f"teams/{team.pk}/", body).status_code == 200
    assert last_entry().detail == {
        "before": {"name": "vision", "leads": "", "budget memory": "no limit", "budget gpu": "4"},
        "after": {
            "name": "seeing",
            "leads": "lee",
            "budget memory": "64Gi",
            "budget gpu": "no limit",
        },
    }
    count = AuditEntry.objects.count()
    assert send(api, "PATCH", f"teams/{team.pk}/", body).status_code == 200
    assert AuditEntry.objects.count() == count


def test_only_an_empty_team_is_deleted(api: Client) -> None:
    team = Team.objects.create(name="vision")
    alice = make_tenant("alice", team=team).owner
    answer = send(api, "DELETE", f"teams/{team.pk}/")
    assert (answer.status_code, codes(answer)) == (400, {("", "not_empty")})
    User.objects.filter(pk=alice.pk).update(team=None)
    assert codes(send(api, "DELETE", f"teams/{team.pk}/")) == {("", "not_empty")}
    Tenant.objects.update(team=None)
    assert send(api, "DELETE", f"teams/{team.pk}/").status_code == 204
    assert not Team.objects.exists()
    assert (last_entry().verb, last_entry().object_name) == ("delete", "vision")


def test_people_see_their_own_teams() -> None:
    vision, speech = Team.objects.create(name="vision"), Team.objects.create(name="speech")
    lee = make_user("lee", team=vision)
    speech.leads.add(lee)
    client = rest(lee)
    names = [team["name"] for team in send(client, "GET", "teams/").json()["results"]]
    assert names == ["speech", "vision"]
    stranger = rest(make_user("mallory"))
    assert send(stranger, "GET", "teams/").json()["count"] == 0


def test_the_page_moves_people_with_their_namespace_and_names_leads(page: Client) -> None:
    team = Team.objects.create(name="vision")
    alice = make_tenant("alice").owner
    page.post(f"/admin/teams/{team.pk}/add/", {"username": "alice"})
    page.post(f"/admin/teams/{team.pk}/lead/", {"username": "alice", "is_lead": "1"})
    assert Tenant.objects.get(owner=alice).team == team
    assert list(team.leads.all()) == [alice]
    assert "Remove as lead" in page.get(f"/admin/teams/{team.pk}/").content.decode()
    page.post(f"/admin/teams/{team.pk}/remove/", {"username": "alice"})
    alice.refresh_from_db()
    assert alice.team is None
    assert Tenant.objects.get(owner=alice).team is None
    assert not team.leads.exists()
    # One may lead from outside.
    page.post(f"/admin/teams/{team.pk}/lead/", {"username": "alice", "is_lead": "1"})
    assert "not a member" in page.get(f"/admin/teams/{team.pk}/").content.decode()
    assert page.post(f"/admin/teams/{team.pk}/remove/", {"username": "alice"}).status_code == 404
    for verb in ("add", "remove"):
        answer = page.post(f"/admin/teams/{team.pk}/{verb}/", {"username": "a\0"})
        assert answer.status_code == 404


def test_the_form_says_what_is_wrong_and_keeps_what_was_typed(page: Client) -> None:
    body = {"name": "vision", "budget_gpu": "many", "budget_cpu": "64"}
    answer = page.post("/admin/teams/", body)
    assert answer.status_code == 400
    text = answer.content.decode()
    assert 'id="budget_gpu-error"' in text
    assert 'value="many"' in text
    assert 'value="64"' in text
    assert not Team.objects.exists()


def test_the_list_shows_a_budget_that_is_exceeded_and_a_team_is_deleted_after_a_question(
    page: Client,
) -> None:
    team = Team.objects.create(name="vision", budget_gpu_count=1)
    tenant = make_tenant("alice", team=team)
    assert "over by 1" in page.get("/admin/teams/").content.decode()
    User.objects.filter(pk=tenant.owner_id).update(team=None)
    Tenant.objects.update(team=None)
    assert "Delete team vision?" in page.get(f"/admin/teams/{team.pk}/delete/").content.decode()
    assert Team.objects.exists()
    assert page.post(f"/admin/teams/{team.pk}/delete/")["Location"] == "/admin/teams/"
    assert not Team.objects.exists()
