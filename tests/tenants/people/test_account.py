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
from tests.tenants.people.people import NEW, PASSWORD, last_entry, signed_in

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


def test_sessions_are_listed_and_each_is_ended_by_its_owner_only(alice: User) -> None:
    here, there = browser_of(alice), browser_of(alice, "curl/8.5")
    page = here.get("/account/").content.decode()
    assert "Firefox on Linux" in page
    assert page.count("This browser") == 1
    assert page.count("192.0.2.9") == 2
    row = Session.objects.get(user=alice, user_agent="curl/8.5")
    path = f"/account/sessions/{row.id}/end/"
    assert signed_in(make_user("mallory")).post(path).status_code == 404
    assert is_in(there)
    assert here.post(path).status_code == 302
    assert not is_in(there)
    assert is_in(here)
    assert last_entry().detail == {"browser": "curl", "address": "192.0.2.9"}
    # Its key, which is as good as a password, is nowhere to be read.
    assert row.session_key not in f"{page}{row}{list(AuditEntry.objects.values())!r}"
    own = Session.objects.get(user=alice)
    assert here.post(f"/account/sessions/{own.id}/end/")["Location"] == "/sign-in/"
    assert not is_in(here)


def test_all_others_are_ended_at_once(alice: User) -> None:
    here, *others = (browser_of(alice) for _ in range(4))
    here.post("/account/sessions/end/")
    assert is_in(here)
    assert not any(is_in(other) for other in others)
    assert last_entry().detail == {"sessions": 3}


@pytest.mark.parametrize("revokes", [False, True])
def test_a_new_password_ends_the_other_sessions_and_the_tokens_if_asked(
    alice: User, revokes: bool
) -> None:
    here, there = browser_of(alice), browser_of(alice)
    _token, plain = create_token(by=alice, name="t")
    proposed = r'<input[^>]*name="revoke_tokens"[^>]*checked'
    assert re.search(proposed, here.get("/account/").content.decode())
    body = {"old_password": PASSWORD, **NEW, **({"revoke_tokens": "on"} if revokes else {})}
    assert here.post("/account/password/", body).status_code == 302
    assert is_in(here)
    assert not is_in(there)
    assert Session.objects.get(user=alice).user_agent == FIREFOX
    assert (find_token(plain) is None) == revokes
    told = {"sessions ended": 1} | ({"tokens revoked": 1} if revokes else {})
    assert (last_entry().verb, last_entry().detail) == ("password", told)
    alice.refresh_from_db()
    assert alice.check_password(NEW["new_password1"])


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
    body = {"old_password": PASSWORD, **NEW, **changes}
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
    [{"scope": "admin"}, {"scope": "everything"}, {"days": "91"}, {"days": "x"}, {"name": " "}],
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
