"""The pods' door: every call, and every call repeated.

Bodies that are refused are rows of tests/recorded (`given/doors.yaml`).
"""

import io
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.utils import timezone

from jobs import changes
from jobs.archive.artifacts import open_artifact
from jobs.archive.logs import find_log
from jobs.models import Artifact, Bundle, LogSegment, Replica, ReplicaArchive, Workload
from jobs.pod.protocol import codes
from jobs.pod_api import base, logs, runner
from jobs.pod_api.callers import find_caller
from jobs.rules import archives
from jobs.rules.states import Desired, ReplicaState, WorkloadState
from portal.storage.folder import FolderStore
from portal.storage.store import Store
from tests.factories import make_job, make_tenant, role_request
from tests.jobs.pods_door import DATA, UID, Door, keep, segment, ship


@pytest.fixture
def job(db: None, store: FolderStore) -> Workload:
    return make_job(make_tenant("alice"))


@pytest.fixture
def door(job: Workload) -> Door:
    return Door(job)


CALLS: list[tuple[str, Any]] = [
    ("source/", {}),
    ("replicas/worker/0/1/segments/", segment()),
    ("replicas/worker/0/1/segments/1/done/", segment()),
    ("replicas/worker/0/1/segments/1/drop/", {}),
    (
        "replicas/worker/0/1/done/",
        {"exit_code": 0, "reason": "completed", "skipped_bytes": 0, "by_rescue": False},
    ),
    ("artifacts/", {"files": []}),
    ("artifacts/done/", {"files": []}),
]


@pytest.mark.parametrize(("path", "body"), CALLS)
def test_a_job_in_deletion_takes_nothing_more(
    job: Workload, door: Door, path: str, body: Any
) -> None:
    job.desired = Desired.DELETE
    job.save()
    status, answer = door.post(path, body)
    assert status == 410
    assert answer["errors"][0]["code"] == "deleted"


@pytest.mark.parametrize(
    "replica", ["worker/1/1", "worker/0/2", "worker/0/0", "ps/0/1", "x/0/1", "worker/99999999999/1"]
)
def test_replicas_that_the_job_does_not_have_are_not_found(door: Door, replica: str) -> None:
    assert door.post(f"replicas/{replica}/segments/", segment())[0] == 404


def test_a_body_without_end_is_refused(door: Door) -> None:
    body = b" " * (base.MAX_BODY_BYTES + 1)
    assert door.post("artifacts/", body)[0] == 413


@pytest.mark.parametrize("body", [b"", b"{", b"\xff"])
def test_what_is_no_json_is_refused(door: Door, body: bytes) -> None:
    assert door.post("replicas/worker/0/1/segments/", body)[0] == 400


def test_the_source_is_a_link_to_the_tenants_own_bundle(job: Workload, door: Door) -> None:
    assert door.post("source/")[0] == 404
    bundle = Bundle.objects.create(
        tenant=job.tenant, file_name="code.zip", sha256="a" * 64, size_bytes=7
    )
    job.spec["source"] = {"bundle": str(bundle.pk)}
    job.save()
    status, answer = door.post("source/")
    assert status == 200
    assert bundle.storage_key in answer["url"]
    assert (answer["method"], answer["sha256"], answer["file_name"]) == (
        "GET",
        "a" * 64,
        "code.zip",
    )
    bundle.tenant = make_tenant("mallory")
    bundle.save()
    assert door.post("source/")[0] == 404


