"""What is typed into the form, the REST body that it means, and errors at its fields."""

from collections.abc import Mapping
from typing import Any, NoReturn

import msgspec
import pytest
from django.http import QueryDict

from jobs.kinds.training import form as training_form
from jobs.kinds.training.examples import EXAMPLES
from jobs.kinds.training.form import TrainingForm
from jobs.kinds.training.inputs import GROUPS, changed_options
from jobs.kinds.training.kind import TRAINING
from jobs.kinds.training.serializer import TrainingSerializer
from jobs.kinds.training.spec import RunPolicy, TrainingSpec
from portal import quantity
from portal.catalog import get_catalog
from portal.errors import FieldError, Refused
from tests.factories import make_job, make_tenant, make_user


def posted(**fields: Any) -> TrainingForm:
    data = QueryDict(mutable=True)
    given = {"name": "mnist", "source_kind": "none", "command": "python train.py", **fields}
    for name, value in given.items():
        data.setlist(name, value if isinstance(value, list) else [value])
    return TrainingForm(data)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("30min", 1800), ("30 m", 1800), ("1h 30min", 5400), ("2D", 172800)],
)
def test_times_are_read_with_their_units(text: str, seconds: int) -> None:
    assert quantity.duration_s(text) == seconds


@pytest.mark.parametrize("text", ["90", "soon", "1h30", "-5min", "1.5h", "h"])
def test_times_without_units_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="for example 30min"):
        quantity.duration_s(text)


@pytest.mark.parametrize("seconds", [1, 59, 60, 5400, 86400, 90061])
def test_times_are_written_as_they_are_read(seconds: int) -> None:
    assert quantity.duration_s(quantity.duration_text(seconds)) == seconds


def test_the_body_is_that_of_rest() -> None:
    form = posted(
        topology="tf-ps",
        image="python:3.11-slim",
        flags=["ps_hosts", "task_index"],
        env_name=["A", "", "B"],
        env_value=["1", "", "two words"],
        deadline="8h",
        shm="1Gi",
        **{"replicas.worker.count": "2", "replicas.worker.gpu": " 1 ", "replicas.ps.memory": "1Gi"},
    )
    body = form.body()
    assert not form.unreadable()
    assert body["command"] == ["python", "train.py"]
    assert body["replicas"]["worker"] == {"count": "2", "cpu": "1", "memory": "2Gi", "gpu": "1"}
    assert body["replicas"]["ps"]["memory"] == "1Gi"
    assert body["env"] == {"A": "1", "B": "two words"}
    assert body["cluster_flags"] == ["ps_hosts", "task_index"]
    assert (body["deadline_s"], body["ttl_s"], body["starting_deadline_s"]) == ("8h", "1d", "5min")
    assert "source" not in body


def test_a_single_training_has_one_replica_whatever_the_hidden_field_says() -> None:
    body = posted(topology="single", **{"replicas.worker.count": "5"}).body()
    assert body["replicas"] == {"worker": {"count": "1", "cpu": "1", "memory": "2Gi", "gpu": "0"}}
    form = posted(topology="mpi", **{"replicas.worker.command": "python 'x"})
    assert "command" not in form.body()["replicas"]["worker"]
    assert not form.unreadable()


def test_lines_of_a_command_are_joined_as_in_a_shell() -> None:
    form = posted(command="python train.py \\\r\n  --epochs 3 \\\n  --name 'a b'")
    assert form.body()["command"] == ["python", "train.py", "--epochs", "3", "--name", "a b"]


def test_a_missing_quote_is_told_at_the_command() -> None:
    form = posted(command="python 'train.py", **{"replicas.worker.command": "python 'w.py"})
    body = form.body()
    assert "command" not in body
    assert "command" not in body["replicas"]["worker"]
    wrong = form.unreadable()
    assert sorted(wrong) == ["command", "replicas.worker.command"]
    assert all("Look for a missing quote" in text for text in wrong.values())


@pytest.mark.parametrize("kind", ["bundle", "git", "url", "path"])
def test_a_source_that_was_chosen_must_be_given(kind: str) -> None:
    form = posted(source_kind=kind, **{f"source.{kind}": " "})
    assert "source" not in form.body()
    assert list(form.unreadable()) == [f"source.{kind}"]


def test_a_variable_given_twice_is_told_at_the_second() -> None:
    form = posted(env_name=["A", "A"], env_value=["1", "2"])
    assert list(form.unreadable()) == ["env-1"]


