"""What one does on the pages of notebooks and TensorBoards: opening, starting, stopping, deleting."""

import pytest
from django.test import Client

from jobs.models import Workload
from tenants.models import AuditEntry, Tenant
from tests.browsing import HTMX, read
from tests.factories import make_service, make_tenant
from tests.jobs.workloads.served import running
from tests.portal.markup import Markup

pytestmark = pytest.mark.django_db


# --- opening ---
def test_opening_gives_the_gates_address_as_json_and_never_a_redirect(
    alice: Tenant, client: Client
) -> None:
    service = running(alice)
    page = read(client, f"/notebooks/{service.pk}/open/")
    assert page.one("div", data_open_now=f"/notebooks/{service.pk}/open/")
    answer = client.post(f"/notebooks/{service.pk}/open/")
    assert answer.status_code == 200
    prefix = f"http://127.0.0.1:31000/s/{service.pk.hex[:8]}/__gate#t="
    assert answer.json()["url"].startswith(prefix)
    assert AuditEntry.objects.filter(verb="open", object_id=str(service.pk)).exists()
    assert "#t=" not in client.get(f"/notebooks/{service.pk}/open/").content.decode()


def test_what_does_not_run_says_so_and_can_be_started_in_the_same_tab(
    alice: Tenant, client: Client
) -> None:
    service = make_service(alice, state="stopped", desired="stop", observed_generation=1)
    page = read(client, f"/notebooks/{service.pk}/open/")
    assert "It is not running." in page.text
    assert not page.all("div", data_open_now=f"/notebooks/{service.pk}/open/")
    refusal = client.post(f"/notebooks/{service.pk}/open/")
    assert refusal.status_code == 409
    assert refusal.json()["next_step"].startswith("Start it again")
    started = client.post(f"/notebooks/{service.pk}/start/", {"then": "open"})
    assert started["Location"] == f"/notebooks/{service.pk}/open/"
    assert "This tab opens it" in read(client, started["Location"]).text


# --- stop, delete ---
def test_stopping_a_running_notebook_asks_about_unsaved_work(alice: Tenant, client: Client) -> None:
    service = running(alice)
    page = read(client, f"/notebooks/{service.pk}/")
    assert page.one("a", id="stop").get("hx-target") == "#dialog"
    question = read(client, f"/notebooks/{service.pk}/stop/", headers=HTMX)
    assert "Unsaved changes" in question.text
    assert not question.all("html")
    answer = client.post(f"/notebooks/{service.pk}/stop/", headers=HTMX)
    assert Markup(answer.content.decode()).elements[0].get("id") == "service-header"
    assert "Stop requested" in answer.content.decode()
    assert Workload.objects.get().desired == "stop"


def test_a_tensorboard_and_a_waiting_notebook_stop_without_a_question(
    alice: Tenant, client: Client
) -> None:
    for service, folder in (
        (running(alice, kind="tensorboard"), "tensorboards"),
        (make_service(alice, state="queued", observed_generation=1), "notebooks"),
    ):
        page = read(client, f"/{folder}/{service.pk}/")
        assert page.one("button", id="stop")
        answer = client.post(f"/{folder}/{service.pk}/stop/")
        assert answer["Location"] == f"/{folder}/{service.pk}/"


def test_a_lead_says_why_and_the_owner_reads_it(
    alice: Tenant, client: Client, lead: Client
) -> None:
    service = running(alice)
    assert "Reason (shown to alice)" in read(lead, f"/notebooks/{service.pk}/stop/").text
    lead.post(f"/notebooks/{service.pk}/stop/", {"reason": " the <node> is needed "})
    assert "the <node> is needed" in read(client, f"/notebooks/{service.pk}/").text
    assert lead.post(f"/notebooks/{service.pk}/start/").status_code == 403
    assert lead.get(f"/notebooks/{service.pk}/delete/").status_code == 403


def test_stop_all_names_them_and_stops_only_own_ones_of_the_kind(
    alice: Tenant, client: Client
) -> None:
    make_service(make_tenant("mallory"), name="of mallory")
    board = running(alice, kind="tensorboard")
    running(alice, name="one")
    assert not read(client, "/notebooks/").all("a", id="stop-all")
    running(alice, name="two")
    assert read(client, "/notebooks/").one("a", id="stop-all")
    question = read(client, "/notebooks/stop/")
    assert "one" in question.text
    assert "two" in question.text
    assert "of mallory" not in question.text
    assert client.post("/notebooks/stop/")["Location"] == "/notebooks/"
    asked = set(Workload.objects.filter(desired="stop").values_list("name", flat=True))
    assert asked == {"one", "two"}
    board.refresh_from_db()
    assert board.desired == "run"


def test_delete_asks_and_then_it_is_gone(alice: Tenant, client: Client) -> None:
    service = running(alice)
    assert "unsaved work in it is lost" in read(client, f"/notebooks/{service.pk}/delete/").text
    assert client.post(f"/notebooks/{service.pk}/delete/")["Location"] == "/notebooks/"
    assert "is deleted" in read(client, "/notebooks/").text
    assert client.get(f"/notebooks/{service.pk}/").status_code == 404


def test_hostile_names_and_reasons_are_text(alice: Tenant, client: Client) -> None:
    evil = "<script>alert(1)</script>"
    service = make_service(
        alice, kind="tensorboard", name=evil, state="failed", observed_generation=1, reason_text=evil,
        image=evil, log_dirs=[{"title": evil, "path": evil, "job": str(alice.pk)}],
    )  # fmt: skip
    for path in ("/", "/tensorboards/", f"/tensorboards/{service.pk}/",
                 f"/tensorboards/{service.pk}/open/", f"/tensorboards/{service.pk}/delete/",
                 "/notebooks/?q=%00", f"/tensorboards/?q={evil}"):  # fmt: skip
        answer = client.get(path)
        assert answer.status_code == 200, path
        assert evil not in answer.content.decode()
