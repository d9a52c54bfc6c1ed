"""`/ws/jobs/<id>/logs/?replica=&attempt=&cursor=`: the logs of a job in one stream, live and archived.

Frames: `{"type": "lines", "replica", "cursor", "lines": [{"t", "text"}]}`; `unfinished` with
`replica` and `lines` of one: how far its last line has come, in place of what was sent of it before; `skipped` with `replica`
and `count`; `state` with `replica` ("" is the job itself, which also has `attempt`, the latest),
`state`, `reason`; `end`, then the close code 1000. `t` is RFC 3339 time, empty for archived lines, which have none. A new connection with
the last cursor goes on behind the last line. That of many replicas is longer than the head of a request
may be: `cursor_frames=N` says that it comes in N text frames, in order.
"""

import asyncio
import logging
from typing import Any
from urllib.parse import parse_qs
from uuid import UUID

from django.urls import path

from jobs.logs import cursor
from jobs.logs.hub import get_hub
from jobs.logs.sources import ReplicaSource
from jobs.logs.state import OLDEST_S, JobLogState, load
from jobs.logs.viewer import StuckError, Viewer
from portal import live, supervise
from portal.cluster.errors import ClusterError
from portal.web.streaming import AbsentError
from tenants.sockets import NOT_FOUND, TRY_LATER, UserSocket, run_until_first_ends

log = logging.getLogger(__name__)

DEBOUNCE_S = 0.1  # changes that come together are looked at once
_MAX_QUERY = 8192
_MAX_CURSOR_FRAMES = 20  # of `MAX_FRAME_BYTES`: more than a cursor of `MAX_FOLLOWED` replicas has
CURSOR_S = 20.0  # for all of them to come
# Replicas in one stream: of an array with more, the others are asked for by name.
MAX_FOLLOWED = 400


