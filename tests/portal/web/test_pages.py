"""The first page, signing in and out, the account, errors, health, and the rules of every page."""

from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client
from django.utils.timezone import now

from jobs.models import ReconcilerLease
from portal.errors import Refused
from tenants.models import ApiToken, Tenant, TenantObject
from tenants.people import sessions
from tests.browsing import read
from tests.factories import make_job, make_tenant, make_user
from tests.portal.markup import Markup, find_faults

pytestmark = pytest.mark.django_db
PASSWORD = "a long password"


@pytest.fixture
def client() -> Client:
    cache.clear()  # tries to sign in are counted there
    return Client(headers={"host": "localhost"})


def lease(**changes: Any) -> None:
    fields = {"renewed_at": now(), "cluster_ok_at": now(), "cluster_error": "", **changes}
    ReconcilerLease.objects.update_or_create(pk=1, defaults=fields)


# --- signing in ---


def test_the_first_sign_in_gives_a_namespace(client: Client) -> None:
    user = make_user("alice")
    answer = client.post("/sign-in/", {"username": "alice", "password": PASSWORD})
    assert answer.status_code == 302
    assert answer["Location"] == "/"
    assert Tenant.objects.get(owner=user).state == "provisioning"
    client.post("/sign-out/")
    client.post("/sign-in/", {"username": "alice", "password": PASSWORD})
    assert Tenant.objects.filter(owner=user).count() == 1


def test_an_admin_gets_a_namespace_only_by_asking(client: Client) -> None:
    root = make_user("root", role="admin")
    client.post("/sign-in/", {"username": "root", "password": PASSWORD})
    assert not Tenant.objects.filter(owner=root).exists()
    assert "Create my namespace" in read(client, "/").text
    assert client.post("/tenant/make/")["Location"] == "/"
    assert Tenant.objects.filter(owner=root).exists()
    assert "Create my namespace" not in read(client, "/").text


@pytest.mark.parametrize(
    ("name", "password"), [("alice", "wrong"), ("nobody", PASSWORD), ("", ""), ("alice", "")]
)
def test_a_wrong_name_and_a_wrong_password_sound_the_same(
    client: Client, name: str, password: str
) -> None:
    make_user("alice")
    answer = client.post("/sign-in/", {"username": name, "password": password})
    page = Markup(answer.content.decode())
    assert answer.status_code == 200
    assert "_auth_user_id" not in client.session
    if name and password:
        assert "This user name and password do not match." in page.text
        assert page.value("username") == name
    assert page.one("input", name="password").get("value") is None


def test_signing_in_goes_back_to_the_page_that_was_wanted(client: Client) -> None:
    make_user("alice")
    asked = client.get("/trainings/?state=failed")
    assert asked["Location"] == "/sign-in/?next=/trainings/%3Fstate%3Dfailed"
    page = read(client, asked["Location"])
    assert page.value("next") == "/trainings/?state=failed"
    answer = client.post(
        "/sign-in/", {"username": "alice", "password": PASSWORD, "next": page.value("next")}
    )
    assert answer["Location"] == "/trainings/?state=failed"


@pytest.mark.parametrize("target", ["https://evil.example/", "//evil.example", "javascript:1", "1"])
def test_signing_in_never_leads_to_another_site(client: Client, target: str) -> None:
    make_user("alice")
    body = {"username": "alice", "password": PASSWORD, "next": target}
    assert client.post("/sign-in/", body)["Location"] == "/"
    assert client.get("/sign-in/", {"next": target})["Location"] == "/"


def test_signing_out_needs_a_post_and_ends_the_session(client: Client) -> None:
    client.force_login(make_tenant().owner)
    assert client.get("/sign-out/").status_code == 405
    client.post("/sign-out/")
    assert client.get("/").status_code == 302


# --- the first page ---


@pytest.mark.parametrize("part", ["quota", "namespace", "now"])
def test_cards_of_a_namespace_are_not_there_without_one(client: Client, part: str) -> None:
    client.force_login(make_user("root", role="admin"))
    assert client.get(f"/tenant/part/{part}/").status_code == 404
    assert client.get("/tenant/part/banner/").status_code == 200


def test_a_new_person_is_shown_how_to_begin(client: Client) -> None:
    lease()
    client.force_login(make_tenant().owner)
    page = read(client, "/")
    assert "Your first training in three steps" in page.text
    assert page.one("a", href="/trainings/new/?example=count").text == "Count to thirty"


def test_the_first_page_says_what_runs_and_why_something_waits(client: Client) -> None:
    tenant = make_tenant()
    make_job(tenant, name="walker", state="running", started_at=now())
    make_job(tenant, name="waiter", state="queued", reason_text="Asks for 2 GPU, 0 are free.")
    make_job(tenant, name="ender", state="failed", finished_at=now(), reason_text="It broke.")
    make_job(make_tenant("mallory"), name="stranger", state="running", started_at=now())
    client.force_login(tenant.owner)
    page = read(client, "/")
    for text in ("walker", "waiter", "Asks for 2 GPU, 0 are free.", "ender", "It broke."):
        assert text in page.text
    assert "stranger" not in page.text
    assert "three steps" not in page.text


def test_the_quota_card_counts_used_free_and_queued(client: Client) -> None:
    tenant = make_tenant()
    tenant.observed_used = {"cpu": 5000, "memory": 9 * 2**30, "gpu": 3, "pods": 4}
    tenant.save()
    make_job(tenant, state="queued")
    make_job(tenant, state="queued", desired="stop")
    client.force_login(tenant.owner)
    text = read(client, "/").text
    assert "5 of 8 used" in text
    assert "9 GiB of 16 GiB used" in text
    assert "1 GiB queued" in text
    assert "1 over quota: nothing new starts until it is free again" in text


