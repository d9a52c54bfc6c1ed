"""The store of onebox: objects in SQLite, an index in memory, and the recent changes.

One writer, one thread. Every commit is one SQLite transaction (WAL) that is on disk before it is
confirmed, so a process that is killed at any instant, or a machine that loses its power, comes back
with all that it had confirmed and nothing half done. The
resourceVersion is one counter over all kinds, kept in the same transaction: it never goes back.

Objects handed out are the stored ones: read them, never change them.
"""

from __future__ import annotations

import logging
import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from onebox.api.resources import Obj

log = logging.getLogger(__name__)

ADDED = "ADDED"
MODIFIED = "MODIFIED"
DELETED = "DELETED"

HISTORY_EVENTS_PER_KIND = 2_000
"""Changes of one kind that a watch can catch up with; older versions answer 410."""

SCHEMA_VERSION = 1

Objects = list[Obj]
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class StoreError(Exception):
    """The state on disk cannot be used; the message says why and what to do."""


class HistoryGoneError(Exception):
    """A watch asks for changes that are no longer kept.

    Attributes:
        oldest: the oldest resourceVersion that can still be continued from.
    """

    def __init__(self, oldest: int) -> None:
        super().__init__(f"changes before {oldest} are no longer kept")
        self.oldest = oldest


