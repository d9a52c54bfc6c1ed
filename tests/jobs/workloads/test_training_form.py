"""The form of a new training, what it says at once, and its uploads."""

import io
import zipfile
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from jobs.kinds.spec import spec_of
from jobs.kinds.training.spec import TrainingSpec
from jobs.models import Bundle, Node, Replica, UserSecret, Workload
from tenants.models import AuditEntry, Tenant
from tests.browsing import HTMX, client_of, page_of, read
from tests.factories import make_job, make_service, make_tenant, submit_body
from tests.portal.markup import Markup, find_faults

pytestmark = pytest.mark.django_db


def fields(**changes: Any) -> dict[str, Any]:
    return {
        "name": "mnist",
        "source_kind": "none",
        "command": "python train.py",
        "image": "python:3.11-slim",
        "topology": "single",
        **changes,
    }


def zip_file(**files: str) -> SimpleUploadedFile:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return SimpleUploadedFile("code.zip", content.getvalue())


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


def test_without_javascript_the_file_comes_with_the_form(client: Client) -> None:
    file = zip_file(**{"train.py": "print(1)"})
    client.post("/trainings/new/", fields(source_kind="bundle", file=file))
    job = Workload.objects.get()
    assert job.spec["source"]["bundle"] == str(Bundle.objects.get().pk)


def test_uploads_of_others_cannot_be_used(client: Client) -> None:
    mallory = make_tenant("mallory")
    bundle = Bundle.objects.create(
        tenant=mallory, file_name="secret.zip", sha256="a" * 64, size_bytes=1
    )
    typed = fields(source_kind="bundle", **{"source.bundle": str(bundle.pk)})
    answer = client.post("/trainings/new/", typed)
    assert not Workload.objects.exists()
    assert "secret.zip" not in answer.content.decode()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "Fits now"),
        ({"replicas.worker.gpu": "2"}, "Will be queued"),
        ({"replicas.worker.gpu": "3"}, "Does not fit"),
        ({"replicas.worker.cpu": "many"}, "Check the form"),
        ({"name": "", "command": ""}, "Fits now"),
    ],
)
def test_the_panel_tells_at_once_whether_it_fits(
    alice: Tenant, client: Client, changes: dict[str, str], words: str
) -> None:
    alice.observed_used = {**alice.observed_used, "gpu": 1}
    alice.save()
    answer = client.post("/trainings/new/fit/", fields(**changes), headers=HTMX)
    assert words in Markup(answer.content.decode()).text
    if words == "Fits now":
        # The scheduler would place nothing on nodes that are kept for others.
        Node.objects.update(taints=[{"key": "team", "value": "vision", "effect": "NoSchedule"}])
        answer = client.post("/trainings/new/fit/", fields(**changes), headers=HTMX)
        assert "Will be queued" in Markup(answer.content.decode()).text
    assert not Workload.objects.exists()


@pytest.mark.parametrize(
    ("kind", "asked", "sentence", "title", "bar"),
    [
        ("cpu", "3", "needs 3 CPU, 1.75 of 8 free", "Nodes", "CPU6.25 of 8 used1.75 free"),
        ("cpu", "9", "the largest node has 8", "Nodes", "CPU6.25 of 8 used"),
        ("gpu", "2", "needs 2 GPUs, 1 of 2 free", "Your quota", "GPU1 of 2 used1 free"),
        ("cpu", "1", "It starts right away.", "Your quota", "CPU0 of"),
        ("cpu", "many", "Check the form", "Your quota", "CPU0 of"),
    ],
)
def test_beside_what_lacks_stand_the_bars_of_that(
    alice: Tenant, client: Client, kind: str, asked: str, sentence: str, title: str, bar: str
) -> None:
    alice.observed_used = {**alice.observed_used, "gpu": 1}
    alice.observed_hard = {**alice.observed_hard, "cpu": 16_000}
    alice.save()
    Node.objects.update(
        allocatable={"cpu": 8000, "memory": 2**38, "gpu": 8, "pods": 100},
        requested={"cpu": 6250, "memory": 2**30, "gpu": 0, "pods": 5},
    )
    typed = fields(**{f"replicas.worker.{kind}": asked})
    page = Markup(client.post("/trainings/new/fit/", typed, headers=HTMX).content.decode())
    assert sentence in page.text
    assert page.one("h3", class_="fit-bars").text == title
    bars = ["".join(one.text.split("\n")) for one in page.all("div", class_="quota-line")]
    assert any("".join(one.split("  ")).startswith(bar) for one in bars), bars


def test_the_panel_tells_of_an_image_that_cannot_be_pulled(alice: Tenant, client: Client) -> None:
    tried = make_job(alice, state="starting", image="x:1", admitted_at=datetime.now(UTC))
    text = 'Failed to pull image "x:1": not found'
    event = {"at": tried.admitted_at, "reason": "Failed", "message": text, "count": 3}
    tried.events.create(uid="e", **event)
    for image, is_told in (("x:1", True), ("x:2", False)):
        typed = fields(topology="tf-ps") | {"replicas.ps.image": image}
        panel = page_of(client.post("/trainings/new/fit/", typed)).text
        assert ("x:1 could not be pulled three times" in panel) is is_told, panel