def test_each_object_of_the_namespace_is_shown_with_its_repairs(client: Client) -> None:
    tenant = make_tenant(active=False)
    rows = [("Namespace", "u-alice", "ready", 0), ("ResourceQuota", "homeport", "waiting", 2)]
    for position, (kind, name, state, repaired) in enumerate(rows):
        TenantObject.objects.create(
            tenant=tenant,
            position=position,
            kind=kind,
            name=name,
            state=state,
            repaired_count=repaired,
        )
    client.force_login(tenant.owner)
    page = read(client, "/")
    assert "Being set up" in page.text
    assert "1 of 2 objects healthy" in page.text
    assert "repaired 2 times" in page.text
    assert page.one("details", id="objects").get("open") is not None


@pytest.mark.parametrize("part", ["quota", "namespace", "now", "banner"])
def test_each_card_can_be_read_again_by_itself(client: Client, part: str) -> None:
    lease()
    client.force_login(make_tenant().owner)
    whole = read(client, "/")
    card = read(client, f"/tenant/part/{part}/", headers={"HX-Request": "true"})
    assert card.elements[0].get("id") == part
    assert card.elements[0].get("hx-get") == f"/tenant/part/{part}/"
    assert whole.one(id=part).get("data-live") == card.elements[0].get("data-live")
    assert not card.all("html")
    assert client.get("/tenant/part/secrets/").status_code == 404


# --- the cluster's banner ---


@pytest.mark.parametrize(
    ("minutes", "columns", "words"),
    [
        ({}, {}, ()),
        (
            {"cluster_ok_at": 7},
            {"cluster_error": "connection refused"},
            (
                "cluster does not answer",
                "7 min",
                "connection refused",
                "Running trainings continue",
            ),
        ),
        ({"renewed_at": 3}, {}, ("3 min",)),
    ],
)
def test_a_banner_tells_what_is_not_well(
    client: Client, minutes: dict[str, int], columns: dict[str, str], words: tuple[str, ...]
) -> None:
    lease(**columns, **{name: now() - timedelta(minutes=ago) for name, ago in minutes.items()})
    client.force_login(make_tenant().owner)
    banners = read(client, "/").all(class_="banner")
    assert len(banners) == bool(words)
    assert all(text in banner.text for text in words for banner in banners)


# --- the account ---


def test_a_token_is_shown_once_and_works(client: Client) -> None:
    user = make_tenant().owner
    client.force_login(user)
    page = Markup(client.post("/account/", {"name": "laptop"}).content.decode())
    plain = page.one("code", id="plain").text
    assert plain.startswith("hp_")
    assert plain not in client.get("/account/").content.decode()
    assert "laptop" in read(client, "/account/").text
    rest = Client(headers={"host": "localhost", "Authorization": f"Token {plain}"})
    assert rest.get("/api/v1/me/").status_code == 200
    token = ApiToken.objects.get(user=user)
    client.post(f"/account/tokens/{token.pk}/revoke/")
    assert rest.get("/api/v1/me/").status_code == 401


# --- errors and health ---


def test_what_is_not_there_is_told_in_words(client: Client) -> None:
    answer = client.get("/nothing/")
    assert answer.status_code == 404
    assert "There is nothing at this address" in answer.content.decode()


def test_what_is_refused_has_a_page_where_no_form_shows_it(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**given: Any) -> None:
        raise Refused("Wait a moment.", "throttled", 429, retry_after_s=7)

    monkeypatch.setattr(sessions, "end_others", refuse)
    client.force_login(make_user("alice"))
    page = client.post("/account/sessions/end/")
    assert (page.status_code, page["Retry-After"]) == (429, "7")
    assert "Wait a moment." in Markup(page.content.decode()).one("section").text
    part = client.post("/account/sessions/end/", headers={"HX-Request": "true"})
    assert (part.status_code, part.content.decode()) == (429, "Wait a moment.")


def test_a_form_that_is_too_old_says_what_to_do() -> None:
    client = Client(enforce_csrf_checks=True, headers={"host": "localhost"})
    client.force_login(make_tenant().owner)
    answer = client.post("/tenant/make/")
    assert answer.status_code == 403
    assert "Go back, reload it and send it again" in answer.content.decode()


def test_a_failure_of_ours_needs_neither_database_nor_session(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.force_login(make_tenant().owner)
    client.raise_request_exception = False

    def fail(*_arguments: Any) -> None:
        raise RuntimeError("broken on purpose")

    monkeypatch.setattr("jobs.workloads.home.HomePage", fail)
    answer = client.get("/")
    assert answer.status_code == 500
    page = Markup(answer.content.decode())
    assert "Something went wrong" in page.text
    assert not find_faults(page)


# --- rules of every page ---


def test_what_people_type_is_shown_as_text(client: Client) -> None:
    tenant = make_tenant()
    evil = "<script>alert(1)</script>"
    make_job(
        tenant,
        name="evil",
        state="failed",
        finished_at=now(),
        reason_text=evil,
        command=["python", evil],
        env={"X": evil},
    )
    client.force_login(tenant.owner)
    for path in ("/", "/trainings/", f"/trainings/{tenant.workloads.get().pk}/"):
        answer = client.get(path)
        assert evil not in answer.content.decode()
        assert not find_faults(Markup(answer.content.decode()))
    search = client.get("/trainings/", {"q": evil})
    assert evil not in search.content.decode()
