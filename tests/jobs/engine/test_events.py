"""Which events of the cluster are a workload's, and how they are kept."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from jobs.engine import events
from jobs.engine.event_rows import EVENTS_MAX, save_events
from jobs.engine.rows import EventRow
from jobs.models import WorkloadEvent
from portal.cluster import objects
from tests.factories import make_job, make_tenant
from tests.jobs.kinds.training.test_observe import JOB


def event(name: str, kind: str = "Pod", **more: Any) -> objects.KubeEvent:
    raw = {
        "metadata": {"name": f"e-{name}", "uid": f"uid-{name}"},
        "involvedObject": {"kind": kind, "name": name, "namespace": "u-alice"},
        "reason": "Pulled",
        "message": "line one\nline \x1b[31mtwo",
        "lastTimestamp": "2026-11-20T12:00:00Z",
        "type": "Normal",
        **more,
    }
    return msgspec.json.decode(msgspec.json.encode(raw), type=objects.KubeEvent)


def test_events_are_found_by_the_names_of_a_jobs_objects() -> None:
    base = events.base_name(JOB)
    assert base == "mnist-abc123"
    assert events.is_about(event("mnist-abc123"), base)
    assert events.is_about(event("mnist-abc123-2-ps-0-xyz"), base)
    assert not events.is_about(event("mnist-abc1234-worker-0"), base)
    assert not events.is_about(event("other-mnist-abc123"), base)
    second = replace(JOB, attempt=2, kube_name="mnist-abc123-2")
    assert events.base_name(second) == base


def test_text_of_events_becomes_one_printable_line() -> None:
    row = events.row_of(event("p", type="Warning", count=4))
    assert (row.subject, row.message) == ("pod/p", "line one line [31mtwo")
    assert (row.is_warning, row.count) == (True, 4)


REFUSED = 'Readiness probe failed: Get "http://10.0.0.1:8888/": connect: connection refused'
STOPPED = "Liveness probe failed: HTTP probe failed with statuscode: 500"
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("reason", "message", "answers_since", "is_warning"),
    [
        ("Unhealthy", REFUSED, None, False),
        ("Unhealthy", REFUSED.replace("Readiness", "Startup"), None, False),
        ("Unhealthy", REFUSED, NOON + timedelta(seconds=3), False),
        ("Unhealthy", REFUSED, NOON - timedelta(seconds=3), True),
        ("Unhealthy", STOPPED, None, True),
        ("Failed", REFUSED, None, True),
    ],
)
def test_a_probe_that_is_refused_before_the_first_answer_is_no_warning(
    reason: str, message: str, answers_since: datetime | None, is_warning: bool
) -> None:
    seen = event("p", type="Warning", reason=reason, message=message, count=15)
    assert events.row_of(seen, answers_since).is_warning == is_warning


@pytest.mark.django_db
def test_a_job_keeps_at_most_500_events_and_its_own_the_longest() -> None:
    job = make_job(make_tenant("alice"))
    own = EventRow("homeport-1", None, "homeport", "", "admitted", "Admitted")
    save_events(job.pk, 1, [own])
    for start in range(0, 700, 100):
        batch = [events.row_of(event(f"p{number}")) for number in range(start, start + 100)]
        save_events(job.pk, 1, batch)
    assert WorkloadEvent.objects.filter(workload=job).count() == EVENTS_MAX
    assert WorkloadEvent.objects.filter(workload=job, source="homeport").exists()
    assert WorkloadEvent.objects.filter(workload=job, uid="uid-p699").exists()


@pytest.mark.django_db
def test_an_event_that_happens_again_is_counted_in_one_row() -> None:
    job = make_job(make_tenant("alice"))
    for count in (1, 5):
        save_events(job.pk, 1, [events.row_of(event("p", count=count))])
    assert WorkloadEvent.objects.get(workload=job).count == 5