@pytest.mark.parametrize(
    ("count", "minutes_ago", "pulled_after", "is_told"),
    [
        (0, 5, None, ""),
        (1, 5, None, "once"),
        (3, 5, None, "3 times"),
        (3, 30, None, "3 times"),
        (3, 30, 20, ""),  # a pod with it began to run since
        (3, 30, 40, "3 times"),  # before
        (3, 120, None, "3 times"),  # though the queue's guard has forgotten it
        (3, 120, 150, "3 times"),
        (3, 120, 100, ""),
        (1, 6 * 24 * 60, None, "once"),
        (3, 8 * 24 * 60, None, ""),  # it says nothing of today's registry
    ],
)
def test_the_panel_is_not_green_while_the_last_pulls_failed(
    alice: Tenant,
    client: Client,
    count: int,
    minutes_ago: int,
    pulled_after: int | None,
    is_told: str,
) -> None:
    """Also when one workload may try it at once."""

    def ago(minutes: int) -> datetime:
        return datetime.now(UTC) - timedelta(minutes=minutes)

    tried = make_job(alice, state="failed", image="x:1", finished_at=ago(0), admitted_at=ago(240))
    if count:
        text = 'Failed to pull image "x:1": not found'
        event = {"reason": "Failed", "message": text, "count": count}
        tried.events.create(uid="e", at=ago(minutes_ago), **event)
    if pulled_after is not None:
        Replica.objects.create(workload=tried, role="worker", index=0, started_at=ago(pulled_after))
    page = page_of(client.post("/trainings/new/fit/", fields(image="x:1")))
    preview = client.post(
        "/api/v1/jobs/preview/", submit_body(image="x:1"), content_type="application/json"
    ).json()["fit"]
    assert preview["kind"] == "now"
    if not is_told:
        assert "Fits now It starts right away." in page.text
        assert preview["text"] == "Fits now."
        return
    since = ago(minutes_ago + (10 if count > 1 else 0)).strftime("%Y-%m-%d %H:")
    assert f"x:1 could not be pulled {is_told} since {since}" in page.text
    assert "(“not found”), and has not been pulled since." in page.text
    assert "Fits now, but may not start" in page.text
    assert not page.all(class_="fit-answer tone-ready")
    assert page.all(class_="fit-answer tone-stopping")
    assert f"could not be pulled {is_told}" in preview["text"]


def test_advice_on_a_deadline_below_the_usual_duration(alice: Tenant, client: Client) -> None:
    began = datetime(2026, 1, 1, tzinfo=UTC)
    for minutes in (10, 70, 80):
        ended = began + timedelta(minutes=minutes)
        make_job(alice, name="mnist", state="succeeded", started_at=began, deciders_ended_at=ended)
    said = "usually ran for 1 h 10 min, which is longer than the deadline of"
    for deadline, tells in (("1h", True), ("2h", False), ("", False)):
        typed = fields(deadline=deadline)
        answer = client.post("/trainings/new/fit/", typed, headers=HTMX)
        assert (said in Markup(answer.content.decode()).text) == tells


def test_the_panel_shows_the_command_of_each_replica(client: Client) -> None:
    typed = fields(
        topology="tf-ps",
        command="python train.py --dir {{log_dir}} && echo {{nothing}}",
        flags=["job_name", "task_index", "ps_hosts"],
        **{"replicas.worker.count": "2"},
    )
    page = Markup(client.post("/trainings/new/fit/", typed, headers=HTMX).content.decode())
    preview = page.one("div", id="preview")
    assert preview.get("hx-swap-oob") == "true"
    assert "--dir /log/jobs/mnist-xxxxxx" in preview.text
    assert "--job_name=worker --task_index=1" in preview.text
    assert "--job_name=ps --task_index=0" in preview.text
    assert "--ps_hosts=mnist-xxxxxx-ps-0.mnist-xxxxxx:2222" in preview.text
    assert "Not run by a shell: && is passed on as it stands" in preview.text
    assert "{{nothing}} is not a placeholder" in preview.text
    page = page_of(client.post("/trainings/new/fit/", fields(topology="tf-ingraph")))
    assert "No replica runs the command" in page.one("div", id="preview").text
    assert "Variables of worker-0" in page.text


def test_the_panel_shows_the_manifests_when_asked(client: Client) -> None:
    typed = fields(topology="tf-ps", show_manifests="1")
    page = Markup(client.post("/trainings/new/fit/", typed, headers=HTMX).content.decode())
    shown = page.one("pre", id="preview-manifests").text
    for kind in ("Job", "Service", "ConfigMap", "Deployment"):
        assert f"kind: {kind}" in shown
    assert "mnist-aaaaaa" in shown


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


YAML = "name: mnist\nimage: python:3.11-slim\ncommand:\n- python\n- train.py\n"