@pytest.mark.parametrize(
    ("field", "place"),
    [
        ("name", "name"),
        ("replicas.worker.gpu", "replicas.worker.gpu"),
        ("replicas", "replicas.worker.count"),
        ("source.url", "source.url"),
        ("source", "source_kind"),
        ("deadline_s", "deadline"),
        ("env.B", "env-1"),
        ("env", "env"),
        ("env.gone", "env"),
    ],
)
def test_errors_of_the_rules_are_put_at_the_fields(field: str, place: str) -> None:
    form = posted(env_name=["A", "B"], env_value=["", ""])
    form.take([FieldError(field, "x", "Wrong.")])
    assert list(form.errors) == [place]
    assert form.told[0].text == "Wrong."


def test_what_the_form_could_not_read_is_not_said_twice() -> None:
    def refuse(_body: Mapping[str, Any]) -> NoReturn:
        raise Refused([FieldError("command", "required", "Say what to run.")])

    form = posted(command="python 'oops")
    assert form.read(refuse) is None
    assert len(form.errors["command"]) == 1


def test_more_options_open_when_they_matter() -> None:
    more = GROUPS[-1]
    assert not posted().is_open(more)
    assert posted(retries="2").is_open(more)
    wrong = posted()
    wrong.errors["ttl"] = ["Wrong."]
    assert wrong.is_open(more)


def test_a_time_needs_its_unit_on_a_page() -> None:
    form = posted(deadline="5400", ttl="2d")
    assert list(form.unreadable()) == ["deadline"]
    assert "deadline_s" not in form.body()
    assert form.body()["ttl_s"] == "2d"


def test_addresses_are_asked_for_where_they_differ_from_the_catalogs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    by_ip = msgspec.structs.replace(get_catalog(), addresses="ip")
    monkeypatch.setattr(training_form, "get_catalog", lambda: by_ip)
    assert "addresses" not in posted(topology="array", addresses="ip").body()
    assert posted(addresses="names").body()["addresses"] == "names"


def test_every_field_of_a_body_has_its_place_on_the_page() -> None:
    shown = [one.name for _group, inputs in posted().groups for one in inputs]
    asked = {name.removesuffix("_s") for name in TrainingSerializer().fields}
    assert sorted(shown) == sorted(asked)


def test_a_page_names_the_options_that_were_chosen() -> None:
    spec = TrainingSpec(
        name="mnist", image="python:3", replicas={}, topology="single", command=("true",)
    )
    assert changed_options(spec) == []
    run = RunPolicy(
        retries=2, deadline_s=5400, success_policy="worker0", clean_policy="all", ttl_s=0
    )
    chosen = msgspec.structs.replace(spec, run_policy=run, shm_bytes=2**30)
    assert changed_options(chosen) == [
        ("Retries", "2"),
        ("Time limit", "1 h 30 min"),
        ("Success condition", "worker 0"),
        ("Pod cleanup", "all pods"),
        ("Keep finished pods for", "0 s"),
        ("Shared memory", "1 GiB"),
    ]


@pytest.mark.django_db
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.slug)
def test_examples_are_accepted_as_they_are(example: Any) -> None:
    tenant = make_tenant()
    form = TrainingForm.of_query(QueryDict(f"example={example.slug}"))
    assert form.values["name"] == example.values["name"]
    assert form.read(lambda body: TRAINING.read(body, tenant=tenant, user=tenant.owner))
    assert not form.told


@pytest.mark.django_db
def test_running_code_from_git_again_asks_for_the_same_commit_or_the_newest() -> None:
    tenant = make_tenant()
    source = {"git": "https://host/r.git", "ref": "main", "path": "sub/dir"}
    job = make_job(tenant, source=source, source_commit="ab" * 20)
    form = TrainingForm.like(job, job.owner)
    assert (form.values["source.commit"], form.values["source.take"]) == ("ab" * 20, "newest")
    assert form.body()["source"] == source
    form.values["source.take"] = "same"
    assert form.body()["source"] == {**source, "ref": "ab" * 20}
    form.take([FieldError("source.path", "x", "Wrong."), FieldError("source.ref", "x", "Wrong.")])
    assert list(form.errors) == ["source.git_path", "source.commit"]
    # One that named its commit has no newer one, and nobody else sees where the code is.
    job.source_commit = job.spec["source"]["ref"] = "cd" * 20
    assert TrainingForm.like(job, job.owner).values["source.commit"] == ""
    assert TrainingForm.like(job, make_user("root", role="admin")).values["source.git"] == ""
