"""Watch streams: changes of a kind, filtered, in order, from a version on.

Each stream has a queue that the store fills at each commit; the stream task sleeps until there
is something, a bookmark is due, or its time is over. A client too slow to follow is cut off:
it can go on from the last version it saw.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from aiohttp import web

from onebox.api import events_view
from onebox.api.http.listing import choose, object_body
from onebox.api.http.options import check_list_options, flag, number, version
from onebox.api.http.reply import Form, encode
from onebox.api.http.target import Target
from onebox.api.registry import Api
from onebox.api.resources import EVENTS_VIEW, Obj
from onebox.api.selectors import Selector, everything
from onebox.api.status import StatusError, expired
from onebox.api.store import ADDED, DELETED, MODIFIED, Change, HistoryGoneError
from onebox.api.tables import partial, table

BOOKMARK_EVERY_S = 60.0
MIN_DEFAULT_S = 1_800
"""Streams without timeoutSeconds end after this to twice this, as upstream's do."""
QUEUE_LIMIT = 10_000
_INITIAL_END = "k8s.io/initial-events-end"
_COMPACTED = "The resourceVersion for the provided watch is too old."


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """What a client wants to see.

    Attributes:
        version: continue after this version; None: begin with the present state.
        timeout_s: end the stream after this.
        initial_end: tell by a bookmark when the present state is complete.
    """

    target: Target
    selector: Selector
    form: Form
    version: int | None
    timeout_s: float
    bookmarks: bool = False
    initial_end: bool = False


def read_request(target: Target, query: Mapping[str, str], form: Form) -> WatchRequest:
    """Read the options of a watch.

    Raises:
        StatusError: 400.
    """
    check_list_options(query, is_watch=True)
    try:
        since = version(query)
    except StatusError as error:
        # As upstream, whose watch does not expect this.
        text = error.message.removeprefix("invalid resource version: ")
        raise StatusError(500, "", text) from error
    seconds = number(query, "timeoutSeconds")
    initial = flag(query, "sendInitialEvents")
    if seconds is None or seconds < 0:
        seconds = random.randint(MIN_DEFAULT_S, 2 * MIN_DEFAULT_S)
    return WatchRequest(
        target=target,
        selector=choose(target, query),
        form=form,
        version=since if since and not initial else None,
        timeout_s=float(seconds),
        bookmarks=flag(query, "allowWatchBookmarks"),
        initial_end=initial,
    )


