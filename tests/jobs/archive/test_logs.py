"""Reading archived logs: by byte, by line, with gaps, of one replica and of all."""

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.utils.timezone import now
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs import archive
from jobs.archive import logs
from jobs.archive.artifacts import open_artifact
from jobs.archive.logs import Log, find_log, job_log, prefixed
from jobs.logs import archived
from jobs.models import Artifact, ReplicaArchive, Workload
from portal.storage import get_store
from portal.storage.store import ObjectMissingError, Store
from tests.browsing import client_of, read
from tests.factories import make_job, make_tenant
from tests.jobs.kept_logs import keep
from tests.portal.markup import find_faults


@pytest.fixture
def job(db: None, store: Store) -> Workload:
    tf = {"count": 2, "cpu_millicores": 1, "memory_bytes": 1, "gpu_count": 0}
    return make_job(
        make_tenant("alice"),
        topology="tf-ps",
        replicas={"ps": tf | {"count": 1}, "worker": tf},
        attempt=2,
    )


def whole(chunks: Iterator[bytes]) -> bytes:
    return b"".join(chunks)


def test_bytes_are_read_across_segments(job: Workload) -> None:
    log = keep(job, [(0, b"abc"), (3, b"defg"), (7, b"h")])
    assert log.end_byte == 8
    for start in range(9):
        for length in range(9):
            assert log.read(start, length) == b"abcdefgh"[start : start + length]


def test_gaps_are_shown_as_one_line_each(job: Workload) -> None:
    log = keep(job, [(0, b"first\n"), (16, b"half a "), (30, b"line\nend")], skipped_bytes=27)
    assert [(p.start_byte, p.data, p.skipped_bytes) for p in log.pieces()] == [
        (0, b"first\n", 0),
        (6, b"", 10),
        (16, b"half a ", 0),
        (23, b"", 7),
        (30, b"line\nend", 0),
    ]
    assert whole(log.text()) == (
        b"first\n[homeport] 10 bytes were skipped here\n"
        b"half a \n[homeport] 7 bytes were skipped here\n"
        b"line\nend\n[homeport] 10 bytes were skipped here\n"
    )
    assert log.read(0, 100) == b"first\nhalf a line\nend"
    assert [piece.skipped_bytes for piece in log.pieces(8, 12)] == [4]
    full = replace(log, was_volume_full=True)
    assert whole(full.text()).endswith(b" 10 bytes were skipped here, as a volume was full\n")


@pytest.mark.parametrize("gone", [{1, 2}, {2, 3}, {1}, {1, 2, 3}])
def test_what_the_store_does_not_hold_is_said_in_its_place(job: Workload, gone: set[int]) -> None:
    """After a restore without the store, say."""
    log = keep(job, [(0, b"a\n"), (2, b"bb\n"), (5, b"ccc\n")])
    for row in log.segments:
        if row.number in gone:
            get_store().delete(row.storage_key)
    size = sum(row.size_bytes for row in log.segments if row.number in gone)
    said = f"[homeport] {size} bytes are not in the object store any more; perhaps a backup"
    kept = [b"a", b"bb", b"ccc"]
    place = min(gone) - 1
    wanted = [line for number, line in enumerate(kept, 1) if number not in gone]
    for found in (
        whole(log.text()),
        whole(log.text(log.tail_start(10))),
        "\n".join(shown(log)).encode(),
    ):
        lines = found.splitlines()
        assert lines.pop(place).startswith(said.encode())
        assert lines == wanted


def shown(log: Log) -> list[str]:
    """What a viewer of the archive gets."""
    batches = archived.batches(log, archived.start_point(log, None).byte)
    return [line["text"] for batch, _end in batches for line in json.loads(batch.encoded)]


def test_a_log_that_still_grows_says_nothing_about_its_end(job: Workload) -> None:
    log = keep(job, [(0, b"x\n")], skipped_bytes=99, is_complete=False)
    assert whole(log.text()) == b"x\n"


def test_text_always_ends_with_a_line_break(job: Workload) -> None:
    assert whole(keep(job, [(0, b"no break")]).text()) == b"no break\n"
    assert whole(keep(job, [], replica=("worker", 1)).text()) == b""


