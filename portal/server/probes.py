"""Whether the portal lives, may be sent requests, and is well: `/livez`, `/readyz`, `/status`.

`/readyz` is about this process alone, for a load balancer: a dead reconciler must not take away
pages that can still be read. `/status` is about all parts, for who watches over them. In `serve`
an ASGI layer answers, with a thread and a time limit of its own, whatever becomes of Django's.
"""

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

from django.db import Error, close_old_connections, connection
from django.utils.timezone import now
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from portal import metrics
from portal.asgi_answer import App, Message, Receive, Send, name_route, send_answer
from portal.database.postgres.outage import outage
from portal.database.postgres.patience import patience
from portal.process import process
from portal.web.reconciler import SILENCE, LeaseRow, find_banner, find_lease

Found = tuple[int, dict[str, Any]]

LIMIT_S = 4.0
_PATIENCE_S = 2.0
_AWAY = "does not answer"
_OK = "ok"


def liveness() -> Found:
    """503 when the reconciler of this process stands still: then it should be started again."""
    if process.is_stuck:
        return 503, {"live": False, "reconciler": "stands still"}
    return 200, {"live": True}


def readiness() -> Found:
    """200 when this process can serve pages; asks the database."""
    if outage.is_on:
        return not_ready()
    if process.schema_problem:
        return 503, {"ready": False, "database": _OK, "migrations": process.schema_problem}
    try:
        lease = _lease()
    except Error:
        return not_ready()
    banner = find_banner(lease, now())
    ready = process.knows_schema and not process.is_draining
    body: dict[str, Any] = {
        "ready": ready,
        "database": _OK,
        "cluster": str(banner.text) if banner else _OK,
    }
    if not process.knows_schema:
        body["migrations"] = "not looked at yet"
    if process.is_draining:
        body["draining"] = True
    return (200 if ready else 503), body


def reconciler_readiness() -> Found:
    """Of a process without a web: 200 when it waits for the lease, or knows the cluster."""
    code, body = readiness()
    if process.is_synced is False:
        return 503, {**body, "ready": False, "watches": "not listed yet"}
    return code, body


def not_ready() -> Found:
    return 503, {"ready": False, "database": _AWAY}


def status() -> Found:
    """By part `{"ok", "text"}`; 503 when any is not well."""
    if outage.is_on:
        return unknown_status()
    if process.schema_problem:
        return unknown_status(_OK, process.schema_problem)
    try:
        lease = _lease()
    except Error:
        return unknown_status()
    return _told(parts(lease, now()))


def unknown_status(database: str = _AWAY, migrations: str = "not known") -> Found:
    """What can be said while the database cannot be read, which knows of all others."""
    found = dict.fromkeys(("reconciler", "store", "messages", "cluster"), "not known")
    return _told({"database": database, "migrations": migrations, **found})


def parts(lease: LeaseRow | None, at: datetime) -> dict[str, str]:
    """Part -> `ok`, or what is wrong with it. Only what the reconciler has written is looked at."""
    renewed_at = lease.renewed_at if lease else None
    if lease is None or renewed_at is None:
        reconciler = "has never run"
    elif at - renewed_at > SILENCE:
        reconciler = f"silent since {renewed_at.isoformat(timespec='seconds')}"
    else:
        reconciler = _OK
    report = lease.health if lease else {}
    cluster = "never reached" if lease is None or lease.cluster_ok_at is None else _OK
    if lease is not None and lease.cluster_error:
        cluster = _AWAY
    works = {name: report.get(name, {}).get("state") != "no" for name in ("store", "channel_layer")}
    return {
        "database": _OK,
        "reconciler": reconciler,
        "store": _OK if works["store"] else "cannot be written and read",
        "messages": _OK if works["channel_layer"] else "do not pass",
        "migrations": _OK if process.knows_schema else "not looked at yet",
        "cluster": cluster,
    }


def _told(found: dict[str, str]) -> Found:
    body: dict[str, Any] = {name: {"ok": text == _OK, "text": text} for name, text in found.items()}
    is_well = all(text == _OK for text in found.values())
    return (200 if is_well else 503), {"ok": is_well, **body}


def _lease() -> LeaseRow | None:
    if not connection.in_atomic_block:
        close_old_connections()
    return find_lease()


def _brings_body(scope: Message) -> bool:
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value.strip() != b"0")
        for name, value in scope["headers"]
    )


class Probes:
    """The ASGI layer; other requests are counted and passed on."""

    def __init__(self, app: App, readiness: Callable[[], Found] = readiness) -> None:
        self._app = app
        # Of their own: the database may hang, and one must not wait behind the other.
        self._asked = {
            "/readyz": (readiness, not_ready, _thread("readyz")),
            "/status": (status, unknown_status, _thread("status")),
        }

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        # One that brings a body is no probe, and its body is counted like any other's.
        path = "" if _brings_body(scope) else scope["path"]
        if path in {"/healthz", "/livez", *self._asked}:
            name_route(scope, "")
        if path == "/healthz":
            await _answer(scope, send, 200, b"ok\n", b"text/plain")
        elif path == "/livez":
            await _answer_json(scope, send, liveness())
        elif path in self._asked:
            await _answer_json(scope, send, await self._ask(path))
        else:
            process.requests += 1
            try:
                await self._app(scope, receive, send)
            finally:
                process.requests -= 1

    async def _ask(self, path: str) -> Found:
        look, in_time, thread = self._asked[path]
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(LIMIT_S):
                return await loop.run_in_executor(thread, look)
        except TimeoutError:
            return in_time()


def _thread(name: str) -> ThreadPoolExecutor:
    def begin() -> None:
        patience.of_thread = _PATIENCE_S

    return ThreadPoolExecutor(1, name, initializer=begin)


async def nothing_else(scope: Message, receive: Receive, send: Send) -> None:
    """What stands behind the probes where there is no web."""
    await _answer(scope, send, 404, b"There are /livez, /readyz and /status.\n", b"text/plain")


async def tell_metrics(scope: Message, receive: Receive, send: Send) -> None:
    """What stands behind the probes on METRICS_PORT."""
    if scope["path"] != "/metrics":
        text = b"There are /metrics, /livez, /readyz and /status.\n"
        await _answer(scope, send, 404, text, b"text/plain")
        return
    told = generate_latest(metrics.REGISTRY)
    await _answer(scope, send, 200, told, CONTENT_TYPE_LATEST.encode())


async def _answer_json(scope: Message, send: Send, found: Found) -> None:
    code, body = found
    await _answer(scope, send, code, json.dumps(body).encode(), b"application/json")


async def _answer(scope: Message, send: Send, code: int, body: bytes, kind: bytes) -> None:
    if scope["method"] not in {"GET", "HEAD"}:
        code, body = 405, b""
    headers = [(b"cache-control", b"no-store")]
    await send_answer(send, code, body, kind, headers, is_head=scope["method"] == "HEAD")
