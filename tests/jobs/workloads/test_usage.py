"""What people are shown of what replicas use: page, plot, REST, and who hears of low use."""

import time
from typing import Any
from uuid import UUID

import pytest

from jobs.models import Replica, Workload
from jobs.usage import measured, plot
from jobs.usage.measured import keep
from jobs.usage.minutes import Asked, Gpu, Minute, Point, Told, gpu_of, step_for, thinned
from jobs.workloads import usage_api
from tenants.models import Team, Tenant, User
from tests.browsing import client_of, read
from tests.e2e.seed_use import use
from tests.factories import make_job, make_service, make_tenant

pytestmark = pytest.mark.django_db

GIB = 2**30
ASKED = {
    "worker": {"count": 2, "cpu_millicores": 4000, "memory_bytes": 8 * GIB, "gpu_count": 1},
    "ps": {"count": 1, "cpu_millicores": 1000, "memory_bytes": 2 * GIB, "gpu_count": 0},
}


@pytest.fixture
def job() -> Workload:
    """Ada's, of a team that Lee leads."""
    team = Team.objects.create(name="vision")
    made = make_job(make_tenant("ada", team=team), replicas=ASKED, state="running", name="hard")
    make_tenant("lee", team=team)
    make_tenant("eve")
    team.leads.add(User.objects.get(username="lee"))
    return made


def rows_of(user: str, path: str) -> list[dict[str, Any]]:
    answer = client_of(user).get(f"/api/v1/{path}")
    assert answer.status_code == 200, answer.content
    return list(answer.json()["results"])


def said(who: str, path: str, name: str = "utilisation") -> str:
    """The words of one part of a page; empty: the page has none."""
    return " ".join(" ".join(part.text.split()) for part in read(client_of(who), path).all(id=name))


def test_the_page_says_what_was_requested_and_what_was_used(
    job: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measured, "_SHOWN_HOURS", 2)  # one of each role
    path = f"/trainings/{job.pk}/"
    empty = said("ada", path)
    assert "Nothing measured yet" in empty
    assert "by themselves" in empty
    assert "reload" not in empty
    for index, busy in ((0, 0.25), (1, 0.75)):
        use(job, "worker", index, 30, busy=busy, gpus=1)
    use(job, "ps", 0, 30, busy=0.5)
    text = said("ada", path)
    rows = ("CPU worker 4 ", "Memory worker 8 GiB 4 GiB (50 %) 6.6 GiB", "GPU worker 1 GPU ")
    for row in (*rows, "GPU memory worker 80 GiB 34.2 GiB (43 %) 52.7 GiB"):
        assert row in text
    assert "Memory ps 2 GiB 1 GiB (50 %) 1.1 GiB" in text
    assert "Data volume: 4 GiB of 10 GiB used." in text
    plots = [one for one in read(client_of("ada"), path).all("svg") if one.get("role") == "img"]
    assert len(plots) == 6
    assert all(one.get("aria-labelledby") for one in plots)
    book = make_service(job.tenant, name="book", cpu_millicores=2000, memory_bytes=4 * GIB)
    use(book, "notebook", 0, 30, busy=0.5)
    assert "Memory 4 GiB 2 GiB (50 %)" in said("ada", f"/notebooks/{book.pk}/")
    board = make_service(job.tenant, kind="tensorboard", name="board")
    assert said("ada", f"/tensorboards/{board.pk}/") == ""


