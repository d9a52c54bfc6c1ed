"""Whole lives of trainings, and what every kind has of them: each way in, through and out."""

import io
import json
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from asgiref.sync import sync_to_async

from jobs.engine import manifests
from jobs.kinds.answers import stamp
from jobs.models import Workload
from jobs.workloads.deadline import extend
from portal import live
from portal.storage.folder import FolderStore
from tenants.models import User
from tests.browsing import client_of
from tests.factories import make_user
from tests.jobs.engine.kubelet import START, Life
from tests.jobs.engine.world import ROLE, TF_PS, World

pytestmark = pytest.mark.django_db(transaction=True)
FINAL = {"succeeded", "failed", "stopped"}
ASKED: dict[str, dict[str, Any]] = {
    "training": {"topology": "tf-ps", "replicas": TF_PS},
    "notebook": {},
}


def is_final(job: Workload) -> bool:
    return job.state in FINAL


def is_state(*states: str) -> Any:
    return lambda job: job.state in states


async def attempts_of(job: Workload) -> list[tuple[str, str, int | None, bool]]:
    """Why each began, why it ended and by which code, and whether it ever ran."""
    rows = [row async for row in job.attempts.all()]
    assert [row.number for row in rows] == list(range(1, len(rows) + 1))
    assert all(row.admitted_at for row in rows)
    return [(row.cause, row.reason_code, row.exit_code, bool(row.started_at)) for row in rows]


@pytest.fixture
def world() -> World:
    return World()


async def test_workers_and_servers_run_and_the_servers_go_after_their_grace(world: World) -> None:
    world.sim.lives = {"worker-0": [Life("hang")]}
    await world.submit(topology="tf-ps", replicas=TF_PS)
    await world.until(is_state("running"))
    assert {name: row.state for name, row in (await world.replicas()).items()} == {
        "ps-0": "running",
        "worker-0": "running",
        "worker-1": "running",
    }
    world.sim.change_life("worker-0", Life("ok"))
    job = await world.until(is_final)
    assert job.state == "succeeded"
    assert len(world.sim.of("Deployment")) == 1
    await world.until(lambda job: not world.sim.of("Deployment"))
    job = await world.row()
    assert START + timedelta(seconds=world.sim.seconds) - job.finished_at <= timedelta(seconds=33)
    await world.until(lambda job: job.notes.get("archive") == "complete")
    assert not world.sim.of("Service")
    assert {row.state for row in (await world.replicas()).values()} == {"succeeded", "stopped"}
    assert sorted(t.split("/")[0] for t in world.sim.live_things()) == [
        "ConfigMap",
        "Job",
        "Pod",
        "Pod",
        "Secret",
    ]


@pytest.mark.parametrize(("policy", "ttl_s"), [("running", 100), ("none", 200)])
async def test_after_its_time_to_live_everything_is_gone(
    world: World, policy: str, ttl_s: int
) -> None:
    await world.submit(topology="tf-ps", replicas=TF_PS, clean_policy=policy, ttl_s=ttl_s)
    await world.until(is_final)
    await world.rest(60)
    assert bool(world.sim.of("Deployment")) == (policy == "none")
    job = await world.until(lambda job: job.cleaned_at, rounds=300)
    assert world.sim.live_things() == []
    assert job.cleaned_at - job.finished_at >= timedelta(seconds=ttl_s)


async def test_one_failed_worker_releases_all_others(world: World) -> None:
    world.sim.lives = {"worker-0": [Life("hang")], "worker-1": [Life("fail", 7)]}
    await world.submit(topology="tf-ps", replicas=TF_PS)
    job = await world.until(is_final)
    assert (job.state, job.reason_text) == ("failed", "worker-1 ended with exit code 7.")
    await world.until(lambda job: job.notes.get("archive"), rounds=30)
    assert not world.sim.of("Deployment")
    assert {n: r.state for n, r in (await world.replicas()).items()} == {
        "ps-0": "stopped",
        "worker-0": "stopped",
        "worker-1": "failed",
    }


