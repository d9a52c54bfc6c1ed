"""A small API server over real HTTP that misbehaves on demand.

It knows every kind of `portal.cluster.kinds`, creates, merges, deletes with a uid precondition,
lists in pages and watches. What upstream's controllers would do to a new object (a Namespace becomes
Active, a quota is confirmed, a claim is bound, a volume that is released under the policy Delete
is removed) it does at once, unless told not to.
"""

import asyncio
import json
import ssl
import time
import uuid
from collections import deque
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path
from typing import Any

from aiohttp import web

from portal.cluster.kinds import KINDS, ResourceKind
from tests.tools.kubeconfigs import write_kubeconfig

Object = dict[str, Any]
_BY_PATH = {(kind.group, kind.plural): kind for kind in KINDS.values()}


@dataclass
class Trouble:
    """What happens to one request.

    Attributes:
        on: `METHOD path-ending`, or "watch PLURAL" for the stream of a watch; "" matches all.
        what: `refuse` (connection closed), `status` (with `status`, `headers`, `body`), `lost`
            (done, but the reply never comes), and for streams `stall`, `garbage`, `cut` (in the
            middle of the next event), `gone` (ERROR event 410), `end` (closed at once).
        times: how often; -1: always.
    """

    on: str
    what: str
    times: int = 1
    status: int = 503
    headers: dict[str, str] = field(default_factory=dict)
    body: Object = field(default_factory=dict)


@dataclass
class Asked:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any = None


