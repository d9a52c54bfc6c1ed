"""What pods tell of what they use: by whom, what is refused, what is kept, and for how long."""

import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from jobs import retention
from jobs.kinds.interactive.tokens import app_token, portal_token, usage_token
from jobs.kinds.training.tokens import job_token
from jobs.models import Node, Replica, Workload
from jobs.rules.states import Desired
from jobs.usage import measured, minutes
from jobs.usage.models import ReplicaUsage, UsageHour
from tests.browsing import client_of, read
from tests.factories import make_job, make_service, make_tenant

pytestmark = pytest.mark.django_db

GIB = 2**30
ASKED = {"worker": {"count": 2, "cpu_millicores": 4000, "memory_bytes": 8 * GIB, "gpu_count": 1}}
NOW = int(time.time()) // 60 * 60
GPU = {"gpu0.percent": [50, 90], "gpu0.memory_mib": [900, 1000]}


@pytest.fixture
def job() -> Workload:
    return make_job(make_tenant("alice"), replicas=ASKED)


def minute(at: int = NOW, **used: list[int]) -> dict[str, Any]:
    return {"at": at, "used": {"cpu_m": [1000, 3000], "memory_mib": [2000, 2500], **used}}


def told(*rows: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"method": "cgroup2", "minutes": rows, "totals": {"data_mib": 10240}, **more}


def post(path: str, body: Any, token: str) -> tuple[int, Any]:
    answer = Client().post(
        f"/internal/v1/{path}",
        body if isinstance(body, str | bytes) else json.dumps(body),
        content_type="application/json",
        headers={"Authorization": f"Bearer {token}", "Host": "127.0.0.1"},
    )
    said = json.loads(answer.content)
    return answer.status_code, said["errors"][0] if "errors" in said else said


def tell(job: Workload, body: Any, replica: str = "worker/0/1", token: str = "") -> tuple[int, Any]:
    path = f"jobs/{job.pk}/replicas/{replica}/usage/"
    return post(path, body, token or job_token(job.pk))


def kept(job: Workload) -> list[tuple[str, int, dict[str, Any]]]:
    rows = UsageHour.objects.filter(workload=job).order_by("role", "index", "hour")
    return [(str(row)[:8], at, dict(used)) for row, at, used in measured.minutes_of(rows)]


def test_minutes_are_kept_by_the_hour_and_summed_up(job: Workload) -> None:
    first = NOW - NOW % 3600 - 60  # the last minute of an hour
    rows = [minute(first), minute(first + 60, cpu_m=[3000, 3900], **GPU)]
    assert tell(job, told(*rows)) == (200, {"next_s": 60})
    assert tell(job, told(minute(first + 120, **GPU), gpu_note="")) == (200, {"next_s": 60})
    assert [(at, used["cpu_m"]) for _, at, used in kept(job)] == [
        (first, (1000, 3000)),
        (first + 60, (3000, 3900)),
        (first + 120, (1000, 3000)),
    ]
    assert UsageHour.objects.count() == 2
    row = ReplicaUsage.objects.get()
    assert (row.minutes, row.cpu_m_sum, row.cpu_m_peak) == (3, 5000, 3900)
    assert (row.memory_mib_sum, row.memory_mib_peak) == (6000, 2500)
    assert (row.gpu_minutes, row.gpu_percent_sum, row.gpu_percent_peak) == (2, 100, 90)
    assert (row.gpu_memory_mib_peak, row.totals) == (1000, {"data_mib": 10240})
    assert (row.last_at, row.latest["gpu0.percent"]) == (first + 120, [50, 90])


