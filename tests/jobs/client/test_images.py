"""Which images there are is told to who names none, and by a command."""

import json
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from jobs.kinds.registry import KINDS
from jobs.kinds.serializer import SpecSerializer
from jobs.kinds.training.serializer import TrainingSerializer
from jobs.models import Node
from portal.catalog import get_catalog
from tenants.models import Team, Tenant
from tests.browsing import client_of, page_of, tenant_with_a_node
from tests.factories import make_job, make_tenant
from tests.jobs.client.world import Answer, CommandLine, Scripted

pytestmark = pytest.mark.django_db


@pytest.fixture
def tenant() -> Tenant:
    found = tenant_with_a_node("alice", team=Team.objects.create(name="vision"))
    make_job(found, image="lab/own:1", started_at=timezone.now())
    make_job(found, image="lab/never-came:1", started_at=None)
    make_job(make_tenant("bob"), image="lab/of-bob:1", started_at=timezone.now())
    return found


@pytest.fixture
def client(tenant: Tenant) -> Client:
    return client_of(tenant)


def refused(client: Client, path: str, body: dict[str, Any]) -> dict[str, str]:
    answer = client.post(f"/api/v1/{path}", json.dumps(body), content_type="application/json")
    assert answer.status_code == 400, answer.content
    return {row["field"]: row["text"] for row in answer.json()["errors"]}


def test_a_training_without_an_image_is_told_which_there_are(
    client: Client, homeport: CommandLine, portal: Scripted
) -> None:
    told = refused(client, "jobs/", {"name": "a", "command": ["x"]})
    offered = [image.reference for image in get_catalog().images.offered]
    assert told == {"image": f"Name an image: {', '.join([*offered, 'lab/own:1'])}."}
    errors = [{"field": "image", "code": "required", "text": told["image"]}]
    portal.answers["POST jobs/"] = Answer({"errors": errors}, 400)
    ran = homeport("submit", "--name", "a", "--", "x")
    assert f"--image: {told['image']}" in ran.err


def test_every_field_that_is_needed_says_what_it_may_be(client: Client) -> None:
    for path, one in [("jobs/", KINDS["job"]), ("notebooks/", KINDS["notebook"])]:
        needed = {name for name, field in one.serializer().fields.items() if field.required}
        assert refused(client, path, {}).keys() == needed, path
    bare = str(SpecSerializer().fields["name"].error_messages["required"])
    choices = [
        name
        for name, field in TrainingSerializer().fields.items()
        if field.required and name != "name"
    ]
    told = refused(client, "jobs/", {})
    assert choices == ["image", "command"]
    assert all(told[name] != bare for name in choices)


def test_the_command_lists_what_is_offered_and_what_ran(
    client: Client, homeport: CommandLine, portal: Scripted
) -> None:
    listed = client.get("/api/v1/images/").json()
    assert [row["image"] for row in listed["results"] if not row["is_offered"]] == ["lab/own:1"]
    portal.answers["GET images/"] = listed
    lines = homeport("images").out.splitlines()
    assert lines[0].split()[:3] == ["IMAGE", "TITLE", "RAN"]
    assert [line.split()[0] for line in lines[1:]] == [row["image"] for row in listed["results"]]
    first = get_catalog().images.offered[0]
    assert str(first.title) in lines[1]
    assert homeport("images", "-o", "name").out.split()[0] == first.reference


SAYS = "needs what this machine does not have; install it: apt-get install x"


def full(image: str) -> str:
    name = image if "/" in image else f"library/{image}"
    return name if name.startswith("quay.io/") else f"docker.io/{name}"


def test_what_cannot_start_here_is_told_before_it_is_asked_for(
    client: Client, homeport: CommandLine, portal: Scripted
) -> None:
    """By list, forms and panel; a refusal names only images that can start."""
    catalog = get_catalog()
    first, second = [image.reference for image in catalog.images.offered]
    notebook = catalog.notebooks.images.default
    Node.objects.update(images={full(first): SAYS, full(second): "", full(notebook): SAYS})
    lack = f"{first} cannot start here: it {SAYS}."
    unknown = "lab/own:1 cannot start here: it is not an image that this cluster has."

    listed = client.get("/api/v1/images/").json()
    told = {row["image"]: row["problem"] for row in listed["results"]}
    assert told == {first: lack, second: "", "lab/own:1": unknown}
    portal.answers["GET images/"] = listed
    ran = homeport("images")
    assert ran.err.splitlines() == [f"warning: {lack}", f"warning: {unknown}"]
    assert homeport("images", "-o", "json").err == ""

    assert refused(client, "jobs/", {"name": "a", "command": ["x"]})["image"] == (
        f"Name an image: {second}."
    )
    page = page_of(client.get("/trainings/new/"))
    assert lack in page.text
    [image] = page.all("input", id="image")
    assert image.get("value") == second
    assert (
        f"{notebook} cannot start here: it {SAYS}." in page_of(client.get("/notebooks/new/")).text
    )
    typed = {
        "name": "a",
        "source_kind": "none",
        "command": "x",
        "image": first,
        "topology": "single",
    }
    assert lack in page_of(client.post("/trainings/new/fit/", typed)).text

    Node.objects.update(images=None)  # it pulls from registries
    for path in ("/api/v1/images/", "/trainings/new/", "/notebooks/new/"):
        assert "cannot start here" not in client.get(path).content.decode(), path


def test_images_that_could_not_be_pulled_of_late_are_told(client: Client, tenant: Tenant) -> None:
    first = get_catalog().images.offered[0].reference
    job = make_job(tenant, image=first, state="failed", finished_at=timezone.now())
    text = f'Failed to pull image "{first}": not found'
    job.events.create(uid="e", at=timezone.now(), reason="Failed", message=text, count=2)
    [row] = [one for one in client.get("/api/v1/images/").json()["results"] if one["problem"]]
    assert row["image"] == first
    assert "could not be pulled 2 times since" in row["problem"]
    assert row["problem"] in page_of(client.get("/trainings/new/")).text
