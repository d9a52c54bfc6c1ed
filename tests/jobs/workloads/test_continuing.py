"""Going on from a finished training: what is refused, what is taken over, and who has the folder."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, connections
from django.test import Client
from django.utils import timezone

from jobs.kinds.spec import spec_of
from jobs.kinds.training.continuing import FIELD
from jobs.kinds.training.document import as_body
from jobs.kinds.training.manifests import log_dir, own_folder
from jobs.kinds.training.spec import TrainingSpec
from jobs.models import ReplicaArchive, UserSecret, Workload
from tenants.models import Tenant
from tests.browsing import client_of, page_of, read
from tests.factories import make_job, make_tenant, submit_body

pytestmark = pytest.mark.django_db
COMMIT = "1b2c3d4e5f60718293a4b5c6d7e8f90123456789"
GIT = {"git": "https://host/r.git", "ref": "main"}


def submit(client: Client, **body: Any) -> Any:
    return client.post("/api/v1/jobs/", body, content_type="application/json")


def error_of(answer: Any) -> tuple[int, str, str]:
    [error] = answer.json()["errors"]
    return answer.status_code, error["field"], error["code"]


def test_a_chain_keeps_the_first_folder_and_the_request(alice: Tenant, client: Client) -> None:
    first = make_job(alice, state="failed", retries=2, source=GIT, source_commit=COMMIT)
    second = Workload.objects.get(pk=submit(client, continue_from=str(first.pk)).json()["id"])
    Workload.objects.filter(pk=second.pk).update(state="stopped", source_commit=COMMIT)
    full = submit_body(name="third", source=GIT, continue_from=str(second.pk))
    told = submit(client, **full).json()
    assert (told["continue_from"], told["retries"]) == (str(second.pk), 0)
    third = Workload.objects.get(pk=told["id"])
    assert {log_dir(row) for row in (first, second, third)} == {own_folder(first)}
    assert len({own_folder(row) for row in (first, second, third)}) == 3
    was, now = spec_of(first, TrainingSpec), spec_of(second, TrainingSpec)
    assert (now.command, now.run_policy) == (was.command, was.run_policy)
    assert now.source == {**GIT, "ref": COMMIT}
    Workload.objects.filter(pk=third.pk).update(state="succeeded")
    other = submit(client, continue_from=str(third.pk), command=["python", "eval.py"]).json()
    row = spec_of(Workload.objects.get(pk=other["id"]), TrainingSpec)
    assert (row.command, row.image, row.source) == (("python", "eval.py"), was.image, GIT)
    board = client.post(
        "/api/v1/tensorboards/",
        {"name": "b", "job": str(third.pk)},
        content_type="application/json",
    )
    assert board.json()["log_dirs"][0]["path"] == own_folder(first)


WORKER = {"count": 1, "cpu": "1500m", "memory": "3Gi", "gpu": 0}
CHIEF = {"count": 1, "cpu": "1", "memory": "1Gi", "gpu": 0}
PS = {"count": 2, "cpu": "500m", "memory": "512Mi", "gpu": 0}


@pytest.mark.parametrize(
    ("field", "said", "became"),
    [
        ("replicas", {"worker": {"cpu": 2}}, {"worker": {**WORKER, "cpu": "2"}, "ps": PS}),
        (
            "replicas",
            {"ps": {"count": "1"}, "worker": {}},
            {"worker": WORKER, "ps": {**PS, "count": 1}},
        ),
        ("replicas", {"chief": {}}, {"chief": CHIEF, "worker": WORKER, "ps": PS}),
        ("env", {"LR": "0.1"}, {"DATASET": "x", "SEED": "1", "LR": "0.1"}),
        ("env", {"SEED": "2"}, {"DATASET": "x", "SEED": "2"}),
        ("env", {}, {}),
        ("env", None, {}),
        ("secrets", {"b": "files"}, {"a": "env", "b": "files"}),
        ("secrets", {"a": "files"}, {"a": "files"}),
        ("secrets", None, {}),
    ],
)
def test_what_is_said_within_a_field_leaves_the_rest_of_it(
    alice: Tenant, client: Client, field: str, said: Any, became: dict[str, Any]
) -> None:
    for name in "ab":
        UserSecret.objects.create(
            tenant=alice, name=name, kind="generic", keys=[name.upper()], revisions=[1]
        )
    asked = {
        "topology": "tf-ps",
        "replicas": {"worker": WORKER, "ps": PS},
        "env": {"DATASET": "x", "SEED": "1"},
        "secrets": {"a": "env"},
    }
    first = submit(client, **submit_body(**asked))
    assert first.status_code == 201, first.json()
    old = Workload.objects.get(pk=first.json()["id"])
    Workload.objects.update(state="succeeded")
    answer = submit(client, continue_from=str(old.pk), **{field: said})
    assert answer.status_code == 201, answer.json()
    found = as_body(spec_of(Workload.objects.get(pk=answer.json()["id"]), TrainingSpec))
    wanted = {**as_body(spec_of(old, TrainingSpec)), field: became, FIELD: str(old.pk)}
    assert found == wanted


def test_another_topology_has_the_roles_that_are_said_and_each_its_request(
    alice: Tenant, client: Client
) -> None:
    asked = submit_body(topology="tf-ps", replicas={"worker": WORKER, "ps": PS})
    old = Workload.objects.get(pk=submit(client, **asked).json()["id"])
    Workload.objects.update(state="succeeded")
    other = {"topology": "torch-ddp", "replicas": {"worker": {"count": 4}}}
    answer = submit(client, continue_from=str(old.pk), **other)
    row = Workload.objects.get(pk=answer.json()["id"])
    assert as_body(spec_of(row, TrainingSpec))["replicas"] == {"worker": {**WORKER, "count": 4}}


def test_what_cannot_be_continued_and_a_folder_in_use(alice: Tenant, client: Client) -> None:
    mallorys = make_job(make_tenant("mallory"), state="failed")
    going = make_job(alice, state="suspended", desired="suspend")
    for given, code in ((mallorys.pk, "not_found"), ("x", "not_found"), (going.pk, "not_finished")):
        for more in ({}, submit_body()):
            answer = submit(client, **more, continue_from=str(given))
            assert error_of(answer) == (400, "continue_from", code)
    old = make_job(alice, state="succeeded")
    assert submit(client, continue_from=str(old.pk)).status_code == 201
    for state, status in (("suspended", 409), ("stopping", 409), ("failed", 201)):
        Workload.objects.exclude(pk=old.pk).update(state=state)
        answer = submit(client, continue_from=str(old.pk))
        assert answer.status_code == status
        if status == 409:
            assert error_of(answer) == (409, "continue_from", "folder_in_use")


# On SQLite no form of it could fail: a second writer waits for the whole file.
@pytest.mark.skipif(connection.vendor != "postgresql", reason="runs in the lane `servers`")
@pytest.mark.django_db(transaction=True)
def test_of_two_at_the_same_moment_one_has_the_folder(alice: Tenant) -> None:
    old = make_job(alice, state="succeeded")

    def go_on(_number: int) -> int:
        try:
            return int(submit(client_of(alice), continue_from=str(old.pk)).status_code)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(go_on, range(8))) == [201] + [409] * 7


def test_the_page_tells_the_last_checkpoint_and_leads_to_the_form(
    alice: Tenant, client: Client, lead: Client
) -> None:
    at = timezone.now()
    job = make_job(alice, state="failed", started_at=at, finished_at=at, attempt=2)
    where = f"/trainings/{job.pk}/"
    assert "No checkpoint is known" in read(client, where).text
    for attempt, index, name, minutes in (
        (1, 0, "of-old", 1),
        (2, 0, "ckpt-41", 9),
        (2, 1, "ckpt-42", 3),
    ):
        ReplicaArchive.objects.create(
            workload=job,
            role="worker",
            index=index,
            attempt=attempt,
            checkpoint=name,
            checkpoint_at=at - timedelta(minutes=minutes),
        )
    page = read(client, where)
    told = page.one("p", id="last-checkpoint").text.strip()
    assert told == "Last checkpoint: ckpt-42, 3 min before the end"
    form = read(client, page.one("a", id="continue").get("href"))
    assert form.value("continue_from") == str(job.pk)
    short = {"yaml": f"continue_from: {job.pk}\n"}  # the other one has all the rest
    assert "Check the form" not in client.post("/trainings/new/fit/", short).content.decode()
    turned = page_of(client.post("/trainings/new/", {**short, "view": "form"}))
    assert turned.value("command") == form.value("command")
    assert client.get(f"/api/v1/jobs/{job.pk}/").json()["last_checkpoint"]["name"] == "ckpt-42"
    assert not read(lead, where).all("a", id="continue")
