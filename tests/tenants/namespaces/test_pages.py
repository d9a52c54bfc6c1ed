"""The admin pages of namespaces: list, one of them, the questions, a new one."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from jobs.rules.states import WorkloadState
from tenants.models import Team, Tenant, TenantObject, User
from tenants.namespaces import actions
from tests.browsing import read
from tests.factories import make_job, make_tenant, make_user
from tests.portal.markup import Markup, find_faults

pytestmark = pytest.mark.django_db


def listed(client: Client, query: str = "") -> list[str]:
    """Owners in the list, in its order."""
    shown = read(client, f"/admin/namespaces/{query}")
    return [link.text for link in shown.all("a", class_="job-name")]


def test_the_list_searches_by_namespace_person_and_team(page: Client):
    make_tenant("alice", team=Team.objects.create(name="vision"))
    make_tenant("bob", team=Team.objects.create(name="speech"))
    assert listed(page) == ["alice", "bob"]
    assert listed(page, "?q=visi") == ["alice"]
    assert listed(page, "?q=u-bob") == ["bob"]
    assert listed(page, "?q=bob+vision") == []
    assert listed(page, "?q=%00") == ["alice", "bob"]
    assert listed(page, "?q=%27%3B--&sort=nonsense&state=nonsense&page=x") == []


def test_the_list_sorts_by_pressure(page: Client):
    shares = {"alice": 1, "bob": 2, "carol": 0}
    for name, used in shares.items():
        tenant = make_tenant(name)
        held = {**tenant.observed_used, "gpu": used}
        Tenant.objects.filter(pk=tenant.pk).update(observed_used=held, quota_gpu_count=2)
    dora = make_tenant("dora", active=False)
    Tenant.objects.filter(pk=dora.pk).update(quota_gpu_count=0)
    assert listed(page, "?sort=gpu")[:2] == ["bob", "alice"]
    assert listed(page, "?sort=age")[0] == "dora"
    for key in ("name", "owner", "team", "cpu", "memory"):
        assert len(listed(page, f"?sort={key}")) == 4


def test_the_tabs_count_and_filter(page: Client, root: User):
    alice = make_tenant("alice")
    held = {**alice.observed_used, "gpu": 4}
    Tenant.objects.filter(pk=alice.pk).update(observed_used=held, quota_gpu_count=2)
    bob, carol, dan = make_tenant("bob"), make_tenant("carol"), make_tenant("dan")
    Tenant.objects.filter(pk=bob.pk).update(state="suspended", desired="suspended")
    Tenant.objects.filter(pk=carol.pk).update(reason_text="PersistentVolumeClaim data: waits")
    Tenant.objects.filter(pk=dan.pk).update(state="gone", desired="purged")
    shown = read(page, "/admin/namespaces/")
    counts = {tab.get("id"): tab.text for tab in shown.all("a") if "tab-" in (tab.get("id") or "")}
    assert counts["tab-all"] == "All3"
    assert counts["tab-suspended"] == "Suspended1"
    assert counts["tab-problems"] == "Problems2"
    assert counts["tab-gone"] == "Purged1"
    assert listed(page, "?state=gone") == ["dan"]
    assert listed(page, "?state=problems") == ["alice", "carol"]
    assert "GPU: over by 2" in read(page, "/admin/namespaces/?state=problems").elements[0].text


def test_the_page_shows_what_it_is_made_of_and_what_happened(page: Client, root: User):
    tenant = make_tenant("alice")
    TenantObject.objects.create(
        tenant=tenant,
        position=0,
        kind="PersistentVolumeClaim",
        name="data",
        state="waiting",
        detail="is held by the finalizer example.org/x",
    )
    actions.suspend(by=root, tenant=tenant, why="holidays")
    text = read(page, f"/admin/namespaces/{tenant.pk}/").elements[0].text
    assert "is held by the finalizer example.org/x" in text
    assert "0 of 1 objects healthy" in text
    assert "Being suspended" in text
    assert "holidays" in text
    assert "root" in text
    assert "suspended it" in text


@pytest.mark.parametrize(
    ("desired", "state", "offered"),
    [
        ("active", "active", {"suspend", "delete", "quota"}),
        ("suspended", "suspended", {"resume", "delete", "quota"}),
        ("deleted", "deleting", {"restore", "purge"}),
        ("purged", "deleting", set()),
        ("purged", "gone", set()),
    ],
)
def test_only_what_can_be_done_is_offered(
    page: Client, desired: str, state: str, offered: set[str]
):
    tenant = make_tenant("alice")
    Tenant.objects.filter(pk=tenant.pk).update(
        desired=desired,
        state=state,
        purge_data="keep",
        purge_after=timezone.now() + timedelta(days=1),
    )
    shown = read(page, f"/admin/namespaces/{tenant.pk}/")
    names = {"suspend", "resume", "delete", "restore", "purge", "quota"}
    assert {link.get("id") for link in shown.all("a")} & names == offered


@pytest.mark.parametrize("data", ["keep", "delete"])
def test_logs_of_a_purged_namespace_are_promised_only_where_they_are_kept(page: Client, data: str):
    tenant = make_tenant("alice")
    Tenant.objects.filter(pk=tenant.pk).update(desired="purged", state="gone", purge_data=data)
    text = read(page, f"/admin/namespaces/{tenant.pk}/").elements[0].text
    assert "Its history is kept" in text
    assert ("read them and their logs" in text) == (data == "keep")


@pytest.mark.parametrize("part", [True, False])
def test_a_question_keeps_what_was_typed_beside_its_errors(page: Client, part: bool):
    tenant = make_tenant("alice")
    path = f"/admin/namespaces/{tenant.pk}/delete/"
    headers = {"HX-Request": "true"} if part else {}
    assert "Delete" in read(page, path, headers=headers).elements[0].text
    typed = {"confirm": "u-alise", "data": "delete", "why": "left the lab"}
    answer = page.post(path, typed, headers=headers)
    shown = Markup(answer.content.decode())
    assert find_faults(shown) == []
    assert "Type the name of the namespace exactly" in shown.elements[0].text
    assert [box.get("value") for box in shown.all("input", name="why")] == ["left the lab"]
    assert [
        box.get("value") for box in shown.all("input", type="radio") if "checked" in box.attributes
    ] == ["delete"]
    assert Tenant.objects.get(pk=tenant.pk).desired == "active"


def test_within_the_days_of_grace_the_page_asks_for_a_second_name(page: Client):
    tenant = make_tenant("alice")
    base = f"/admin/namespaces/{tenant.pk}/"
    typed = {"confirm": tenant.namespace, "data": "keep"}
    assert page.post(f"{base}delete/", typed)["Location"] == base
    assert "It can be restored with all its data until" in read(page, base).elements[0].text
    over = timezone.now() - timedelta(days=1)
    for names in (["confirm", "confirm_early"], ["confirm"]):
        question = read(page, f"{base}purge/")
        assert [box.get("name") for box in question.all("input", type="text")] == names
        answer = page.post(f"{base}purge/", typed, headers={"HX-Request": "true"})
        Tenant.objects.filter(pk=tenant.pk).update(purge_after=over)
    assert answer["HX-Redirect"] == base
    assert Tenant.objects.get(pk=tenant.pk).desired == "purged"
    assert page.post(f"{base}burn/").status_code == page.get(f"{base}burn/").status_code == 404


def test_a_namespace_is_made_by_the_form(page: Client):
    make_user("bob")
    shown = read(page, "/admin/namespaces/new/")
    assert [option.get("value") for option in shown.all("option")] == ["bob", "root"]
    values = {box.get("name"): box.get("value") for box in shown.all("input", type="text")}
    values |= {"owner": "bob", "gpu": "many"}
    answer = page.post("/admin/namespaces/new/", values)
    assert answer.status_code == 200
    assert find_faults(Markup(answer.content.decode())) == []
    assert not Tenant.objects.exists()
    answer = page.post("/admin/namespaces/new/", {**values, "gpu": "5"})
    tenant = Tenant.objects.get()
    assert answer["Location"] == f"/admin/namespaces/{tenant.pk}/"
    assert (tenant.owner.username, tenant.quota["gpu"]) == ("bob", 5)
    answer = page.post("/admin/namespaces/new/", values | {"gpu": "2"})
    assert "has a namespace already" in answer.content.decode()


def test_trainings_of_a_purged_namespace_can_be_read_by_admins_and_their_owner(page: Client):
    tenant = make_tenant("alice")
    job = make_job(tenant, name="the great run", state=WorkloadState.SUCCEEDED)
    other = make_tenant("bob")
    make_job(other, name="not this one")
    Tenant.objects.filter(pk=tenant.pk).update(state="gone", desired="purged")
    shown = read(page, f"/trainings/?tenant={tenant.pk}")
    assert [link.text for link in shown.all("a", class_="job-name")] == ["the great run"]
    assert page.get(f"/trainings/{job.pk}/").status_code == 200
    alice = Client(HTTP_HOST="localhost")
    alice.force_login(tenant.owner)
    assert alice.get(f"/trainings/{job.pk}/").status_code == 200
    assert "Your namespace was deleted" in read(alice, "/").elements[0].text
    assert alice.post("/tenant/make/").status_code == 302
    assert Tenant.objects.get(owner=tenant.owner, state="provisioning").namespace.endswith("-2")


def test_the_owner_of_a_closed_namespace_reads_why(root: User):
    tenant = make_tenant("alice")
    actions.suspend(by=root, tenant=tenant, why="the budget is spent")
    alice = Client(HTTP_HOST="localhost")
    alice.force_login(tenant.owner)
    assert alice.get("/").content.index(b"is suspended") < alice.get("/").content.index(b"Quota")
    text = read(alice, "/tenant/part/closed/").elements[0].text
    assert "Your namespace is suspended" in text
    assert "the budget is spent" in text
    assert "Ask your admin to resume it" in text
    actions.resume(by=root, tenant=tenant)
    assert not read(alice, "/tenant/part/closed/").elements[0].text.strip()
    actions.delete(by=root, tenant=tenant, confirm=tenant.namespace, data="keep")
    assert "Your namespace was deleted" in read(alice, "/").elements[0].text
