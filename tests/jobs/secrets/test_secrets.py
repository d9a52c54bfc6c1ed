"""Secrets: what is refused, what is answered, and that no value is in anything that can be read."""

import logging
import re
from typing import Any

import pytest
from django.apps import apps
from django.conf import settings
from django.core import serializers
from django.test import override_settings

from jobs.kinds.manifests import Grant, pod_settings
from jobs.kinds.notebook import NOTEBOOK
from jobs.kinds.training.kind import TRAINING
from jobs.models import UserSecret, Workload
from jobs.secrets import actions as secrets
from jobs.secrets.sealing import unseal
from jobs.workloads import actions as workloads
from portal.errors import Refused
from tenants.models import Team, Tenant
from tests.browsing import client_of
from tests.factories import make_tenant, make_user, submit_body
from tests.jobs.workloads.test_api import send

pytestmark = pytest.mark.django_db
CANARY = "canary-c0ffee"


@pytest.fixture
def alice() -> Tenant:
    team = Team.objects.create(name="vision")
    team.leads.add(make_user("lee", team=team))
    return make_tenant("alice", team=team)


def put(tenant: Tenant, name: str, kind: str = "generic", **data: str) -> Any:
    return send(tenant.owner, "PUT", f"secrets/{name}/", {"kind": kind, "data": data})


# A name that is refused -> which of its characters is why, as an answer names it.
STRANGE = {
    "GR\u00d6SSE": "“\u00d6” (U+00D6)",
    "GRO\u0308SSE": "“\u00d6” (U+00D6)",
    "\u8bd5\u9a8c": "“\u8bd5” (U+8BD5)",
    "K\u0415Y": "“\u0415” (U+0415)",
    "A\u200bB": "U+200B",
    "A\u00a0B": "U+00A0",
    "A B": "“ ”",
    "a$b": "“$”",
}


@pytest.mark.parametrize("name", STRANGE, ids=ascii)
def test_a_refused_name_is_told_by_its_first_wrong_character(name: str) -> None:
    tenant = make_tenant("alice")
    said = f"{STRANGE[name]} is none of these."
    body = {"name": "a", "image": "python:3.11-slim", "command": ["x"], "env": {name: "x"}}
    answers = {
        f"env.{name}": send(tenant.owner, "POST", "jobs/preview/", body),
        f"data.{name}": put(tenant, "a", **{name: "v"}),
    }
    for field, answer in answers.items():
        (error,) = answer.json()["errors"]
        assert (error["field"], error["code"]) == (field, "invalid_name")
        assert "from a to z" in error["text"], error
        assert error["text"].endswith(said), error
    small = STRANGE[name].replace("Ö", "ö").replace("00D6", "00F6")
    small = small.replace("\u0415", "\u0435").replace("0415", "0435")
    with pytest.raises(Refused, match="letters from a to z") as refused:
        secrets.put(
            by=tenant.owner, tenant=tenant, name=name.lower(), kind="generic", keys=[], values={}
        )
    (of_name,) = refused.value.errors
    assert of_name.field == "name"
    assert of_name.text.endswith(f"{small} is none of these.")


def test_a_name_that_is_refused_for_its_form_has_the_rule() -> None:
    tenant = make_tenant("alice")
    for name in ("1A", "A" * 129, ""):
        body = {"name": "a", "image": "python:3.11-slim", "command": ["x"], "env": {name: "x"}}
        (error,) = send(tenant.owner, "POST", "jobs/preview/", body).json()["errors"]
        assert "begins with a letter from a to z" in error["text"]
        assert "none of these" not in error["text"]


def codes(answer: Any) -> dict[str, str]:
    return {error["field"]: error["code"] for error in answer.json()["errors"]}