async def test_out_of_memory_names_the_limit_and_the_log_is_rescued(world: World) -> None:
    world.sim.lives = {"worker-0": [Life("oom")]}
    await world.submit()
    job = await world.until(is_final)
    assert job.reason_text == "worker-0 used more than its 1Gi of memory and was ended."
    await world.until(lambda job: job.notes.get("archive") == "complete")
    archive = await job.archives.aget()
    assert (archive.is_complete, archive.by_rescue) == (True, True)
    await world.rest()
    assert not [t for t in world.sim.live_things() if "rescue" in t]


async def test_a_rescue_that_fails_is_tried_three_times_and_then_said(world: World) -> None:
    world.sim.lives = {"worker-0": [Life("oom")], "rescue-worker-0": [Life("fail")]}
    await world.submit(clean_policy="all")
    job = await world.until(lambda job: job.cleaned_at)
    assert (await world.events()).count("rescue") == 3
    assert "archive_incomplete" in await world.events()
    assert world.sim.live_things() == []
    assert job.state == "failed"


async def test_a_single_replica_is_tried_again_as_a_new_attempt(world: World) -> None:
    world.sim.lives = {"worker-0": [Life("fail", 137), Life("ok")]}
    await world.submit(retries=1)
    job = await world.until(is_state("restarting"))
    assert (job.reason_code, job.attempt) == ("retrying", 1)
    job = await world.until(is_final)
    assert (job.state, job.attempt, job.reason_text) == ("succeeded", 2, "")
    rows = [row async for row in job.replica_rows.order_by("attempt")]
    assert [(row.incarnation, row.restarts, row.exit_code) for row in rows] == [
        (1, 0, 137),
        (1, 0, 0),
    ]
    first, second = [row async for row in job.attempts.all()]
    assert second.admitted_at - first.ended_at >= timedelta(seconds=10)
    assert await attempts_of(job) == [("first", "signal", 137, True), ("retry", "", 0, True)]
    # 4 objects and the commit.
    assert [m.split()[0] for m in world.sim.mutations][:5] == ["create"] * 4 + ["patch"]