def test_form_and_yaml_are_two_tabs_over_one_request(client: Client) -> None:
    typed = fields(
        topology="tf-ps", env_name="LR", env_value="1e-3", deadline="8h", flags="job_name"
    )
    typed |= {"replicas.worker.count": "2", "replicas.ps.memory": "1Gi", "show": "kept"}
    page = page_of(client.post("/trainings/new/", {**typed, "view": "yaml"}))
    text = page.value("yaml") or ""
    assert text.startswith("name: mnist\ntopology: tf-ps\nimage: python:3.11-slim\ncommand:\n")
    assert "worker:\n    count: 2\n    memory: 2Gi\n  ps: {}" in text
    assert "deadline_s: 28800" in text
    assert "retries" not in text
    back = page_of(client.post("/trainings/new/", {"yaml": text, "view": "form"}))
    for name in ("name", "topology", "command", "deadline", "replicas.worker.count", "flags"):
        assert back.value(name) == typed[name], name
    assert back.value("env_value") == "1e-3"
    assert not Workload.objects.exists()
    client.post("/trainings/new/", {"yaml": text})
    spec = spec_of(Workload.objects.get(), TrainingSpec)
    assert (spec.replicas["worker"].count, spec.run_policy.deadline_s) == (2, 28_800)


def test_what_is_not_typed_yet_is_not_there_in_the_other_tab(client: Client) -> None:
    page = page_of(
        client.post("/trainings/new/", {"image": "a", "source_kind": "bundle", "view": "yaml"})
    )
    text = page.value("yaml") or ""
    assert "name: ''\nimage: a\ncommand: []\nsource:\n  bundle: ''\n" in text
    back = page_of(client.post("/trainings/new/", {"yaml": text, "view": "form"}))
    assert (back.value("name"), back.value("command"), back.value("source_kind")) == (
        "",
        "",
        "bundle",
    )
    errors = page_of(client.post("/trainings/new/", {"yaml": text})).text
    assert all(f"Line {n}, {name}:" in errors for n, name in [(1, "name"), (5, "source.bundle")])


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("env: {LR: 3\n", "Line 6 (“env: {LR: 3”): this is not YAML"),
        ("env: &x {A: b}\n", "Line 6 (“env: &x {A: b}”): write the value out"),
        ("gpus: 1\nreplicas:\n  worker: {gpu: 99}\n", "Line 8, replicas.worker.gpu:"),
        ('env:\n  KEY: "two\\r\\nlines"\n', "The form has no place for all of this"),
    ],
)
def test_yaml_that_cannot_be_used_stays_and_says_its_line(
    client: Client, more: str, words: str
) -> None:
    page = page_of(client.post("/trainings/new/", {"yaml": YAML + more, "view": "form"}))
    assert page.value("yaml") == YAML + more
    assert words in page.text
    if "KEY" not in more:
        assert page.one(id="yaml").get("aria-invalid") == "true"
        page_of(client.post("/trainings/new/", {"yaml": YAML + more}))
        told = client.post("/trainings/new/fit/", {"yaml": YAML + more}, headers=HTMX)
        assert words in Markup(told.content.decode()).text
        assert not Workload.objects.exists()


def test_a_form_that_cannot_be_read_does_not_turn_into_yaml(client: Client) -> None:
    typed = fields(command="python 'x", env_name=["A", "A"], env_value=["1", "2"], view="yaml")
    page = page_of(client.post("/trainings/new/", typed))
    assert page.value("command") == "python 'x"
    assert page.one(id="env-1").get("aria-invalid") == "true"


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


def test_an_upload_says_what_is_inside(client: Client, alice: Tenant) -> None:
    file = zip_file(**{"p/train.py": "print(1)", "p/data.txt": "x" * 300})
    answer = client.post("/bundles/", {"file": file})
    body = answer.json()
    assert answer.status_code == 200
    bundle = Bundle.objects.get(pk=body["id"])
    assert (bundle.tenant, body["file_name"]) == (alice, "code.zip")
    assert body["listing"]["top_folder"] == "p"
    assert body["listing"]["files"][1] == {"path": "p/data.txt", "size_bytes": 300}


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (None, "No file arrived"),
        (("empty.py", b""), "The upload is empty."),
        (("broken.tar.gz", b"nonsense" * 200), "cannot be read as an archive"),
    ],
)
def test_a_bad_upload_is_refused_in_words(
    client: Client, file: tuple[str, bytes] | None, words: str
) -> None:
    """With and without JavaScript."""
    answer = client.post("/bundles/", {"file": SimpleUploadedFile(*file)} if file else {})
    assert answer.status_code == 400
    assert words in answer.json()["errors"][0]["text"]
    if file:
        typed = fields(source_kind="bundle", file=SimpleUploadedFile(*file))
        shown = Markup(client.post("/trainings/new/", typed).content.decode()).text
        assert words in shown
        assert "Choose an archive" not in shown
    assert not Bundle.objects.exists()
    assert not Workload.objects.exists()


def test_a_full_disk_costs_nothing_of_what_was_typed(client: Client, settings: Any) -> None:
    settings.DISK_RESERVE_BYTES = 1 << 60  # more than any disk has
    answer = client.post("/trainings/new/", fields(command="python typed.py"))
    assert answer.status_code == 507
    page = answer.content.decode()
    assert "no room left" in page
    assert "python typed.py" in page
    assert not Workload.objects.exists()
