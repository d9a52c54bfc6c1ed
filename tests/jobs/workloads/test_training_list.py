"""The list of trainings: whose they are, by state and name, page by page."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils.timezone import now

from tenants.models import Tenant
from tests.browsing import HTMX, read
from tests.factories import make_job, make_tenant
from tests.portal.markup import Markup

pytestmark = pytest.mark.django_db


def test_the_list_shows_own_trainings_by_state_and_name(alice: Tenant, client: Client) -> None:
    make_job(alice, name="mnist one", state="running", started_at=now())
    make_job(alice, name="mnist two", state="failed", finished_at=now(), reason_text="Too big.")
    make_job(alice, name="cifar", state="stopping", started_at=now())
    make_job(make_tenant("mallory"), name="mnist of mallory")
    everything = read(client, "/trainings/")
    assert "mnist of mallory" not in everything.text
    assert "Too big." in everything.text
    counts = [e.text for e in everything.all("span", class_="count")]
    assert counts == ["3", "0", "2", "0", "0", "1", "0"]
    running = read(client, "/trainings/?state=running")
    assert [e.text for e in running.all("a", class_="job-name")] == ["cifar", "mnist one"]
    both = read(client, "/trainings/?state=running&q=MNIST")
    assert [e.text for e in both.all("a", class_="job-name")] == ["mnist one"]
    assert both.one("a", id="tab-failed").get("href") == "?q=MNIST&state=failed"
    assert both.value("q") == "MNIST"


def test_pages_of_the_list_keep_the_question(alice: Tenant, client: Client) -> None:
    for number in range(30):
        make_job(alice, name=f"run {number}", queued_at=now() - timedelta(minutes=number))
    first = read(client, "/trainings/?q=run")
    assert len(first.all("a", class_="job-name")) == 25
    assert first.one("a", rel="next").get("href") == "?q=run&page=2"
    second = read(client, "/trainings/?q=run&page=2")
    assert [e.text for e in second.all("a", class_="job-name")] == [
        f"run {number}" for number in range(25, 30)
    ]
    assert read(client, "/trainings/?page=nonsense&state=nonsense").all("a", class_="job-name")


def test_going_back_in_the_browser_gives_the_whole_page(client: Client) -> None:
    restored = {**HTMX, "HX-History-Restore-Request": "true"}
    answer = client.get("/trainings/?q=x", headers=restored)
    assert Markup(answer.content.decode()).all("html")
    assert "HX-Request" in answer["Vary"]
    assert not read(client, "/trainings/?q=x", headers=HTMX).all("html")


def test_a_lead_sees_whose_trainings_they_are(alice: Tenant, client: Client, lead: Client) -> None:
    make_job(alice, name="of alice")
    shown = read(lead, "/trainings/").text
    assert "Owner" in shown
    assert "of alice" in shown
    assert "Owner" not in read(client, "/trainings/").text


def test_an_empty_list_offers_an_example(client: Client) -> None:
    page = read(client, "/trainings/")
    assert page.one("a", href="/trainings/new/?example=meet")
    assert "No training has “x”" in read(client, "/trainings/?q=x").text
