"""The own account: browsers that are signed in, the password, API tokens."""

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from tenants.actions import create_token, find_token
from tenants.models import ApiToken, AuditEntry, User
from tenants.people.devices import device_text
from tenants.people.models import Session
from tests.factories import make_tenant, make_user
from tests.tenants.people.people import PASSWORD, last_entry, signed_in

pytestmark = pytest.mark.django_db

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"


@pytest.fixture
def alice() -> User:
    return make_tenant("alice").owner


def browser_of(user: User, agent: str = FIREFOX) -> Client:
    client = Client(HTTP_HOST="localhost", HTTP_USER_AGENT=agent, REMOTE_ADDR="192.0.2.9")
    client.post("/sign-in/", {"username": user.username, "password": PASSWORD})
    return client


def is_in(client: Client) -> bool:
    return client.get("/account/").status_code == 200


def test_sessions_are_listed_with_browser_and_address(alice: User) -> None:
    browser_of(alice, "curl/8.5")
    page = browser_of(alice).get("/account/").content.decode()
    assert "Firefox on Linux" in page
    assert page.count("This browser") == 1
    assert "curl" in page
    assert page.count("192.0.2.9") == 2


def test_one_session_is_ended_by_its_owner_only(alice: User) -> None:
    here, there = browser_of(alice), browser_of(alice, "curl/8.5")
    other = Session.objects.get(user=alice, user_agent="curl/8.5")
    mallory = signed_in(make_user("mallory"))
    assert mallory.post(f"/account/sessions/{other.id}/end/").status_code == 404
    assert is_in(there)
    assert here.post(f"/account/sessions/{other.id}/end/").status_code == 302
    assert not is_in(there)
    assert is_in(here)
    entry = last_entry()
    assert entry.verb == "end-session"
    assert entry.detail == {"browser": "curl", "address": "192.0.2.9"}


def test_the_key_of_a_session_is_nowhere_to_be_read(alice: User) -> None:
    here = browser_of(alice)
    other = browser_of(alice)
    key = other.cookies["homeport_session"].value
    row = Session.objects.get(session_key=key)
    page = here.get("/account/").content.decode()
    here.post(f"/account/sessions/{row.id}/end/")
    written = repr(list(AuditEntry.objects.values()))
    assert key not in page
    assert key not in written
    assert key not in str(row)


def test_all_others_are_ended_at_once(alice: User) -> None:
    here, *others = (browser_of(alice) for _ in range(4))
    here.post("/account/sessions/end/")
    assert is_in(here)
    assert not any(is_in(other) for other in others)
    assert last_entry().detail == {"sessions": 3}


def test_ending_the_own_session_signs_out(alice: User) -> None:
    here = browser_of(alice)
    row = Session.objects.get(user=alice)
    assert here.post(f"/account/sessions/{row.id}/end/")["Location"] == "/sign-in/"
    assert not is_in(here)


def test_a_new_password_ends_the_other_sessions_and_keeps_the_tokens(alice: User) -> None:
    here, there = browser_of(alice), browser_of(alice)
    _token, plain = create_token(by=alice, name="t")
    new = {"new_password1": "orange tugboat 7", "new_password2": "orange tugboat 7"}
    assert here.post("/account/password/", {"old_password": PASSWORD, **new}).status_code == 302
    assert is_in(here)
    assert not is_in(there)
    assert find_token(plain) is not None
    assert last_entry().verb == "password"
    assert Session.objects.get(user=alice).user_agent == FIREFOX
    alice.refresh_from_db()
    assert alice.check_password("orange tugboat 7")


def test_a_new_password_ends_the_tokens_too_as_the_form_proposes(alice: User) -> None:
    here = browser_of(alice)
    _token, plain = create_token(by=alice, name="t")
    page = here.get("/account/").content.decode()
    assert re.search(r'<input[^>]*name="revoke_tokens"[^>]*checked', page)
    new = {"new_password1": "orange tugboat 7", "new_password2": "orange tugboat 7"}
    here.post("/account/password/", {"old_password": PASSWORD, "revoke_tokens": "on", **new})
    assert find_token(plain) is None
    assert last_entry().detail == {"sessions ended": 0, "tokens revoked": 1}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"old_password": "wrong"}, "This is not your current password."),
        ({"new_password2": "another"}, "The two passwords differ."),
        ({"new_password1": "short", "new_password2": "short"}, "too short"),
    ],
)
def test_a_password_that_is_refused_says_why_and_changes_nothing(
    alice: User, changes: dict[str, str], text: str
) -> None:
    body = {
        "old_password": PASSWORD,
        "new_password1": "orange tugboat 7",
        "new_password2": "orange tugboat 7",
        **changes,
    }
    answer = browser_of(alice).post("/account/password/", body)
    assert answer.status_code == 400
    assert text in answer.content.decode()
    alice.refresh_from_db()
    assert alice.check_password(PASSWORD)


def test_who_signs_in_elsewhere_has_no_password_to_change(alice: User) -> None:
    alice.set_unusable_password()
    alice.save()
    client = Client(HTTP_HOST="localhost")
    client.force_login(alice)
    assert "You sign in without a Homeport password" in client.get("/account/").content.decode()
    assert client.post("/account/password/", {}).status_code == 404


def test_a_token_has_the_scope_and_the_days_that_were_chosen(alice: User) -> None:
    client = browser_of(alice)
    page = client.post("/account/", {"name": "cron", "scope": "read", "days": "7"})
    token = ApiToken.objects.get(user=alice)
    assert token.scope == "read"
    left = token.expires_at - timezone.now()
    assert timedelta(days=6, hours=23) < left <= timedelta(days=7)
    plain = page.content.decode().partition("hp_")[2].partition("<")[0]
    assert len(plain) > 40
    assert plain not in client.get("/account/").content.decode()
    assert plain not in repr(ApiToken.objects.values())


@pytest.mark.parametrize(
    "body",
    [{"scope": "admin"}, {"scope": "everything"}, {"days": "91"}, {"days": "x"}, {"name": ""}],
)
def test_more_than_one_may_is_not_given(alice: User, body: dict[str, str]) -> None:
    answer = browser_of(alice).post("/account/", {"name": "cron", **body})
    assert answer.status_code == 400
    assert not ApiToken.objects.exists()


def test_expired_sessions_go_when_somebody_signs_in(alice: User) -> None:
    browser_of(alice)
    Session.objects.update(expire_date=timezone.now() - timedelta(days=1))
    browser_of(alice)
    assert Session.objects.count() == 1


def test_signing_in_and_out_is_written_down(alice: User) -> None:
    client = browser_of(alice)
    client.post("/sign-out/")
    entries = AuditEntry.objects.filter(actor=alice, kind="user").values_list("verb", flat=True)
    assert list(entries) == ["sign-out", "sign-in"]


@pytest.mark.parametrize(
    ("agent", "text"),
    [
        (FIREFOX, "Firefox on Linux"),
        (
            "Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 Chrome/131.0 Safari/537.36 Edg/131.0",
            "Edge on Windows",
        ),
        (
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15) AppleWebKit/605 Version/18 Safari/605",
            "Safari on macOS",
        ),
        (
            "Mozilla/5.0 (Linux; Android 15) AppleWebKit/537.36 Chrome/131.0 Mobile Safari/537.36",
            "Chrome on Android",
        ),
        ("curl/8.5.0", "curl"),
        ("", "An unknown browser"),
        ("<script>alert(1)</script>", "An unknown browser"),
    ],
)
def test_a_browser_is_said_in_words(agent: str, text: str) -> None:
    assert device_text(agent) == text
