"""Pool and placement of a training: who may ask for which, on the page, by REST, and what follows."""

import re
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from jobs.engine.queue_rows import read_queue
from jobs.kinds.spec import spec_of
from jobs.kinds.training.spec import TrainingSpec
from jobs.models import Node, Workload
from portal.catalog import get_catalog
from tenants.models import Tenant
from tests.factories import make_job, submit_body
from tests.jobs.fleet.rows import make_node
from tests.jobs.workloads.typed import fields
from tests.pools import set_pools
from tests.portal.markup import Markup

pytestmark = pytest.mark.django_db
T4 = {"name": "t4", "node_selector": {"gpu": "t4"}}
OTHERS = {"name": "a100", "node_selector": {"gpu": "a100"}, "teams": ["others"]}


@pytest.fixture(autouse=True)
def two_pools(settings: Any, tmp_path: Path) -> None:
    set_pools(settings, tmp_path, OTHERS, {**T4, "title": "Small GPUs"})


def submit(client: Client, **changes: Any) -> tuple[int, dict[str, str]]:
    """The status, and field -> what is wrong with it."""
    answer = client.post("/api/v1/jobs/", submit_body(**changes), "application/json")
    wrong = answer.json().get("errors", [])
    return answer.status_code, {one["field"]: f"{one['code']}: {one['text']}" for one in wrong}


def test_a_pool_is_one_that_the_team_may_use(
    alice: Tenant, client: Client, settings: Any, tmp_path: Path
) -> None:
    there = "not_offered: There is no pool {!r} for this team; there is t4 and default."
    for name in ("a100", "gone", 3):
        assert submit(client, pool=name) == (400, {"pool": there.format(str(name))})
    of_role = {"worker": {"pool": "a100"}}
    assert submit(client, replicas=of_role) == (
        400,
        {"replicas.worker.pool": there.format("a100")},
    )
    assert submit(client, placement="near")[1].keys() == {"placement"}
    set_pools(settings, tmp_path)
    assert submit(client, pool="t4") == (
        400,
        {"pool": "not_offered: There is no pool 't4' for this team; there is default alone."},
    )
    assert not Workload.objects.exists()


@pytest.mark.parametrize(
    ("changes", "pools"),
    [
        ({}, ("default", "t4")),
        ({"replicas": {"worker": {"gpu": 1}}}, ("t4", "default")),
        ({"pool": None}, ("default", "t4")),
        ({"pool": "t4", "placement": "pack"}, ("t4",)),
        ({"replicas": {"worker": {"pool": "t4"}}}, ("default", "t4")),
    ],
)
def test_what_is_asked_for_is_what_admission_reads(
    alice: Tenant, client: Client, changes: dict[str, Any], pools: tuple[str, ...]
) -> None:
    assert submit(client, **changes) == (201, {})
    job = Workload.objects.get()
    told = client.get(f"/api/v1/jobs/{job.pk}/").json()
    assert (told["pool"], told["placement"]) == (
        changes.get("pool"),
        changes.get("placement", "any"),
    )
    [queued] = read_queue(job.queued_at, get_catalog().pools).queued
    assert (queued.pools, queued.placement) == (pools, told["placement"])
    [request] = queued.requests
    assert request.pool == (told["resources"]["worker"].get("pool") or "")
    again = submit_body(**{name: told[name] for name in ("pool", "placement")})
    assert client.post("/api/v1/jobs/", again, "application/json").status_code == 201


def test_the_form_asks_where_there_is_something_to_choose(
    alice: Tenant, client: Client, settings: Any, tmp_path: Path
) -> None:
    def choices(address: str = "/trainings/new/") -> dict[str, list[str]]:
        page = Markup(client.get(address).content.decode())
        boxes = [box for box in page.all("select") if "pool" in (box.get("id") or "")]
        return {
            str(box.get("id")): [
                str(one.get("value")) for one in page.all("option") if box in one.ancestors
            ]
            for box in [*boxes, *(b for b in page.all("select") if b.get("id") == "placement")]
        }

    found = choices()
    assert found["pool"] == ["", "t4", "default"]
    assert found["replicas.worker.pool"] == ["", "t4", "default"]
    assert found["placement"] == ["any", "pack", "spread"]
    asked = fields(**{"pool": "t4", "placement": "spread", "replicas.worker.pool": "default"})
    assert client.post("/trainings/new/", asked).status_code == 302
    job = Workload.objects.get()
    spec = spec_of(job, TrainingSpec)
    assert (spec.pool, spec.placement, spec.replicas["worker"].pool) == ("t4", "spread", "default")
    set_pools(settings, tmp_path)
    assert choices() == {}
    again = choices(f"/trainings/{job.pk}/again/")
    assert again["pool"] == ["", "t4"], "what is gone stays to be seen"
    assert "There is no pool" in client.post("/trainings/new/", asked).content.decode()
    blank = {name: text for name, text in fields().items() if "pool" not in name}
    assert client.post("/trainings/new/", blank).status_code == 302


def test_fit_and_preview_look_at_the_pool(alice: Tenant, client: Client) -> None:
    def told(path: str, **changes: Any) -> Any:
        answer = client.post(f"/api/v1/jobs/{path}/", submit_body(**changes), "application/json")
        assert answer.status_code == 200, answer.content
        return answer.json()

    Node.objects.all().delete()
    make_node("gpu-01", labels={"gpu": "a100"})
    make_node(
        "gpu-02", labels={"gpu": "t4"}, requested={"gpu": 8, "cpu": 0, "memory": 0, "pods": 1}
    )
    preview = told("preview", replicas={"worker": {"gpu": 1}})
    assert preview["fit"]["kind"] == "later", "the other pool's GPUs are not for this team"
    assert re.search(r"key: gpu\n\s+operator: In\n\s+values:\n\s+- t4\n", preview["manifests"])
    preview = told("preview", pool="default")
    assert "none of the pool default now" in preview["fit"]["text"]


def test_of_a_pool_that_is_taken_from_its_team_nothing_more_is_admitted(
    alice: Tenant, settings: Any, tmp_path: Path
) -> None:
    job = make_job(alice, state="queued", pool="t4")
    for pools, code in (([T4], ""), ([{**T4, "teams": ["others"]}], "t4"), ([], "t4")):
        set_pools(settings, tmp_path, *pools)
        [one] = read_queue(job.queued_at, get_catalog().pools).queued
        assert bool(one.no_pool) == bool(code)
        assert bool(one.pools) != bool(code)
