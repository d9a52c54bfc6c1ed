"""Guessing of passwords is slowed down, for all processes, without telling who exists."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
import requests
from django.test import Client
from django.utils import timezone

from portal.errors import Refused
from tenants.models import AuditEntry
from tenants.people import sign_in_limit
from tenants.people.models import SignInCount
from tests.factories import make_user
from tests.tenants.people.oidc_portal import OidcPortal, oidc_portal
from tests.tenants.people.people import NEW, PASSWORD

pytestmark = pytest.mark.django_db


@pytest.fixture
def portal() -> Iterator[OidcPortal]:
    with oidc_portal() as running:
        yield running


def guess(name: str, password: str = "wrong", *, address: str = "192.0.2.1") -> Any:
    """A try by REST, which answers with a status for each case."""
    return Client(HTTP_HOST="localhost", REMOTE_ADDR=address).post(
        "/api/v1/auth/token/",
        {"username": name, "password": password},
        content_type="application/json",
    )


def test_the_eleventh_try_has_to_wait_even_with_the_right_password() -> None:
    make_user("alice")
    assert [guess("alice").status_code for _ in range(10)] == [401] * 10
    answer = guess("alice", PASSWORD)
    assert answer.status_code == 429
    assert answer.json()["errors"][0]["code"] == "throttled"
    assert "Try again in 10 minutes." in answer.json()["errors"][0]["text"]
    assert 590 <= int(answer["Retry-After"]) <= 601
    # Nobody locks somebody else out from another address.
    assert guess("alice", PASSWORD, address="192.0.2.2").status_code == 200
    rows = AuditEntry.objects.filter(verb="sign-in", result="refused")
    assert [row.detail for row in rows] == [{"locked": "for at most 10 minutes"}] + [{}] * 9
    assert (rows[0].actor_name, rows[0].object_name) == ("somebody", "alice")
    assert rows[0].source_address == "192.0.2.1"
    past = timezone.now() - sign_in_limit.WINDOW - timedelta(seconds=1)
    SignInCount.objects.update(since=past)
    assert guess("alice", PASSWORD).status_code == 200
    assert not SignInCount.objects.filter(since=past).exists()


def test_the_page_and_rest_share_the_count() -> None:
    make_user("alice")
    browser = Client(HTTP_HOST="localhost", REMOTE_ADDR="192.0.2.1")
    for _ in range(5):
        assert guess("alice").status_code == 401
        browser.post("/sign-in/", {"username": "alice", "password": "wrong"})
    answer = browser.post("/sign-in/", {"username": "alice", "password": PASSWORD})
    assert answer.status_code == 429
    assert "Try again in 10 minutes." in answer.content.decode()
    assert "Retry-After" in answer


def test_many_names_from_one_address_have_to_wait_too() -> None:
    make_user("alice")
    answers = [guess(f"name{number}").status_code for number in range(101)]
    assert answers == [401] * 100 + [429]
    assert guess("alice", PASSWORD).status_code == 429
    assert guess("alice", PASSWORD, address="192.0.2.2").status_code == 200


def test_a_network_of_ipv6_counts_as_one_address() -> None:
    for number in range(10):
        assert guess("alice", address=f"2001:db8:1:2::{number}").status_code == 401
    assert guess("alice", address="2001:db8:1:2:ffff::1").status_code == 429
    assert guess("alice", address="2001:db8:1:3::1").status_code == 401


def test_names_that_nobody_has_are_counted_and_answered_alike() -> None:
    make_user("alice")
    known = [guess("alice") for _ in range(11)]
    unknown = [guess("nobody") for _ in range(11)]
    assert [answer.status_code for answer in known] == [answer.status_code for answer in unknown]
    assert [answer.content for answer in known] == [answer.content for answer in unknown]


def test_the_same_work_is_done_for_a_name_that_nobody_has(monkeypatch: Any) -> None:
    """One hash of the password for each try, which is nearly all of its time."""
    from django.contrib.auth.hashers import MD5PasswordHasher

    make_user("alice")
    make_user("idle").set_unusable_password()
    hashed: list[str] = []
    encode = MD5PasswordHasher.encode

    def counted(self: Any, password: str, salt: str) -> str:
        hashed.append(password)
        return encode(self, password, salt)

    monkeypatch.setattr(MD5PasswordHasher, "encode", counted)
    counts = []
    for name in ("alice", "nobody", "idle"):
        hashed.clear()
        guess(name, "the password that is tried")
        counts.append(len(hashed))
    assert counts == [1, 1, 1]


def test_a_sign_in_that_succeeds_takes_its_tries_back() -> None:
    make_user("alice")
    for _ in range(3):
        for _ in range(9):
            guess("alice")
        assert guess("alice", PASSWORD).status_code == 200


def test_what_was_typed_as_a_name_is_not_written_down_unless_it_is_one() -> None:
    guess("correct horse battery staple")
    row = AuditEntry.objects.get(verb="sign-in")
    assert "horse" not in f"{row.object_name}{row.object_id}{row.detail}"
    assert not SignInCount.objects.filter(key__contains="horse").exists()


@pytest.mark.parametrize("name", ["a" * 150, "ÄÖÜ", "\ud800", "a\nb", "' OR 1=1"])
def test_odd_names_are_counted_like_others(name: str) -> None:
    for _ in range(10):
        sign_in_limit.begin(name=name, address="192.0.2.1")
    with pytest.raises(Refused):
        sign_in_limit.begin(name=name, address="192.0.2.1")


def test_the_own_password_cannot_be_guessed_at_an_open_browser() -> None:
    alice = make_user("alice")
    browser = Client(HTTP_HOST="localhost")
    browser.force_login(alice)
    wrong = {"old_password": "guess", **NEW}
    answers = [browser.post("/account/password/", wrong).status_code for _ in range(11)]
    assert answers == [400] * 10 + [429]
    right = {"old_password": PASSWORD, **NEW}
    assert browser.post("/account/password/", right).status_code == 429
    alice.refresh_from_db()
    assert alice.check_password(PASSWORD)


@pytest.mark.django_db(databases=[])
def test_tries_at_the_same_moment_are_all_counted(portal: OidcPortal) -> None:
    """Against a real server, whose requests run beside each other."""

    def one(_number: int) -> int:
        body = {"username": "ada", "password": "wrong"}
        url = f"{portal.url}/api/v1/auth/token/"
        return requests.post(url, json=body, timeout=60).status_code

    with ThreadPoolExecutor(20) as pool:
        answers = Counter(pool.map(one, range(40)))
    assert answers == {401: sign_in_limit.MAX_PER_PAIR, 429: 40 - sign_in_limit.MAX_PER_PAIR}
    # Nor does it help to say that one comes from somewhere else.
    assert guess_over_http(portal, "203.0.113.9") == 429


def guess_over_http(portal: OidcPortal, forwarded_for: str) -> int:
    return requests.post(
        f"{portal.url}/api/v1/auth/token/",
        json={"username": "ada", "password": "wrong"},
        headers={"X-Forwarded-For": forwarded_for},
        timeout=60,
    ).status_code


@pytest.mark.django_db(databases=[])
def test_a_trusted_proxy_says_where_people_come_from() -> None:
    with oidc_portal(TRUSTED_PROXIES="127.0.0.0/8") as portal:
        one = [guess_over_http(portal, "203.0.113.1") for _ in range(11)]
        assert one == [401] * 10 + [429]
        assert guess_over_http(portal, "203.0.113.2") == 401