@pytest.mark.parametrize(
    ("name", "body", "wrong"),
    [
        ("Wandb", {"data": {"K": "v"}}, {"name": "invalid_name"}),
        ("a" * 41, {"data": {"K": "v"}}, {"name": "invalid_name"}),
        ("a-", {"data": {"K": "v"}}, {"name": "invalid_name"}),
        ("a", {}, {"data": "required"}),
        ("a", {"data": {}}, {"data": "invalid"}),
        ("a", {"data": {"a/b": "v"}}, {"data.a/b": "invalid_name"}),
        ("a", {"data": {"..": "v"}}, {"data...": "invalid_name"}),
        ("a", {"data": {"K": 1}}, {"data.K": "invalid"}),
        ("a", {"data": {"K": "\0"}}, {"data.K": "invalid"}),
        ("a", {"data": {"K": "ä" * 32769}}, {"data.K": "too_long"}),
        ("a", {"data": dict.fromkeys(map(str, range(33)), "v")}, {"data": "too_many"}),
        ("a", {"kind": "tls", "data": {"K": "v"}}, {"kind": "invalid_choice"}),
        ("a", {"data": {"K": "v"}, "owner": "bob"}, {"owner": "unknown_field"}),
        (
            "a",
            {"kind": "registry", "data": {"server": "r.example", "token": "t"}},
            {"data.username": "invalid", "data.password": "invalid", "data.token": "invalid"},
        ),
        (
            "a",
            {"kind": "registry", "data": {"server": "a b", "username": "u", "password": "p"}},
            {"data.server": "invalid"},
        ),
        (
            "a",
            {"kind": "registry", "data": {"server": "r", "username": "u:v", "password": "p"}},
            {"data.username": "invalid"},
        ),
    ],
)
def test_what_is_refused(alice: Tenant, name: str, body: dict[str, Any], wrong: Any) -> None:
    answer = send(alice.owner, "PUT", f"secrets/{name}/", body)
    assert (answer.status_code, codes(answer)) == (400, wrong)
    assert not UserSecret.objects.exists()