def test_a_full_hour_is_about_a_kibibyte(job: Workload) -> None:
    def used(n: int) -> dict[str, list[int]]:
        return {
            "cpu_m": [3000 + n * 37 % 400, 4000 - n],
            "memory_mib": [6000 + n * 11, 6100 + n * 11],
            "throttled_percent": [n % 7, n % 9 + 7],
            "data_mib": [5000 + n, 5001 + n],
            "log_mib": [100 + n, 101 + n],
            "gpu0.percent": [90 - n % 13, 100],
            "gpu0.memory_mib": [70000, 70001],
            "gpu0.power_w": [300 + n * 7 % 30, 350],
        }

    first = NOW - NOW % 3600 - 3600
    rows = [{"at": first + n * 60, "used": used(n)} for n in range(60)]
    assert tell(job, told(*rows))[0] == 200
    (row,) = UsageHour.objects.all()
    assert len(row.packed) < 1400


def test_what_is_told_again_is_refused_and_changes_nothing(job: Workload) -> None:
    body = told(minute(NOW - 60), minute())
    assert tell(job, body)[0] == 200
    before = kept(job), ReplicaUsage.objects.values().get()
    status, error = tell(job, body)
    assert (status, error["code"]) == (409, "known")
    assert (kept(job), ReplicaUsage.objects.values().get()) == before
    # An answer that got lost: what is new beside it counts.
    assert tell(job, told(minute(cpu_m=[9, 9]), minute(NOW + 60)))[0] == 200
    assert [at for _, at, _ in kept(job)] == [NOW - 60, NOW, NOW + 60]
    assert ReplicaUsage.objects.get().cpu_m_sum == 3000