def test_the_tail_of_long_lines_reads_on_until_it_is_found(
    job: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "TAIL_BYTES", 10)
    log = keep(job, [(0, b"a" * 95 + b"\n" + b"b" * 95 + b"\nc")])
    assert whole(log.text(log.tail_start(2))) == b"b" * 95 + b"\nc\n"
    monkeypatch.setattr(logs, "MAX_TAIL_BYTES", 50)
    assert len(whole(log.text(log.tail_start(2)))) == 51


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    parts=st.lists(
        st.tuples(st.sampled_from([0, 0, 3]), st.sampled_from([b"a\n", b"bb", b"\n", b"c\nd\n"])),
        min_size=1,
        max_size=8,
    ),
    lines=st.integers(1, 6),
    step=st.integers(1, 5),
)
def test_the_tail_is_right_for_any_segments_and_gaps(
    job: Workload, parts: list[tuple[int, bytes]], lines: int, step: int
) -> None:
    ReplicaArchive.objects.all().delete()
    position, pieces = 0, []
    for gap, data in parts:
        position += gap
        pieces.append((position, data))
        position += len(data)
    log = keep(job, pieces)
    real, logs.TAIL_BYTES = logs.TAIL_BYTES, step
    try:
        start = log.tail_start(lines)
    finally:
        logs.TAIL_BYTES = real
    kept = b"".join(data for _, data in pieces)
    expected = b"".join(kept.splitlines(keepends=True)[-lines:])
    assert log.read(start, position) == expected


def test_the_latest_attempt_with_anything_is_shown(job: Workload) -> None:
    keep(job, [(0, b"one\n")], attempt=1)
    keep(job, [], attempt=2)
    log = find_log(job, "worker", 0)
    assert log is not None
    assert log.attempt == 1
    found = find_log(job, "worker", 0, attempt=2)
    assert found is not None
    assert found.segments == ()
    assert find_log(job, "worker", 1) is None


def test_a_jobs_log_is_that_of_one_replica_or_of_all_with_prefixes(job: Workload) -> None:
    keep(job, [(0, b"a\nb"), (3, b"b\n")], replica=("worker", 0))
    keep(job, [(0, b"c")], replica=("worker", 1))
    keep(job, [(0, b"p\nq\n")], replica=("ps", 0))
    assert whole(job_log(job, replica=("worker", 0), tail_lines=None)) == b"a\nbb\n"
    assert whole(job_log(job, replica=None, tail_lines=None)) == (
        b"worker-0 | a\nworker-0 | bb\nworker-1 | c\nps-0 | p\nps-0 | q\n"
    )
    assert whole(job_log(job, replica=None, tail_lines=1)) == (
        b"worker-0 | bb\nworker-1 | c\nps-0 | q\n"
    )
    assert whole(job_log(make_job(job.tenant), replica=None, tail_lines=5)) == b""


# --- attempts ---

OF_FIRST = "worker-0 | one\nworker-1 | w\nps-0 | p\n"
OF_SECOND = "worker-0 | two\nworker-1 | x\n"
OF_ALL = "".join(
    f"===== attempt {attempt}, {line.split()[0]} =====\n{line}\n"
    for attempt, of_it in ((1, OF_FIRST), (2, OF_SECOND))
    for line in of_it.splitlines()
)


@pytest.fixture
def tried_again(job: Workload) -> Workload:
    """Its second attempt runs; its parameter server has written nothing yet."""
    keep(job, [(0, b"one\n")], attempt=1)
    keep(job, [(0, b"w\n")], attempt=1, replica=("worker", 1))
    keep(job, [(0, b"p\n")], attempt=1, replica=("ps", 0), is_complete=False)
    keep(job, [(0, b"two\n")], attempt=2)
    keep(job, [(0, b"x\n")], attempt=2, replica=("worker", 1))
    job.name = "mnist"
    job.cleaned_at = now()
    job.save()
    return job


@pytest.mark.parametrize(
    ("query", "shown", "name"),
    [
        ("", OF_SECOND + "ps-0 | p\n", "mnist-all.log"),
        ("attempt=latest", OF_SECOND + "ps-0 | p\n", "mnist-all.log"),
        ("replica=worker-1", "x\n", "mnist-worker-1.log"),
        ("attempt=1", OF_FIRST, "mnist-attempt1-all.log"),
        ("attempt=2", OF_SECOND, "mnist-attempt2-all.log"),
        ("attempt=all", OF_ALL, "mnist-attempts-all.log"),
        ("attempt=1&replica=worker-0", "one\n", "mnist-attempt1-worker-0.log"),
        ("attempt=2&replica=ps-0", "", "mnist-attempt2-ps-0.log"),
    ],
)
def test_the_log_of_each_attempt_can_be_read(
    tried_again: Workload, query: str, shown: str, name: str
) -> None:
    client = client_of(tried_again.tenant)
    for path in (f"/trainings/{tried_again.pk}/log/?", f"{rest_of(tried_again)}?download=1&"):
        answer = client.get(path + query)
        assert whole(answer.streaming_content).decode() == shown
        assert answer["Content-Type"] == "text/plain; charset=utf-8"
        assert answer["Content-Disposition"] == f'attachment; filename="{name}"'
    tail = client.get(f"{rest_of(tried_again)}?tail=1&{query}")
    assert whole(tail.streaming_content).decode() == shown


