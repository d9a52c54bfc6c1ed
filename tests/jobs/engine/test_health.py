"""What the reconciler tells of itself: complete, only when something matters, and true."""

import asyncio
import logging
import time
from contextlib import suppress
from copy import deepcopy
from datetime import timedelta
from typing import Any
from unittest.mock import AsyncMock
from uuid import uuid4

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import connection
from django.test import override_settings
from django.utils import timezone
from pytest_django import Settings

from jobs.engine import health
from jobs.engine.health import HealthReporter, LastError
from jobs.engine.keys import KeyBook
from jobs.models import ReconcilerLease, Workload
from portal import signing, supervise
from portal.cluster import labels
from portal.cluster.cache import ClusterCache
from portal.cluster.client import Cluster
from portal.cluster.errors import ClusterError
from portal.cluster.preflight import CheckResult
from portal.database import clock
from portal.storage.folder import FolderStore
from tenants.models import Tenant
from tenants.record import record_text
from tests.factories import make_job, make_tenant
from tests.jobs.engine.test_loop import Lab, hurry, lab  # noqa: F401  (fixtures)
from tests.portal.cluster.conftest import api, cluster  # noqa: F401  (fixtures)
from tests.portal.cluster.fake_api import FakeApi

pytestmark = pytest.mark.django_db(transaction=True)

GOOD = """{"kind": "preflight", "at": "2026-11-26T07:00:00Z", "version": "0.1.0", "took_s": 9,
    "checks": [{"name": "DNS", "outcome": "passed"}]}"""


async def told(lab: Lab) -> dict[str, Any]:  # noqa: F811
    return (await ReconcilerLease.objects.aget(pk=1)).health


async def test_a_report_is_written_soon_and_has_everything(lab: Lab) -> None:  # noqa: F811
    async def is_complete() -> bool:
        report = await told(lab)
        tried = (report.get("store"), report.get("channel_layer"))
        return bool(report.get("cluster")) and all(t and t["state"] != "unknown" for t in tried)

    await lab.until(is_complete)
    report = await told(lab)
    assert {watch["kind"] for watch in report["watches"]} >= {"Pod", "Node", "Job", "Event"}
    assert all(watch["is_synced"] and watch["heard_at"] for watch in report["watches"])
    assert report["store"]["state"] == "yes"
    assert report["channel_layer"]["state"] == "yes"
    assert report["cluster"]["version"] == "v1.33.0"
    assert report["cluster"]["storage_class"]["state"] == "no"
    assert report["versions"]["homeport"]


async def test_pod_security_is_tried_as_soon_as_there_is_a_namespace(
    hurry: None,  # noqa: F811
    lab: Lab,  # noqa: F811
) -> None:
    async def is_tried() -> bool:
        return (await told(lab)).get("cluster", {}).get("pod_security") == {
            "state": "yes",
            "detail": "",
        }

    await lab.until(is_tried)
    versions = len(lab.api.requests("GET", "/version"))
    await asyncio.sleep(0.3)
    assert len(lab.api.requests("GET", "/version")) == versions


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> AsyncMock:
    """Stands for the pods; gives three answers, of which the third must not be asked for."""
    answers = [CheckResult(detail="no image"), CheckResult("no", "a reached b"), CheckResult("yes")]
    look = AsyncMock(side_effect=answers)
    monkeypatch.setattr(health.network.NetworkCheck, "look", look)
    monkeypatch.setattr(health, "NETWORK_SOON_S", 0.1)
    settings.NETWORK_CHECK = True
    return look


async def test_whether_namespaces_are_apart_is_tried_and_told(
    network: AsyncMock,
    hurry: None,  # noqa: F811
    lab: Lab,  # noqa: F811
) -> None:
    """What could not be tried is tried again; what was tried is left alone for a day."""

    async def is_told() -> bool:
        return (await told(lab)).get("network", {}).get("state") == "no"

    await lab.until(is_told)
    await asyncio.sleep(0.3)
    assert network.await_count == 2
    assert (await told(lab))["network"]["detail"] == "a reached b"


@pytest.fixture
async def reporter(cluster: Cluster) -> HealthReporter:  # noqa: F811
    return HealthReporter(cluster, ClusterCache(cluster), lambda: {"pending": 0})


