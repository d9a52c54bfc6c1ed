"""Pages of notebooks and TensorBoards: the lists, one of them, its start-up, what it shows."""

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils.timezone import now

from jobs.kinds.interactive.startup import DETAIL_MAX
from jobs.models import Artifact, WorkloadEvent
from jobs.rules.reasons import clip
from tenants.models import Tenant
from tests.browsing import read
from tests.factories import make_job, make_service, make_tenant
from tests.jobs.workloads.served import KEYS, running, steps
from tests.portal.markup import Markup

pytestmark = pytest.mark.django_db
KINDS = ("notebook", "tensorboard")


def names(page: Markup) -> list[str]:
    return [link.text for link in page.all("a", class_="job-name")]


# --- lists ---
def test_each_list_shows_its_own_kind_by_state_and_name(alice: Tenant, client: Client) -> None:
    running(alice, name="lab one")
    make_service(alice, name="lab two", state="failed", reason_text="No such image.")
    make_service(alice, name="board", kind="tensorboard", state="stopped")
    make_service(make_tenant("mallory"), name="lab of mallory")
    everything = read(client, "/notebooks/")
    assert set(names(everything)) == {"lab one", "lab two"}
    assert "No such image." in everything.text
    assert [e.text for e in everything.all("span", class_="count")] == ["2", "1", "0", "1"]
    assert names(read(client, "/notebooks/?state=failed&q=LAB")) == ["lab two"]
    assert names(read(client, "/tensorboards/")) == ["board"]
    assert names(read(client, "/notebooks/?page=x&state=nonsense")) == names(everything)


def test_what_runs_can_be_opened_from_the_list_and_what_stopped_be_started(
    alice: Tenant, client: Client
) -> None:
    up = running(alice)
    over = make_service(alice, state="stopped", desired="stop", observed_generation=1)
    page = read(client, "/notebooks/")
    link = page.one("a", href=f"/notebooks/{up.pk}/open/")
    assert link.get("target") == "_blank"
    assert link.get("rel") == "noopener noreferrer"
    page.one("form", action=f"/notebooks/{over.pk}/start/")
    assert client.post(f"/notebooks/{over.pk}/start/")["Location"] == f"/notebooks/{over.pk}/"
    over.refresh_from_db()
    assert (over.desired, over.generation) == ("run", 2)


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_list_teaches_and_an_empty_search_leads_back(client: Client, kind: str) -> None:
    empty = read(client, f"/{kind}s/")
    assert empty.all("a", href=f"/{kind}s/new/")
    assert "/log" in empty.text or "$LOG_DIR" in empty.text
    none = read(client, f"/{kind}s/?q=nothing")
    assert "None has “nothing” in its name." in none.text
    none.one("a", class_="button button-second", href=f"/{kind}s/")


def test_a_lead_sees_whose_it_is_and_may_not_open_a_notebook(alice: Tenant, lead: Client) -> None:
    notebook, board = running(alice), running(alice, kind="tensorboard", name="curves")
    page = read(lead, "/notebooks/")
    assert "alice" in page.text
    assert not page.all("a", target="_blank")
    read(lead, "/tensorboards/").one("a", target="_blank", href=f"/tensorboards/{board.pk}/open/")
    assert lead.get(f"/notebooks/{notebook.pk}/open/").status_code == 403
    assert lead.post(f"/notebooks/{notebook.pk}/open/").status_code == 403
    assert lead.get(f"/tensorboards/{board.pk}/open/").status_code == 200


def test_fifty_are_on_a_page(alice: Tenant, client: Client) -> None:
    for number in range(53):
        make_service(alice, name=f"n {number}")
    assert len(names(read(client, "/notebooks/"))) == 50
    assert len(names(read(client, "/notebooks/?page=2"))) == 3


# --- one of them ---
def test_the_start_is_a_list_of_steps_with_times_and_the_cause_of_a_wait(
    alice: Tenant, client: Client
) -> None:
    service = make_service(
        alice,
        state="starting",
        observed_generation=1,
        queued_at=now() - timedelta(minutes=2),
        steps=steps("done", "done", "done", "done", "now", detail="1.2 of 3.4 GiB"),
        reason_text="The registry answers slowly.",
        reason_next_step="No action needed; it starts automatically.",
    )
    page = read(client, f"/notebooks/{service.pk}/")
    seen = [(e.get("data-step"), e.get("data-state")) for e in page.all("li") if e.get("data-step")]
    assert seen == list(zip(KEYS, ["done"] * 4 + ["now", "wait", "wait"], strict=True))
    current = page.one("li", aria_current="step").text
    for words in ("Pulling the image", "1.2 of 3.4 GiB", "answers slowly", "starts automatically"):
        assert words in current
    patience = page.one("p", class_="step-patience")
    assert patience.get("hidden") is None
    assert patience.get("data-show-after")
    page.one("a", href=f"/notebooks/{service.pk}/open/")


