"""For how long the catalog lets one of a kind run: what asks for none gets it, what asks for more is refused."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils.timezone import now

from jobs.models import Workload
from tenants.models import Tenant
from tests.browsing import client_of, read
from tests.factories import make_job, make_service, make_user, submit_body
from tests.jobs.engine.kubelet import Life
from tests.jobs.engine.world import World
from tests.pools import set_catalog

HOUR_S = 3600


@pytest.fixture
def limited(settings: Any, tmp_path: Path) -> None:
    set_catalog(settings, tmp_path, max_duration={"training": "20h", "notebook": "12h"})


@pytest.mark.django_db
@pytest.mark.usefixtures("limited")
@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ({}, 20 * HOUR_S),
        ({"deadline_s": None}, 20 * HOUR_S),
        ({"deadline_s": "8h"}, 8 * HOUR_S),
        ({"deadline_s": "20h"}, 20 * HOUR_S),
        ({"topology": "tf-ingraph", "replicas": {"worker": {}}, "command": []}, 8 * HOUR_S),
        ({"deadline_s": "25h"}, "At most 20h, which the admin has set for all trainings."),
    ],
)
def test_a_training_has_a_deadline(client: Client, asked: Any, given: int | str) -> None:
    answer = client.post("/api/v1/jobs/", submit_body(**asked), "application/json")
    if isinstance(given, int):
        assert answer.status_code == 201, answer.content
        assert answer.json()["deadline_s"] == given
    else:
        [error] = answer.json()["errors"]
        assert (error["field"], error["code"], error["text"]) == (
            "deadline_s",
            "out_of_range",
            given,
        )


@pytest.mark.django_db
def test_what_was_submitted_before_stays_and_pages_say_it(
    alice: Tenant, client: Client, settings: Any, tmp_path: Path
) -> None:
    root = client_of(make_user("root", role="admin"))
    assert "Nothing has to end." in read(root, "/admin/scheduling/").text
    before = client.post("/api/v1/jobs/", submit_body(), "application/json").json()["id"]
    runs = make_job(alice, state="running", deadline_s=16 * HOUR_S)
    set_catalog(settings, tmp_path, max_duration={"training": "20h", "tensorboard": "90min"})
    assert Workload.objects.get(pk=before).spec["run_policy"].get("deadline_s") is None
    text = "At most 20 h; without a deadline of your own this one holds."
    assert text in read(client, "/trainings/new/").text
    assert "It is stopped after 1 h 30 min" in read(client, "/tensorboards/new/").text
    assert "It is stopped after" not in read(client, "/notebooks/new/").text
    book = make_service(alice, state="running", ends_by=now() + timedelta(hours=3))
    assert "is stopped at " in read(client, f"/notebooks/{book.pk}/").text
    effect = read(root, "/admin/scheduling/").text
    assert "A training runs for 20 h at most, and has that deadline if it asks for none." in effect
    assert "A TensorBoard is stopped after 1 h 30 min" in effect
    path = f"/api/v1/jobs/{runs.pk}/deadline/"
    for asked, status in (("25h", 400), ("20h", 200)):
        answer = root.post(path, {"deadline_s": asked}, "application/json")
        assert answer.status_code == status, asked


@pytest.mark.django_db(transaction=True)
async def test_a_notebook_is_stopped_and_may_start_again(settings: Any, tmp_path: Path) -> None:
    set_catalog(settings, tmp_path, max_duration={"notebook": "2min"})
    world = World()
    world.sim.lives = {"notebook-0": [Life("hang")]}
    await world.submit("notebook")
    row = await world.until(lambda row: row.state == "running")
    assert (row.ends_by - row.admitted_at).total_seconds() // 60 == 4, "with its grace"
    set_catalog(settings, tmp_path, max_duration={})
    row = await world.until(lambda row: row.is_final, seconds=10)
    assert (row.state, row.reason_code) == ("stopped", "max_duration")
    assert "has run for 2 minutes, which is as long as it may here." in row.reason_text
    assert 120 <= (row.finished_at - row.admitted_at).total_seconds() <= 240
