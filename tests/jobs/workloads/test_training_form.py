"""The form of a new training: submitting, what is refused, running again."""

from typing import Any

import pytest
from django.test import Client

from jobs.kinds.spec import spec_of
from jobs.kinds.training.spec import TrainingSpec
from jobs.models import Bundle, UserSecret, Workload
from tenants.models import AuditEntry, Tenant
from tests.browsing import HTMX, client_of, page_of, read
from tests.factories import make_job, make_service, make_tenant
from tests.jobs.workloads.typed import fields
from tests.portal.markup import Markup, find_faults

pytestmark = pytest.mark.django_db


def test_a_submitted_form_is_a_queued_training(alice: Tenant, client: Client) -> None:
    answer = client.post("/trainings/new/", fields(flags=["task_index"], retries="1"))
    job = Workload.objects.get()
    assert answer["Location"] == f"/trainings/{job.pk}/"
    assert (job.name, job.state, job.owner) == ("mnist", "queued", alice.owner)
    spec = spec_of(job, TrainingSpec)
    assert (spec.command, spec.cluster_flags) == (("python", "train.py"), ("task_index",))
    assert spec.run_policy.retries == 1
    entry = AuditEntry.objects.get(verb="submit")
    assert (entry.actor, entry.object_id) == (alice.owner, str(job.pk))


def test_errors_are_at_the_fields_and_nothing_typed_is_lost(client: Client, alice: Tenant) -> None:
    bundle = Bundle.objects.create(
        tenant=alice, file_name="code.zip", sha256="a" * 64, size_bytes=2048
    )
    typed = fields(
        name="",
        source_kind="bundle",
        command="python train.py --lr 'a b'\nnext line",
        image="Not An Image",
        topology="tf-ps",
        flags=["ps_hosts", "log_dir"],
        env_name=["GOOD", "LD_PRELOAD"],
        env_value=["1 & <2>", "evil"],
        deadline="tomorrow",
        shm="1Gi",
        **{
            "source.bundle": str(bundle.pk),
            "source.url": "https://typed.example/",
            "replicas.worker.count": "3",
            "replicas.ps.memory": "lots",
        },
    )
    answer = client.post("/trainings/new/", typed)
    assert answer.status_code == 200
    page = Markup(answer.content.decode())
    assert not find_faults(page)
    assert not Workload.objects.exists()
    summary = page.one(id="errors").text
    for label in ("Name", "Image", "Parameter servers, memory", "Time limit", "Environment"):
        assert label in summary
    for name in ("name", "image", "replicas.ps.memory", "deadline"):
        assert page.one(id=name).get("aria-invalid") == "true", name
        text = page.one("p", id=f"{name}-error").text.strip()
        assert text
        assert text not in summary
    assert page.one(id="env-1").get("aria-invalid") == "true"
    assert page.one("details", id="more").get("open") is not None
    for name in (
        "command",
        "image",
        "deadline",
        "shm",
        "source.bundle",
        "source.url",
        "source_kind",
        "topology",
        "replicas.worker.count",
        "replicas.ps.memory",
    ):
        assert page.value(name) == typed[name], name
    assert [e.get("value") for e in page.all("input", name="env_value")][:2] == ["1 & <2>", "evil"]
    checked = [e for e in page.all("input", name="flags") if e.get("checked") is not None]
    assert [e.get("value") for e in checked] == ["ps_hosts", "log_dir"]
    assert "code.zip" in page.one("div", data_upload="").text
    assert "2 KiB" in page.one("div", data_upload="").text


def test_what_can_never_fit_is_refused_at_its_field(client: Client) -> None:
    answer = client.post("/trainings/new/", fields(**{"replicas.worker.gpu": "5"}))
    page = Markup(answer.content.decode())
    assert not Workload.objects.exists()
    assert page.one(id="replicas.worker.gpu").get("aria-invalid") == "true"
    assert "GPU" in page.one(id="errors").text
    page = page_of(client.post("/trainings/new/", fields(deadline="100d")))
    assert "This must be a time from 10s to 90d." in page.text


def test_more_than_a_quota_by_weight_is_queued_until_its_part_grows(client: Client) -> None:
    Tenant.objects.update(quota_by_weight=True)
    asked = fields(**{"replicas.worker.gpu": "5"})
    shown = page_of(client.post("/trainings/new/fit/", asked)).text
    assert "needs 5 GPUs, its part by weight is 2 now" in shown
    client.post("/trainings/new/", asked)
    assert Workload.objects.get().state == "queued"


def test_running_again_forgets_an_upload_that_is_gone(alice: Tenant, client: Client) -> None:
    source = {"bundle": "00000000-0000-4000-8000-000000000000", "sha256": "a", "file_name": "x"}
    job = make_job(alice, source=source)
    page = read(client, f"/trainings/{job.pk}/again/")
    assert page.value("source.bundle") == ""
    assert page.value("source_kind") == "bundle"


