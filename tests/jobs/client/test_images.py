"""Which images there are is told to who names none, and by a command."""

import json
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from jobs.kinds.registry import KINDS
from jobs.kinds.serializer import SpecSerializer
from jobs.kinds.training.serializer import TrainingSerializer
from portal.catalog import get_catalog
from tenants.models import Team, Tenant
from tests.browsing import client_of, tenant_with_a_node
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
