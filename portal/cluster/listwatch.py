"""List and watch of one kind: a cache of all its objects that survives every fault of the server.

One `ListWatch` holds one connection, whatever the number of tenants or viewers. The cache is listed once
(in pages) and again after 410 Gone; a new list is compared with the cache, so that what was missed
is reported as if it had been watched. Nothing is listed on a timer. Rules:
https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from portal.backoff import Backoff
from portal.cluster.client import Cluster
from portal.cluster.errors import ClusterError, Forbidden, Gone, NotFound, Unavailable, error_of
from portal.cluster.kinds import get_kind
from portal.cluster.objects import ListMeta, Watchable
from portal.cluster.transport import JSON

log = logging.getLogger(__name__)

_LOG_EVERY_S = 60.0
_MAX_LINE_BYTES = 8 * 1024**2  # etcd holds 1.5 MiB per object
_PIECE = 250  # changes of a list that are applied at once: a millisecond or two

# https://kubernetes.io/docs/reference/using-api/api-concepts/#receiving-resources-as-metadata-only
_METADATA = f"application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,{JSON}"
_METADATA_LIST = f"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{JSON}"

Key = tuple[str, str]  # namespace ("" for cluster-scoped kinds), name
T = TypeVar("T", bound=Watchable)


class WatchEvent(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """One object came (`old` is None), changed, or went (`new` is None)."""

    key: Key
    old: T | None
    new: T | None


@dataclass(frozen=True)
class ListOptions(Generic[T]):
    """Which objects are watched, and how they are decoded.

    Attributes:
        keep: objects for which it says False are neither cached nor reported.
        only_metadata: ask the server to leave out the rest; one that cannot sends it all the same.
        is_optional: a cluster that does not serve this kind, or not to our account, has none of it.
    """

    kind: str
    seen: type[T]
    label_selector: str = ""
    field_selector: str = ""
    keep: Callable[[T], bool] | None = None
    only_metadata: bool = False
    is_optional: bool = False


@dataclass(frozen=True)
class WatchTiming:
    """Times of a watch, in seconds; tests make them short.

    Attributes:
        server_s: after how long the server is asked to end a stream, at least and at most; spread,
            so that not all watches come again at once.
        silence_s: a stream of which not even the end is heard for so long is dead. A stalled
            connection looks like a quiet one, and bookmarks are a minute apart: see ADR 14.
        healthy_s: a stream that lived so long was no failure, and the waits start small again.
        optional_s: between two looks for a kind that the cluster need not serve.
    """

    server_s: tuple[int, int] = (12, 15)
    silence_s: float = 21.0
    healthy_s: float = 5.0
    first_wait_s: float = 0.2
    most_wait_s: float = 12.0
    optional_s: float = 60.0


NORMAL_TIMING = WatchTiming()


@dataclass
class WatchHealth:
    """What the health page says of a watch; times are monotonic seconds.

    Attributes:
        problem: a sentence while the watch fails, else empty.
        heard_at: last byte or complete list.
        unreadable: objects that could not be decoded and are left out.
    """

    problem: str = ""
    problem_since: float = 0.0
    heard_at: float = 0.0
    lists: int = 0
    connects: int = 0
    unreadable: int = 0


class ReconnectGate:
    """While nothing can be connected to, one watch asks for all; the others wait for its answer.

    A dozen watches that each ask would disturb a cluster that is trying to come up.
    """

    def __init__(self) -> None:
        self._asking: object | None = None
        self._over = asyncio.Event()

    async def wait_turn(self, who: object) -> None:
        while self._asking not in {None, who}:
            await self._over.wait()

    def note(self, who: object, error: ClusterError | None) -> None:
        """What became of a try: an error, or None when the cluster answered."""
        if isinstance(error, Unavailable) and error.reason == "NoConnection":
            if self._asking is None:
                self._asking = who
                self._over.clear()
        elif self._asking is who:
            self._asking = None
            self._over.set()


class _RawPage(msgspec.Struct):
    metadata: ListMeta = ListMeta()
    items: list[msgspec.Raw] | None = None


class _Event(msgspec.Struct):
    type: str = ""
    object: msgspec.Raw = msgspec.Raw(b"null")


class _Bookmark(msgspec.Struct):
    metadata: ListMeta = ListMeta()


_CHANGES = ("ADDED", "MODIFIED", "DELETED")
_EVENTS = msgspec.json.Decoder(_Event)
_BOOKMARKS = msgspec.json.Decoder(_Bookmark)
_RAW_PAGES = msgspec.json.Decoder(_RawPage)


class ListWatch(Generic[T]):
    """The cache of the objects that `options` choose; `run` keeps it true, `on_changes` hears of every change.

    `on_changes` is called on the event loop after `items` was updated; it must be quick.
    """

    def __init__(
        self,
        cluster: Cluster,
        options: ListOptions[T],
        on_changes: Callable[[Sequence[WatchEvent[T]]], None],
        timing: WatchTiming = NORMAL_TIMING,
        gate: ReconnectGate | None = None,
    ) -> None:
        """`gate` is shared by the watches of one cluster."""
        self.options = options
        self.items: dict[Key, T] = {}
        self.synced = asyncio.Event()
        self.health = WatchHealth()
        self.is_served = not options.is_optional
        self._cluster = cluster
        self._on_changes = on_changes
        self._timing = timing
        self._gate = gate or ReconnectGate()
        self._version = ""  # empty: a list is needed
        seen = options.seen
        self._objects = msgspec.json.Decoder(seen)
        # Whole pages and events in one go; what does not fit is taken apart object by object.
        page = [("metadata", ListMeta, ListMeta()), ("items", list[seen] | None, None)]  # type: ignore[valid-type]
        self._pages: Any = msgspec.json.Decoder(msgspec.defstruct("Page", page))
        event = [("type", str), ("object", seen)]
        self._events: Any = msgspec.json.Decoder(msgspec.defstruct("Event", event))

    async def run(self) -> None:
        """Lists and watches until cancelled."""
        backoff = Backoff(self._timing.first_wait_s, self._timing.most_wait_s)
        self._version = ""
        while True:
            await self._gate.wait_turn(self)
            started_at = time.monotonic()
            try:
                if not self.is_served and not await self._is_known():
                    raise NotFound(404, "NotServed", f"there is no {self.options.kind} here")
                if not self._version:
                    await self._list()
                await self._watch()
            except Gone:
                self._version = ""
            except ClusterError as error:
                if self.options.is_optional and isinstance(error, NotFound | Forbidden):
                    await self._do_without()
                    continue
                self._fails(error)
            if time.monotonic() - started_at >= self._timing.healthy_s:
                backoff.reset()
            await asyncio.sleep(backoff.next_s())

    # --- what a cluster need not serve ---
    async def _is_known(self) -> bool:
        """Whether the cluster serves the kind; asked first, for our account may be refused what is not there."""
        kind = get_kind(self.options.kind)
        found = await self._cluster.read(f"/apis/{kind.api_version}")
        return any(one.get("name") == kind.plural for one in found.get("resources") or ())

    async def _do_without(self) -> None:
        """There is none of it, until the cluster is asked again."""
        self.is_served, self._version = False, ""
        await self._take_over(list(self.items), {})
        self._heard()
        self.synced.set()
        await asyncio.sleep(self._timing.optional_s)

    # --- list ---
    async def _list(self) -> None:
        fresh: dict[Key, T] = {}  # what is new or of another version than ours
        gone = set(self.items)
        version = ""
        accept = _METADATA_LIST if self.options.only_metadata else JSON
        kind, chosen = self.options.kind, self._selectors()
        pages = self._cluster.pages(kind, None, chosen, self._read_page, accept=accept)
        async for meta, objects in pages:
            version = meta.resource_version
            for seen in objects:
                if self.options.keep is None or self.options.keep(seen):
                    key = _key(seen)
                    gone.discard(key)
                    if not self._has(key, seen):
                        fresh[key] = seen
        self.health.lists += 1
        await self._take_over([*gone, *fresh], fresh)
        self._version = version
        self.is_served = True
        self._heard()
        self.synced.set()

    def _has(self, key: Key, seen: T) -> bool:
        known = self.items.get(key)
        return known is not None and (
            known.metadata.resource_version == seen.metadata.resource_version
        )

    async def _take_over(self, keys: Sequence[Key], fresh: Mapping[Key, T]) -> None:
        """Applies what a list changed piece by piece, as if they were events.

        Ten thousand pods in one piece would hold up everybody else on the event loop.
        """
        for first in range(0, len(keys), _PIECE):
            piece = [
                WatchEvent(key, self.items.get(key), fresh.get(key))
                for key in keys[first : first + _PIECE]
            ]
            for change in piece:
                if change.new is None:
                    del self.items[change.key]
                else:
                    self.items[change.key] = change.new
            self._on_changes(piece)
            await asyncio.sleep(0)

    def _read_page(self, page: bytes) -> tuple[ListMeta, list[T]]:
        """What is said of the list, and those of its objects that can be read."""
        with suppress(msgspec.DecodeError):
            read = self._pages.decode(page)
            return read.metadata, read.items or []
        try:
            raw = _RAW_PAGES.decode(page)
        except msgspec.DecodeError as error:
            raise Unavailable(0, "BadAnswer", f"a list that is not one: {error}") from error
        objects = [seen for item in raw.items or () if (seen := self._decode(item)) is not None]
        return raw.metadata, objects

    # --- watch ---
    async def _watch(self) -> None:
        path = get_kind(self.options.kind).path()
        params = self._selectors() | {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(random.randint(*self._timing.server_s)),
        }
        self.health.connects += 1
        self._cluster.calls["watch", self.options.kind] += 1
        accept = _METADATA if self.options.only_metadata else JSON
        opened = self._cluster.stream(path, params, silence_s=self._timing.silence_s, accept=accept)
        async with opened as chunks:
            self._heard()  # accepted; a quiet kind may have nothing to say for long
            rest = b""
            async for chunk in chunks:
                *lines, rest = (rest + chunk).split(b"\n")
                if len(rest) > _MAX_LINE_BYTES:
                    raise Unavailable(0, "BadAnswer", "the watch sent an endless line")
                self._heard()
                self._take(lines)
        # What follows the last newline was cut off; the server sends it again from `_version`.

    def _take(self, lines: Sequence[bytes]) -> None:
        """Applies events; those before a broken one count, it ends the stream."""
        changes: list[WatchEvent[T]] = []
        try:
            for line in lines:
                if line.strip():
                    self._apply(line, changes)
        finally:
            if changes:
                self._on_changes(changes)

    def _apply(self, line: bytes, changes: list[WatchEvent[T]]) -> None:
        read: Any = None
        with suppress(msgspec.DecodeError):
            read = self._events.decode(line)
        if read is not None and read.type in _CHANGES:
            self._note(read.type, read.object, changes)
            return
        try:
            event = _EVENTS.decode(line)
        except msgspec.DecodeError as error:
            raise Unavailable(0, "BadAnswer", f"the watch sent a broken line: {error}") from error
        if event.type == "ERROR":
            body = _status_of(event.object)
            raise error_of(int(body.get("code") or 500), body, {})
        if event.type not in _CHANGES:
            self._version = self._version_of(event.object) or self._version
            return
        seen = self._decode(event.object)
        if seen is None:
            self._version = self._version_of(event.object) or self._version
            return
        self._note(event.type, seen, changes)

    def _note(self, what: str, seen: T, changes: list[WatchEvent[T]]) -> None:
        change = self._change_of(seen, is_deleted=what == "DELETED")
        if change is not None:
            changes.append(change)
        self._version = seen.metadata.resource_version or self._version

    def _change_of(self, seen: T, *, is_deleted: bool) -> WatchEvent[T] | None:
        key = _key(seen)
        keep = self.options.keep
        if is_deleted or (keep is not None and not keep(seen)):
            old = self.items.pop(key, None)
            return None if old is None else WatchEvent(key, old, None)
        old = self.items.get(key)
        self.items[key] = seen
        return WatchEvent(key, old, seen)

    @staticmethod
    def _version_of(raw: msgspec.Raw) -> str:
        try:
            return _BOOKMARKS.decode(raw).metadata.resource_version
        except msgspec.DecodeError:
            return ""

    # --- both ---
    def _decode(self, raw: msgspec.Raw) -> T | None:
        """The object, or None (logged, counted) when its fields are not of the known types."""
        try:
            return self._objects.decode(raw)
        except msgspec.DecodeError as error:
            self.health.unreadable += 1
            shown = bytes(raw)[:300].decode(errors="replace")
            log.warning("a %s is left out: %s: %s", self.options.kind, error, shown)
            return None

    def _selectors(self) -> dict[str, str]:
        chosen = {
            "labelSelector": self.options.label_selector,
            "fieldSelector": self.options.field_selector,
        }
        return {name: text for name, text in chosen.items() if text}

    def _heard(self) -> None:
        self._gate.note(self, None)
        self.health.heard_at = time.monotonic()
        if self.health.problem:
            _say(logging.INFO, f"the cluster {self._cluster.server} can be watched again")
            self.health.problem = ""

    def _fails(self, error: ClusterError) -> None:
        self._gate.note(self, error)
        if not self.health.problem:
            self.health.problem_since = time.monotonic()
        self.health.problem = error.message
        _say(logging.WARNING, f"the cluster cannot be watched: {error.message}")


_said_at: dict[str, float] = {}


def _say(level: int, text: str) -> None:
    """Logs a sentence once a minute, though a dozen watches say the same during an outage."""
    now = time.monotonic()
    if now - _said_at.get(text, float("-inf")) >= _LOG_EVERY_S:
        if len(_said_at) > 100:
            _said_at.clear()
        _said_at[text] = now
        log.log(level, "%s", text)


def _key(seen: Watchable) -> Key:
    return seen.metadata.namespace, seen.metadata.name


def _status_of(raw: msgspec.Raw) -> dict[str, Any]:
    try:
        body = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return {}
    return body if isinstance(body, dict) else {}