@pytest.mark.parametrize(
    ("there_mib", "is_own"),
    [
        (10_240, True),
        (9_900, True),
        (8_807, True),
        (8_601, False),
        (5_120, False),
        (10_752, True),
        (10_753, False),
        (258_000, False),
        (0, False),
    ],
)
def test_another_disk_is_not_a_volumes_use(job: Workload, there_mib: int, is_own: bool) -> None:
    """10 GiB are promised, and what is 0.85 to 1.05 times as large is that volume."""
    Tenant.objects.update(data_volume_bytes=10 * GIB, log_volume_bytes=5 * GIB)
    at = int(time.time()) // 60 * 60
    used = {"cpu_m": (1, 2), "data_mib": (2048, 2048), "log_mib": (1024, 1024)}
    totals = {"data_mib": there_mib, "log_mib": 5_120} if there_mib else {"log_mib": 5_120}
    keep(job, "worker", 0, 1, Told([Minute(at, used)], "cgroup2", totals=totals))
    text = said("ada", f"/trainings/{job.pk}/")
    assert "Log volume: 1 GiB of 5 GiB used." in text
    unknown = "Data volume: 10 GiB promised, use unknown on this storage."
    assert ("Data volume: 2 GiB of 10 GiB used." in text) == is_own
    assert (unknown in text) != is_own
    (row,) = rows_of("ada", f"jobs/{job.pk}/usage/?hours=2")
    (now,) = rows_of("ada", "usage/")
    for found in (row["totals"], now["totals"], *(point["used"] for point in row["series"])):
        assert ("data_mib" in found) == is_own
        assert "log_mib" in found


@pytest.mark.parametrize(
    ("note", "words"),
    [("no_driver", "no NVIDIA driver library"), ("mig", "divided by MIG"), ("nvml_15", "nvml_15")],
)
def test_gpus_that_are_not_measured_have_a_reason_and_no_zero(
    job: Workload, note: str, words: str
) -> None:
    at = int(time.time()) // 60 * 60
    keep(job, "worker", 0, 1, Told([Minute(at, {"cpu_m": (1, 2)})], "cgroup1", note))
    keep(job, "worker", 1, 1, Told([Minute(at, {"cpu_m": (1, 2)})], "cgroup1"))
    text = said("ada", f"/trainings/{job.pk}/")
    assert words in text
    assert "CPU 4 0.001 (below 1 %) 0.002" in text
    assert "0 %" not in text
    row, _other = rows_of("ada", f"jobs/{job.pk}/usage/")
    assert words in row["gpu_note"]
    assert (row["now"]["gpu_percent"], row["mean"]["gpu_percent"]) == (None, None)


def test_what_is_only_small_is_not_said_to_be_0(job: Workload) -> None:
    at = int(time.time()) // 60 * 60
    keep(
        job,
        "worker",
        0,
        1,
        Told([Minute(at, {"cpu_m": (0, 0), "memory_mib": (0, 3)})], "processes"),
    )
    text = said("ada", f"/trainings/{job.pk}/")
    assert "CPU 4 below 0.001 (below 1 %) below 0.001" in text
    assert "Memory 8 GiB below 1 MiB (below 1 %) 3 MiB" in text


def test_rest_has_figures_and_series_of_each_replica(
    job: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(job, "worker", 1, 30, busy=0.5, gpus=2)
    (row,) = rows_of("ada", f"jobs/{job.pk}/usage/?hours=2")
    assert (row["replica"], row["step_s"], row["minutes"]) == ("worker-1", 60, 27)
    assert row["requested"] == {"cpu_m": 4000, "memory_mib": 8192, "gpu_count": 1}
    assert (row["mean"]["memory_mib"], row["mean"]["gpu_memory_mib"]) == (4096, 35000)
    assert row["peak"]["gpu_memory_mib"] == 36000
    assert len(row["series"]) == 27
    assert row["series"][0]["used"]["memory_mib"] == [4096, 4506]
    (row,) = rows_of("ada", f"jobs/{job.pk}/usage/?hours=168")
    assert row["step_s"] == 7200
    assert 1 <= len(row["series"]) <= 2
    for hours in ("-1", "169", "x", "9" * 5000):
        answer = client_of("ada").get(f"/api/v1/jobs/{job.pk}/usage/?hours={hours}")
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "hours")
    (row,) = rows_of("ada", f"jobs/{job.pk}/usage/?hours=0")
    assert (row["minutes"], row["series"]) == (27, [])
    monkeypatch.setattr(usage_api, "MAX_ROWS", 2)
    assert len(rows_of("ada", f"jobs/{job.pk}/usage/")[0]["series"]) == 27
    assert client_of("ada").get(f"/api/v1/jobs/{job.pk}/usage/?hours=3").status_code == 400
    notebook = make_service(job.tenant, kind="tensorboard", name="board")
    assert rows_of("ada", f"tensorboards/{notebook.pk}/usage/") == []