def test_no_value_is_in_any_row_answer_or_log(
    alice: Tenant, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    login = {"server": "r.example", "username": "ada", "password": CANARY}
    seen = [put(alice, "wandb", WANDB_API_KEY=CANARY), put(alice, "hub", "registry", **login)]
    seen += [put(alice, "wandb", "registry", **login), put(alice, "wandb", **{"a/b": CANARY})]
    job = send(
        alice.owner, "POST", "jobs/", submit_body(secrets={"wandb": "env"}, env={"A": "b"})
    ).json()
    page = client_of(alice.owner)
    seen += [send(alice.owner, "GET", f"jobs/{job['id']}/")]
    seen += [send(alice.owner, "POST", "jobs/preview/", submit_body(secrets={"wandb": "files"}))]
    seen += [send(alice.owner, "GET", path) for path in ("secrets/", "secrets/wandb/")]
    paths = ("secrets/", "secrets/wandb/replace/", "secrets/wandb/delete/", "trainings/new/")
    body = {"name": "notes", "secrets": {"wandb": "env"}}
    seen += [send(alice.owner, "POST", "notebooks/", body)]
    note = seen[-1].json()
    assert note["secrets"] == body["secrets"]
    form = {"name": "notes", "secrets.wandb": "files", "secrets.none": "env"}
    seen += [page.post("/notebooks/new/", form), page.post("/notebooks/new/fit/", form)]
    paths = (*paths, f"trainings/{job['id']}/again/", f"notebooks/{note['id']}/")
    seen += [page.get(f"/{path}") for path in (*paths, f"notebooks/new/?like={note['id']}")]
    assert [one.status_code for one in seen] == [200, 200, 400, 400] + [200] * 4 + [201] + [200] * 9
    [chosen] = re.findall(r'"(\w*)" selected>', seen[-1].content.decode())
    assert chosen == "env"
    row = Workload.objects.get(kind="notebook")
    row.plan = NOTEBOOK.render(row, 1, Grant())
    row.save()
    [app] = row.plan[0]["spec"]["template"]["spec"]["containers"]
    assert app["envFrom"] == [{"secretRef": {"name": "user-wandb-1"}}]
    rows = [row for model in apps.get_models() for row in model._default_manager.all()]
    text = serializers.serialize("json", rows) + caplog.text
    text += "".join(one.content.decode() for one in seen)
    assert "WANDB_API_KEY" in text
    assert CANARY not in text
    # And yet it is there, for who has the key alone, which may be an older one by now.
    sealed = UserSecret.objects.get(name="wandb").sealed
    was, other = settings.SECRET_KEY, "another" * 9
    with override_settings(SECRET_KEY=other):
        assert unseal(sealed) is None
    with override_settings(SECRET_KEY=other, SECRET_KEY_FALLBACKS=["third" * 9, was]):
        assert unseal(sealed) == {"WANDB_API_KEY": CANARY}


def test_names_keys_and_uses_are_listed_and_others_see_names(alice: Tenant) -> None:
    put(alice, "wandb", B="1", A="2")
    [told] = send(alice.owner, "GET", "secrets/").json()["results"]
    assert (told["keys"], told["kind"], told["state"]) == (["A", "B"], "generic", "pending")
    job = TRAINING.read(submit_body(secrets={"wandb": "env"}), tenant=alice, user=alice.owner)
    row = workloads.submit(by=alice.owner, tenant=alice, kind=TRAINING, spec=job)
    [told] = send(alice.owner, "GET", "secrets/").json()["results"]
    use = {"id": str(row.pk), "kind": "job", "name": "my training", "use": "env"}
    assert told["used_by"] == [use]
    assert codes(send(alice.owner, "DELETE", "secrets/wandb/")) == {"": "in_use"}
    # In use it may be replaced, by what can be used in the same way.
    assert codes(put(alice, "wandb", LD_PRELOAD="x")) == {"data.LD_PRELOAD": "forbidden_name"}
    assert codes(put(alice, "wandb", "registry", server="r", username="u", password="p")) == {
        "kind": "contradiction"
    }
    assert put(alice, "wandb", A="3").status_code == 200
    lee = Team.objects.get().leads.get()
    [told] = send(lee, "GET", "secrets/?owner=alice").json()["results"]
    assert {key for key, value in told.items() if value is not None} == {"name", "owner"}
    assert "wandb" in client_of(lee).get("/secrets/").content.decode()
    mallory = make_tenant("mallory").owner
    for owner in ("alice", "%00"):
        assert send(mallory, "GET", f"secrets/?owner={owner}").json()["results"] == []
    assert "wandb" not in client_of(mallory).get("/secrets/").content.decode()
    Workload.objects.update(state="succeeded")
    assert send(alice.owner, "DELETE", "secrets/wandb/").status_code == 204
    assert send(alice.owner, "GET", "secrets/wandb/").status_code == 404
    # A new one never has a number that an object in the cluster may still have.
    assert put(alice, "wandb", A="4").status_code == 200
    assert UserSecret.objects.get().revision == 2


def test_thirty_two_and_no_more(alice: Tenant) -> None:
    for number in range(32):
        UserSecret.objects.create(tenant=alice, name=f"s{number}", kind="generic")
    assert codes(put(alice, "one-more", K="v")) == {"": "too_many_secrets"}
    assert put(alice, "s0", K="v").status_code == 200


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"secrets": {"none": "env"}}, {"secrets.none": "not_found"}),
        ({"secrets": {"a\0": "env"}}, {"secrets.a\0": "not_found"}),
        ({"secrets": {"hub": "files"}}, {"secrets.hub": "invalid"}),
        ({"secrets": {"lost": "files"}}, {"secrets.lost": "secret_gone"}),
        ({"secrets": {"wandb": "mount"}}, {"secrets.wandb": "invalid_choice"}),
        ({"secrets": ["wandb"]}, {"secrets": "invalid"}),
        ({"secrets": {"files": "env"}}, {"secrets.files": "invalid_name"}),
        ({"secrets": {"rank": "env"}, "topology": "torch-ddp"}, {"secrets.rank": "forbidden_name"}),
        ({"secrets": {"wandb": "env"}, "env": {"A": ""}}, {"secrets.wandb": "duplicate_name"}),
        ({"secrets": {"wandb": "env", "same": "env"}}, {"secrets.same": "duplicate_name"}),
        ({"secrets": {"wandb": "env", "same": "files", "files": "files"}}, {}),
        ({"source": {"git": "https://h/r", "secret": "none"}}, {"source.secret": "not_found"}),
        ({"source": {"git": "https://h/r", "secret": "wandb"}}, {"source.secret": "invalid"}),
        ({"source": {"git": "https://h/r", "secret": "token"}}, {}),
        ({"source": {"git": "ssh://git@h/r"}}, {"source.secret": "required"}),
        ({"source": {"git": "ssh://git@h/r", "secret": "token"}}, {"source.secret": "invalid"}),
        ({"source": {"git": "ssh://git@h:22/~/r.git", "secret": "key"}}, {}),
        ({"source": {"git": "ssh://git:p@h/r", "secret": "key"}}, {"source.git": "secret_in_url"}),
        ({"source": {"git": "git@h:r.git", "secret": "key"}}, {"source.git": "invalid_url"}),
        ({"source": {"git": "ssh://-oProxy/r", "secret": "key"}}, {"source.git": "invalid_url"}),
        ({"source": {"git": "ssh://-l@h/r", "secret": "key"}}, {"source.git": "invalid_url"}),
    ],
)
def test_what_a_training_may_ask_for(alice: Tenant, change: Any, wrong: dict[str, str]) -> None:
    for name, keys in {
        "wandb": ["A"],
        "same": ["A"],
        "files": ["key.json"],
        "rank": ["RANK"],
        "token": ["token"],
        "key": ["known_hosts", "ssh-privatekey"],
        "lost": ["A"],
    }.items():
        revisions = [] if name == "lost" else [1]
        UserSecret.objects.create(
            tenant=alice, name=name, kind="generic", keys=keys, revisions=revisions
        )
    UserSecret.objects.create(tenant=alice, name="hub", kind="registry", revisions=[1])
    answer = send(alice.owner, "POST", "jobs/preview/", submit_body(**change))
    assert (answer.status_code, codes(answer) if wrong else {}) == (400 if wrong else 200, wrong)