@dataclass(frozen=True, slots=True)
class Put:
    """Write an object; the store makes its own with the new metadata.resourceVersion."""

    plural: str
    obj: Obj


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove an object; `obj` is its last state, and is not changed."""

    plural: str
    obj: Obj


Write = Put | Remove


@dataclass(frozen=True, slots=True)
class Change:
    """One committed change.

    Attributes:
        body: `obj` encoded as JSON, so that a hundred watchers encode it once.
        previous: the state before, None for ADDED.
    """

    type: str
    resource_version: int
    plural: str
    namespace: str
    name: str
    obj: Obj
    body: bytes
    previous: Obj | None


@dataclass(frozen=True, slots=True)
class _Entry:
    obj: Obj
    body: bytes


_Entries = list[_Entry]


class _History:
    """The last changes of one kind."""

    def __init__(self, floor: int, limit: int) -> None:
        self.changes: deque[Change] = deque()
        self.floor = floor
        self._limit = limit

    def append(self, change: Change) -> None:
        self.changes.append(change)
        if len(self.changes) > self._limit:
            self.floor = self.changes.popleft().resource_version


def type_head(obj: Obj) -> bytes:
    """Give what the encoded body of a stored object begins with: its kind and version."""
    return _encode({"kind": obj.get("kind"), "apiVersion": obj.get("apiVersion")})[:-1] + b","


def clone(obj: Obj) -> Obj:
    """Copy a JSON object deeply; several times faster than copy.deepcopy."""
    return {key: _clone(value) for key, value in obj.items()}


def _clone(value: object) -> object:
    if isinstance(value, dict):
        return {key: _clone(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_clone(item) for item in value]
    return value


class Store:
    """Objects of all kinds, with one counter for their versions.

    Raises:
        StoreError: the database cannot be opened, is in use, or is from a newer onebox.
    """

    def __init__(
        self, path: Path | None, *, history_events_per_kind: int = HISTORY_EVENTS_PER_KIND
    ) -> None:
        self._history_limit = history_events_per_kind
        self._kinds: dict[str, dict[str, dict[str, _Entry]]] = {}
        self._history: dict[str, _History] = {}
        self._subscribers: dict[int, Callable[[Change], None]] = {}
        self._next_subscriber = 0
        self._pending: deque[Change] = deque()
        self._dispatching = False
        self._db = _open(path)
        self.resource_version = self._load()
        self._start_version = self.resource_version

    def _load(self) -> int:
        version = 1
        for (value,) in self._db.execute("SELECT value FROM counters WHERE name = 'version'"):
            version = int(value)
        for plural, namespace, name, body in self._db.execute(
            "SELECT plural, namespace, name, body FROM objects"
        ):
            entry = _Entry(_decode(body), body)
            self._kinds.setdefault(plural, {}).setdefault(namespace, {})[name] = entry
        return version

    def get(self, plural: str, namespace: str | None, name: str) -> Obj | None:
        """Give the object, or None. `namespace` is "" or None for kinds without one."""
        entry = self._kinds.get(plural, {}).get(namespace or "", {}).get(name)
        return entry.obj if entry else None

    def body(self, plural: str, namespace: str | None, name: str) -> bytes | None:
        """Give the object encoded as JSON, or None."""
        entry = self._kinds.get(plural, {}).get(namespace or "", {}).get(name)
        return entry.body if entry else None

    def list(self, plural: str, namespace: str | None = None) -> Objects:
        """Give all objects of a kind, in the order of namespace and name."""
        return [entry.obj for entry in self._entries(plural, namespace)]

    def _entries(self, plural: str, namespace: str | None) -> _Entries:
        spaces = self._kinds.get(plural, {})
        if namespace:
            names = spaces.get(namespace, {})
            return [names[name] for name in sorted(names)]
        # In the order of "NAMESPACE/NAME", as upstream's storage keeps them.
        ordered = sorted(spaces, key=lambda space: f"{space}/")
        return [spaces[space][name] for space in ordered for name in sorted(spaces[space])]

    def commit(self, writes: Sequence[Write]) -> Objects:
        """Make all writes durable together, then tell the subscribers.

        Returns:
            the objects as stored (for Remove: the last state with the version of the removal),
            in the order of `writes`.

        Raises:
            sqlite3.Error: nothing was written and nothing in memory has changed.
        """
        version = self.resource_version
        changes: list[Change] = []
        for write in writes:
            version += 1
            changes.append(self._change(write, version))
        self._write(changes, version)
        self.resource_version = version
        for change in changes:
            self._remember(change)
        self._pending.extend(changes)
        self._dispatch()
        return [change.obj for change in changes]

    def _change(self, write: Write, version: int) -> Change:
        meta = write.obj["metadata"]
        namespace = meta.get("namespace") or ""
        previous = self.get(write.plural, namespace, meta["name"])
        stamped = {**meta, "resourceVersion": str(version)}
        kind = DELETED
        if isinstance(write, Put):
            kind = ADDED if previous is None else MODIFIED
        # What it is comes first: see `type_head`.
        head = {"kind": write.obj.get("kind"), "apiVersion": write.obj.get("apiVersion")}
        obj = {**head, **write.obj, "metadata": stamped}
        return Change(
            kind, version, write.plural, namespace, meta["name"], obj, _encode(obj), previous
        )

    def _write(self, changes: Sequence[Change], version: int) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            for change in changes:
                key = (change.plural, change.namespace, change.name)
                if change.type == DELETED:
                    self._db.execute(
                        "DELETE FROM objects WHERE plural = ? AND namespace = ? AND name = ?", key
                    )
                else:
                    self._db.execute(
                        "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?)", (*key, change.body)
                    )
            self._db.execute("INSERT OR REPLACE INTO counters VALUES ('version', ?)", (version,))
            self._db.execute("COMMIT")
        except sqlite3.Error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def _remember(self, change: Change) -> None:
        names = self._kinds.setdefault(change.plural, {}).setdefault(change.namespace, {})
        if change.type == DELETED:
            names.pop(change.name, None)
        else:
            names[change.name] = _Entry(change.obj, change.body)
        history = self._history.get(change.plural)
        if history is None:
            history = _History(self._start_version, self._history_limit)
            self._history[change.plural] = history
        history.append(change)

    def _dispatch(self) -> None:
        # A subscriber may commit in turn; its change waits until all have seen this one,
        # so that everybody sees all changes in the order of their versions.
        if self._dispatching:
            return
        self._dispatching = True
        try:
            while self._pending:
                change = self._pending.popleft()
                for callback in list(self._subscribers.values()):
                    _tell(callback, change)
        finally:
            self._dispatching = False

    def subscribe(self, callback: Callable[[Change], None]) -> Callable[[], None]:
        """Call back after each commit, in order; returns the function that ends it."""
        number = self._next_subscriber
        self._next_subscriber += 1
        self._subscribers[number] = callback

        def unsubscribe() -> None:
            self._subscribers.pop(number, None)

        return unsubscribe

    def changes_since(self, plural: str, version: int) -> Sequence[Change]:
        """Give the changes of a kind after a version, oldest first.

        Raises:
            HistoryGoneError: some of them are no longer kept (or the version was never given out).
        """
        history = self._history.get(plural)
        floor = history.floor if history else self._start_version
        if version < floor or version > self.resource_version:
            raise HistoryGoneError(floor)
        if history is None:
            return []
        newer: deque[Change] = deque()
        for change in reversed(history.changes):
            if change.resource_version <= version:
                break
            newer.appendleft(change)
        return list(newer)

    def begin_history(self) -> None:
        """Forget the changes until now: watches begin at the present version, as after a start."""
        self._start_version = self.resource_version
        self._history.clear()

    def close(self) -> None:
        """Close the database; the store must not be used afterwards."""
        self._db.close()


def _tell(callback: Callable[[Change], None], change: Change) -> None:
    # Fence: the change is committed, so a subscriber that fails must not fail the write,
    # nor keep it from the others.
    try:
        callback(change)
    except Exception:
        log.exception("a subscriber failed on %s %s", change.type, change.plural)


def _open(path: Path | None) -> sqlite3.Connection:
    if path is not None:
        path.touch(mode=0o600, exist_ok=True)
    db = sqlite3.connect(path or ":memory:", isolation_level=None, timeout=0.5)
    try:
        _prepare(db, path)
    except sqlite3.Error as error:
        db.close()
        raise StoreError(
            f"the state in {path} cannot be opened ({error}): is another onebox using it, "
            "or is the file damaged? Stop the other one, or move the file away to start empty: "
            "volumes are kept, and claims of the same namespace and name get theirs again"
        ) from error
    except StoreError:
        db.close()
        raise
    return db


def _prepare(db: sqlite3.Connection, path: Path | None) -> None:
    # Exclusive: a second onebox on the same folder would otherwise give out versions twice.
    db.execute("PRAGMA locking_mode = EXCLUSIVE")
    db.execute("PRAGMA journal_mode = WAL")
    # What was confirmed survives a power cut: each commit is on disk before its answer. NORMAL
    # would lose the last moments: https://sqlite.org/pragma.html#pragma_synchronous
    db.execute("PRAGMA synchronous = FULL")
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"{path} was written by a newer onebox (state version {version}, this one knows "
            f"{SCHEMA_VERSION}): update Homeport or choose another --home"
        )
    db.execute("BEGIN IMMEDIATE")
    db.execute(
        "CREATE TABLE IF NOT EXISTS objects (plural TEXT, namespace TEXT, name TEXT, "
        "body BLOB NOT NULL, PRIMARY KEY (plural, namespace, name)) WITHOUT ROWID"
    )
    db.execute(
        "CREATE TABLE IF NOT EXISTS counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) "
        "WITHOUT ROWID"
    )
    db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    db.execute("COMMIT")