class LogConsumer(UserSocket):
    """One viewer of the logs of one job."""

    kind = "logs"
    _work: asyncio.Task[None] | None = None

    async def on_open(self) -> None:
        self._job_id: UUID = self.scope["url_route"]["kwargs"]["job_id"]
        self._changed = asyncio.Event()
        self._changed_s = 0.0  # what was read before is older than the last change that was told
        self._told: dict[str, tuple[str | int, ...]] = {}
        query = parse_qs(self.scope["query_string"][:_MAX_QUERY].decode("latin-1"))
        wanted = query.get("replica", [""])[0]
        self._attempt = query.get("attempt", [""])[0]
        try:
            job = await load(self._job_id, self.user, self._attempt)
        except AbsentError as error:
            await self.close(NOT_FOUND, str(error))
            return
        names = list(dict.fromkeys(row.name for row in job.replicas)) if job is not None else []
        if job is None or (wanted and wanted not in names):
            await self.close(NOT_FOUND)
            return
        self._names = [wanted] if wanted else names[:MAX_FOLLOWED]
        self._cursor = [query.get("cursor", [""])[0]]
        self._frames_owed = _count(query.get("cursor_frames", ["0"])[0])
        self._has_cursor = asyncio.Event()
        if not self._frames_owed:
            self._has_cursor.set()
        self._work = asyncio.create_task(self._run(job), name=f"logs of {job.id}")

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        await super().receive(text_data, bytes_data)
        if self._work is None or self.is_closed or self._has_cursor.is_set():
            return
        self._cursor.append(text_data or "")
        self._frames_owed -= 1
        if not self._frames_owed:
            self._has_cursor.set()

    async def on_close(self) -> None:
        if self._work is not None:
            await supervise.end([self._work])

    async def still_allowed(self) -> int | None:
        # `_keep_current` looks, and ends what may not be seen any more; a message that got lost is made good so, too.
        self._look_again(asyncio.get_running_loop().time() - OLDEST_S)
        return None

    async def changed(self, message: dict[str, Any]) -> None:
        """Something of the tenant changed (`portal.live`)."""
        if message["frame"]["id"] == str(self._job_id):
            self._look_again(asyncio.get_running_loop().time())

    def _look_again(self, changed_s: float) -> None:
        self._changed_s = max(self._changed_s, changed_s)
        self._changed.set()

    # --- showing ---
    async def _read_places(self) -> dict[str, cursor.Place]:
        """Where the viewer stands in what it will be shown.

        Raises:
            TimeoutError: its cursor does not come.
        """
        async with asyncio.timeout(CURSOR_S):
            await self._has_cursor.wait()
        places = cursor.read("".join(self._cursor))
        return {name: place for name, place in places.items() if name in self._names}

    async def _run(self, job: JobLogState) -> None:
        """The whole of a connection; ends it when all is shown or the viewer does not read."""
        group = live.tenant_group(job.tenant_id)
        try:
            await self.channel_layer.group_add(group, self.channel_name)
            places = await self._read_places()
            hub = await get_hub()
            viewer = Viewer(self._send_text, dict(places))
            sources = [ReplicaSource(viewer, hub, name, places.get(name)) for name in self._names]
            await run_until_first_ends(
                viewer.run,
                lambda: self._keep_current(job, viewer, sources),
                *(one.run for one in sources),
            )
            await self.close(1000)
        except StuckError:
            await self.give_up()
        except ClusterError as error:
            log.warning("logs of job %s: %s", job.id, error)
            await self.close(TRY_LATER)
        except OSError:
            await self.close(
                TRY_LATER
            )  # the browser is gone or silent, or the archive cannot be read
        except Exception:
            # The fence of one connection: the browser comes again with its cursor.
            if not self.is_closed:
                log.exception("showing the logs of job %s failed", job.id)
                await self.close(TRY_LATER)
        finally:
            await self.channel_layer.group_discard(group, self.channel_name)

    async def _send_text(self, text: str) -> None:
        await self.base_send({"type": "websocket.send", "text": text})

    async def _keep_current(
        self, job: JobLogState, viewer: Viewer, sources: list[ReplicaSource]
    ) -> None:
        """Tells the sources what the database says, at the beginning and after each change."""
        state: JobLogState | None = job
        while state is not None:
            self._tell_states(state, viewer)
            for source in sources:
                source.update(state)
            await self._next_change(state, sources)
            if state.is_final and all(source.is_done for source in sources):
                viewer.put(type="end")
                viewer.close()
                await asyncio.Event().wait()  # until the viewer has sent it
            state = await load(self._job_id, self.user, self._attempt, self._changed_s)
        await self.close(NOT_FOUND)

    async def _next_change(self, state: JobLogState, sources: list[ReplicaSource]) -> None:
        """Waits until the job changed, or all of it has been shown."""
        if state.is_final:
            await run_until_first_ends(self._wait_for_change, lambda: _all_done(sources))
        else:
            await self._wait_for_change()
        if self._changed.is_set():
            await asyncio.sleep(DEBOUNCE_S)
            self._changed.clear()

    async def _wait_for_change(self) -> None:
        await self._changed.wait()

    def _tell_states(self, state: JobLogState, viewer: Viewer) -> None:
        current = [row for row in state.replicas if not row.is_past]
        if current:
            self._tell(viewer, "", state.state, state.reason, attempt=state.attempt)
        # An earlier attempt has nothing to do with how the job is now.
        for row in current or [row for row in state.replicas if row.is_final]:
            if row.name in self._names:
                self._tell(viewer, row.name, row.state, row.reason)

    def _tell(self, viewer: Viewer, name: str, state: str, reason: str, **more: int) -> None:
        told: tuple[str | int, ...] = (state, reason, *more.values())
        if self._told.get(name) != told:
            self._told[name] = told
            viewer.put(type="state", replica=name, state=state, reason=reason, **more)


def _count(text: str) -> int:
    """How many frames of a cursor will come; none where that is not understood, which shows all anew."""
    is_number = text.isascii() and text.isdecimal() and len(text) < 4
    return int(text) if is_number and int(text) <= _MAX_CURSOR_FRAMES else 0


async def _all_done(sources: list[ReplicaSource]) -> None:
    for source in sources:
        await source.on_done.wait()


websocket_urlpatterns = [
    path("ws/jobs/<uuid:job_id>/logs/", LogConsumer.as_asgi()),
]