class FakeApi:
    """Use `start` and `stop`; `url` and `kubeconfig` are there in between."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Object] = {}  # plural, namespace, name
        self.log: list[tuple[int, str, str, Object]] = []  # version, type, plural, object
        self.version = 100
        self.oldest = 0  # versions below are forgotten
        self.trouble: deque[Trouble] = deque()
        self.asked: list[Asked] = []
        self.pages = True
        self.confirms_quota = True
        self.binds_claims = True
        self.empties_namespaces = True
        self.removes_volumes = True
        self.bookmarks_s = 0.0  # 0: none
        self.version_name = "v1.33.0"
        self.clock_ahead_s = 0.0
        self.honours_pod_security = True
        self.has_metrics = False
        self.has_pod_groups = False
        self.rules: Object = {}  # the SelfSubjectRulesReview that is answered
        self.open_watches = 0
        self._news = asyncio.Event()
        self._runner: web.AppRunner | None = None
        self.url = ""

    # --- life ---
    async def start(self, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        app = web.Application(client_max_size=16 * 1024**2)
        app.router.add_route("*", "/{tail:.*}", self._handle)
        self._runner = web.AppRunner(
            app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port, ssl_context=tls)
        await site.start()
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self._runner.addresses[0][1]}"

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def kubeconfig(self, folder: Path) -> str:
        path = folder / "kubeconfig"
        return str(write_kubeconfig(path, self.url, {"token": "secret-token"}))

    # --- what tests do behind the clients' backs ---
    def put(self, obj: Object) -> Object:
        """Creates or replaces an object, as another client would; returns it as stored."""
        kind = KINDS[obj["kind"]]
        stored = deepcopy({"apiVersion": kind.api_version, **obj})
        meta = stored["metadata"]
        key = (kind.plural, meta.get("namespace", ""), meta["name"])
        before = self.objects.get(key)
        meta.setdefault("uid", before["metadata"]["uid"] if before else str(uuid.uuid4()))
        meta.setdefault("creationTimestamp", "2026-11-20T00:00:00Z")
        self._store("MODIFIED" if before else "ADDED", key, stored)
        return stored

    def change(self, kind: str, namespace: str, name: str, patch: Object) -> Object:
        obj = deepcopy(self.find(kind, namespace, name))
        _merge(obj, patch)
        return self.put(obj)

    def find(self, kind: str, namespace: str, name: str) -> Object:
        return self.objects[KINDS[kind].plural, namespace, name]

    def has(self, kind: str, namespace: str, name: str) -> bool:
        return (KINDS[kind].plural, namespace, name) in self.objects

    def remove(self, kind: str, namespace: str, name: str) -> None:
        self._remove((KINDS[kind].plural, namespace, name))

    def _remove(self, key: tuple[str, str, str]) -> None:
        gone = deepcopy(self.objects.pop(key))
        self._note("DELETED", key[0], gone)
        volume = gone.get("spec", {}).get("volumeName")
        if key[0] == "persistentvolumeclaims" and volume:
            self.change("PersistentVolume", "", volume, {"status": {"phase": "Released"}})
        if key[0] == "namespaces":
            for inner in [other for other in self.objects if other[1] == key[2]]:
                self._remove(inner)

    def forget_history(self) -> None:
        """As a compaction does: every watch from before is answered 410."""
        self.oldest = self.version + 1
        self.version += 1

    def requests(self, method: str, ending: str = "") -> list[Asked]:
        return [a for a in self.asked if a.method == method and a.path.endswith(ending)]

    # --- storing ---
    def _store(self, event: str, key: tuple[str, str, str], obj: Object) -> None:
        self._control(obj)
        self.objects[key] = obj
        self._note(event, key[0], obj)
        policy = obj.get("spec", {}).get("persistentVolumeReclaimPolicy")
        is_released = policy == "Delete" and obj["status"].get("phase") == "Released"
        if obj["kind"] == "PersistentVolume" and is_released and self.removes_volumes:
            self._remove(key)

    def _note(self, event: str, plural: str, obj: Object) -> None:
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        self.log.append((self.version, event, plural, deepcopy(obj)))
        news, self._news = self._news, asyncio.Event()
        news.set()

    def _control(self, obj: Object) -> None:
        status = obj.setdefault("status", {})
        if obj["kind"] == "Namespace":
            status.setdefault("phase", "Active")
        if obj["kind"] == "ResourceQuota" and self.confirms_quota:
            hard = obj["spec"]["hard"]
            used = {**dict.fromkeys(hard, "0"), **status.get("used", {})}
            obj["status"] = {"hard": dict(hard), "used": used}
        if obj["kind"] == "PersistentVolumeClaim" and self.binds_claims and not status:
            meta = obj["metadata"]
            volume = f"pv-{meta['uid'][:8]}"
            obj["spec"]["volumeName"] = volume
            obj["status"] = {"phase": "Bound"}
            claim = {"namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}
            self.put(
                {
                    "kind": "PersistentVolume",
                    "metadata": {"name": volume},
                    "spec": {"persistentVolumeReclaimPolicy": "Retain", "claimRef": claim},
                }
            )

    # --- HTTP ---
    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.json() if request.can_read_body else None
        query = dict(request.query)
        self.asked.append(Asked(request.method, request.path, query, dict(request.headers), body))
        if request.path == "/version":
            date = formatdate(time.time() + self.clock_ahead_s, usegmt=True)
            return web.json_response({"gitVersion": self.version_name}, headers={"Date": date})
        if request.path.startswith("/apis/metrics.k8s.io/"):
            found = {"kind": "APIResourceList"} if self.has_metrics else None
            return web.json_response(found) if found else _status(404, "NotFound", "no such group")
        if request.path == "/apis/scheduling.k8s.io/v1beta1":
            found = {"resources": [{"name": "podgroups"}]} if self.has_pod_groups else None
            return web.json_response(found) if found else _status(404, "NotFound", "no such group")
        if request.path.startswith("/apis/authorization.k8s.io/"):
            found = self.rules
            return web.json_response(found) if found else _status(404, "NotFound", "no such group")
        kind, namespace, name = self._parse(request.path)
        if "watch" in query:
            return await self._watch(request, kind)
        trouble = self._trouble(f"{request.method} {request.path}")
        if trouble is not None and trouble.what == "refuse":
            _cut(request)
        if trouble is not None and trouble.what == "status":
            return web.json_response(trouble.body, status=trouble.status, headers=trouble.headers)
        answer = self._answer(request, kind, (namespace, name), body)
        if trouble is not None and trouble.what == "lost":
            _cut(request)
        return answer

    def _trouble(self, what: str) -> Trouble | None:
        for trouble in self.trouble:
            if trouble.times != 0 and _matches(trouble.on, what):
                trouble.times -= 1
                return trouble
        return None

    @staticmethod
    def _parse(path: str) -> tuple[ResourceKind, str, str]:
        parts = path.strip("/").split("/")
        group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        return _BY_PATH[group, rest[0]], namespace, rest[1] if len(rest) > 1 else ""

    def _answer(
        self, request: web.Request, kind: ResourceKind, where: tuple[str, str], body: Any
    ) -> web.Response:
        namespace, name = where
        if "dryRun" in request.query:
            return self._try(body)
        if request.method == "POST":
            return self._create(kind, namespace, body)
        if not name:
            return self._list(kind, namespace, dict(request.query))
        key = (kind.plural, namespace, name)
        if key not in self.objects:
            return _status(404, "NotFound", f"{kind.plural} {name!r} not found")
        if request.method == "PATCH":
            return self._patch(key, body)
        if request.method == "DELETE":
            return self._delete(key, body)
        return web.json_response(self.objects[key])

    def _try(self, body: Object) -> web.Response:
        if body["kind"] == "Pod" and self.honours_pod_security:
            words = f'pods "{body["metadata"]["name"]}" is forbidden: violates PodSecurity'
            return _status(403, "Forbidden", f'{words} "restricted:v1.33": privileged')
        return web.json_response(body, status=201)

    def _create(self, kind: ResourceKind, namespace: str, body: Object) -> web.Response:
        key = (kind.plural, namespace, body["metadata"]["name"])
        if key in self.objects:
            return _status(409, "AlreadyExists", f"{kind.plural} {key[2]!r} already exists")
        if namespace and ("namespaces", "", namespace) not in self.objects:
            return _status(404, "NotFound", f"namespaces {namespace!r} not found")
        return web.json_response(self.put(body), status=201)

    def _patch(self, key: tuple[str, str, str], patch: Object) -> web.Response:
        obj = deepcopy(self.objects[key])
        wanted = patch.get("metadata", {}).get("resourceVersion")
        if wanted is not None and wanted != obj["metadata"]["resourceVersion"]:
            return _status(409, "Conflict", "the object has been modified")
        if patch.get("metadata", {}).get("uid", obj["metadata"]["uid"]) != obj["metadata"]["uid"]:
            return _status(409, "Conflict", "the UID in the precondition does not match")
        _merge(obj, patch)
        self._store("MODIFIED", key, obj)
        return web.json_response(obj)

    def _delete(self, key: tuple[str, str, str], options: Object | None) -> web.Response:
        uid = ((options or {}).get("preconditions") or {}).get("uid")
        if uid is not None and uid != self.objects[key]["metadata"]["uid"]:
            return _status(409, "Conflict", "the UID in the precondition does not match")
        if key[0] == "namespaces" and not self.empties_namespaces:
            status = {"phase": "Terminating"}
            meta = {"deletionTimestamp": "2026-11-20T00:00:01Z"}
            self.change("Namespace", "", key[2], {"metadata": meta, "status": status})
        else:
            self._remove(key)
        return web.json_response({"kind": "Status", "status": "Success"})

    def _selected(self, kind: ResourceKind, namespace: str, query: dict[str, str]) -> list[Object]:
        return [
            obj
            for (plural, inside, _), obj in sorted(self.objects.items())
            if plural == kind.plural
            and namespace in {"", inside}
            and _is_selected(obj, query.get("labelSelector", ""))
        ]

    def _list(self, kind: ResourceKind, namespace: str, query: dict[str, str]) -> web.Response:
        items = self._selected(kind, namespace, query)
        meta: Object = {"resourceVersion": str(self.version)}
        if self.pages and "limit" in query:
            first = int(query.get("continue", "0"))
            last = first + int(query["limit"])
            if last < len(items):
                meta["continue"] = str(last)
            items = items[first:last]
        listed = {"kind": f"{kind.name}List", "apiVersion": kind.api_version}
        return web.json_response({**listed, "metadata": meta, "items": items or None})

    # --- watch ---
    async def _watch(self, request: web.Request, kind: ResourceKind) -> web.StreamResponse:
        trouble = self._trouble(f"watch {kind.plural}")
        if trouble is not None and trouble.what == "refuse":
            _cut(request)
        if trouble is not None and trouble.what == "status":
            return web.json_response(trouble.body, status=trouble.status, headers=trouble.headers)
        stream = web.StreamResponse()
        stream.content_type = "application/json"
        await stream.prepare(request)
        self.open_watches += 1
        try:
            await self._stream(request, stream, kind, trouble)
        finally:
            self.open_watches -= 1
        return stream

    async def _stream(
        self,
        request: web.Request,
        stream: web.StreamResponse,
        kind: ResourceKind,
        trouble: Trouble | None,
    ) -> None:
        what = trouble.what if trouble is not None else ""
        since = int(request.query["resourceVersion"])
        if what == "stall":
            await asyncio.Event().wait()
        if what == "end":
            return
        if what == "garbage":
            await stream.write(b'{"type": "ADDED", "object": {"metadata": oops}}\n')
        if what == "gone" or since < self.oldest:
            await stream.write(_line("ERROR", _status_body(410, "Expired", "too old")))
            return
        while True:
            news = self._news
            for line in self._lines(kind, request.query.get("labelSelector", ""), since):
                if what == "cut":
                    await stream.write(line[: len(line) // 2])
                    _cut(request)
                await stream.write(line)
            since = self.version
            await self._bookmark(stream, kind, news)

    async def _bookmark(
        self, stream: web.StreamResponse, kind: ResourceKind, news: asyncio.Event
    ) -> None:
        while True:
            try:
                await asyncio.wait_for(news.wait(), self.bookmarks_s or None)
                return
            except TimeoutError:
                meta = {"resourceVersion": str(self.version)}
                await stream.write(_line("BOOKMARK", {"kind": kind.name, "metadata": meta}))

    def _lines(self, kind: ResourceKind, selector: str, since: int) -> Iterator[bytes]:
        for version, event, plural, obj in self.log:
            if version > since and plural == kind.plural and _is_selected(obj, selector):
                yield _line(event, obj)


def _cut(request: web.Request) -> None:
    """Closes the connection without a word more."""
    assert request.transport is not None
    request.transport.abort()
    raise ConnectionResetError("cut on purpose")


def _matches(on: str, what: str) -> bool:
    method, _, ending = on.partition(" ")
    return not on or (what.startswith(method) and what.endswith(ending))


def _is_selected(obj: Object, selector: str) -> bool:
    marks = obj["metadata"].get("labels") or {}
    return all(
        marks.get(part.partition("=")[0]) == part.partition("=")[2]
        for part in selector.split(",")
        if part
    )


def _merge(target: Object, patch: Object) -> None:
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            inner = target.setdefault(key, {})
            _merge(inner, value)
        else:
            target[key] = value


def _line(event: str, obj: Object) -> bytes:
    return json.dumps({"type": event, "object": obj}).encode() + b"\n"


def _status_body(code: int, reason: str, message: str) -> Object:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }


def _status(code: int, reason: str, message: str) -> web.Response:
    return web.json_response(_status_body(code, reason, message), status=code)