def rest_of(job: Workload) -> str:
    return f"/api/v1/jobs/{job.pk}/logs/"


@pytest.mark.parametrize("attempt", ["0", "3", "-1", "1.0", "\u0661", "first", "9" * 5000])
def test_no_such_attempt_says_how_many_there_were(tried_again: Workload, attempt: str) -> None:
    client = client_of(tried_again.tenant)
    for path in ("", "log/"):
        answer = client.get(f"/trainings/{tried_again.pk}/{path}", {"attempt": attempt})
        assert answer.status_code == 404
        assert "It has had 2 attempts." in answer.content.decode()
    answer = client.get(rest_of(tried_again), {"attempt": attempt})
    assert answer.status_code == 404
    (error,) = answer.json()["errors"]
    assert (error["field"], error["code"]) == ("attempt", "not_found")
    assert error["text"].endswith("It has had 2 attempts.")


@pytest.mark.parametrize("replica", ["worker-7", "../x"])
def test_no_such_replica_has_no_log(tried_again: Workload, replica: str) -> None:
    path = f"/trainings/{tried_again.pk}/log/"
    assert client_of(tried_again.tenant).get(path, {"replica": replica}).status_code == 404


def test_an_earlier_attempt_whose_rest_may_come_says_so(tried_again: Workload) -> None:
    rest = b"[homeport] the rest of attempt 1 is not uploaded yet\n"
    tried_again.cleaned_at = None
    for which, is_said in ((1, True), ("all", True), ("latest", False)):
        found = whole(job_log(tried_again, replica=("ps", 0), tail_lines=None, which=which))
        assert found.endswith(b"p\n" + (rest if is_said else b""))


@pytest.mark.parametrize("attempt", ["", "latest", "2", "1", "all"])
def test_the_page_has_a_menu_of_attempts(tried_again: Workload, attempt: str) -> None:
    client = client_of(tried_again.tenant)
    page = read(client, f"/trainings/{tried_again.pk}/?attempt={attempt}")
    assert not find_faults(page)
    chosen = attempt or "latest"
    assert page.one("section", id="log-pane").get("data-attempt") == chosen
    assert page.one("select", data_log_attempt="")
    options = page.all("option")
    assert [option.get("value") for option in options] == ["latest", "2", "1", "all"]
    assert [o.get("value") for o in options if o.get("selected") is not None] == [chosen]
    link = page.one("a", data_log_download="").get("href") or ""
    assert link.endswith("/log/" if chosen == "latest" else f"/log/?attempt={chosen}")
    assert page.one("label", data_log_attempts="").get("hidden") is None
    once = make_job(tried_again.tenant)
    page = read(client, f"/trainings/{once.pk}/")
    assert page.one("label", data_log_attempts="").get("hidden") is not None


@given(st.binary(max_size=60).map(lambda data: data.replace(b"\r", b"\n")), st.data())
def test_prefixes_do_not_depend_on_where_chunks_are_cut(data: bytes, draw: Any) -> None:
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(data)), max_size=6)))
    chunks = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    lines = data.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
        expected = b"".join(b"p| " + line + b"\n" for line in lines)
    else:
        expected = b"\n".join(b"p| " + line for line in lines)
    assert whole(prefixed(chunks, b"p| ")) == expected


def test_an_artifact_is_a_file_to_read(job: Workload) -> None:
    data = bytes(range(256)) * 20_000
    key = archive.archive_prefix(job) + "artifacts/x/1"
    get_store().put_file(key, io.BytesIO(data))
    row = Artifact(workload=job, path="model", size_bytes=len(data), mtime_ns=1, storage_key=key)
    with open_artifact(row) as file:
        assert file.read(10) == data[:10]
        assert file.read() == data[10:]
        assert file.read() == b""
    row.storage_key = key + "x"
    with pytest.raises(ObjectMissingError):
        open_artifact(row)


def test_an_iterator_of_a_log_asks_the_database_nothing(
    job: Workload, django_assert_num_queries: Any
) -> None:
    keep(job, [(0, b"a\n" * 1000), (2000, b"b\n")])
    chunks = job_log(job, replica=("worker", 0), tail_lines=None)
    with django_assert_num_queries(0):
        assert len(whole(chunks)) == 2002
