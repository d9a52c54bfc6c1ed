"""Admins hold nodes by their page and by REST: told before what that does to whom, and refused in words."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from jobs.kinds.registry import KINDS
from jobs.kinds.spec import spec_of
from jobs.kinds.training.spec import TrainingSpec
from jobs.models import Replica, Workload
from jobs.places import NodeReservation
from jobs.scheduling.models import NodeHold
from jobs.workloads.fit import fit
from tenants.models import AuditEntry, Tenant
from tests.browsing import client_of
from tests.factories import make_job, make_service, make_tenant, make_user, new_job
from tests.jobs.fleet.rows import make_node
from tests.pools import set_pools

pytestmark = pytest.mark.django_db

PAGE, REST = "/nodes/hold/", "/api/v1/holds/"
JSON = {"content_type": "application/json"}
HOUR = timedelta(hours=1)
LIMITED = {"deadline_s": 600, "starting_deadline_s": 60}


def place(row: Workload, node: str = "gpu-01", **columns: Any) -> Workload:
    """It runs there."""
    Workload.objects.filter(pk=row.pk).update(**columns)
    role = next(iter(row.replicas))
    Replica.objects.update_or_create(
        workload=row, role=role, index=0, attempt=1, defaults={"node": node, "state": "running"}
    )
    return row


@pytest.fixture
def root() -> Client:
    make_user("root", role="admin")
    return client_of("root")


@pytest.fixture
def alice() -> Tenant:
    """Hers: what has a deadline in an hour, what has none, what is low, and what waits for room."""
    make_node()
    make_node("gpu-02")
    alice = make_tenant("alice")
    now = timezone.now()
    place(make_job(alice, name="brief", state="running"), ends_by=now + HOUR)
    place(make_job(alice, name="endless", state="running"))
    place(make_job(alice, name="cheap", state="running", priority="low"))
    place(make_service(alice, name="book", state="running"))
    place(make_job(alice, name="elsewhere", state="running"), "gpu-02")
    place(make_job(alice, name="over", state="succeeded"))
    waits = make_job(alice, name="large", state="queued")
    size = [8, 1000, 2**30, 1, 0]
    kept = {"room": [["gpu-01", size]], "starts_at": now + HOUR}
    NodeReservation.objects.create(workload=waits, **kept)
    prompt = make_job(alice, name="prompt", state="queued", **LIMITED)
    NodeReservation.objects.create(workload=prompt, **kept)
    return alice


def test_what_a_hold_does_is_told_and_then_done(
    root: Client, alice: Tenant, told: list[Any], django_capture_on_commit_callbacks: Any
) -> None:
    at = (timezone.now() + 2 * HOUR).replace(second=0, microsecond=0)
    asked = {"node": "gpu-01", "from_at": f"{at:%Y-%m-%dT%H:%M}", "reason": "new disk"}
    assert root.get(PAGE).url == "/nodes/"
    assert "Hold node gpu-01" in root.get(PAGE, {"node": "gpu-01"}).content.decode()
    page = root.post(PAGE, asked).content.decode()
    assert not NodeHold.objects.exists()
    moved, low, stays = (page.index(text) for text in ("that end<", "Stopped before", "Still run"))
    assert moved < page.index(">large<") < low < page.index(">cheap<") < stays
    assert stays < page.index(">book<") < page.index(">endless<")
    for name in ("brief", "elsewhere", "over", "prompt"):
        assert f">{name}<" not in page
    # Somebody was promised room there since the page was read.
    answer = root.post(PAGE, {**asked, "confirm": "yes"})
    assert answer.status_code == 409
    assert "Room is kept there for “large” of alice, which starts by" in answer.content.decode()
    assert not NodeHold.objects.exists()
    waits = Workload.objects.get(name="large")
    with django_capture_on_commit_callbacks(execute=True):
        answer = root.post(PAGE, {**asked, "confirm": "yes", "moves": [str(waits.pk), "x"]})
    assert (answer.status_code, told) == (302, ["wake", "nodes"])
    hold = NodeHold.objects.get()
    assert (hold.node, hold.from_at, hold.reason, hold.held_by) == (
        *("gpu-01", at, "new disk"),
        "root",
    )
    entry = AuditEntry.objects.get(kind="node")
    assert (entry.verb, entry.object_name, entry.detail["reason"]) == ("hold", "gpu-01", "new disk")
    again = root.get(PAGE, {"node": "gpu-01"}).content.decode()
    assert f'value="{at:%Y-%m-%dT%H:%M}"' in again
    assert 'value="new disk"' in again
    # Everybody reads of it; whose work is still there only admins do.
    nodes = root.get("/nodes/").content.decode()
    for text in (f"Held from {at:%Y-%m-%d %H:%M} UTC by root", "new disk", ">endless<", "Release"):
        assert text in nodes
    theirs = client_of("alice").get("/nodes/").content.decode()
    assert f"Held from {at:%Y-%m-%d %H:%M} UTC by root" in theirs
    assert ">endless<" not in theirs
    assert "Release" not in theirs
    assert "gpu-01 is held" not in theirs
    found = {one["name"]: one["hold"] for one in root.get("/api/v1/nodes/").json()["results"]}
    assert found["gpu-02"] is None
    assert (found["gpu-01"]["reason"], found["gpu-01"]["held_by"]) == ("new disk", "root")
    assert root.post("/nodes/release/", {"node": ["gpu-01", "gpu-02"]}).status_code == 302
    assert not NodeHold.objects.exists()


def test_a_pool_by_rest_with_what_it_does(
    root: Client, alice: Tenant, settings: Any, tmp_path: Path
) -> None:
    make_node("a-1", labels={"gpu": "a100"})
    set_pools(settings, tmp_path, {"name": "a100", "node_selector": {"gpu": "a100"}})
    body: dict[str, Any] = {"pool": "default", "reason": "power", "dry_run": True}
    answer = root.post(REST, body, **JSON)
    assert answer.status_code == 200, answer.content
    told = answer.json()
    names = {key: [one["name"] for one in told[key]] for key in ("stays", "stops", "moves")}
    assert told["nodes"] == ["gpu-01", "gpu-02"]
    assert names == {
        "stays": ["book", "brief", "elsewhere", "endless"],
        "stops": ["cheap"],
        "moves": ["large", "prompt"],
    }
    assert not NodeHold.objects.exists()
    refused = root.post(REST, {**body, "dry_run": False}, **JSON)
    assert (refused.status_code, refused.json()["errors"][0]["code"]) == (409, "promised")
    assert root.post(REST, {**body, "dry_run": False, "confirm": True}, **JSON).status_code == 200
    assert [row.node for row in NodeHold.objects.all()] == ["gpu-01", "gpu-02"]
    page = root.get("/nodes/").content.decode()
    assert "2 are held." in page
    released = root.post(f"{REST}release/", {"pool": "default"}, **JSON)
    assert released.json() == {"nodes": ["gpu-01", "gpu-02"], "kept": []}
    again = root.post(f"{REST}release/", {"node": "gpu-01"}, **JSON)
    assert (again.status_code, again.json()["errors"][0]["code"]) == (409, "wrong_state")
    NodeHold.objects.create(node="gone", from_at=timezone.now(), held_by="root")
    assert "Held, and not in the cluster now" in root.get("/nodes/").content.decode()
    assert root.post(f"{REST}release/", {"node": "gone"}, **JSON).status_code == 200


def test_a_pool_loses_no_hold_of_a_single_node(root: Client, alice: Tenant) -> None:
    """`gpu-02` is held earlier than its pool, for a reason of its own."""
    make_node("gpu-03")
    now = timezone.now().replace(microsecond=0)
    early, late = (
        {"from_at": at.isoformat(), "reason": reason, "confirm": True}
        for at, reason in ((now + HOUR, "new disk"), (now + 3 * HOUR, "power"))
    )
    assert root.post(REST, {"node": "gpu-02", **early}, **JSON).status_code == 200
    assert root.post(
        REST, {"node": "gpu-03", "from_at": f"{now + 9 * HOUR:%Y-%m-%dT%H:%M}"}, **JSON
    )
    page = root.post(PAGE, {"pool": "default", **late}).content.decode()
    assert page.index("Holds that end") < page.index(">gpu-03<") < page.index("Held earlier")
    assert page.index("Held earlier") < page.index(">gpu-02<") < page.index("new disk<")
    told = root.post(REST, {"pool": "default", **late}, **JSON).json()
    assert [one["node"] for one in told["replaced"]] == ["gpu-03"]
    [kept] = told["kept"]
    assert (kept["node"], kept["reason"]) == ("gpu-02", "new disk")
    reasons = dict(NodeHold.objects.values_list("node", "reason"))
    assert reasons == {"gpu-01": "power", "gpu-02": "new disk", "gpu-03": "power"}
    released = root.post(f"{REST}release/", {"pool": "default"}, **JSON).json()
    assert (released["nodes"], released["kept"]) == (["gpu-01", "gpu-03"], [kept])
    answer = root.post("/nodes/release/", {"pool": "default"}, follow=True)
    assert "1 node is released." in answer.content.decode()
    assert not NodeHold.objects.exists()


@pytest.mark.parametrize(
    ("body", "field", "said"),
    [
        ({}, "", "Send either node or pool."),
        ({"node": "gpu-01", "pool": "default"}, "", "Send either node or pool."),
        ({"node": "no-such"}, "node", "The cluster has no node no-such."),
        ({"node": "a\0b"}, "node", "This must be one line of text."),
        ({"pool": "a100"}, "pool", "There is no pool a100."),
        ({"node": "gpu-01", "from_at": "soon"}, "from_at", "'soon' is not one."),
        ({"node": "gpu-01", "from_at": "2026-02-31T00:00"}, "from_at", "is not one."),
        ({"node": "gpu-01", "from_at": 7}, "from_at", "This must be text."),
        ({"node": "gpu-01", "from_at": "2020-01-01T00:00"}, "from_at", "This time is over"),
        ({"node": "gpu-01", "from_at": "0001-01-01T00:00+14:00"}, "from_at", "This time is over"),
        ({"node": "gpu-01", "from_at": "9999-12-31T23:59-14:00"}, "from_at", "within a year"),
        ({"node": "gpu-01", "reason": "x" * 201}, "reason", "At most 200 characters."),
        ({"node": "gpu-01", "reason": "a\nb"}, "reason", "one line of text"),
        ({"node": "gpu-01", "since": "now"}, "since", "There is no such field."),
    ],
)
def test_bad_input_is_refused_in_words(
    root: Client, body: dict[str, Any], field: str, said: str
) -> None:
    make_node()
    answer = root.post(REST, body, **JSON)
    [error] = answer.json()["errors"]
    assert (answer.status_code, error["field"]) == (400, field)
    assert said in error["text"]
    if field in {"from_at", "reason"} and isinstance(body[field], str):
        page = root.post(PAGE, {**body, "confirm": "yes"})
        assert page.status_code == 400
        assert said.replace("'", "&#39;") in page.content.decode()
    assert not NodeHold.objects.exists()


def test_the_form_counts_with_holds() -> None:
    make_node()
    bob = make_tenant("bob")
    kind, at = KINDS["job"], timezone.now().replace(microsecond=0) + 2 * HOUR
    NodeHold.objects.create(node="gpu-01", from_at=at, held_by="root")
    endless, brief = (spec_of(new_job(bob, **more), TrainingSpec) for more in ({}, LIMITED))
    told = fit(kind, endless, bob, bob.owner)
    text = f"Waiting for a node: node gpu-01 is held from {at:%H:%M UTC on %d %B} until an admin releases it"
    assert (told.kind, told.text) == ("later", text)
    assert fit(kind, brief, bob, bob.owner).kind == "now"


def test_only_admins_hold(alice: Tenant) -> None:
    client = client_of("alice")
    for path in (REST, f"{REST}release/"):
        assert client.post(path, {"node": "no-such"}, **JSON).status_code == 403
    assert client.post(PAGE, {"node": "gpu-01"}).status_code == 403
    assert client.post("/nodes/release/", {"node": "gpu-01"}).status_code == 403


def test_a_time_without_a_zone_is_utc(root: Client) -> None:
    make_node()
    at = datetime.now(UTC).replace(second=0, microsecond=0) + HOUR
    for text in (f"{at:%Y-%m-%dT%H:%M}", f"{at + HOUR:%Y-%m-%dT%H:%M:00+01:00}"):
        assert root.post(REST, {"node": "gpu-01", "from_at": text}, **JSON).status_code == 200
        assert NodeHold.objects.get().from_at == at
    assert AuditEntry.objects.filter(verb="hold").count() == 1, "the second changes nothing"
