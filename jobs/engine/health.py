"""What the reconciler says of itself and of what it stands on, for the admins' health page.

The reporter gathers (on the event loop, and beside it for what blocks), the loop writes it into the
lease row: at once when something that matters has changed, at most once a second, and with every
renewal of the lease, so that the numbers are never older than that. Times are ISO texts, UTC.
"""

import asyncio
import io
import logging
import platform
import shutil
import time
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import django
from asgiref.sync import sync_to_async
from channels.layers import get_channel_layer
from django.conf import settings
from django.db import DatabaseError
from django.utils import timezone

from jobs.engine import network
from jobs.engine.keys import KeyBook
from jobs.engine.unknown_namespaces import find_unknown_namespaces
from jobs.rules import check_results
from portal import metrics, room, supervise
from portal.cluster import preflight
from portal.cluster.cache import ClusterCache
from portal.cluster.client import Cluster
from portal.cluster.errors import ClusterError, Forbidden, NotFound
from portal.database import clock
from portal.database.size import size_bytes
from portal.storage import get_store
from portal.storage.store import StoreError
from portal.version import VERSION
from tenants.audit.record import newest_backup_at

log = logging.getLogger(__name__)

PROBE_S = 60.0
PROBE_SOON_S = 10.0  # while something does not work, or the cluster is not known yet
PREFLIGHT_S = 600.0
NETWORK_S = 86400.0
NETWORK_SOON_S = 300.0  # while it could not be tried, and twice as long each time
PREFLIGHT_SOON_S = 30.0  # while an answer is missing, and twice as long each time
LOOK_S = 5.0
_PATIENCE_S = 10.0
_WINDOW_S = 60.0  # the slowest tick of the last minute is told
_LOGGERS = ("jobs", "tenants", "portal")
_TEXT_MAX = 500
# Of what is told, these alone are worth a write of their own.
_SUBSTANCE = (
    *("watches", "last_error", "tasks", "store", "channel_layer", "cluster", "network"),
    *("results", "started_at", "keys", "unknown_namespaces"),
)
_NUMBERS = frozenset({"heard_at", "objects", "lists", "connects", "took_s", "checked_at"})


class LastError(logging.Handler):
    """Remembers the last warning or error of our own code."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last: dict[str, str] | None = None

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            text = f"{text}: {type(error).__name__}: {error}"
        at = datetime.fromtimestamp(record.created, UTC)
        self.last = {"at": at.isoformat(), "where": record.name, "text": text[:_TEXT_MAX]}


class TickTimes:
    """How long changes waited, as the worst of the last minute."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, float, float]] = deque()  # at, waited, took

    def note(self, heard_at: float | None, began_at: float) -> None:
        """One tick is over; monotonic seconds. `heard_at`: its oldest change, None: there was none."""
        now = time.monotonic()
        waited_s = 0.0 if heard_at is None else now - heard_at
        self._seen.append((now, waited_s, now - began_at))
        metrics.TICK_SECONDS.observe(now - began_at)
        while self._seen and self._seen[0][0] < now - _WINDOW_S:
            self._seen.popleft()

    def report(self) -> dict[str, Any]:
        return {
            "lag_s": round(max((waited for _, waited, _ in self._seen), default=0.0), 3),
            "took_s": round(max((took for _, _, took in self._seen), default=0.0), 3),
            "count": len(self._seen),
        }


