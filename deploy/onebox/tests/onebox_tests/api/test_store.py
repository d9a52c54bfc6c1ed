"""The store keeps what it confirmed, in order, whatever happens to the process."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from onebox.api.store import (
    ADDED,
    DELETED,
    MODIFIED,
    Change,
    HistoryGoneError,
    Put,
    Remove,
    Store,
    StoreError,
)


def thing(name: str, **more: object) -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": "lab"}, **more}


def test_versions_grow_by_one_with_each_change_of_any_kind() -> None:
    store = Store(None)
    first = store.commit([Put("configmaps", thing("a"))])[0]
    second = store.commit([Put("secrets", thing("a"))])[0]
    gone = store.commit([Remove("configmaps", first)])[0]
    versions = [int(o["metadata"]["resourceVersion"]) for o in (first, second, gone)]
    assert versions == [versions[0], versions[0] + 1, versions[0] + 2]
    assert store.get("configmaps", "lab", "a") is None
    assert store.get("secrets", "lab", "a") == second


def test_a_restart_brings_everything_back_and_the_version_never_goes_back(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.db")
    kept = store.commit([Put("configmaps", thing("kept", data={"ä": "ö"}))])[0]
    last = store.commit([Put("configmaps", thing("gone"))])[0]
    version = int(store.commit([Remove("configmaps", last)])[0]["metadata"]["resourceVersion"])
    store.close()
    again = Store(tmp_path / "s.db")
    assert again.get("configmaps", "lab", "kept") == kept
    assert again.list("configmaps") == [kept]
    assert again.resource_version == version
    after = again.commit([Put("configmaps", thing("new"))])[0]
    assert int(after["metadata"]["resourceVersion"]) == version + 1
    again.close()


_WRITER = """
import sys
from pathlib import Path
from onebox.api.store import Put, Remove, Store
store = Store(Path(sys.argv[1]))
for i in range(1_000_000):
    pair = [Put("configmaps", {"metadata": {"name": f"{side}{i}", "namespace": "lab"}})
            for side in "ab"]
    done = store.commit(pair)
    if i % 3 == 2:
        store.commit([Remove("configmaps", done[0]), Remove("configmaps", done[1])])
    print(i, store.resource_version, flush=True)
"""


@pytest.mark.parametrize("lines", [1, 40, 333])
def test_a_killed_writer_loses_nothing_confirmed_and_leaves_nothing_half(
    tmp_path: Path, lines: int
) -> None:
    path = tmp_path / "s.db"
    writer = subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    last, version = -1, -1
    for _ in range(lines):
        last, version = map(int, writer.stdout.readline().split())
    os.kill(writer.pid, signal.SIGKILL)
    writer.wait()
    writer.stdout.close()
    store = Store(path)
    assert store.resource_version >= version
    names = {obj["metadata"]["name"] for obj in store.list("configmaps")}
    for i in range(last + 1):
        expected = i % 3 != 2
        assert (f"a{i}" in names) is expected, f"a{i}"
    numbers = {side: {n[1:] for n in names if n[0] == side} for side in "ab"}
    assert numbers["a"] == numbers["b"], "two writes of one commit came apart"
    found = [int(o["metadata"]["resourceVersion"]) for o in store.list("configmaps")]
    assert max(found, default=0) <= store.resource_version
    store.close()


def test_changes_are_kept_up_to_a_limit_and_older_versions_are_refused() -> None:
    store = Store(None, history_events_per_kind=3)
    start = store.resource_version
    for i in range(5):
        store.commit([Put("configmaps", thing(f"c{i}"))])
    store.commit([Put("secrets", thing("s"))])
    assert [c.name for c in store.changes_since("configmaps", start + 2)] == ["c2", "c3", "c4"]
    with pytest.raises(HistoryGoneError):
        store.changes_since("configmaps", start + 1)
    assert [c.name for c in store.changes_since("secrets", start)] == ["s"]
    assert store.changes_since("pods", start) == []
    with pytest.raises(HistoryGoneError):
        store.changes_since("pods", store.resource_version + 1)


def test_after_a_restart_only_the_last_version_can_be_continued(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.db")
    store.commit([Put("configmaps", thing("a"))])
    version = store.resource_version
    store.close()
    again = Store(tmp_path / "s.db")
    assert again.changes_since("configmaps", version) == []
    with pytest.raises(HistoryGoneError):
        again.changes_since("configmaps", version - 1)
    again.close()


def test_subscribers_see_all_changes_in_order_also_those_they_make_themselves() -> None:
    store = Store(None)
    seen: list[tuple[str, str, int]] = []

    def reacting(change: Change) -> None:
        if change.plural == "configmaps" and change.type == ADDED:
            store.commit([Put("secrets", thing(f"for-{change.name}"))])

    store.subscribe(reacting)
    stop = store.subscribe(lambda c: seen.append((c.type, c.name, c.resource_version)))
    made = store.commit([Put("configmaps", thing("a"))])[0]
    store.commit([Put("configmaps", {**made, "data": {}})])
    store.commit([Remove("configmaps", made)])
    assert [entry[:2] for entry in seen] == [
        (ADDED, "a"),
        (ADDED, "for-a"),
        (MODIFIED, "a"),
        (DELETED, "a"),
    ]
    assert [entry[2] for entry in seen] == sorted(entry[2] for entry in seen)
    stop()
    store.commit([Put("configmaps", thing("b"))])
    assert len(seen) == 4


def test_a_failing_subscriber_neither_fails_the_write_nor_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = Store(None)
    seen: list[str] = []

    def broken(_change: Change) -> None:
        raise RuntimeError("no")

    store.subscribe(broken)
    store.subscribe(lambda change: seen.append(change.name))
    store.commit([Put("configmaps", thing("a"))])
    assert seen == ["a"]
    assert "a subscriber failed" in caplog.text


def test_a_write_that_the_disk_refuses_changes_nothing() -> None:
    store = Store(None)
    version = store.resource_version
    store._db.execute("DROP TABLE counters")
    with pytest.raises(sqlite3.Error):
        store.commit([Put("configmaps", thing("a"))])
    assert store.get("configmaps", "lab", "a") is None
    assert store.resource_version == version


def test_two_servers_cannot_share_a_state(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.db")
    store.commit([Put("configmaps", thing("a"))])
    with pytest.raises(StoreError, match="another onebox"):
        Store(tmp_path / "s.db")
    store.close()


def test_a_state_from_the_future_or_a_damaged_one_is_refused(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "new.db")
    database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(StoreError, match="newer onebox"):
        Store(tmp_path / "new.db")
    (tmp_path / "bad.db").write_bytes(b"no database at all" * 100)
    with pytest.raises(StoreError, match="cannot be opened"):
        Store(tmp_path / "bad.db")


def test_lists_are_in_the_order_of_namespace_and_name() -> None:
    store = Store(None)
    for namespace, name in (("b", "x"), ("a", "z"), ("b", "a"), ("a", "b")):
        obj = {"metadata": {"name": name, "namespace": namespace}}
        store.commit([Put("configmaps", obj)])
    places = [(o["metadata"]["namespace"], o["metadata"]["name"]) for o in store.list("configmaps")]
    assert places == [("a", "b"), ("a", "z"), ("b", "a"), ("b", "x")]
    assert len(store.list("configmaps", "a")) == 2