def test_the_pods_that_are_told_a_link_are_counted_where_the_link_is(
    job: Workload, door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So all pods of a large training may fetch its code at once."""
    reported: list[tuple[int, str]] = []
    monkeypatch.setattr(
        runner, "report_pods", lambda _scope, count, holder: reported.append((count, holder))
    )
    bundle = Bundle.objects.create(
        tenant=job.tenant, file_name="code.zip", sha256="a" * 64, size_bytes=7
    )
    job.spec["source"] = {"bundle": str(bundle.pk)}
    job.save()
    link = urlsplit(door.post("source/")[1]["url"])
    by = find_caller({"method": "GET", "path": link.path, "query_string": link.query.encode()})
    assert reported == [(job.pod_count, by)]


def test_a_segment_is_part_of_the_log_once_its_bytes_are_there(
    job: Workload, door: Door, store: FolderStore
) -> None:
    path = "replicas/worker/0/1/segments/"
    status, link = door.post(path, segment())
    assert (status, link["method"]) == (200, "PUT")
    assert door.post(f"{path}1/done/", segment())[0] == 409
    assert not LogSegment.objects.exists()
    keep(store, link, DATA)
    for _ in range(3):
        assert door.post(f"{path}1/done/", segment()) == (200, {})
        assert door.post(path, segment()) == (200, {"have": True})
    row = LogSegment.objects.get()
    assert (row.number, row.start_byte, row.size_bytes) == (1, 0, len(DATA))
    assert row.storage_key.startswith(f"{job.tenant_id}/jobs/{job.pk}/logs/worker-0/1/")
    assert row.archive.pod_uid == UID
    log = find_log(job, "worker", 0)
    assert log is not None
    assert log.read(0, 100) == DATA


def test_another_segment_under_a_taken_number_is_a_conflict(
    job: Workload, door: Door, store: FolderStore
) -> None:
    ship(door, store, segment())
    other = segment(data=b"other")
    assert door.post("replicas/worker/0/1/segments/", other)[0] == 409
    key = logs._segment_key(job, ReplicaArchive.objects.get(), _body(other))
    store.put_file(key, io.BytesIO(b"other"))
    assert door.post("replicas/worker/0/1/segments/1/done/", other)[0] == 409
    assert LogSegment.objects.get().sha256 == segment()["sha256"]


def _body(fields: dict[str, Any]) -> logs.SegmentBody:
    return logs.SegmentBody(**fields)


def test_done_of_what_was_never_announced_is_not_found(door: Door) -> None:
    assert door.post("replicas/worker/0/1/segments/1/done/", segment())[0] == 404
    assert door.post("replicas/worker/0/1/segments/2/done/", segment())[0] == 404


def test_a_dropped_segment_is_gone_from_log_and_store(door: Door, store: FolderStore) -> None:
    ship(door, store, segment())
    key = LogSegment.objects.get().storage_key
    for _ in range(2):
        assert door.post("replicas/worker/0/1/segments/1/drop/") == (200, {})
    assert not LogSegment.objects.exists()
    assert not store.exists(key)


def test_a_log_beyond_the_limit_is_refused(
    door: Door, store: FolderStore, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.LOG_ARCHIVE_MAX_BYTES = len(DATA)
    monkeypatch.setattr(logs, "ARCHIVE_SLACK_BYTES", 5)
    ship(door, store, segment())
    assert door.post("replicas/worker/0/1/segments/", segment(2, b"123456", 14))[0] == 413
    assert door.post("replicas/worker/0/1/segments/", segment(2, b"12345", 14))[0] == 200


END = {
    "exit_code": 3,
    "reason": "exit_code",
    "skipped_bytes": 9,
    "by_rescue": False,
    "pod_uid": UID,
}


@pytest.mark.django_db(transaction=True)
def test_the_end_of_a_replica_is_kept_and_told(store: FolderStore, told: list[Any]) -> None:
    job = make_job(make_tenant("alice"))
    door = Door(job)
    for _ in range(2):
        assert door.post("replicas/worker/0/1/done/", END) == (200, {})
    row = ReplicaArchive.objects.get()
    assert (row.is_complete, row.exit_code, row.skipped_bytes, row.by_rescue) == (True, 3, 9, False)
    assert row.completed_at is not None
    assert told[-4:] == ["wake", ("job", job.pk)] * 2


def test_completeness_is_about_the_latest_pod(door: Door, store: FolderStore) -> None:
    door.post("replicas/worker/0/1/done/", END)
    ship(door, store, segment(uid="second"))
    row = ReplicaArchive.objects.get()
    assert (row.is_complete, row.pod_uid) == (False, "second")
    rescued = END | {"by_rescue": True}
    assert door.post("replicas/worker/0/1/done/", rescued) == (200, {})
    row.refresh_from_db()
    assert not row.is_complete
    assert door.post("replicas/worker/0/1/done/", END | {"pod_uid": "second"})[0] == 200
    row.refresh_from_db()
    assert (row.is_complete, row.pod_uid) == (True, "second")
    # A container that starts again in the same pod.
    ship(door, store, segment(2, uid="second", start=14))
    row.refresh_from_db()
    assert not row.is_complete


@pytest.mark.parametrize("left", ["one pod's end", "nothing in the cluster"])
def test_an_archived_training_takes_and_drops_nothing_more(
    job: Workload, door: Door, store: FolderStore, left: str
) -> None:
    path = "replicas/worker/0/1/segments/"
    ship(door, store, segment())
    leave(door, store, file())
    assert door.post("artifacts/done/", {"files": [file()]})[0] == 200
    door.post("replicas/worker/0/1/done/", END)
    # A log that its pod has ended is not cut any more, also while the training goes on.
    assert door.post(f"{path}1/drop/")[0] == 410
    job.state = WorkloadState.SUCCEEDED
    if left == "nothing in the cluster":
        job.cleaned_at = timezone.now()
    else:
        Replica.objects.create(workload=job, role="worker", index=0, attempt=1, pod_uid="later")
        Replica.objects.update(started_at=timezone.now(), state=ReplicaState.SUCCEEDED)
        job.save()
        # The last pod has not told its end yet.
        assert door.post(path, segment(2, start=14, uid="later"))[0] == 200
        assert door.post("artifacts/", {"files": [file("late.txt")]})[0] == 200
        door.post("replicas/worker/0/1/done/", END | {"pod_uid": "later"})
    job.save()
    for call, body in (
        (path, segment(3, start=28)),
        (f"{path}3/done/", segment(3, start=28)),
        (f"{path}1/drop/", {}),
        ("artifacts/", {"files": [file("new.txt")]}),
        ("artifacts/done/", {"files": [file()]}),
    ):
        status, answer = door.post(call, body)
        assert (status, answer["errors"][0]["code"]) == (410, "archived")
    before = ReplicaArchive.objects.values().get()
    assert door.post("replicas/worker/0/1/done/", END | {"exit_code": 0}) == (200, {})
    assert ReplicaArchive.objects.values().get() == before
    assert door.post(path, segment()) == (200, {"have": True})
    log = find_log(job, "worker", 0)
    assert log is not None
    assert log.read(0, 100) == DATA


@pytest.mark.parametrize("runner", ["today's", "of the version before"])
@pytest.mark.parametrize("starts", [2, 6])
def test_each_container_of_a_pod_brings_its_log_also_once_the_training_has_ended(
    job: Workload, door: Door, store: FolderStore, starts: int, runner: str
) -> None:
    """A server starts again in its pod, and the last time as the training ends."""
    path = "replicas/worker/0/1/"
    row = Replica.objects.create(workload=job, role="worker", index=0, attempt=1, pod_uid=UID)
    row.started_at, row.state = timezone.now(), ReplicaState.RUNNING
    row.save()

    def bring(number: int) -> None:
        at = (number - 1) * len(DATA)
        told = {} if runner == "of the version before" else {"run_start_byte": at}
        ship(door, store, segment(number, start=at) | told)
        log = {"end_byte": at + len(DATA), "last_number": number}
        end = END | {"skipped_bytes": 0, "log": log}
        assert door.post(f"{path}done/", end) == (200, {})

    for number in range(1, starts):
        bring(number)
        row.restarts = number
        row.save()
        known = ReplicaArchive.objects.get()
        assert (known.restarts, known.run_start_byte) == (number - 1, number * len(DATA))
    job.state = WorkloadState.SUCCEEDED
    job.save()
    if starts == 6:  # its pod ends before the last container has brought anything
        row.state = ReplicaState.STOPPED
        row.save()

    bring(starts)

    log = find_log(job, "worker", 0)
    assert log is not None
    assert log.read(0, 1000) == DATA * starts
    late = segment(starts + 1, start=starts * len(DATA))
    if row.state == ReplicaState.RUNNING:  # one more may start, as far as anybody knows
        ship(door, store, late)
        assert door.post(f"{path}done/", END) == (200, {})
        row.state = ReplicaState.STOPPED
        row.save()
        late["number"] += 1
    assert door.post(f"{path}segments/", late)[0] == 410


@pytest.mark.parametrize("runner", ["today's", "of the version before"])
def test_where_the_newest_container_begins_is_not_known_behind_one_that_told_and_reported_nothing(
    job: Workload, door: Door, store: FolderStore, runner: str
) -> None:
    """The first one reported; the second was killed, and the third brings what it left."""
    row = Replica.objects.create(workload=job, role="worker", index=0, attempt=1, pod_uid=UID)
    size = len(DATA)
    ship(door, store, segment())
    assert door.post("replicas/worker/0/1/done/", END | {"skipped_bytes": 0}) == (200, {})
    row.restarts = 1
    row.save()
    told = {"run_start_byte": size} if runner == "today's" else {}
    ship(door, store, segment(2, start=size) | told)
    assert ReplicaArchive.objects.get().run_start_byte == size, "where the first one's report ended"
    row.restarts = 2
    row.save()
    told = {"run_start_byte": 3 * size} if runner == "today's" else {}
    ship(door, store, segment(3, start=2 * size) | told)
    known = ReplicaArchive.objects.get()
    assert known.run_start_byte == (3 * size if told else 0)
    assert archives.knows_start(known, row) == bool(told)


def test_which_replicas_have_ended_is_told_at_once(db: None) -> None:
    counts = {"worker": role_request(count=4), "ps": role_request()}
    job = make_job(make_tenant("alice"), topology="tf-ps", replicas=counts)
    begun = timezone.now()
    for index, (state, started_at) in enumerate(
        [("running", begun), ("succeeded", begun), ("failed", begun), ("stopped", None)]
    ):
        values = {"state": state, "started_at": started_at}
        Replica.objects.create(workload=job, role="worker", index=index, **values)
    door = Door(job)
    assert door.get("hosts/?ended=1&attempt=1") == (200, {"ended": {"worker": [1, 2]}})
    assert door.get("hosts/?ended=1&attempt=2")[0] == 404


# --- artifacts ------------------------------------------------------------------------------------


def file(path: str = "artifacts/model.h5", data: bytes = DATA, mtime: int = 7) -> dict[str, Any]:
    return {"path": path, "size_bytes": len(data), "mtime_ns": mtime}


def leave(door: Door, store: Store, about: dict[str, Any], data: bytes = DATA) -> None:
    status, answer = door.post("artifacts/", {"files": [about]})
    assert status == 200
    keep(store, answer["links"][about["path"]], data)
    assert door.post("artifacts/done/", {"files": [about]}) == (200, {})


def test_an_artifact_is_listed_once_its_bytes_are_there(door: Door, store: FolderStore) -> None:
    status, answer = door.post("artifacts/", {"files": [file()]})
    assert (status, list(answer["links"])) == (200, ["artifacts/model.h5"])
    assert door.post("artifacts/done/", {"files": [file()]})[0] == 409
    assert Artifact.objects.get().uploaded_at is None
    keep(store, answer["links"]["artifacts/model.h5"], DATA)
    for _ in range(2):
        assert door.post("artifacts/done/", {"files": [file()]}) == (200, {})
    row = Artifact.objects.get()
    assert row.uploaded_at is not None
    with open_artifact(row) as opened:
        assert opened.read() == DATA
    assert door.post("artifacts/", {"files": [file()]}) == (200, {"links": {}, "refused": {}})


def test_the_store_is_asked_only_about_what_is_new(
    door: Door, store: FolderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that brings 500 names again holds a thread no longer than it takes to look them up."""
    for number in range(3):
        leave(door, store, file(f"artifacts/{number}"))
    asked: list[str] = []
    find_size = FolderStore.find_size

    def count(self: FolderStore, key: str) -> int | None:
        asked.append(key)
        return find_size(self, key)

    monkeypatch.setattr(FolderStore, "find_size", count)
    leave_again = [file(f"artifacts/{number}") for number in range(3)] + [file("artifacts/new")]
    assert door.post("artifacts/done/", {"files": leave_again})[0] == 409
    assert len(asked) == 1


def test_a_newer_version_replaces_the_older_only_when_it_is_there(
    door: Door, store: FolderStore
) -> None:
    leave(door, store, file())
    old = Artifact.objects.get().storage_key
    newer = file(data=b"newer", mtime=8)
    _, answer = door.post("artifacts/", {"files": [newer]})
    assert Artifact.objects.get().size_bytes == len(DATA)
    keep(store, answer["links"]["artifacts/model.h5"], b"newer")
    door.post("artifacts/done/", {"files": [newer]})
    row = Artifact.objects.get()
    assert (row.size_bytes, row.mtime_ns) == (5, 8)
    assert not store.exists(old)
    with open_artifact(row) as opened:
        assert opened.read() == b"newer"


def test_a_version_that_another_replica_brings_again_meanwhile_stays(
    door: Door, store: FolderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(door, store, file())
    old = Artifact.objects.get().storage_key
    newer = file(data=b"newer", mtime=8)
    _, answer = door.post("artifacts/", {"files": [newer]})
    keep(store, answer["links"]["artifacts/model.h5"], b"newer")

    def another_replica(_job: Workload) -> None:
        Artifact.objects.update(storage_key=old)

    monkeypatch.setattr(changes, "tell", another_replica)
    assert door.post("artifacts/done/", {"files": [newer]}) == (200, {})
    assert store.exists(old)


def test_more_than_is_kept_is_refused_with_sentences(door: Door, settings: Any) -> None:
    settings.ARTIFACTS_MAX_BYTES = 20
    files = [file("a", b"x" * 15), file("b", b"x" * 15), file("c", b"x" * 5)]
    _, answer = door.post("artifacts/", {"files": files})
    assert sorted(answer["links"]) == ["a", "c"]
    assert "20 bytes are kept" in answer["refused"]["b"]
    _, answer = door.post("artifacts/", {"files": [file("d", b"x")]})
    assert list(answer["refused"]) == ["d"]


def test_too_many_artifacts_are_refused(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codes, "MAX_ARTIFACTS", 2)
    _, answer = door.post("artifacts/", {"files": [file(name) for name in "abc"]})
    assert sorted(answer["links"]) == ["a", "b"]
    body = {"files": [file(str(number)) for number in range(base.MAX_BATCH + 1)]}
    assert door.post("artifacts/", body)[0] == 400