class HealthReporter:
    """Gathers; `report` gives it all, ready for JSON (see `report` for the shape)."""

    def __init__(
        self, cluster: Cluster, cache: ClusterCache, workloads: Callable[[], Mapping[str, int]]
    ) -> None:
        """`workloads` counts what the controller has before it."""
        self.ticks = TickTimes()
        self._cluster = cluster
        self._cache = cache
        self._workloads = workloads
        self._started_at = timezone.now().isoformat()
        self._last_error = LastError()
        self._store: dict[str, Any] = {"state": "unknown"}
        self._layer: dict[str, Any] = {"state": "unknown"}
        self._preflight: dict[str, Any] = {}
        self._network: dict[str, Any] = {"state": "unknown"}
        self._results: dict[str, dict[str, Any]] = {}
        self._keys = KeyBook()
        self._unknown_namespaces: list[dict[str, Any]] = []
        self._database_ahead_s: float | None = None
        self._told: dict[str, Any] = {}
        self.database_bytes: int | None = None
        self.backup_at: float | None = None  # seconds since 1970; 0: there is none

    # --- what is told ---
    def report(self) -> dict[str, Any]:
        """Everything, with plain values only. On the event loop."""
        return {
            "written_at": timezone.now().isoformat(),
            "started_at": self._started_at,
            "versions": {
                "homeport": VERSION,
                "python": platform.python_version(),
                "django": django.get_version(),
            },
            "watches": self._watches(),
            "ticks": self.ticks.report(),
            "jobs": dict(self._workloads()),
            "last_error": self._last_error.last,
            "tasks": [
                {
                    "name": name,
                    "state": task["state"],
                    "error": task["error"][:_TEXT_MAX],
                    "restarts": task["restarts"],
                }
                for name, task in supervise.report().items()
                if task["error"] or not name.startswith("watch of ")
            ],
            "store": self._store,
            "channel_layer": self._layer,
            "cluster": self._preflight,
            "network": self._network,
            # Kind -> its document (jobs/rules/check_results.py), or {"problem"} of reading it.
            "results": self._results,
            "clocks": {
                "cluster_ahead_s": self._cluster.clock_ahead_s,
                "database_ahead_s": self._database_ahead_s,
            },
            "keys": self._keys.report(),
            "unknown_namespaces": self._unknown_namespaces,
        }

    def news(self) -> dict[str, Any] | None:
        """The report, when something that matters differs from the one given last; else None."""
        report = self.report()
        return report if self._substance(report) != self._told else None

    def wrote(self, report: dict[str, Any]) -> None:
        """This report is in the database."""
        self._told = self._substance(report)

    @staticmethod
    def _substance(report: dict[str, Any]) -> dict[str, Any]:
        return {name: _without_numbers(report[name]) for name in _SUBSTANCE}

    def _watches(self) -> list[dict[str, Any]]:
        now, clock = timezone.now(), time.monotonic()

        def moment(at: float) -> str | None:
            seen = now - timedelta(seconds=clock - at) if at else None
            return seen.isoformat(timespec="seconds") if seen else None

        found = []
        for watch in self._cache.watches:
            health = watch.health
            found.append(
                {
                    "kind": watch.options.kind,
                    "objects": len(watch.items),
                    "is_synced": watch.synced.is_set(),
                    "heard_at": moment(health.heard_at),
                    "problem": health.problem[:_TEXT_MAX],
                    "unreadable": health.unreadable,
                    "lists": health.lists,
                    "connects": health.connects,
                }
            )
        return found

    # --- what has to be tried ---
    async def begin(self) -> None:
        """Reads what the report before has that must not be forgotten; before the first one is written."""
        await sync_to_async(self._keys.look)()

    async def run(self) -> None:
        """Tries out store, channel layer and cluster now and then, until cancelled."""
        for name in _LOGGERS:
            logging.getLogger(name).addHandler(self._last_error)
        tasks = [
            asyncio.create_task(supervise.run_forever(name, tries), name=name)
            for name, tries in (
                ("health probes", self._probe_forever),
                ("pre-flight", self._preflight_forever),
                ("pre-flight of the network", self._network_forever),
                ("results of checks", self._results_forever),
            )
        ]
        try:
            await asyncio.wait(tasks)
        finally:
            # Not a task group, which cancels once: what goes on all the same would be waited for.
            await supervise.end(tasks)
            for name in _LOGGERS:
                logging.getLogger(name).removeHandler(self._last_error)

    async def _probe_forever(self) -> None:
        while True:
            self._store = await _timed("object store", _try_store, self._store) | store_kind()
            with suppress(DatabaseError):
                self.database_bytes = await sync_to_async(size_bytes)()
                newest = await sync_to_async(newest_backup_at)()
                self.backup_at = newest.timestamp() if newest else 0.0
                self._database_ahead_s = await sync_to_async(clock.ahead_s)()
                await sync_to_async(self._keys.look)()
                if self._cache.synced:
                    seen = [one for _, one in sorted(self._cache.namespaces.watch.items.items())]
                    self._unknown_namespaces = await sync_to_async(find_unknown_namespaces)(seen)
            self._layer = await _timed("channel layer", _try_layer, self._layer) | layer_kind()
            works = "no" not in {self._store["state"], self._layer["state"]} and self._cache.synced
            await asyncio.sleep(PROBE_S if works else PROBE_SOON_S)

    async def _preflight_forever(self) -> None:
        """Asks anew every few minutes, sooner while an answer is missing; and as soon as there is a
        namespace in which Pod Security can be tried."""
        wait_s, asked_at, tried_in = 0.0, 0.0, ""
        while True:
            await self._cache.wait_synced()
            namespace = self._namespace()
            is_due = time.monotonic() - asked_at >= wait_s
            if is_due or bool(namespace) != bool(tried_in):
                found = await preflight.look(self._cluster, settings.STORAGE_CLASS, namespace)
                self._preflight = {
                    **found.as_json(),
                    "class_name": settings.STORAGE_CLASS,
                    "checked_at": timezone.now().isoformat(timespec="seconds"),
                }
                asked_at, tried_in = time.monotonic(), namespace
                first_s = max(wait_s * 2, PREFLIGHT_SOON_S)
                wait_s = PREFLIGHT_S if found.is_complete else min(first_s, PREFLIGHT_S)
            await asyncio.sleep(LOOK_S)

    async def _network_forever(self) -> None:
        """Tries daily whether namespaces are apart, sooner while that could not be tried."""
        wait_s = 0.0
        while settings.NETWORK_CHECK:
            await self._cache.wait_synced()
            found = await network.NetworkCheck(self._cluster).look()
            self._network = {
                "state": found.state,
                "detail": found.detail[:_TEXT_MAX],
                "checked_at": timezone.now().isoformat(timespec="seconds"),
            }
            soon_s = min(max(wait_s * 2, NETWORK_SOON_S), NETWORK_S)
            wait_s = soon_s if found.state == "unknown" else NETWORK_S
            await asyncio.sleep(wait_s)
        await asyncio.Event().wait()

    async def _results_forever(self) -> None:
        """Reads what preflight and doctor last said in this cluster."""
        while True:
            self._results = {kind: await self._result(kind) for kind in check_results.KINDS}
            await asyncio.sleep(PROBE_S)

    async def _result(self, kind: check_results.Kind) -> dict[str, Any]:
        try:
            found = await self._cluster.get("ConfigMap", check_results.NAMESPACE, kind)
            body = (found.get("data") or {}).get(check_results.KEY, "")
            # Without one it is as the installation made it, for the first run to write to.
            return check_results.parse_results(body.encode(), kind).as_json() if body else {}
        except NotFound:
            return {}
        except Forbidden:
            return {"problem": "Homeport may not read it; apply deploy/cluster again"}
        except (ClusterError, ValueError) as error:
            return {"problem": str(error)[:_TEXT_MAX]}

    def _namespace(self) -> str:
        """One of ours that lives: they are all labelled for Pod Security."""
        for (_, name), namespace in self._cache.namespaces.watch.items.items():
            if namespace.status.phase == "Active" and not namespace.metadata.deletion_timestamp:
                return name
        return ""


