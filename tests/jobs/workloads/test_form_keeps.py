"""What a training or a template asks for stays in the form that begins with it, also through a browser."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.test import Client

from jobs.kinds.spec import spec_of
from jobs.kinds.training.spec import TrainingSpec
from jobs.models import UserSecret, Workload
from tenants.models import Tenant
from tests.browsing import page_of, read
from tests.factories import make_job, make_template, submit_body
from tests.portal.markup import Element, Markup

pytestmark = pytest.mark.django_db
LINES = "\na: 1\nb: 2\n"
HUB = {"git": "https://host/r.git", "secret": "hub"}


def sent_by_browser(page: Markup) -> dict[str, list[str]]:
    """All that the page's form sends, as HTML says ("value sanitization" of inputs, "newline normalization")."""
    found: dict[str, list[str]] = {}
    for element in page.elements:
        name, kind = element.get("name"), element.get("type")
        is_out = kind in {"radio", "checkbox"} and element.get("checked") is None
        in_template = any(outer.tag == "template" for outer in element.ancestors)
        if not name or kind == "file" or is_out or in_template or element.tag == "button":
            continue
        if element.tag in {"input", "select", "textarea"}:
            found.setdefault(name, []).append(_value(page, element))
    return found


def _value(page: Markup, element: Element) -> str:
    if element.tag == "textarea":
        return re.sub(r"\r\n|\r|\n", "\r\n", element.text.removeprefix("\n"))
    if element.tag == "select":
        options = [one for one in page.all("option") if element in one.ancestors]
        chosen = [one for one in options if one.get("selected") is not None]
        return (chosen or options)[0].get("value") or ""
    return re.sub(r"[\r\n]", "", element.get("value") or "")


@pytest.mark.parametrize("way", ["again/", "again/?continue", "again/?failed", "template", "tabs"])
def test_a_variable_of_several_lines_keeps_their_ends(
    alice: Tenant, client: Client, way: str
) -> None:
    env = {"CFG": LINES, "PLAIN": "x"}
    job = make_job(alice, state="failed", env=env)
    if way == "template":
        template = make_template(alice.owner)
        template.spec |= {"name": "x", "env": env}
        template.save()
        page = read(client, f"/trainings/new/?template={template.pk}")
    elif way == "tabs":
        typed = {"yaml": yaml.safe_dump(submit_body(env=env)), "view": "form"}
        page = page_of(client.post("/trainings/new/", typed))
    else:
        page = read(client, f"/trainings/{job.pk}/{way}")
    sent = {**sent_by_browser(page), "source_kind": "none"}
    back = page_of(client.post("/trainings/new/", {**sent, "retries": "many"}))  # it is refused
    answer = client.post("/trainings/new/", {**sent_by_browser(back), "retries": "0"})
    assert answer.status_code == 302, page_of(answer).text
    made = Workload.objects.exclude(pk=job.pk).get()
    assert spec_of(made, TrainingSpec).env == env


def test_line_ends_that_no_browser_sends_are_told(alice: Tenant, client: Client) -> None:
    job = make_job(alice, state="failed", env={"CFG": "a\r\nb", "PLAIN": "x"})
    text = read(client, f"/trainings/{job.pk}/again/").text
    assert "CFG: its lines end with a carriage return" in text
    typed = {"yaml": yaml.safe_dump(submit_body(env={"CFG": "a\r\nb"})), "view": "form"}
    page = page_of(client.post("/trainings/new/", typed))
    assert page.value("yaml") == typed["yaml"]
    assert "The form has no place for all of this" in page.text


def test_an_image_and_a_secret_that_are_gone_are_told_and_not_replaced(
    alice: Tenant, client: Client, settings: Any, tmp_path: Path
) -> None:
    UserSecret.objects.create(tenant=alice, name="own", kind="generic", keys=["A"], revisions=[1])
    job = make_job(
        alice,
        state="failed",
        image="lab/gone:1",
        secrets={"hub": "env", "own": "files"},
        source=HUB,
    )
    raw = yaml.safe_load(Path(settings.CATALOG).read_text())
    raw["images"]["locked"] = True
    settings.CATALOG = str(tmp_path / "catalog.yaml")
    Path(settings.CATALOG).write_text(yaml.safe_dump(raw))
    page = read(client, f"/trainings/{job.pk}/again/")
    sent = sent_by_browser(page)
    assert (sent["image"], sent["secrets.hub"], sent["secrets.own"], sent["source.secret"]) == (
        ["lab/gone:1"],
        ["env"],
        ["files"],
        ["hub"],
    )
    refused = page_of(client.post("/trainings/new/", sent))
    for name in ("image", "secrets", "source.secret"):
        assert refused.one(id=f"{name}-error").text.strip()
    assert not Workload.objects.exclude(pk=job.pk).exists()
