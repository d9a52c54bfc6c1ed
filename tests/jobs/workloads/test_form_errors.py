"""What is wrong in a form is told once: at its field, or at the top where the page shows no such field."""

import re
from typing import Any

import pytest

from jobs.kinds.form import WorkloadForm
from portal.web.forms import SpecForm
from tests.browsing import client_of, tenant_with_a_node
from tests.portal.markup import Markup

pytestmark = pytest.mark.django_db

MANY = {"env_name": ["A"], "env_value": ["b"], "topology": "tf-ps", "source_kind": "git"}


@pytest.mark.parametrize(
    ("path", "typed"),
    [
        ("/trainings/new/", {"name": "a"}),
        ("/trainings/new/", MANY),
        ("/trainings/new/", {"yaml": "name: a"}),
        ("/notebooks/new/", {"name": "a"}),
        ("/tensorboards/new/", {"name": "a"}),
        ("/secrets/new/", {"name": "a"}),
    ],
)
def test_each_problem_is_told_once(
    path: str, typed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    def refuse(form: SpecForm, *_: Any) -> None:
        told[:] = [f"problem of <{name}>." for name in form.values]
        form.errors = {name: [f"problem of <{name}>."] for name in form.values}
        form.problems = ["problem of all."]

    monkeypatch.setattr(WorkloadForm, "read", refuse)
    monkeypatch.setattr(SpecForm, "attempt", refuse)
    page = Markup(client_of(tenant_with_a_node("alice")).post(path, typed).content.decode())
    assert told
    found = re.findall(r"problem of [^.]*(?:\.[^ .]+)*\.", page.text)
    assert sorted(found) == sorted([*told, "problem of all."])
    ids = {element.get("id") for element in page.elements}
    [summary] = page.all(id="errors")
    links = [one.get("href") or "" for one in page.all("a") if summary in one.ancestors]
    assert len(links) == len(told) + 1
    assert {link.removeprefix("#") for link in links} <= ids