class Feed:
    """The changes that one client is to see, as lines of JSON."""

    def __init__(self, api: Api, request: WatchRequest) -> None:
        self._api = api
        self._request = request
        self._plural = request.target.resource.storage_plural
        self._queue: deque[Change] = deque()
        self._wake = asyncio.Event()
        self._sent_columns = False
        self.overflowed = False
        self._unsubscribe = api.store.subscribe(self._on_change)

    def close(self) -> None:
        """Stop listening."""
        self._unsubscribe()
        self._queue.clear()

    def _on_change(self, change: Change) -> None:
        if change.plural != self._plural:
            return
        namespace = self._request.target.namespace
        if namespace and change.namespace != namespace:
            return
        if len(self._queue) >= QUEUE_LIMIT:
            self.overflowed = True
        else:
            self._queue.append(change)
        self._wake.set()

    def initial_lines(self) -> list[bytes]:
        """Give what comes first: the present state, or the changes since a version.

        Raises:
            StatusError: 410, the changes since then are no longer kept.
        """
        request, target = self._request, self._request.target
        if request.version is not None:
            try:
                changes = self._api.store.changes_since(self._plural, request.version)
            except HistoryGoneError as error:
                # Upstream keeps no events in memory: etcd says of them what is compacted.
                is_of_etcd = self._plural == "events"
                cached = f"too old resource version: {request.version} ({error.oldest})"
                raise expired(_COMPACTED if is_of_etcd else cached) from error
            space = target.namespace
            return self._lines(c for c in changes if not space or c.namespace == space)
        objects = self._api.list(self._plural, target.namespace or None)
        lines = [self._line(ADDED, obj) for obj in objects if request.selector(obj)]
        if request.initial_end:
            lines.append(self.bookmark({_INITIAL_END: "true"}))
        return lines

    async def wait(self, timeout_s: float) -> None:
        """Wait until there are changes, but no longer than this."""
        if self._queue or self.overflowed:
            return
        self._wake.clear()
        try:
            await asyncio.wait_for(self._wake.wait(), timeout_s)
        except TimeoutError:
            return

    def take_lines(self) -> list[bytes]:
        """Give what has come in and not been given yet."""
        changes = list(self._queue)
        self._queue.clear()
        return self._lines(changes)

    def _lines(self, changes: Iterable[Change]) -> list[bytes]:
        lines = (self._change_line(change) for change in changes)
        return [line for line in lines if line is not None]

    def _change_line(self, change: Change) -> bytes | None:
        selector = self._request.selector
        if selector is everything:
            return self._line(change.type, change.obj, change.body)
        before = change.previous is not None and selector(change.previous)
        after = change.type != DELETED and selector(change.obj)
        if before and after:
            return self._line(MODIFIED, change.obj, change.body)
        if after:
            return self._line(ADDED, change.obj, change.body)
        if before and change.previous is not None:
            # The client sees the last state that it knew, at the version of this change.
            meta = {**change.previous["metadata"], "resourceVersion": str(change.resource_version)}
            return self._line(DELETED, {**change.previous, "metadata": meta})
        return None

    def _line(self, kind: str, obj: Obj, body: bytes | None = None) -> bytes:
        target, form = self._request.target, self._request.form
        if form.kind == "table":
            meta = {"resourceVersion": obj["metadata"]["resourceVersion"]}
            rows = table(self._plural, [obj], meta, self._api.clock(), form.style)
            if self._sent_columns:
                rows["columnDefinitions"] = None
            self._sent_columns = True
            content = encode(rows)
        elif form.kind == "partial":
            content = encode(partial(obj, form.style.version))
        elif target.resource is EVENTS_VIEW:
            content = encode(events_view.to_view(obj))
        else:
            content = body if body is not None else object_body(self._api, target, obj)
        return b'{"type":"' + kind.encode() + b'","object":' + content + b"}\n"

    def bookmark(self, annotations: dict[str, str] | None = None) -> bytes:
        """Tell the client that it has seen everything up to the present version."""
        resource = self._request.target.resource
        meta: Obj = {
            "resourceVersion": str(self._api.store.resource_version),
        }
        if annotations:
            meta["annotations"] = annotations
        obj: Obj = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": meta}
        if self._request.form.kind == "table":
            style = self._request.form.style
            obj = table(
                self._plural,
                [],
                {"resourceVersion": meta["resourceVersion"]},
                self._api.clock(),
                style,
            )
        return b'{"type":"BOOKMARK","object":' + encode(obj) + b"}\n"


async def stream(api: Api, request: WatchRequest, http: web.Request) -> web.StreamResponse:
    """Serve a watch until its time is over, the client leaves or cannot follow."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    feed = Feed(api, request)
    try:
        # Taken before the first await: what changes from here on comes through the feed's queue.
        first = _first_lines(feed)
        await response.prepare(http)
        await response.write(b"".join(first.lines))
        if first.may_follow:
            await _follow(feed, request, response)
    except ConnectionError:
        pass  # The client is gone; there is nobody to tell.
    finally:
        feed.close()
    return response


@dataclass(frozen=True, slots=True)
class _First:
    lines: list[bytes]
    may_follow: bool = True


def _first_lines(feed: Feed) -> _First:
    try:
        return _First(feed.initial_lines())
    except StatusError as error:
        line = b'{"type":"ERROR","object":' + encode(error.body()) + b"}\n"
        return _First([line], may_follow=False)


async def _follow(feed: Feed, request: WatchRequest, response: web.StreamResponse) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + request.timeout_s
    bookmark_at = loop.time() + BOOKMARK_EVERY_S if request.bookmarks else end
    while not feed.overflowed:
        now = loop.time()
        lines = feed.take_lines()
        if request.bookmarks and now >= min(bookmark_at, end):
            # In one step with taking the lines: a bookmark must not run ahead of them.
            lines.append(feed.bookmark())
            bookmark_at = now + BOOKMARK_EVERY_S
        if lines:
            await response.write(b"".join(lines))
        if now >= end:
            return
        await feed.wait(min(end, bookmark_at) - now)