def test_what_runs_is_listed_for_who_may_see_it(job: Workload, settings: Any) -> None:
    use(job, "worker", 0, 90, busy=0.04, gpus=1)
    use(job, "ps", 0, 90, busy=0.9)
    Replica.objects.create(workload=job, role="worker", index=0, node="gpu-01", state="running")
    for who in ("ada", "lee"):
        rows = rows_of(who, "usage/")
        assert [row["replica"] for row in rows] == ["ps-0", "worker-0"]
        assert (rows[1]["node"], rows[1]["owner"], rows[1]["name"]) == ("gpu-01", "ada", "hard")
        assert UUID(rows[1]["id"]) == job.pk
        (low,) = rows_of(who, "usage/?low=1")
        assert low["replica"] == "worker-0"
        assert set(low["low"]) == {"cpu", "memory", "gpu"}
    assert rows_of("eve", "usage/") == []
    assert client_of("ada").get("/api/v1/usage/?low=true").status_code == 400
    settings.LOW_USE_PERCENT = 0
    assert rows_of("ada", "usage/?low=1") == []
    Workload.objects.filter(pk=job.pk).update(state="succeeded")
    assert rows_of("ada", "usage/") == []


def test_low_use_is_told_its_owner_and_their_lead_and_stops_nothing(job: Workload) -> None:
    path = f"/trainings/{job.pk}/"
    for where, who in (("/", "ada"), ("/team/", "lee"), (path, "ada")):
        assert said(who, where, "low-use") == ""
    use(job, "worker", 0, 90, busy=0.04, gpus=1)
    use(job, "worker", 1, 70, busy=0.04, gpus=1)
    for where, who in (("/", "ada"), ("/team/", "lee"), (path, "ada"), (path, "lee")):
        assert "CPU below 10 % for 1 h 10 min in 2 replicas" in said(who, where, "low-use")
    assert said("eve", "/", "low-use") == ""
    job.refresh_from_db()
    assert (job.desired, job.state) == ("run", "running")


# --- pure ---


def test_a_plot_has_no_line_over_a_gap_and_shows_a_single_minute() -> None:
    points = [Point(at, {"cpu_m": (500, 1000)}) for at in (0, 60, 240)]
    found = plot.plot_of(points, "cpu_m", 2000, 60)
    assert found is not None
    assert found.mean == "M0.0 36.0H48.0L48.0 36.0H96.0M192.0 36.0H240.0"
    assert (found.peak[:9], found.asked_y) == ("M0.0 24.0", 0.0)
    assert plot.plot_of(points, "gpu.percent", 100, 60) is None
    alone = plot.plot_of(points[:1], "cpu_m", 0, 60)
    assert alone is not None
    assert (alone.peak, alone.asked_y) == ("M0.0 0.0H240.0", None)


def test_a_mean_is_a_mean_and_a_peak_the_highest() -> None:
    minutes = [(0, {"cpu_m": (10, 20)}), (60, {"cpu_m": (30, 25)}), (120, {"cpu_m": (7, 7)})]
    assert thinned(minutes, 120) == [
        Point(0, {"cpu_m": (20, 25)}),
        Point(120, {"cpu_m": (7, 7)}),
    ]
    two = {"gpu0.percent": (1, 2), "gpu0.memory_mib": (6, 7), "gpu1.memory_mib": (5, 9)}
    assert gpu_of(two) == Gpu((1, 2), (6, 9))
    assert [step_for(s) for s in (1, 7200, 7260, 7 * 86400, 10**9)] == [60, 60, 120, 7200, 14400]


def test_peaks_of_nothing_are_no_line() -> None:
    summary = dict.fromkeys((*measured._SUMS, *measured._PEAKS), 0)
    assert plot.lines_of("worker", 1, Asked(0, 0, 0), summary, []) == []