HOSTILE: dict[str, tuple[Any, int]] = {
    "no JSON": ("{", 400),
    "NaN": (json.dumps(told(minute(cpu_m=[float("nan"), 1]))), 400),
    "infinity": (json.dumps(told(minute(cpu_m=[1, float("inf")]))), 400),
    "too many cores": (told(minute(cpu_m=[1, 2**63])), 400),
    "beyond all numbers": ('{"method": "cgroup2", "minutes": [{"at": ' + "9" * 5000 + "}]}", 400),
    "negative": (told(minute(memory_mib=[-1, 1])), 400),
    "a fraction": (told(minute(memory_mib=[0.5, 1])), 400),  # type: ignore[list-item]
    "mean above peak": (told(minute(memory_mib=[2, 1])), 400),
    "more than all of the time": (told(minute(throttled_percent=[1, 101])), 400),
    "not a minute": (told(minute(NOW + 1)), 400),
    "an unknown figure": (told(minute(secrets=[1, 1])), 400),
    "a GPU too many": (told(minute(**{"gpu100.percent": [1, 1]})), 400),
    "an odd note": (told(minute(), gpu_note="<b>"), 400),
    # The module may be loaded long before.
    "the future": (told(minute(NOW + 86400)), 400),
    "a replay of yesterday": (told(minute(NOW - 86400)), 400),
    "nothing": (told(), 400),
    "too many minutes": (told(*(minute(NOW - 60 * n) for n in range(131))), 400),
    "deep": ("[" * 100_000, 400),
    "too large": (b" " * (256 * 1024 + 1), 413),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_bodies_are_refused_in_words(job: Workload, what: str) -> None:
    body, expected = HOSTILE[what]
    status, error = tell(job, body)
    assert (status, len(error["text"]) > 10) == (expected, True)
    assert not ReplicaUsage.objects.filter(last_at__gt=0).exists()
    assert not UsageHour.objects.exists()


FORGED: list[tuple[dict[str, list[int]], str, bool]] = [
    # ASKED is 4 CPUs, 8 GiB and a GPU; the node has 16 CPUs, 64 GiB and GPUs of 24,000 MiB.
    ({"cpu_m": [2**33, 2**33]}, "cgroup2", False),
    ({"cpu_m": [4000, 4000]}, "cgroup2", True),
    ({"cpu_m": [4400, 7000]}, "cgroup1", True),  # a look that came late
    ({"cpu_m": [5000, 5000]}, "cgroup2", False),
    ({"cpu_m": [4000, 9000]}, "cgroup2", False),
    ({"cpu_m": [16000, 16000]}, "processes", True),  # its limit holds nowhere
    ({"cpu_m": [20000, 20000]}, "processes", False),
    ({"memory_mib": [8192, 8192]}, "cgroup2", True),
    ({"memory_mib": [9000, 9000]}, "cgroup2", False),
    ({"memory_mib": [1, 9000]}, "cgroup2", False),
    ({"memory_mib": [60000, 60000]}, "processes", True),
    ({"memory_mib": [2**33, 2**33]}, "processes", False),
    ({"data_mib": [10240, 10240]}, "cgroup2", True),
    ({"data_mib": [1, 20000]}, "cgroup2", False),
    ({"gpu0.percent": [1, 1], "gpu0.memory_mib": [24000, 24000]}, "cgroup2", True),
    ({"gpu0.percent": [1, 1], "gpu0.memory_mib": [30000, 30000]}, "cgroup2", False),
    ({"gpu0.power_w": [700, 1000]}, "cgroup2", True),
    ({"gpu0.power_w": [700, 2**33]}, "cgroup2", False),
]


@pytest.mark.parametrize(("used", "method", "is_kept"), FORGED)
def test_more_than_there_is_is_left_out_and_said(
    job: Workload, used: dict[str, list[int]], method: str, is_kept: bool
) -> None:
    has = {"cpu": 16000, "memory": 64 * GIB, "gpu": 8, "pods": 110}
    Node.objects.create(name="node-1", capacity=has, labels={"nvidia.com/gpu.memory": "24000"})
    Node.objects.create(name="node-2", capacity={**has, "cpu": 999_000, "memory": 999 * GIB})
    Replica.objects.create(workload=job, role="worker", index=0, node="node-1")
    # What a pod says that there is lifts no bound but that of its own volumes.
    totals = {"data_mib": 10240, "memory_mib": 2**33, "cpu_m": 2**33, "gpu0.memory_mib": 2**33}
    body = told(minute(NOW - 60), {"at": NOW, "used": used}, method=method, totals=totals)
    assert tell(job, body)[0] == 200  # the other minute is good
    row = ReplicaUsage.objects.get()
    assert (row.last_at == NOW, row.problem == "") == (is_kept, is_kept)
    assert is_kept or " is more than " in row.problem
    assert row.cpu_m_peak <= 16000
    assert row.memory_mib_peak <= 64 * 1024
    if not is_kept:  # and alone it is refused
        alone = told({"at": NOW, "used": used}, method=method, totals=totals)
        assert tell(job, alone)[1]["text"] == row.problem


def test_where_no_node_is_known_the_largest_bounds_it(job: Workload) -> None:
    def status(cpu_m: int, at: int) -> int:
        return tell(job, told(minute(at, cpu_m=[cpu_m, cpu_m]), method="processes"))[0]

    assert (status(4000, NOW - 180), status(9000, NOW - 120)) == (200, 400)
    Node.objects.create(name="node-1", capacity={"cpu": 2000, "memory": 64 * GIB})
    Node.objects.create(name="node-2", capacity={"cpu": 9000, "memory": 64 * GIB})
    assert (status(9000, NOW - 60), status(2**33, NOW)) == (200, 400)


def test_what_is_known_is_answered_without_a_write(job: Workload) -> None:
    body = told(minute())
    assert tell(job, body)[0] == 200
    with CaptureQueriesContext(connection) as queries:
        assert tell(job, body)[0] == 409
    said = [one["sql"].split()[0] for one in queries.captured_queries]
    assert set(said) <= {"SELECT"}, said


def test_a_bad_minute_is_left_out_and_said_until_all_are_good(job: Workload) -> None:
    slept = told(minute(NOW - 86400), minute(NOW - 60))
    assert tell(job, slept)[0] == 200
    assert [at for _, at, _ in kept(job)] == [NOW - 60]
    assert "set the node's clock" in ReplicaUsage.objects.get().problem
    assert tell(job, told(minute()))[0] == 200
    assert ReplicaUsage.objects.get().problem == ""


def test_nobody_tells_for_another(job: Workload) -> None:
    other = make_job(job.tenant, name="other", replicas=ASKED)
    notebook = make_service(job.tenant, generation=2)
    assert tell(job, told(minute()), token=job_token(other.pk))[0] == 404
    assert tell(job, told(minute()), token="none")[0] == 404
    for replica in ("worker/2/1", "ps/0/1", "worker/0/2", "worker/0/0"):
        assert tell(job, told(minute()), replica)[0] == 404
    where = f"services/{notebook.pk}/usage"
    for token in (portal_token(notebook.pk), app_token(notebook.pk, 2), job_token(notebook.pk)):
        assert post(f"{where}/2/", told(minute()), token)[0] == 404
    # What a program can read is good for nothing else.
    asks = {"start": 2, "subjects": []}
    gate = f"services/{notebook.pk}/gate/"
    assert post(gate, asks, usage_token(notebook.pk))[0] == 404
    assert not ReplicaUsage.objects.exists()


def test_a_notebook_tells_of_its_latest_start_while_it_is_wanted(job: Workload) -> None:
    asked = {"cpu_millicores": 4000, "memory_bytes": 8 * GIB}
    notebook = make_service(job.tenant, generation=2, **asked)
    where, token = f"services/{notebook.pk}/usage", usage_token(notebook.pk)
    assert post(f"{where}/1/", told(minute()), token)[0] == 410
    assert post(f"{where}/2/", told(minute()), token) == (200, {"next_s": 60})
    assert [who for who, _, _ in kept(notebook)] == ["notebook"]
    Workload.objects.filter(pk=notebook.pk).update(desired=Desired.STOP)
    assert post(f"{where}/2/", told(minute(NOW + 60)), token)[0] == 410
    Workload.objects.filter(pk=job.pk).update(cleaned_at=timezone.now())
    assert tell(job, told(minute()))[0] == 410


@pytest.mark.parametrize(
    ("label", "note"), [("time-slicing", "shared"), ("mps", "shared"), ("none", "")]
)
def test_gpus_that_others_use_too_are_not_measured(job: Workload, label: str, note: str) -> None:
    labels = {"nvidia.com/gpu.sharing-strategy": label}
    Node.objects.create(name="node-1", labels=labels)
    Replica.objects.create(workload=job, role="worker", index=0, node="node-1")
    assert tell(job, told(minute(**GPU)))[0] == 200
    row = ReplicaUsage.objects.get()
    assert (row.gpu_note, row.gpu_minutes) == (note, 0 if note else 1)


def test_what_a_pod_sees_of_gpus_that_it_did_not_ask_for_is_left_out(job: Workload) -> None:
    Workload.objects.filter(pk=job.pk).update(
        replicas={"worker": {**ASKED["worker"], "gpu_count": 0}}
    )
    assert tell(job, told(minute(**GPU), gpu_note="no_driver"))[0] == 200
    row = ReplicaUsage.objects.get()
    assert (row.gpu_note, row.gpu_minutes, set(row.latest)) == ("", 0, {"cpu_m", "memory_mib"})
    Workload.objects.filter(pk=job.pk).update(replicas=ASKED)
    more = {f"gpu{number}.percent": [1, 1] for number in range(100)}
    assert tell(job, told(minute(**more)), "worker/1/1")[0] == 200
    assert set(ReplicaUsage.objects.get(index=1).latest) == {"cpu_m", "memory_mib", "gpu0.percent"}


@pytest.mark.parametrize(("pods", "next_s"), [(0, 60), (200, 60), (1000, 300), (10_000, 600)])
def test_the_more_tell_the_rarer(monkeypatch: pytest.MonkeyPatch, pods: int, next_s: int) -> None:
    monkeypatch.setattr(measured, "_counted", (time.monotonic(), pods))
    assert measured.next_s() == next_s


def test_minutes_go_after_a_week_and_the_summary_stays(job: Workload) -> None:
    assert tell(job, told(minute()))[0] == 200
    later = timezone.now() + timedelta(days=6)
    retention.prune(now=later)
    assert UsageHour.objects.count() == 1
    later += timedelta(days=2)
    assert retention.Pruned("hours of measured use", 1) in retention.prune(is_dry=True, now=later)
    retention.prune(now=later)
    assert not UsageHour.objects.exists()
    kept_id = job.pk
    job.delete()
    assert ReplicaUsage.objects.get().workload_id == kept_id


# --- low use ---

WORKS = minute(cpu_m=[3000, 3000], memory_mib=[4000, 4000], **GPU)["used"]
IDLE = {"cpu_m": [100, 4000], "memory_mib": [100, 100], "gpu0.percent": [9, 100]}


def low(*used: dict[str, Any], asked: minutes.Asked, percent: int = 10) -> dict[str, int]:
    rows = [minutes.Minute(n * 60, row) for n, row in enumerate(used)]
    return minutes.low_since({}, rows, asked, percent)


def test_low_is_what_stays_below_its_share() -> None:
    whole = minutes.Asked(4000, 8192, 1)
    assert low(WORKS, asked=whole) == {}
    assert low(WORKS, IDLE, IDLE, asked=whole) == {"cpu": 60, "memory": 60, "gpu": 60}
    assert low(IDLE, WORKS, IDLE, asked=whole) == {"cpu": 120, "memory": 120, "gpu": 120}
    assert low(IDLE, {"memory_mib": [1, 1]}, asked=whole) == {"cpu": 0, "memory": 0, "gpu": 0}
    assert low(IDLE, asked=minutes.Asked(1000, 1024, 0)) == {}  # too little to save
    assert low(IDLE, asked=whole, percent=1) == {}


def test_the_rule_takes_what_runs_and_is_low_for_long_enough(job: Workload, settings: Any) -> None:
    def found() -> list[dict[str, int]]:
        return [measured.low_of(row) for row in measured.low_rows(Workload.objects.all())]

    Workload.objects.filter(pk=job.pk).update(state="running")
    rows = [{"at": NOW - 60 * n, "used": IDLE} for n in range(59, -1, -1)]
    assert tell(job, told(*rows))[0] == 200
    assert found() == []
    assert tell(job, told({"at": NOW + 60, "used": IDLE}))[0] == 200
    since = NOW - 59 * 60
    assert found() == [{"cpu": since, "memory": since, "gpu": since}]
    Workload.objects.filter(pk=job.pk).update(attempt=2)
    assert tell(job, told({"at": NOW + 120, "used": IDLE}), "worker/0/2")[0] == 200
    assert found() == []  # it has only begun
    ReplicaUsage.objects.update(last_at=NOW + 60, low={"cpu": since}, low_since=since)
    assert found() == [{"cpu": since}]
    settings.LOW_USE_MINUTES = 61
    assert found() == []
    settings.LOW_USE_MINUTES, settings.LOW_USE_PERCENT = 60, 0
    assert found() == []
    settings.LOW_USE_PERCENT = 10
    Workload.objects.filter(pk=job.pk).update(state="stopping")
    assert found() == []


def test_a_process_that_was_ended_for_memory_is_an_event_and_a_line_of_the_page(
    job: Workload,
) -> None:
    began = datetime.fromtimestamp(NOW, UTC)  # the minutes that are told are of then
    Workload.objects.update(state="running", started_at=began)
    assert tell(job, told(minute()))[0] == 200
    assert not job.events.exists()
    # No more than a row can hold, in PostgreSQL too.
    assert tell(job, told(minute(NOW + 60), oom_kills=2**31))[0] == 400
    body = told(minute(NOW + 60), oom_kills=3)
    assert [tell(job, body)[0] for _ in range(2)] == [200, 409]
    event = job.events.get()
    text = "worker-0 reached its limit of 8Gi of memory, and a process of it was ended; the rest went on."
    assert (event.reason, event.subject, event.message) == (
        "process_out_of_memory",
        "worker-0",
        text,
    )
    assert (event.is_warning, event.count) == (True, 3)
    browser = client_of(job.tenant.owner)
    page = read(browser, f"/trainings/{job.pk}/")
    shown = page.one("div", id="memory-kill").text
    assert text in shown
    assert "Request more memory" in shown
    # What failed may have failed of it. A later start, another end, and a reason that says it have nothing but the event.
    failed = {
        "state": "failed",
        "started_at": began,
        "reason_code": "exit_code",
        "reason_text": "worker-0 ended.",
    }
    rows: list[tuple[dict[str, Any], bool]] = [
        ({}, True),
        ({"reason_code": "out_of_memory"}, False),
        ({"attempt": 2}, False),
        ({"state": "stopped"}, False),
        ({"state": "succeeded"}, False),
    ]  # fmt: skip
    for changed, is_shown in rows:
        Workload.objects.update(**failed | changed)
        page = read(browser, f"/trainings/{job.pk}/")
        assert len(page.all("div", id="memory-kill")) == is_shown
    # A row of before has no attempt: it is of the one that runs, by the time.
    job.events.update(uid=f"process_out_of_memory-worker-0-{NOW + 60}")
    for minutes_later, is_shown in ((0, True), (9, False)):
        later = began + timedelta(minutes=minutes_later)
        Workload.objects.filter(pk=job.pk).update(**failed | {"started_at": later, "attempt": 2})
        page = read(browser, f"/trainings/{job.pk}/")
        assert len(page.all("div", id="memory-kill")) == is_shown
    notebook = make_service(job.tenant, generation=2, state="running", started_at=began)
    where, token = f"services/{notebook.pk}/usage/2/", usage_token(notebook.pk)
    little = minute(cpu_m=[10, 20], memory_mib=[100, 200])
    assert post(where, told(little, oom_kills=1), token)[0] == 200
    assert notebook.events.get().message.startswith("The notebook reached its limit of ")
    assert (
        "variables" in read(browser, f"/notebooks/{notebook.pk}/").one("div", id="memory-kill").text
    )


def test_processes_that_were_ended_for_memory_are_told_whatever_the_minutes_are(
    job: Workload,
) -> None:
    """What is refused a pod does not tell again, and a report that comes twice is one event."""
    Workload.objects.update(state="running", started_at=datetime.fromtimestamp(NOW - 3600, UTC))
    refused = minute(NOW - 120, cpu_m=[900_000, 900_000])
    body = told(refused, oom_kills=2)
    assert [tell(job, body)[0] for _ in range(2)] == [400, 400]
    assert [(event.count, event.at.timestamp()) for event in job.events.all()] == [(2, NOW - 120)]
    # A part of the minutes is kept: the event is of the last one all the same.
    body = told(minute(NOW - 60), minute(NOW, cpu_m=[900_000, 900_000]), oom_kills=1)
    assert [tell(job, body)[0] for _ in range(2)] == [200, 400]
    assert [event.at.timestamp() for event in job.events.all()] == [NOW - 120, NOW]
    # Of a clock that is years ahead or behind: it was just now, and however often it is told, not many.
    for years in (-3, 1, 2, 3):
        ahead = told(minute(NOW + years * 365 * 86400), oom_kills=1)
        assert tell(job, ahead, "worker/1/1")[0] == 400
    events = job.events.filter(subject="worker-1")
    assert 1 <= events.count() <= 2
    for event in events:
        assert abs(event.at.timestamp() - time.time()) < 180