@pytest.mark.parametrize(
    ("text", "key", "told"),
    [
        (GOOD, "version", "0.1.0"),
        ("{", "problem", "it is no result"),
    ],
)
async def test_what_preflight_found_is_read_from_the_cluster(
    reporter: HealthReporter,
    api: FakeApi,  # noqa: F811
    text: str,
    key: str,
    told: str,
) -> None:
    assert await reporter._result("preflight") == {}
    meta = {"namespace": "homeport", "name": "preflight"}
    api.put({"kind": "ConfigMap", "metadata": meta})
    assert await reporter._result("preflight") == {}
    api.put({"kind": "ConfigMap", "metadata": meta, "data": {"result.json": text}})
    assert (await reporter._result("preflight"))[key].startswith(told)


async def test_numbers_alone_are_no_news(reporter: HealthReporter) -> None:
    first = reporter.news()
    assert first is not None
    reporter.wrote(first)
    watch = reporter._cache.watches[0]
    watch.health.heard_at += 3
    watch.health.lists += 1
    reporter.ticks.note(None, 0.0)
    assert reporter.news() is None
    watch.health.problem = "no connection"
    news = reporter.news()
    assert news is not None
    assert news["watches"][0]["problem"] == "no connection"


async def test_it_ends_although_the_network_cannot_be_cleared_up(
    cluster: Cluster,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    began = asyncio.Event()

    async def goes_on(_: Any) -> CheckResult:
        began.set()
        return await asyncio.Future()

    monkeypatch.setattr(health.network.NetworkCheck, "_try_out", goes_on)
    refused = AsyncMock(side_effect=ClusterError(500, "InternalError", "the disk is full"))
    monkeypatch.setattr(health.network.NetworkCheck, "_clear", refused)
    looking = asyncio.create_task(health.network.NetworkCheck(cluster).look())
    await began.wait()
    looking.cancel()
    await asyncio.wait([looking])
    assert looking.cancelled()
    refused.assert_awaited_once()


async def test_it_ends_although_a_try_missed_that_it_should(
    reporter: HealthReporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = asyncio.Event()

    async def misses_one() -> None:
        began.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Future()
        await asyncio.Future()

    monkeypatch.setattr(reporter, "_network_forever", misses_one)
    monkeypatch.setattr(supervise, "_AGAIN_S", 0.01)
    running = asyncio.create_task(reporter.run())
    await began.wait()
    running.cancel()
    assert await asyncio.wait([running], timeout=30) == ({running}, set())


def test_the_last_warning_is_kept_with_its_error() -> None:
    trouble = LastError()
    logger = logging.getLogger("jobs.test_health")
    logger.addHandler(trouble)
    try:
        logger.info("nothing")
        assert trouble.last is None
        try:
            raise ValueError("x" * 1000)
        except ValueError:
            logger.exception("job %s cannot be planned", 7)
    finally:
        logger.removeHandler(trouble)
    assert trouble.last is not None
    assert trouble.last["text"].startswith("job 7 cannot be planned: ValueError: xxx")
    assert len(trouble.last["text"]) == 500


async def test_a_store_that_cannot_be_written_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(FolderStore, "put_file", refuse)
    found = await health._timed("object store", health._try_store, {})
    assert found["state"] == "no"
    assert "No space left on device" in found["text"]
    assert "the object store, which is" in caplog.text
    assert found["text"] in caplog.text


async def test_a_try_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    class Deaf:
        async def new_channel(self, _prefix: str) -> str:
            return "c"

        async def group_add(self, *_args: Any) -> None: ...
        async def group_send(self, *_args: Any) -> None: ...
        async def group_discard(self, *_args: Any) -> None: ...

        async def receive(self, _channel: str) -> None:
            await asyncio.Event().wait()

    monkeypatch.setattr(health, "_PATIENCE_S", 0.05)
    monkeypatch.setattr(health, "get_channel_layer", Deaf)
    found = await health._timed("channel layer", health._try_layer, {})
    assert (found["state"], found["text"]) == ("no", "no answer within 0.05 s")


def test_the_store_is_named() -> None:
    assert health.store_kind()["kind"] == "folder"
    with override_settings(S3_BUCKET="archive"):
        assert health.store_kind() == {"kind": "s3", "name": "archive"}


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "PROBE_S", 0.1)


def namespace(name: str, owner: str, record: str = "") -> dict[str, Any]:
    marks = {labels.MANAGED_BY: labels.MANAGER, labels.OWNER: owner}
    meta = {"name": name, "labels": marks, "annotations": {labels.RECORD: record}}
    return {"kind": "Namespace", "metadata": meta, "status": {"phase": "Active"}}


async def test_namespaces_of_another_homeport_are_seen_and_left_alone(
    often: None,
    lab: Lab,  # noqa: F811
) -> None:
    record = await sync_to_async(record_text)(await Tenant.objects.select_related("owner").aget())
    theirs = record.replace(settings.POD_PORTAL_URL, "http://there")
    assert theirs != record
    others = [
        namespace("u-lin-1", str(uuid4()), theirs),
        namespace("u-old-1", str(uuid4())),
        namespace("u-network-check-a-1", str(uuid4())),
    ]
    kept = [deepcopy(lab.api.put(one)) for one in others]

    async def are_seen() -> bool:
        return len((await told(lab)).get("unknown_namespaces", ())) == 2

    await lab.until(are_seen)
    assert (await told(lab))["unknown_namespaces"] == [
        {"portal": "", "count": 1, "names": ["u-old-1"]},
        {"portal": "http://there", "count": 1, "names": ["u-lin-1"]},
    ]
    assert [lab.api.find("Namespace", "", one["metadata"]["name"]) for one in others] == kept


async def test_a_clock_that_is_apart_is_measured(api: FakeApi, cluster: Cluster) -> None:  # noqa: F811
    assert cluster.clock_ahead_s is None
    api.clock_ahead_s = -90
    await cluster.read("/version")
    assert cluster.clock_ahead_s == pytest.approx(-90, abs=5)


def test_the_clock_of_a_database_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 90)
    found = clock.ahead_s()
    assert found is None if connection.vendor == "sqlite" else found == pytest.approx(-90, abs=5)