def test_running_code_from_git_again_shows_which_commit_it_was(
    alice: Tenant, client: Client
) -> None:
    source = {"git": "https://host/r.git", "ref": "main", "path": "sub/dir", "into": "code/r"}
    job = make_job(alice, source=source, source_commit="ab" * 20)
    assert read(client, f"/trainings/{job.pk}/").one("span", id="commit").text == "ab" * 20
    page = read(client, f"/trainings/{job.pk}/again/")
    names = ("git", "ref", "git_path", "into", "commit")
    assert [page.value(f"source.{name}") for name in names] == [*source.values(), "ab" * 20]
    choices = page.all("input", name="source.take")
    assert [(one.get("value"), one.get("checked") is not None) for one in choices] == [
        ("newest", True),
        ("same", False),
    ]
    assert not read(client, "/trainings/new/").all("input", name="source.take")


@pytest.mark.parametrize("is_yaml", [False, True])
def test_a_duplicate_says_what_differs_before_it_is_submitted(
    alice: Tenant, client: Client, is_yaml: bool
) -> None:
    source = {"git": "https://host/r.git", "ref": "main"}
    UserSecret.objects.create(tenant=alice, name="hub", kind="generic", revisions=[1])
    asked = {"env": {"A": "1"}, "secrets": {"hub": "env"}, "source": source}
    job = make_job(alice, name="once", **asked, source_commit="ab" * 20)
    page = read(client, f"/trainings/{job.pk}/again/")
    typed = {e.get("name"): page.value(e.get("name") or "") for e in page.elements if e.get("name")}
    typed = {name: value for name, value in typed.items() if name and value}
    typed |= {"source.take": "same", "secrets.hub": "env", "view": ""}

    def changes(by: Client, **other: str) -> str:
        sent = {**typed, **other}
        if is_yaml:
            turned = page_of(by.post("/trainings/new/", {**sent, "view": "yaml"}))
            sent = {"yaml": turned.value("yaml"), "like": turned.value("like")}
        panel = Markup(by.post("/trainings/new/fit/", sent, headers=HTMX).content.decode())
        return " ".join(panel.one("section", id="changes").text.split())

    assert changes(client) == "No changes from once."
    changed = {"deadline": "8h", "env_value": "2", "source.take": "newest", "secrets.hub": "files"}
    assert changes(client, **changed, **{"replicas.worker.count": "1"}) == (
        "Changes from once Time limit now: 8 h Branch, tag or commit before: "
        + "ab" * 20
        + " now: main Secrets before: hub (env) now: hub (files) A before: 1 now: 2"
    )


def test_what_differs_tells_nothing_that_somebody_else_may_not_read(alice: Tenant) -> None:
    job = make_job(alice, env={"KEY": "canary"}, source={"url": "https://host/canary.py"})
    lee = make_tenant("lee", team=alice.team)
    assert alice.team
    alice.team.leads.add(lee.owner)
    typed = fields(like=str(job.pk), env_name="KEY", env_value="mine")
    told = client_of(lee).post("/trainings/new/fit/", typed, headers=HTMX).content.decode()
    assert "Changes from my training" in told
    assert "canary" not in told


def test_a_name_that_is_refused_hides_no_hint_and_is_told_at_its_field(client: Client) -> None:
    rule = "letters from a to z or A to Z"
    for name in ("lr=0.1/bs=64", "Größe", "试验"):
        typed = fields(name=name, command="python a.py | tee log")
        before = Markup(client.post("/trainings/new/fit/", typed, headers=HTMX).content.decode())
        assert rule in before.text
        assert "Not run by a shell: |" in before.one("div", id="preview").text
        page = page_of(client.post("/trainings/new/", typed))
        assert rule in page.text
        told = [one.get("value") for one in page.all("input", name="told")]
        after = client.post("/trainings/new/fit/", {**typed, "told": told}, headers=HTMX)
        assert rule not in Markup(after.content.decode()).text
        # Another mistake is told again.
        other = {**typed, "name": "", "image": "A", "told": told}
        again = client.post("/trainings/new/fit/", other, headers=HTMX).content.decode()
        assert "not an image reference" in Markup(again).text


def test_a_new_notebook_has_a_free_name(client: Client, alice: Tenant) -> None:
    for kind, stem in (("notebook", "notebook"), ("tensorboard", "TensorBoard")):
        first = page_of(client.get(f"/{kind}s/new/")).value("name") or ""
        assert first.lower() == stem.lower()
        make_service(alice, kind=kind, name=first)
        assert page_of(client.get(f"/{kind}s/new/")).value("name") == f"{first} 2"


def test_a_full_disk_costs_nothing_of_what_was_typed(client: Client, settings: Any) -> None:
    settings.DISK_RESERVE_BYTES = 1 << 60  # more than any disk has
    answer = client.post("/trainings/new/", fields(command="python typed.py"))
    assert answer.status_code == 507
    page = answer.content.decode()
    assert "no room left" in page
    assert "python typed.py" in page
    assert not Workload.objects.exists()
