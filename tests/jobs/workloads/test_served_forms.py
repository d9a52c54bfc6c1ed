"""The forms of a new notebook and a new TensorBoard, and TensorBoard on trainings that were ticked."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.utils.timezone import now

from jobs.models import Workload
from tenants.models import Tenant
from tests.browsing import HTMX, client_of, read
from tests.factories import make_job, make_service, make_tenant, make_user, role_request
from tests.jobs.workloads.served import running
from tests.portal.markup import Markup, find_faults

pytestmark = pytest.mark.django_db
LAB = "quay.io/jupyter/tensorflow-notebook:2026-11-01"


def refused(client: Client, path: str, **fields: Any) -> Markup:
    """The form as it comes back, with its list of errors."""
    answer = client.post(path, fields)
    assert answer.status_code == 200
    page = Markup(answer.content.decode())
    assert page.one(id="errors")
    assert not find_faults(page)
    return page


# --- notebooks ---
def test_a_name_is_enough_for_a_notebook(client: Client) -> None:
    page = read(client, "/notebooks/new/")
    assert page.value("image") == LAB
    assert page.value("size") == "small"
    answer = client.post("/notebooks/new/", {"name": "first look"})
    made = Workload.objects.get()
    assert answer["Location"] == f"/notebooks/{made.pk}/"
    assert (made.kind, made.image) == ("notebook", LAB)
    assert made.replicas == {"notebook": role_request(memory_bytes=2 * 2**30)}


def test_size_image_and_gpu_are_what_was_chosen(client: Client) -> None:
    fields = {"name": "n", "image": "other", "image_other": " lab/jax:1 ", "size": "own",
              "cpu": "500m", "memory": "3Gi", "gpu": "1"}  # fmt: skip
    client.post("/notebooks/new/", fields)
    made = Workload.objects.get()
    asked = role_request(cpu_millicores=500, memory_bytes=3 * 2**30, gpu_count=1)
    assert (made.image, made.replicas) == ("lab/jax:1", {"notebook": asked})


def test_the_size_wins_over_numbers_typed_before_it_was_chosen(client: Client) -> None:
    client.post("/notebooks/new/", {"name": "n", "size": "large", "cpu": "1", "memory": "1Gi"})
    assert Workload.objects.get().replicas["notebook"]["cpu_millicores"] == 4000


@pytest.mark.parametrize(
    ("fields", "at", "words"),
    [
        ({"name": ""}, "name", "This is needed"),
        ({"name": "<script>"}, "name", ""),
        ({"name": "a\0b"}, "name", ""),
        ({"name": "x" * 500}, "name", ""),
        ({"gpu": "many"}, "gpu", "whole number"),
        ({"gpu": "9" * 400}, "gpu", "whole number"),
        ({"image": "other", "image_other": ""}, "image_other", "Enter the image"),
        ({"image": "other", "image_other": "NOT an image"}, "image_other", ""),
        ({"size": "own", "cpu": "", "memory": "1Gi"}, "cpu", "Enter the number of cores"),
        ({"size": "own", "cpu": "1", "memory": "much"}, "memory", ""),
        ({"size": "enormous"}, "size", "none of"),
        ({"size": "own", "cpu": "99", "memory": "1Gi"}, "size", "can never start"),
        ({"gpu": "3"}, "gpu", "can never start"),
    ],
)
def test_what_is_wrong_is_told_at_its_field_and_nothing_typed_is_lost(
    client: Client, fields: dict[str, str], at: str, words: str
) -> None:
    page = refused(client, "/notebooks/new/", **{"name": "kept", **fields})
    assert words in page.one(id=f"{at}-error").text
    assert page.one("a", href=f"#{at}").text
    assert page.one(id=at)
    typed = {"name": "kept", **fields}
    for name in ("name", "gpu", "image_other", "cpu", "memory"):
        if name in typed and page.value(name) is not None:
            assert page.value(name) == typed[name]
    assert not Workload.objects.exclude(kind="job").exists()


def test_what_an_admin_has_locked_cannot_be_typed(
    client: Client, catalog: Callable[..., None]
) -> None:
    catalog(images={"locked": True}, sizes={"locked": True}, gpu={"locked": True, "max": 1})
    page = read(client, "/notebooks/new/")
    for name in ("image_other", "cpu", "memory", "gpu"):
        assert not page.all("input", name=name)
    assert page.text.count("Only these, set by your admin.") == 2
    assert "Every notebook has 1 GPU" in page.text
    client.post("/notebooks/new/", {"name": "n"})
    assert Workload.objects.get().replicas["notebook"]["gpu_count"] == 1
    body = {"name": "n", "image": "other", "image_other": "lab/jax:1", "gpu": "2"}
    told = refused(client, "/notebooks/new/", **body).text
    assert "GPU: Your admin gives each notebook 1 GPU." in told


def test_the_panel_tells_at_once_whether_it_fits(
    alice: Tenant, client: Client, settings: Any
) -> None:
    def panel(**fields: str) -> str:
        answer = client.post("/notebooks/new/fit/", {"name": "", **fields}, headers=HTMX)
        assert answer.status_code == 200
        return Markup(answer.content.decode()).text

    now_text = panel()
    assert "Fits now" in now_text
    assert "0 of 4 used" in now_text
    # The gate's share is counted, as the quota counts it.
    assert "this request: 1.05" in now_text
    assert "Does not fit" in panel(size="own", cpu="64", memory="1Gi")
    assert "Check the form" in panel(gpu="x")
    settings.NODE_SELECTOR = {"homeport.dev/gluster": "ready"}
    assert "Fits now" not in panel(), "no node has the label"
    settings.NODE_SELECTOR = {}
    service = make_service(alice)
    assert "Will be queued Fits, but is queued behind 1 of your workloads." in panel()
    text = f'(combined from similar events): Failed to pull image "{service.image}": not found'
    event = {"at": now(), "reason": "Failed", "message": text, "count": 3}
    failed = service.events.create(uid="e", **event)
    told = (
        f"Will be queued {service.image} could not be pulled three times within ten minutes (“not"
    )
    assert told not in panel(), "it may be tried at once"
    Workload.objects.update(admitted_at=now())
    assert told in panel()
    failed.delete()
    alice.observed_used = {"cpu": 7500, "memory": 0, "gpu": 0, "pods": 1, "nodeports": 4}
    alice.save()
    assert "Will be queued Waiting for quota: needs" in panel()


def test_one_like_it_starts_from_what_it_asked_for(alice: Tenant, client: Client) -> None:
    service = make_service(
        alice,
        name="old",
        image="lab/jax:1",
        cpu_millicores=1500,
        memory_bytes=3 * 2**30,
        gpu_count=2,
    )
    page = read(client, f"/notebooks/new/?like={service.pk}")
    values = {name: page.value(name) for name in ("name", "image", "image_other", "size", "gpu")}
    assert values == {"name": "old", "image": "other", "image_other": "lab/jax:1",
                      "size": "own", "gpu": "2"}  # fmt: skip
    assert (page.value("cpu"), page.value("memory")) == ("1500m", "3Gi")
    of_mallory = make_service(make_tenant("mallory"), name="secret")
    for like in (str(of_mallory.pk), "nonsense"):
        assert read(client, f"/notebooks/new/?like={like}").value("name") == "notebook"


def test_an_admin_without_a_namespace_is_told_where_to_get_one() -> None:
    client = client_of(make_user("root", role="admin"))
    for kind in ("training", "notebook", "tensorboard"):
        assert "Create one on the overview" in read(client, f"/{kind}s/new/").text
        assert client.post(f"/{kind}s/new/", {"name": "n"}).status_code == 200
        assert client.post(f"/{kind}s/new/fit/").status_code == 404
    assert client.post("/tensorboards/of/").status_code == 404
    assert not Workload.objects.exists()


# --- TensorBoards ---
def test_a_tensorboard_shows_all_of_the_log_volume_or_what_is_ticked(
    alice: Tenant, client: Client
) -> None:
    one, two = (make_job(alice, name=name) for name in ("one", "two"))
    client.post("/tensorboards/new/", {"name": "all", "jobs": str(one.pk)})
    assert Workload.objects.get(name="all").spec == {"log_dirs": []}
    ticked = {"name": "some", "scope": "jobs", "jobs": [str(one.pk), str(two.pk)]}
    client.post("/tensorboards/new/", ticked)
    shown = Workload.objects.get(name="some").spec["log_dirs"]
    assert [row["title"] for row in shown] == ["one", "two"]


def test_only_own_trainings_are_offered_and_taken(alice: Tenant, client: Client) -> None:
    mine = make_job(alice, name="mine")
    theirs = make_job(make_tenant("mallory"), name="theirs")
    page = read(client, f"/tensorboards/new/?job={mine.pk}&job={theirs.pk}&job=nonsense")
    boxes = page.all("input", name="jobs")
    assert [box.get("value") for box in boxes] == [str(mine.pk)]
    assert boxes[0].get("checked") is not None
    fields = {"name": "b", "scope": "jobs"}
    gone = refused(client, "/tensorboards/new/", **fields, jobs=[str(theirs.pk), "nonsense"])
    assert "was deleted" in gone.one(id="jobs-error").text
    assert "Select at least one" in refused(client, "/tensorboards/new/", **fields).text
    assert not Workload.objects.exclude(kind="job").exists()


def test_a_training_opens_its_own_tensorboard_once_made(alice: Tenant, client: Client) -> None:
    job = make_job(alice, name="walker", state="running", started_at=now())
    form = read(client, f"/trainings/{job.pk}/").one("form", action="/tensorboards/of/")
    assert (form.get("target"), form.get("rel")) == ("_blank", "noopener")
    first = client.post("/tensorboards/of/", {"jobs": str(job.pk)})
    board = Workload.objects.get(kind="tensorboard")
    assert first["Location"] == f"/tensorboards/{board.pk}/open/"
    assert (board.name, [row["job"] for row in board.spec["log_dirs"]]) == ("walker", [str(job.pk)])
    assert client.post("/tensorboards/of/", {"jobs": str(job.pk)})["Location"] == first["Location"]
    Workload.objects.exclude(kind="job").update(
        state="stopped", desired="stop", observed_generation=1
    )
    client.post("/tensorboards/of/", {"jobs": str(job.pk)})
    board.refresh_from_db()
    assert (board.desired, board.generation) == ("run", 2)


def test_ticked_trainings_are_compared_in_one_tensorboard(alice: Tenant, client: Client) -> None:
    jobs = [make_job(alice, name=f"run {n}") for n in range(3)]
    make_job(make_tenant("mallory"), name="theirs")
    boxes = read(client, "/trainings/").all("input", name="jobs", form="board")
    assert {box.get("value") for box in boxes} == {str(job.pk) for job in jobs}
    client.post("/tensorboards/of/", {"jobs": [str(job.pk) for job in jobs]})
    board = Workload.objects.get(kind="tensorboard")
    assert board.name == "run 2 and 2 more"
    assert len(board.spec["log_dirs"]) == 3
    # One of them alone is another TensorBoard.
    client.post("/tensorboards/of/", {"jobs": str(jobs[0].pk)})
    assert Workload.objects.filter(kind="tensorboard").count() == 2


@pytest.mark.parametrize("jobs", [[], ["nonsense"], ["0" * 5000]])
def test_a_tensorboard_of_nothing_comes_back_as_the_form(client: Client, jobs: list[str]) -> None:
    page = refused(client, "/tensorboards/of/", jobs=jobs)
    assert "was deleted" in page.text


def test_a_tensorboard_that_could_never_start_is_refused_with_the_reason(
    alice: Tenant, client: Client
) -> None:
    alice.observed_hard = {**alice.quota, "nodeports": 0}
    alice.save()
    job = make_job(alice)
    page = refused(client, "/tensorboards/of/", jobs=str(job.pk))
    assert "can never start" in page.text
    assert page.one("input", value=str(job.pk)).get("checked") is not None


def test_a_long_name_of_a_training_still_makes_a_name(alice: Tenant, client: Client) -> None:
    jobs = [make_job(alice, name="x" * 80), make_job(alice, name="y" * 80)]
    client.post("/tensorboards/of/", {"jobs": [str(job.pk) for job in jobs]})
    assert len(Workload.objects.get(kind="tensorboard").name) == 80


def test_the_first_page_has_what_runs_with_its_button(alice: Tenant, client: Client) -> None:
    assert "Start a notebook" in read(client, "/").text
    lab, board = running(alice, name="lab"), running(alice, kind="tensorboard", name="curves")
    old = make_service(
        alice, name="old one", state="stopped", desired="stop", observed_generation=1
    )
    page = read(client, "/")
    assert page.one("div", id="now").get("data-live") == "job service"
    for service, folder in ((lab, "notebooks"), (board, "tensorboards")):
        page.one("a", href=f"/{folder}/{service.pk}/open/", target="_blank")
    page.one("form", action=f"/notebooks/{old.pk}/start/")
    assert "2 running" in page.text