def test_patience_is_asked_for_after_a_minute_only(alice: Tenant, client: Client) -> None:
    service = make_service(alice, state="queued", observed_generation=1)
    page = read(client, f"/notebooks/{service.pk}/")
    assert page.one("p", class_="step-patience").get("hidden") is not None
    assert "Checking quota" in page.one("li", aria_current="step").text


THERE = 'Container image "x" already present on machine'
PULLING, PULLED = 'Pulling image "x"', 'Successfully pulled image "x" in 48s'


def start(*seconds: int, image: str = "", now_at: str = "") -> list[dict[str, str | None]]:
    """Steps that took so long each, and the current one; `image` is what is told of it."""
    at, rows = now() - timedelta(minutes=5), []
    for key, took_s in zip(KEYS, seconds, strict=False):
        at += timedelta(seconds=took_s)
        rows.append({"key": key, "state": "done", "at": at.isoformat(), "detail": ""})
    if now_at:
        rows.append({"key": now_at, "state": "now", "at": None, "detail": ""})
    for row in rows:
        if row["key"] == "image":
            row["detail"] = image
    return rows


@pytest.mark.parametrize(
    ("steps_now", "title", "said"),
    [
        (start(0, 1, 1, 1, image=PULLING, now_at="image"), "Pulling the image", ["48 s", "33 s"]),
        (start(0, 1, 1, 1, now_at="image"), "Preparing the container", ["33 s"]),
        (start(0, 1, 1, 1, image=THERE, now_at="image"), "Preparing the container", ["33 s"]),
        (
            start(0, 1, 1, 1, 1, 1, image=THERE, now_at="ready"),
            "Waiting until it responds",
            ["33 s"],
        ),
        (start(0, now_at="admitted"), "Checking quota and free capacity", ["33 s"]),
    ],
)
def test_how_long_a_step_usually_takes_comes_from_starts_alike(
    alice: Tenant,
    client: Client,
    steps_now: list[dict[str, str | None]],
    title: str,
    said: list[str],
) -> None:
    running(alice, steps=start(0, 40, 1, 1, 48, 2, 33, image=PULLED))
    running(alice, steps=start(0, 40, 1, 1, 0, 2, 33, image=THERE))
    make_service(make_tenant("mallory"), started_at=now(), steps=start(*[70] * 7, image=PULLED))
    service = make_service(alice, state="starting", observed_generation=1, steps=steps_now)
    page = read(client, f"/notebooks/{service.pk}/")
    assert title in page.one("li", aria_current="step").text
    assert re.findall(r"usually (\d+ s)", page.text) == said
    other = make_service(
        alice, state="starting", observed_generation=1, image="other:1", steps=steps_now
    )
    assert "usually" not in read(client, f"/notebooks/{other.pk}/").text


@pytest.mark.parametrize("why", ["Image x:1 was not found.", "Image x:1 was not found. " * 20])
def test_a_failed_start_names_the_step_the_cause_and_the_next_step(
    alice: Tenant, client: Client, why: str
) -> None:
    why = why.strip()
    service = make_service(
        alice,
        state="failed",
        observed_generation=1,
        finished_at=now(),
        steps=steps("done", "done", "done", "done", "failed", detail=clip(why, DETAIL_MAX)),
        reason_text=why,
        reason_next_step="Look at its name.",
    )
    page = read(client, f"/notebooks/{service.pk}/")
    assert page.one("li", data_step="image").get("data-state") == "failed"
    assert page.text.count("Image x:1 was not found.") == why.count("Image x:1 was not found.")
    assert "Look at its name." in page.one(class_="note tone-failed job-reason").text
    assert "Start again" in page.text


@pytest.mark.parametrize("why", ["Image x:1 is not found.", "Image x:1 is not found. " * 20])
def test_why_a_step_waits_is_told_once_and_whole(alice: Tenant, client: Client, why: str) -> None:
    why = why.strip()
    rows = steps("done", "done", "done", "done", "now", detail=clip(why, DETAIL_MAX))
    service = make_service(
        alice, state="starting", observed_generation=1, steps=rows, reason_text=why
    )
    text = read(client, f"/notebooks/{service.pk}/").text
    assert text.count("Image x:1 is not found.") == why.count("Image x:1 is not found.")