def _without_numbers(told: Any) -> Any:
    if isinstance(told, dict):
        return {k: _without_numbers(v) for k, v in told.items() if k not in _NUMBERS}
    if isinstance(told, list):
        return [_without_numbers(item) for item in told]
    return told


def store_kind() -> dict[str, Any]:
    """Which object store it is, and for a folder how much room is left around it."""
    if settings.S3_BUCKET:
        return {"kind": "s3", "name": settings.S3_BUCKET}
    disk = shutil.disk_usage(settings.HOMEPORT_HOME)
    return {
        "kind": "folder",
        "name": str(settings.HOMEPORT_HOME),
        # In steps, so that each file written is no news.
        "free_percent": round(disk.free * 100 / disk.total),
        "is_short": room.is_short(),
    }


def layer_kind() -> dict[str, Any]:
    return {"kind": "redis" if settings.REDIS_URL else "memory"}


async def _timed(
    name: str, attempt: Callable[[], Awaitable[None]], before: dict[str, Any]
) -> dict[str, Any]:
    """`{"state": "yes" | "no", "text", "took_s", "checked_at"}` of one try; what failed the same way
    `before` is in the log already."""
    began = time.monotonic()
    state, text = "yes", ""
    try:
        async with asyncio.timeout(_PATIENCE_S):
            await attempt()
    except TimeoutError:
        state, text = "no", f"no answer within {_PATIENCE_S:g} s"
    except room.NoRoomError as error:
        state, text = "no", str(error.strerror)
    except StoreError as error:
        state, text = "no", str(error)[:_TEXT_MAX]
    except Exception as error:  # noqa: BLE001  the named fence: what is tried here may fail in any way
        state, text = "no", f"{type(error).__name__}: {error}"[:_TEXT_MAX]
    if state == "no" and text != before.get("text"):
        log.warning("the %s, which is tried for the health page, does not work: %s", name, text)
    took_s = round(time.monotonic() - began, 3)
    checked_at = timezone.now().isoformat(timespec="seconds")
    return {"state": state, "text": text, "took_s": took_s, "checked_at": checked_at}


async def _try_store() -> None:
    await asyncio.to_thread(_write_and_read)


def _write_and_read() -> None:
    store, key, said = get_store(), f"homeport-health/{uuid.uuid4().hex}", b"ahoy"
    store.put_file(key, io.BytesIO(said))
    try:
        heard = b"".join(store.open(key))
    finally:
        store.delete(key)
    if heard != said:
        raise OSError("what was written came back otherwise")


async def _try_layer() -> None:
    layer = get_channel_layer()
    group = f"health.{uuid.uuid4().hex}"
    channel = await layer.new_channel("health")
    await layer.group_add(group, channel)
    try:
        await layer.group_send(group, {"type": "ahoy"})
        await layer.receive(channel)
    finally:
        await layer.group_discard(group, channel)