def key(letter: str) -> str:
    return letter * 60


def book(in_use: str, *older: str) -> KeyBook:
    """As a reconciler with these keys has it, which then writes its report."""
    found = KeyBook()
    with override_settings(
        SECRET_KEY=key(in_use), SECRET_KEY_FALLBACKS=[key(one) for one in older]
    ):
        found.look()
    ReconcilerLease.objects.update_or_create(pk=1, defaults={"health": {"keys": found.report()}})
    return found


@pytest.mark.parametrize(
    ("in_use", "older", "strange"),
    [("a", "b", 0), ("b", "a", 0), ("a", "", 1), ("b", "", 1), ("c", "", 2), ("c", "ab", 0)],
)
def test_work_of_a_key_that_is_not_known_is_counted(
    in_use: str, older: str, strange: int, caplog: pytest.LogCaptureFixture
) -> None:
    """One training was started under `a`, one under `b`, and one of `a` has ended."""
    tenant, at = make_tenant(), timezone.now() - timedelta(hours=1)

    def started(minutes: int, **columns: Any) -> None:
        job = make_job(tenant)
        columns["admitted_at"] = at + timedelta(minutes=minutes)
        Workload.objects.filter(pk=job.pk).update(**columns)

    uses = []
    for letter, minutes in (("a", 0), ("b", 20)):
        with override_settings(SECRET_KEY=key(letter)):
            since = (at + timedelta(minutes=minutes)).isoformat()
            uses.append({"mark": signing.key_mark(), "since": since})
    started(5)
    started(5, state="succeeded")
    started(25)
    odd = [
        {"mark": "of another version", "since": at}
        for at in (7, "soon", "2026-13-01", "2026-11-01")
    ]
    told = ["odd", {"mark": "of another version"}, *odd, *uses]
    ReconcilerLease.objects.create(pk=1, health={"keys": {"uses": told}})
    with caplog.at_level(logging.WARNING, "jobs.engine.keys"):
        found = book(in_use, *older)
    assert found.report()["strange"] == strange
    assert len(caplog.records) == (strange > 0)  # once, at the start
    assert book(in_use, *older).report() == found.report()
    Workload.objects.update(state="succeeded")
    left = book(in_use, *older).report()
    assert (left["strange"], len(left["uses"])) == (0, 1)
