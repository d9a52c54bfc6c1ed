"""REST of people: inviting, changing, disabling, resetting, and who may."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from tenants.actions import ensure_tenant
from tenants.models import ApiToken, AuditEntry, Team, Tenant, User
from tenants.people.models import Session
from tests.factories import make_tenant, make_user
from tests.tenants.people.people import NEW, PASSWORD, codes, last_entry, rest, send, signed_in

pytestmark = pytest.mark.django_db


def invited(api: Client, **changes: Any) -> Any:
    answer = send(api, "POST", "users/", {"username": "ann", **changes})
    assert answer.status_code == 201, answer.content
    return answer.json()


def path_of(link: Any) -> str:
    """The path of the join link in an answer."""
    path: str = link["join_url"].removeprefix("http://localhost")
    return path


def test_an_invited_person_joins_once_by_the_link_and_is_given_a_namespace(api: Client) -> None:
    Team.objects.create(name="vision")
    made = invited(api, first_name="Ann", last_name="Lee", team="vision")
    assert (made["state"], made["role"], made["team"]) == ("invited", "researcher", "vision")
    assert last_entry().detail == {"role": "researcher", "team": "vision"}
    path = path_of(made)
    browser = Client(HTTP_HOST="localhost")
    assert "Welcome, Ann Lee" in browser.get(path).content.decode()
    assert browser.post(path, NEW).status_code == 302
    assert browser.get("/").status_code == 200
    tenant = Tenant.objects.get(owner__username="ann")
    assert tenant.team is not None
    assert tenant.team.name == "vision"
    assert AuditEntry.objects.filter(verb="join", actor__username="ann").count() == 1
    shown = send(api, "GET", f"users/{made['id']}/").json()
    assert shown["state"] == "active"
    assert shown["last_seen_at"]
    for client in (browser, Client(HTTP_HOST="localhost")):
        assert client.get(path).status_code == 410
        assert client.post(path, NEW).status_code == 410


def test_a_newer_link_makes_the_older_one_useless_and_disabling_both(api: Client) -> None:
    made = invited(api)
    newer = send(api, "POST", f"users/{made['id']}/reset/", {}).json()
    assert Client(HTTP_HOST="localhost").get(path_of(made)).status_code == 410
    assert Client(HTTP_HOST="localhost").get(path_of(newer)).status_code == 200
    send(api, "PATCH", f"users/{made['id']}/", {"is_active": False})
    assert Client(HTTP_HOST="localhost").get(path_of(newer)).status_code == 410


def test_a_link_ends_after_three_days(api: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    from tenants.people import passwords

    path = path_of(invited(api))
    now = passwords._tokens._now()
    monkeypatch.setattr(passwords._tokens, "_now", lambda: now + timedelta(days=3, seconds=-5))
    assert Client(HTTP_HOST="localhost").get(path).status_code == 200
    monkeypatch.setattr(passwords._tokens, "_now", lambda: now + timedelta(days=3, seconds=5))
    assert Client(HTTP_HOST="localhost").get(path).status_code == 410


@pytest.mark.parametrize("key", ["x", "-", "A" * 22 + "-x-y", "_" * 21, "AAAA-" + "b" * 400])
def test_a_link_that_never_was_is_over(db: None, key: str) -> None:
    assert Client(HTTP_HOST="localhost").get(f"/join/{key}/").status_code == 410


def test_a_weak_password_is_refused_and_the_link_still_works(api: Client) -> None:
    path = path_of(invited(api))
    for first, second in (("short", "short"), ("password1", "password1"), ("orange 77 tug", "no")):
        answer = Client(HTTP_HOST="localhost").post(
            path, {"new_password1": first, "new_password2": second}
        )
        assert answer.status_code == 400
    assert Client(HTTP_HOST="localhost").get(path).status_code == 200


def test_who_is_disabled_is_out_at_once(api: Client) -> None:
    alice = make_tenant("alice").owner
    browser, terminal = signed_in(alice), rest(alice)
    assert browser.get("/").status_code == 200
    answer = send(api, "PATCH", f"users/{alice.pk}/", {"is_active": False})
    assert (answer.status_code, answer.json()["state"]) == (200, "disabled")
    assert browser.get("/")["Location"].startswith("/sign-in/")
    assert send(terminal, "GET", "me/").status_code == 401
    assert not Session.objects.filter(user=alice).exists()
    assert not ApiToken.objects.filter(user=alice).exists()
    entry = last_entry()
    assert (entry.verb, entry.object_name, entry.actor_name) == ("disable", "alice", "root")
    assert entry.detail == {"ended": {"sessions": 1, "tokens": 1}}
    wrong = Client(HTTP_HOST="localhost").post(
        "/sign-in/", {"username": "alice", "password": PASSWORD}
    )
    assert "do not match" in wrong.content.decode()
    # Enabled again they sign in, but old tokens stay dead.
    send(api, "PATCH", f"users/{alice.pk}/", {"is_active": True})
    assert last_entry().verb == "enable"
    assert send(terminal, "GET", "me/").status_code == 401
    assert signed_in(alice).get("/").status_code == 200


def test_the_last_admin_is_neither_disabled_nor_demoted(api: Client, root: User) -> None:
    other = make_user("rita", role="admin")
    assert send(api, "PATCH", f"users/{other.pk}/", {"role": "researcher"}).status_code == 200
    invited(api, role="admin")  # and has not joined yet
    answer = send(api, "PATCH", f"users/{root.pk}/", {"role": "researcher"})
    assert (answer.status_code, codes(answer)) == (400, {("role", "last_admin")})
    answer = send(api, "PATCH", f"users/{root.pk}/", {"is_active": False})
    assert (answer.status_code, codes(answer)) == (400, {("is_active", "own_account")})
    root.refresh_from_db()
    assert root.may("administer")
    assert root.is_active


def test_a_demoted_admin_loses_the_tokens_of_an_admin(api: Client) -> None:
    rita = make_user("rita", role="admin")
    terminal = rest(rita)
    assert send(terminal, "GET", "users/").status_code == 200
    send(api, "PATCH", f"users/{rita.pk}/", {"role": "researcher"})
    assert send(terminal, "GET", "me/").status_code == 401


def test_the_namespace_follows_its_owner_to_another_team(api: Client) -> None:
    vision, speech = Team.objects.create(name="vision"), Team.objects.create(name="speech")
    alice = make_tenant("alice", team=vision).owner
    vision.leads.add(alice)
    before = Tenant.objects.get(owner=alice).revision
    answer = send(api, "PATCH", f"users/{alice.pk}/", {"team": "speech"})
    assert (answer.json()["team"], answer.json()["leads"]) == ("speech", [])
    tenant = Tenant.objects.get(owner=alice)
    assert tenant.team == speech
    assert tenant.revision == before + 1
    entry = last_entry()
    assert entry.verb == "change"
    assert entry.detail == {
        "before": {"team": "vision"},
        "after": {"team": "speech"},
        "no longer leads": "vision",
        "namespace": tenant.namespace,
    }
    answer = send(api, "PATCH", f"users/{alice.pk}/", {"team": None})
    assert answer.json()["team"] is None
    assert Tenant.objects.get(owner=alice).team is None
    answer = send(api, "PATCH", f"users/{alice.pk}/", {"team": str(vision.pk)})
    assert answer.json()["team"] == "vision"


def test_many_changes_at_once_are_one_entry_and_none_is_no_entry(api: Client) -> None:
    alice = make_user("alice")
    count = AuditEntry.objects.count()
    body = {"first_name": "A", "role": "admin", "email": "a@example.org"}
    assert send(api, "PATCH", f"users/{alice.pk}/", body).status_code == 200
    assert AuditEntry.objects.count() == count + 1
    assert send(api, "PATCH", f"users/{alice.pk}/", body).status_code == 200
    assert send(api, "PATCH", f"users/{alice.pk}/", {}).status_code == 200
    assert AuditEntry.objects.count() == count + 1
    answer = send(api, "PATCH", f"users/{alice.pk}/", {"username": "bob"})
    assert codes(answer) == {("username", "unknown_field")}


def test_a_reset_takes_the_password_and_the_sessions_and_tokens_only_if_asked(
    api: Client, root: User
) -> None:
    alice = make_user("alice")
    browser, terminal = signed_in(alice), rest(alice)
    answer = send(api, "POST", f"users/{alice.pk}/reset/", {"revoke_tokens": False})
    assert answer.status_code == 200
    assert browser.get("/")["Location"].startswith("/sign-in/")
    alice.refresh_from_db()
    assert not alice.check_password(PASSWORD)
    assert send(terminal, "GET", "me/").status_code == 200
    send(api, "POST", f"users/{alice.pk}/reset/", {})
    assert send(terminal, "GET", "me/").status_code == 401
    assert last_entry().detail == {"ended": {"sessions": 0, "tokens": 1}}
    answer = send(api, "POST", f"users/{root.pk}/reset/", {})
    assert codes(answer) == {("", "own_account")}


def test_somebody_who_was_there_is_seen(api: Client) -> None:
    alice = make_user("alice")
    ensure_tenant(user=alice)
    browser = signed_in(alice)
    past = timezone.now() - timedelta(hours=2)
    Session.objects.filter(user=alice).update(last_seen_at=past)
    User.objects.filter(pk=alice.pk).update(last_seen_at=past)
    browser.get("/")
    alice.refresh_from_db()
    assert alice.last_seen_at is not None
    assert timezone.now() - alice.last_seen_at < timedelta(minutes=1)
