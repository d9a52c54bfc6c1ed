"""Templates: saved from the form or by REST, opened on the form, published by leads."""

import json
from typing import Any

import pytest
from django.test import Client

from jobs.models import Bundle, Template, Workload
from jobs.workloads import templates
from tenants.models import Team, Tenant, User
from tests.browsing import client_of, page_of, read
from tests.factories import make_template, make_tenant, make_user, submit_body
from tests.jobs.workloads.typed import fields

pytestmark = pytest.mark.django_db


def send(user: User, method: str, path: str, body: Any = None) -> Any:
    text = "" if body is None else json.dumps(body)
    url = f"/api/v1/templates/{path}"
    return client_of(user).generic(method, url, text, content_type="application/json")


def errors(answer: Any) -> list[tuple[str, str]]:
    return [(error["field"], error["code"]) for error in answer.json()["errors"]]


def test_what_is_typed_is_saved_without_its_upload_and_opened_again(
    alice: Tenant, client: Client
) -> None:
    bundle = Bundle.objects.create(tenant=alice, file_name="a", sha256="a" * 64, size_bytes=1)
    typed = fields(name="", source_kind="bundle", deadline="8h", template="nightly", save="1")
    answer = client.post("/trainings/new/", {**typed, "source.bundle": str(bundle.pk)})
    page = page_of(answer)
    assert page.value("source.bundle") == str(bundle.pk)  # the form stays as it was
    saved = Template.objects.get()
    assert (saved.name, saved.spec["source"], saved.spec["name"]) == ("nightly", {"bundle": ""}, "")
    opened = read(client, f"/trainings/new/?template={saved.pk}")
    values = [opened.value(name) for name in ("name", "deadline", "source_kind", "source.bundle")]
    assert values == ["", "8h", "bundle", ""]
    assert not opened.all(id="errors")
    again = client.post("/trainings/new/", {**typed, "deadline": "9h", "source_kind": "none"})
    assert "a template of this name already" in page_of(again).one(id="template-error").text
    typed |= {"deadline": "9h", "source_kind": "none", "template_id": str(saved.pk)}
    page_of(client.post("/trainings/new/", typed))
    assert Template.objects.get().spec["deadline_s"] == 9 * 3600
    assert not Workload.objects.exists()


def test_a_template_of_what_is_not_offered_any_more_opens_with_the_error(
    alice: Tenant, client: Client
) -> None:
    template = make_template(alice.owner)
    template.spec |= {"image": "localhost:5000/x", "topology": "gone"}
    template.save()
    page = read(client, f"/trainings/new/?template={template.pk}")
    assert page.value("image") == "localhost:5000/x"
    assert page.one(id="image").get("aria-invalid") == "true"
    assert page.one(id="topology-error").text.strip()
    client.post(f"/templates/{template.pk}/rename/", {"name": "other"})
    assert "other" in read(client, "/templates/").text


def test_leads_publish_to_their_team(alice: Tenant) -> None:
    team, lee = alice.team, make_tenant("lee", team=alice.team).owner
    assert team
    team.leads.add(lee)
    Team.objects.create(name="speech").leads.add(make_user("olga"))
    body = {"name": "base", "team": "vision", "spec": submit_body(env={"A": "1"})}
    assert send(alice.owner, "POST", "", body).status_code == 403
    assert errors(send(lee, "POST", "", {**body, "team": "speech"})) == [("team", "not_found")]
    made = send(lee, "POST", "", body).json()
    assert (made["owner"], made["team"]) == ("lee", "vision")
    own = send(alice.owner, "POST", "", {**body, "team": None})
    listed = send(alice.owner, "GET", "?name=base").json()["results"]
    assert [row["team"] for row in listed] == [None, "vision"]  # one's own before the team's
    assert own.json()["spec"] == made["spec"]
    for method, sent in (("PUT", body), ("DELETE", None)):
        assert send(alice.owner, method, f"{made['id']}/", sent).status_code == 403
        assert (
            send(User.objects.get(username="olga"), method, f"{made['id']}/", sent).status_code
            == 404
        )
    page = page_of(client_of(lee).get("/templates/"))
    assert page.all("a", href=f"/templates/{made['id']}/delete/")
    assert send(lee, "DELETE", f"{made['id']}/").status_code == 204


def test_a_body_that_is_wrong_and_one_template_too_many_are_refused(
    alice: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = {"name": "x", "spec": {"image": "python:3.11-slim", "retries": 99, "gpus": 1}}
    found = errors(send(alice.owner, "POST", "", wrong))
    assert set(found) == {("spec.retries", "out_of_range"), ("spec.gpus", "unknown_field")}
    monkeypatch.setattr(templates, "MOST", 1)
    make_template(alice.owner)
    answer = send(alice.owner, "POST", "", {"name": "x", "spec": submit_body()})
    assert (answer.status_code, errors(answer)) == (409, [("", "too_many_templates")])
