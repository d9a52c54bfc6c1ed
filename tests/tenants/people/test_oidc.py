"""Signing in by an OpenID Connect provider: a real portal, a real provider, and its lies."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from django.test import Client
from django.urls import NoReverseMatch, reverse

from portal.web.log_filters import A_MINUTE
from tests.tenants.people.oidc_portal import PASSWORD, OidcPortal, oidc_portal, visitor
from tests.tools.authority import Authority


@pytest.fixture(scope="module")
def portal() -> Iterator[OidcPortal]:
    with oidc_portal() as running:
        yield running


@pytest.fixture(autouse=True)
def _honest(portal: OidcPortal) -> None:
    portal.provider.bend = ""


def audit(portal: OidcPortal, **query: str) -> list[Any]:
    body = {"username": "root", "password": PASSWORD}
    token = requests.post(f"{portal.url}/api/v1/auth/token/", json=body, timeout=30).json()["token"]
    answer = requests.get(
        f"{portal.url}/api/v1/audit/",
        params=query,
        headers={"Authorization": f"Token {token}"},
        timeout=30,
    )
    rows: list[Any] = answer.json()["results"]
    return rows


def test_the_first_time_makes_the_person_and_the_namespace(portal: OidcPortal) -> None:
    browser = visitor(portal)
    page = browser.come_as("sub-ann", next="/trainings/")
    assert page.url == f"{portal.url}/trainings/"
    account = browser.get("/account/")
    for name in ("Ann Lee", "ann", "ann@lab.example"):
        assert f'title="{name}">{name}</span>' in account
    assert "You sign in without a Homeport password." in account
    seen = portal.manage(
        "from tenants.models import Tenant; t = Tenant.objects.get(owner__username='ann');"
        "print(t.namespace[:6], t.owner.role)"
    )
    assert seen == "u-ann- researcher"
    assert [row["verb"] for row in audit(portal, q="ann", kind="user")] == ["sign-in", "create"]
    again = visitor(portal)
    again.come_as("sub-ann")
    assert again.is_signed_in()
    assert (
        portal.manage(
            "from tenants.models import User; print(User.objects.filter(username='ann').count())"
        )
        == "1"
    )


@pytest.mark.parametrize(
    "bend",
    [
        "issuer",
        "iss",
        "aud",
        "azp",
        "nonce",
        "no nonce",
        "expired",
        "no sub",
        "empty sub",
        "signature",
        "unknown key",
        "alg none",
        "alg HS256",
        "no id_token",
        "userinfo",
    ],
)
def test_a_lie_of_the_provider_is_refused_in_words(portal: OidcPortal, bend: str) -> None:
    browser = visitor(portal)
    where = browser.to_provider()
    portal.provider.bend = bend
    page = browser.session.get(f"{where}&login_as=sub-ann", timeout=30)
    assert page.status_code == 200
    assert page.url == f"{portal.url}/sign-in/"
    assert "could not be verified" in page.text
    assert not browser.is_signed_in()


def test_a_provider_that_is_down_or_calls_itself_otherwise_is_told(portal: OidcPortal) -> None:
    browser = visitor(portal)
    where = browser.to_provider()
    for bend, text in (("issuer", "could not be verified"), ("down", "does not respond.")):
        portal.provider.bend = bend
        answer = browser.post("/oidc/", browser.get("/sign-in/"))
        assert answer.url == f"{portal.url}/sign-in/"
        assert text in answer.text
    state = dict(pair.split("=") for pair in where.partition("?")[2].split("&"))["state"]
    page = browser.session.get(f"{portal.url}/oidc/callback/?code=x&state={state}", timeout=30)
    assert "Lab login does not respond." in page.text


def test_a_provider_behind_an_authority_of_the_labs_own(tmp_path: Path) -> None:
    ours, other = Authority(tmp_path / "ours"), Authority(tmp_path / "other")
    bundle = tmp_path / "authorities.pem"
    bundle.write_bytes(other.pem)
    # As overlays/production sets it.
    with oidc_portal(ours.pair("login"), REQUESTS_CA_BUNDLE=str(bundle)) as portal:
        browser = visitor(portal)
        answer = browser.post("/oidc/", browser.get("/sign-in/"))
        assert "Lab login does not respond." in answer.text
        bundle.write_bytes(other.pem + ours.pem)
        # The environment's own bundle would win over what a session is told.
        browser.session.trust_env, browser.session.verify = False, str(bundle)
        browser.come_as("sub-ann")
        assert browser.is_signed_in()


def test_a_state_that_was_not_given_out_here_is_refused(portal: OidcPortal) -> None:
    browser = visitor(portal)
    where = browser.to_provider()
    portal.provider.bend = "state"
    page = browser.session.get(f"{where}&login_as=sub-ann", timeout=30)
    assert "was interrupted" in page.text
    assert not browser.is_signed_in()


def test_an_answer_meant_for_one_browser_does_not_sign_another_in(portal: OidcPortal) -> None:
    first, second = visitor(portal), visitor(portal)
    where = first.to_provider()
    second.to_provider()
    back = requests.get(f"{where}&login_as=sub-ann", allow_redirects=False, timeout=30)
    page = second.session.get(back.headers["Location"], timeout=30)
    assert "was interrupted" in page.text
    assert not second.is_signed_in()
    # In the browser for which it was meant it works, once.
    first.session.get(back.headers["Location"], timeout=30)
    assert first.is_signed_in()
    third = visitor(portal)
    third.session.cookies = first.session.cookies.copy()  # type: ignore[assignment]
    page = third.session.get(back.headers["Location"], timeout=30)
    assert "was interrupted" in page.text


@pytest.mark.parametrize(
    "query", ["", "?error=access_denied", "?code=x", "?state=x", "?code=x&state=%00"]
)
def test_a_call_back_out_of_nowhere_is_refused(portal: OidcPortal, query: str) -> None:
    page = visitor(portal).session.get(f"{portal.url}/oidc/callback/{query}", timeout=30)
    assert page.status_code == 200
    assert page.url == f"{portal.url}/sign-in/"


@pytest.mark.parametrize("subject", ["sub-ada", "sub-mail"])
def test_a_name_or_mail_that_somebody_has_joins_nothing_by_itself(
    portal: OidcPortal, subject: str
) -> None:
    browser = visitor(portal)
    page = browser.come_as(subject)
    assert "connect Lab login on your account page" in page.text
    assert not browser.is_signed_in()
    row = audit(portal, verb="sign-in", result="refused")[0]
    assert row["who"] == "somebody"
    assert row["detail"] == {"with": "Lab login", "why": "name taken"}


def test_the_owner_of_an_account_connects_it_and_then_comes_in(portal: OidcPortal) -> None:
    browser = visitor(portal)
    browser.sign_in("ada")
    page = browser.come_as("sub-ada", connect="1")
    assert page.url == f"{portal.url}/account/"
    assert "You can now sign in with Lab login." in page.text
    assert audit(portal, verb="connect")[0]["who"] == "ada"
    other = visitor(portal)
    other.come_as("sub-ada")
    assert "ada" in other.get("/account/")
    # Nobody else takes the same identity over.
    root = visitor(portal)
    root.sign_in("root")
    page = root.come_as("sub-ada", connect="1")
    assert "is connected to somebody else already" in page.text


def test_connecting_needs_a_form_of_our_own_and_a_session(portal: OidcPortal) -> None:
    browser = visitor(portal)
    browser.sign_in("root")
    answer = browser.session.post(f"{portal.url}/oidc/", data={"connect": "1"}, timeout=30)
    assert answer.status_code == 403
    assert browser.session.get(f"{portal.url}/oidc/", timeout=30).status_code == 405


def test_who_is_disabled_or_not_in_the_group_stays_out(portal: OidcPortal) -> None:
    visitor(portal).come_as("sub-odd")
    change = "from tenants.models import User; User.objects.filter(username__startswith='b').update"
    portal.manage(f"{change}(is_active=False)")
    told = {"sub-odd": "This account is disabled.", "sub-stranger": "may not use Homeport"}
    for subject, text in told.items():
        browser = visitor(portal)
        assert text in browser.come_as(subject).text
        assert not browser.is_signed_in()


def test_the_group_of_admins_decides_at_each_sign_in(portal: OidcPortal) -> None:
    browser = visitor(portal)
    browser.come_as("sub-boss")
    assert browser.session.get(f"{portal.url}/admin/people/", timeout=30).status_code == 200
    portal.provider.people["sub-boss"]["groups"] = ["lab"]
    browser = visitor(portal)
    browser.come_as("sub-boss")
    assert browser.session.get(f"{portal.url}/admin/people/", timeout=30).status_code == 403


@pytest.mark.django_db
def test_without_a_provider_there_is_no_button_and_no_address() -> None:
    page = Client(HTTP_HOST="localhost").get("/sign-in/").content.decode()
    assert "/oidc/" not in page
    with pytest.raises(NoReverseMatch):
        reverse("oidc-begin")


def test_who_comes_back_with_nonsense_fills_no_log(portal: OidcPortal) -> None:
    for n in range(4 * A_MINUTE):
        for said in (f"error=access_denied&state={n}", f"code={n}&state=a%0Ab"):
            answer = requests.get(f"{portal.url}/oidc/callback/?{said}", timeout=30)
            assert "/sign-in/" in answer.url
    told = [line for line in portal.whole.log.splitlines() if "tenants.people.oidc" in line]
    about = Counter(
        " ".join(line.partition("tenants.people.oidc: ")[2].split()[:6]) for line in told
    )
    assert told
    assert max(about.values()) <= A_MINUTE, about