@pytest.mark.parametrize(
    ("state", "code", "began", "is_timed"),
    [
        ("starting", "image_missing", True, True),
        ("starting", "prepare_failed", True, True),
        ("starting", "volume", False, False),  # one that is away may come back
        ("starting", "preparing", True, False),
        ("queued", "image_missing", True, False),
        ("failed", "image_missing", True, False),
    ],
)
def test_a_start_that_does_not_get_better_says_when_it_fails(
    alice: Tenant, client: Client, state: str, code: str, began: bool, is_timed: bool
) -> None:
    since = now() - timedelta(seconds=45)
    service = make_service(
        alice,
        state=state,
        observed_generation=1,
        steps=steps("done", "done", "done", "done", "failed" if state == "failed" else "now"),
        reason_code=code,
        reason_text="Image x:1 is not found.",
        notes={"problem_since": since.isoformat()} if began else {},
    )
    page = read(client, f"/notebooks/{service.pk}/")
    assert bool(re.search(r"Fails in 9 min 1\d s\.", page.text)) == is_timed
    assert ("Fails in" in page.text) == is_timed


def test_a_new_start_shows_nothing_of_the_one_before(alice: Tenant, client: Client) -> None:
    service = make_service(
        alice, state="failed", desired="run", generation=2, observed_generation=1,
        finished_at=now(), reason_text="It broke.", steps=steps("done", "failed"),
    )  # fmt: skip
    page = read(client, f"/notebooks/{service.pk}/")
    assert "Start requested" in page.text
    assert "It broke." not in page.text
    assert not page.all("li", data_state="failed")


@pytest.mark.parametrize(
    ("lacking", "holders"),
    [
        ("gpu", ["big lab 2 GPUs"]),
        ("cpu", ["walker 3 CPU", "big lab 2.05 CPU"]),
        ("nodeports", ["big lab "]),
        ("", []),  # what is free is kept for another one
    ],
)
def test_what_holds_what_lacks_is_named_to_who_waits_for_it(
    alice: Tenant, client: Client, lead: Client, lacking: str, holders: list[str]
) -> None:
    running(alice, name="big lab", gpu_count=2, cpu_millicores=2000)
    replicas = {"worker": {"count": 1, "cpu_millicores": 3000, "memory_bytes": 1, "gpu_count": 0}}
    make_job(alice, name="walker", state="running", started_at=now(), replicas=replicas)
    if lacking:
        alice.observed_used = {**alice.observed_used, lacking: alice.observed_hard[lacking]}
        alice.save()
    service = make_service(
        alice,
        state="queued",
        gpu_count=1,
        observed_generation=1,
        reason_code="quota",
        reason_text="Waiting for quota.",
    )
    page = read(client, f"/notebooks/{service.pk}/")
    shown = page.all("div", class_="holders")
    assert bool(shown) == bool(holders)
    names = [one.text for one in page.all("li") if one.ancestors[-2] in shown]
    assert names == holders
    assert not read(lead, f"/notebooks/{service.pk}/").all("div", class_="holders")


def test_where_it_runs_and_where_it_opens(alice: Tenant, client: Client) -> None:
    service = running(alice, node="gpu-01", gpu_count=1, gpus="3", pod="lab-x", restarts=1)
    WorkloadEvent.objects.create(
        workload=service,
        uid="u",
        at=now(),
        source="kubelet",
        reason="Pulled",
        message="<b>was there",
    )
    text = read(client, f"/notebooks/{service.pk}/").text
    for words in ("gpu-01", "number 3", "lab-x", "http://127.0.0.1:31000", "<b>was there", "once"):
        assert words in text


# --- TensorBoard ---
def test_a_tensorboard_names_its_trainings_and_what_they_left(
    alice: Tenant, client: Client
) -> None:
    full, empty = (
        make_job(alice, name=name, state="succeeded", finished_at=now())
        for name in ("full", "bare")
    )
    Artifact.objects.create(
        workload=full, path="a/events.out.tfevents.1", size_bytes=1, mtime_ns=1, storage_key="k"
    )
    dirs = [
        {"title": name, "path": f"/log/jobs/{name}", "job": pk}
        for name, pk in (("full", str(full.pk)), ("bare", str(empty.pk)), ("gone", str(alice.pk)))
    ]
    board = running(alice, kind="tensorboard", log_dirs=dirs)
    page = read(client, f"/tensorboards/{board.pk}/")
    assert page.text.count("This training has no event files.") == 1
    page.one("a", href=f"/trainings/{full.pk}/")
    assert "/log/jobs/gone" in page.text
    assert "No event files yet" not in page.text


@pytest.mark.parametrize(("found", "is_told"), [(0, True), (3, False), (None, True)])
def test_no_event_files_is_told_in_words(
    alice: Tenant, client: Client, found: int | None, is_told: bool
) -> None:
    board = running(alice, kind="tensorboard", event_files=found)
    text = read(client, f"/tensorboards/{board.pk}/").text
    assert ("No event files yet" in text) is is_told
    assert ('os.environ["LOG_DIR"]' in text) is is_told