def test_the_page_keeps_what_was_typed_and_tells_it_at_its_row(alice: Tenant) -> None:
    page = client_of(alice.owner)
    posted = {"name": "gcs", "key": ["a b", "ok"], "value": ["one", "two\r\nlines"]}
    answer = page.post("/secrets/new/", posted)
    text = answer.content.decode()
    assert (answer.status_code, "two\nlines" in text, 'id="key-0-error"' in text) == (
        400,
        True,
        True,
    )
    assert page.post("/secrets/new/", {**posted, "key": ["a", "a"]}).status_code == 400
    assert page.post("/secrets/new/", {**posted, "key": ["a", "b"]}).status_code == 302
    again = page.post("/secrets/new/", {**posted, "key": ["c"], "value": ["three"]})
    assert (again.status_code, "already" in again.content.decode()) == (400, True)
    row = UserSecret.objects.get()
    assert unseal(row.sealed) == {"a": "one", "b": "two\nlines"}
    assert page.post("/secrets/gcs/delete/").status_code == 302
    assert UserSecret.objects.get().is_deleted


def test_pods_are_told_which_variables_come_from_secrets(alice: Tenant) -> None:
    for name, keys in (("hub", ["A", "B"]), ("wandb", ["B", "KEY"]), ("gcs", ["key.json"])):
        UserSecret.objects.create(tenant=alice, name=name, kind="generic", keys=keys, revisions=[1])
    uses = {"hub": "env", "wandb": "env", "gcs": "files", "deleted": "env"}
    assert pod_settings(alice, uses).secrets.variables == ("A", "B", "KEY")