async def test_retries_that_are_used_up_fail(world: World) -> None:
    world.sim.lives = {"worker-0": [Life("fail", 9)]}
    await world.submit(retries=2)
    job = await world.until(is_final, rounds=100)
    assert (job.state, job.reason_text) == ("failed", "worker-0 ended with exit code 9.")
    assert (job.reason_code, bool(job.reason_next_step)) == ("exit_code", True)
    assert world.sim.born["worker-0"] == 3
    first, second, third = [row async for row in job.attempts.all()]
    waits = (second.admitted_at - first.ended_at, third.admitted_at - second.ended_at)
    assert [wait.total_seconds() // 10 for wait in waits] == [1, 2]


async def test_by_exit_code_what_a_signal_ended_is_retried_and_told_by_rest(world: World) -> None:
    lives = [Life("fail", code) for code in (137, 143, 1)]
    world.sim.lives = {"worker-0": lives}
    await world.submit(retries=5, restart_policy="exit_code")
    job = await world.until(is_final, rounds=100)
    assert (job.state, job.attempt, job.reason_code) == ("failed", 3, "exit_code")

    def answers() -> tuple[Any, Any]:
        client = client_of(User.objects.get(pk=job.owner_id))
        one = client.get(f"/api/v1/jobs/{job.pk}/").json()
        [listed] = client.get("/api/v1/jobs/").json()["results"]
        return one, listed

    one, listed = await sync_to_async(answers)()
    own = {"attempts", "conditions", "replica_statuses", "last_checkpoint"}
    assert {*one} - {*listed} == {
        *own,
        "position",
        "position_all",
        "start_estimate",
        "rules",
        "hints",
    }
    told = [(each["number"], each["cause"], each["exit_code"]) for each in one["attempts"]]
    assert told == [(1, "first", 137), (2, "retry", 143), (3, "retry", 1)]
    assert one["attempts"][2]["reason"] == "worker-0 ended with exit code 1."
    found = {each["type"]: (each["status"], each["reason"]) for each in one["conditions"]}
    assert found == {
        "Created": ("True", "queued"),
        "Queued": ("False", "starting"),
        "Admitted": ("False", "failed"),
        "Running": ("False", "failed"),
        "Restarting": ("False", "starting"),
        "Failed": ("True", "failed"),
    }
    assert one["conditions"][-1]["message"] == "worker-0 ended with exit code 1."
    times = [each["at"] for each in one["conditions"]]
    # The world's clock does not move the database's.
    assert times[0] == stamp(await Workload.objects.values_list("created_at", flat=True).aget())
    assert times[-1] == one["finished_at"]


@pytest.mark.parametrize("codes", [(9, 9, 9), (9, 0), ("evict", 0)])
async def test_what_an_earlier_version_admitted_is_tried_again_by_its_job(
    world: World, monkeypatch: pytest.MonkeyPatch, codes: tuple[Any, ...]
) -> None:
    """Its stored plan is that of version 1 of the template, and has nothing of attempts."""
    render = manifests.render

    def render_as_before(*args: Any) -> Any:
        job, *rest = render(*args)
        spec = {
            k: v
            for k, v in job["spec"].items()
            if k not in {"backoffLimitPerIndex", "maxFailedIndexes"}
        }
        lost = {"onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
        ignored = {"rules": [{"action": "Ignore", **lost}]}
        return [{**job, "spec": {**spec, "backoffLimit": 2, "podFailurePolicy": ignored}}, *rest]

    monkeypatch.setattr(manifests, "render", render_as_before)
    lives = {0: Life("ok"), 9: Life("fail", 9), "evict": Life("evict")}
    world.sim.lives = {"worker-0": [lives[code] for code in codes]}
    await world.submit(retries=2)
    job = await world.until(is_state("running"))
    await job.attempts.all().adelete()
    job = await world.until(is_final)
    assert world.sim.born["worker-0"] == len(codes)
    end = ("failed", "exit_code", 9) if codes[-1] else ("succeeded", "", 0)
    assert (job.attempt, job.state) == (1, end[0])
    assert "restarting" not in str([event.message async for event in job.events.all()])
    assert await attempts_of(job) == [("first", *end[1:], True)]


async def test_a_coupled_training_is_tried_again_as_a_whole(world: World) -> None:
    world.sim.lives = {"worker-1": [Life("fail"), Life("ok")]}
    await world.submit(topology="tf-ps", replicas=TF_PS, retries=1)
    job = await world.until(is_state("restarting"))
    assert job.reason_code == "retrying"
    job = await world.until(lambda job: job.attempt == 2)
    assert not [t for t in world.sim.live_things() if "-2" not in t]
    job = await world.until(is_final)
    assert (job.state, job.attempt) == ("succeeded", 2)
    rows = [row async for row in job.replica_rows.all()]
    assert {(row.attempt, row.state) for row in rows if row.role == "worker"} >= {
        (1, "failed"),
        (2, "succeeded"),
    }
    assert await attempts_of(job) == [("first", "exit_code", 1, True), ("retry", "", 0, True)]


async def test_a_replica_that_the_cluster_took_away_starts_again_for_free(world: World) -> None:
    world.sim.lives = {"worker-0": [Life("evict"), Life("ok")], "worker-1": [Life("hang")]}
    await world.submit(topology="tf-ps", replicas=TF_PS, success_policy="worker0")
    job = await world.until(lambda job: job.reason_code == "node_lost")
    assert job.state == "starting"
    assert "does not count as a failure" in job.reason_text
    job = await world.until(is_final)
    assert (job.state, job.attempt, job.notes.get("retries_used")) == ("succeeded", 1, None)


async def test_a_single_one_that_the_cluster_took_away_begins_anew_for_free(world: World) -> None:
    world.sim.lives = {"worker-0": [Life("evict"), Life("ok")]}
    await world.submit()
    job = await world.until(is_state("restarting"))
    assert "does not count as a failure" in job.reason_text
    job = await world.until(is_final)
    assert (job.state, job.attempt, job.notes.get("retries_used")) == ("succeeded", 2, None)
    told = [("first", "node_lost", 137, True), ("disrupted", "", 0, True)]
    assert await attempts_of(job) == told


async def test_each_task_of_an_array_is_tried_by_itself_and_some_run_at_a_time(
    world: World,
) -> None:
    # The Job counts those that run, from 0 to 3.
    world.sim.lives = {
        "worker-0": [Life("evict"), Life("ok")],
        "worker-1": [Life("fail", 3), Life("ok")],
        "worker-3": [Life("fail", 7)],
    }
    asked = {"indexes": "1,3-5", "parallelism": 2, "retries": 1}
    await world.submit(topology="array", replicas={"worker": {**ROLE, "count": 200}}, **asked)
    at_once = set()
    while not is_final(job := await world.row()):
        await world.round()
        pods = world.sim.of("Pod")
        at_once.add(sum(pod["status"]["phase"] not in {"Succeeded", "Failed"} for pod in pods))
    assert max(at_once) == 2
    assert (job.state, job.attempt, job.reason_code) == ("failed", 1, "tasks_failed")
    assert job.reason_text == "1 of 4 failed; one of them: worker-5 ended with exit code 7."
    rows = await world.replicas()
    assert {name: (row.state, row.restarts) for name, row in rows.items()} == {
        "worker-1": ("succeeded", 1),
        "worker-3": ("succeeded", 1),
        "worker-4": ("succeeded", 0),
        "worker-5": ("failed", 1),
    }
    told = await world.events()
    assert told.count("restarted") == 2


async def test_worker0_decides_and_the_others_are_ended_after_the_grace(world: World) -> None:
    world.sim.lives = {"worker-1": [Life("hang")]}
    await world.submit(topology="tf-ps", replicas=TF_PS, success_policy="worker0")
    job = await world.until(is_final)
    assert job.state == "succeeded"
    await world.until(lambda job: job.notes.get("archive"), rounds=60)
    row = (await world.replicas())["worker-1"]
    assert (row.state, row.exit_code) == ("stopped", 143)


async def test_a_longer_deadline_reaches_the_cluster(world: World) -> None:
    world.sim.lives = {"worker-0": [Life("hang")]}
    job = await world.submit(deadline_s=60)
    root = await sync_to_async(make_user)("root", role="admin")
    job = await world.until(lambda job: job.state == "running")
    [told] = world.sim.of("ConfigMap")
    told_at = datetime.fromisoformat(json.loads(told["data"]["job.json"])["deadline_at"])
    kept_s = (told_at - job.started_at).total_seconds()
    assert told_at.utcoffset() == timedelta(0)
    assert 50 < kept_s <= 60, "it begins to run a moment after it was admitted"
    await world.rest(30)
    row = await world.row(job)
    await sync_to_async(extend)(by=root, workload=row, deadline_s=600)
    await world.rest(120)
    assert (await world.row(job)).state == "running"
    assert world.sim.of("Job")[0]["spec"]["activeDeadlineSeconds"] == 600
    job = await world.until(lambda job: job.is_final, seconds=20)
    assert job.reason_text == "The training reached its deadline of 10 minutes."
    assert 600 <= (job.finished_at - job.started_at).total_seconds() <= 660
    assert world.sim.of("ConfigMap") == [told], "what its programs were told stays"


async def test_a_straggler_is_named_and_the_deadline_ends_it(world: World) -> None:
    world.sim.lives = {"worker-1": [Life("hang")]}
    await world.submit(topology="tf-ps", replicas=TF_PS, deadline_s=300)
    job = await world.until(lambda job: job.reason_code == "straggler", rounds=200)
    assert job.state == "running"
    assert "worker-1 still runs 2 minutes later" in job.reason_text
    assert "device_filters" in job.reason_next_step
    job = await world.until(is_final, rounds=300)
    assert (job.state, job.reason_code) == ("failed", "deadline")
    assert job.reason_text == "The training reached its deadline of 5 minutes."
    assert (await world.events()).count("straggler") == 1


async def test_what_is_not_placed_in_time_goes_back_to_the_queue(world: World) -> None:
    world.sim.lives = {"worker-1": [Life("unplaced"), Life("ok")]}
    await world.submit(topology="tf-ps", replicas=TF_PS, starting_deadline_s=20)
    job = await world.until(lambda job: job.reason_code == "cpu_taken")
    assert job.reason_text == "worker-1 waits for free CPU: the node has too little free CPU."
    job = await world.until(is_state("queued"))
    assert job.requeued_count == 1
    assert world.sim.live_things() == []
    await world.round()
    job = await world.row()
    assert job.reason_code == "withdrawn"
    assert job.reason_text == (
        "Not all replicas were scheduled within 20 seconds, so it returned to the queue. Last seen: worker-1 "
        "waits for free CPU: the node has too little free CPU. The next attempt is in less than a minute"
    )
    job = await world.until(is_final)
    assert (job.state, job.attempt) == ("succeeded", 2)
    told = [("first", "not_placed", None, False), ("withdrawn", "", 0, True)]
    assert await attempts_of(job) == told
    assert job.admitted_at - job.queued_at > timedelta(seconds=45)


async def test_an_image_that_cannot_be_pulled_is_shown_and_then_fails(world: World) -> None:
    world.sim.lives = {"worker-0": [Life("image")]}
    await world.submit(starting_deadline_s=30)
    job = await world.until(lambda job: job.reason_code == "image_pull")
    assert job.state == "starting"
    assert "python:3.11-slim cannot be pulled: no such tag" in job.reason_text
    job = await world.until(is_final)
    assert (job.state, job.reason_code) == ("failed", "image_pull")
    await world.until(lambda job: job.notes.get("archive"))
    assert not [p for p in world.sim.of("Pod") if p["status"]["phase"] not in {"Failed"}]


# --- stop and delete ---
async def test_stop_gives_grace_and_then_says_stopped(world: World) -> None:
    world.sim.lives = {"worker-0": [Life("hang")], "worker-1": [Life("hang")]}
    await world.submit(topology="tf-ps", replicas=TF_PS)
    await world.until(is_state("running"))
    lee = await User.objects.acreate(username="lee", first_name="Lee")
    await world.intend(desired="stop", stop_reason="the demo needs it", stop_requested_by=lee)
    await world.round()
    job = await world.row()
    assert (job.state, job.reason_code) == ("stopping", "stopped_by")
    job = await world.until(is_final)
    assert (job.state, job.reason_text) == ("stopped", "Lee stopped this: the demo needs it")
    assert await attempts_of(job) == [("first", "stopped_by", None, True)]
    await world.until(lambda job: job.notes.get("archive") == "complete")
    assert not world.sim.of("Deployment")
    assert {(r.state, r.exit_code) for r in (await world.replicas()).values()} == {("stopped", 143)}


@pytest.mark.parametrize("rounds", range(9))
async def test_stop_at_any_moment_ends_stopped_or_as_it_would(world: World, rounds: int) -> None:
    await world.submit(topology="tf-ps", replicas=TF_PS, clean_policy="all")
    await world.rest(rounds)
    await world.intend(desired="stop")
    job = await world.until(lambda job: job.cleaned_at)
    assert job.state in {"stopped", "succeeded"}
    assert world.sim.live_things() == []


@pytest.mark.parametrize(
    ("kind", "rounds"),
    [*(("training", n) for n in (*range(9), 45, 60)), *(("notebook", n) for n in (*range(6), 8))],
)
async def test_delete_at_any_moment_leaves_nothing(
    world: World, store: FolderStore, kind: str, rounds: int
) -> None:
    world.sim.lives = {"worker-0": [Life("oom")]}
    row = await world.submit(kind, **ASKED[kind])
    kept = f"{row.tenant_id}/jobs/{uuid4()}/log"
    for key in (f"{row.tenant_id}/jobs/{row.pk}/log", kept):
        store.put_file(key, io.BytesIO(b"said"))
    await world.rest(rounds)
    await world.intend(desired="delete")
    assert await world.until(lambda row: False) is None
    assert world.sim.live_things() == []
    assert store.exists(kept)
    # What serves keeps nothing in the store, and nothing is looked for there.
    assert store.exists(f"{row.tenant_id}/jobs/{row.pk}/log") is (kind == "notebook")


# --- past Homeport ---
@pytest.mark.parametrize("kind", ASKED)
async def test_a_root_deleted_by_somebody_ends_it_with_words(world: World, kind: str) -> None:
    world.sim.lives = {"worker-0": [Life("hang")], "worker-1": [Life("hang")]}
    await world.submit(kind, **ASKED[kind])
    await world.until(is_state("running"))
    world.sim.remove(world.sim.of("Job" if kind == "training" else "Deployment")[0])
    row = await world.until(is_final)
    assert (row.state, row.reason_code) == ("failed", "root_deleted")
    await world.until(lambda row: row.cleaned_at or row.notes.get("archive"))
    await world.rest()
    assert world.sim.live_things() == []


async def test_a_namespace_that_is_gone_ends_the_job_with_words(world: World) -> None:
    world.sim.lives = {"worker-0": [Life("hang")]}
    await world.submit()
    await world.until(is_state("running"))
    for key in [k for k in world.sim.store if k[1] == "u-alice" or k[2] == "u-alice"]:
        del world.sim.store[key]
    job = await world.until(is_final)
    assert (job.state, job.reason_code) == ("failed", "namespace_gone")
    await world.until(lambda job: job.notes.get("archive"))


async def test_a_pod_deleted_by_somebody_is_said(world: World) -> None:
    world.sim.lives = {"worker-0": [Life("hang")]}
    await world.submit()
    await world.until(is_state("running"))
    world.sim.remove(world.sim.of("Pod")[0])
    job = await world.until(is_final)
    assert (job.state, job.reason_code) == ("failed", "pod_deleted")


async def test_an_object_of_the_same_name_is_never_touched(world: World) -> None:
    job = await world.submit()
    from portal.cluster.names import job_name

    name = f"{job_name(job.name, job.pk)}-worker"
    foreign = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "spec": {"suspend": True, "completions": 1},
        "metadata": {"name": name, "namespace": "u-alice", "labels": {}},
    }
    world.sim.put(foreign)
    job = await world.until(lambda job: job.cleaned_at or (job.state == "failed" and job.notes))
    assert (job.state, job.reason_code) == ("failed", "name_taken")
    await world.intend(desired="delete")
    await world.until(lambda job: False)
    assert world.sim.live_things() == [f"Job/{name}"]


async def test_browsers_hear_of_each_kind(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    told = set()

    async def hear(kind: str, pk: Any, revision: int, tenant_id: Any, workload_kind: str) -> None:
        told.add((kind, workload_kind))

    monkeypatch.setattr(live, "achanged", hear)
    for kind in ("training", "notebook", "tensorboard"):
        await world.submit(kind)
    await world.rest(2)
    assert told == {("job", "job"), ("service", "notebook"), ("service", "tensorboard")}
