"""The one client of the Kubernetes API: plain dicts in and out, every call with a time limit.

Writes pass a token bucket and one function, `_mutate`, where tests put faults.
API: https://kubernetes.io/docs/reference/using-api/api-concepts/
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from email.utils import parsedate_to_datetime
from typing import Any, Literal, TypeVar
from weakref import WeakSet

import msgspec

from portal.cluster import credentials, labels
from portal.cluster.errors import (
    AlreadyExists,
    ClusterError,
    Conflict,
    NotFound,
    QuotaExceeded,
    Unavailable,
)
from portal.cluster.kinds import get_kind
from portal.cluster.objects import ListMeta
from portal.cluster.ratelimit import TokenBucket
from portal.cluster.transport import JSON, Request, Transport

Object = dict[str, Any]
T = TypeVar("T")
Deleted = Literal["deleted", "gone", "other"]
# Asked before and after each mutating call: (point, verb, object). May raise, may end the process.
Fault = Callable[[Literal["before", "after"], str, Object], None]
fault: Fault | None = None

_LIST_S = 60.0
_WRITES_PER_S = 20.0
_WRITE_BURST = 40
_PAGE = 500
_MERGE_PATCH = "application/merge-patch+json"


def _decode(body: bytes, path: str, wanted: Any = Any) -> Any:
    try:
        return msgspec.json.decode(body, type=wanted)
    except (msgspec.DecodeError, ValueError) as error:
        raise Unavailable(0, "BadAnswer", f"{path} answered no readable JSON: {error}") from error


_open: "WeakSet[Cluster]" = WeakSet()


async def close_all() -> None:
    """Closes every client of this process that is still open; at the very end of a process."""
    for cluster in list(_open):
        await cluster.close()


class Cluster:
    """Calls to one API server. Make it with `connect`, end it with `close`."""

    def __init__(self, account: credentials.Credentials) -> None:
        """Needs a running event loop. Use `connect`."""
        self._transport = Transport(account)
        self._writes = TokenBucket(_WRITES_PER_S, _WRITE_BURST)
        # (verb, kind) -> calls made; for the health page and for tests of "no call per page".
        self.calls: Counter[tuple[str, str]] = Counter()
        _open.add(self)

    @classmethod
    async def connect(cls, kubeconfig: str) -> "Cluster":
        """A client for the file's current context; the in-cluster account when empty.

        Nothing is called yet: a cluster that is down shows in the first call.

        Raises:
            CredentialsError: no usable credentials; the text says what to set.
        """
        return cls(await asyncio.to_thread(credentials.load, kubeconfig))

    async def close(self) -> None:
        _open.discard(self)
        await self._transport.close()

    @property
    def server(self) -> str:
        return self._transport.server

    @property
    def clock_ahead_s(self) -> float | None:
        """How far the API server's clock was ahead of ours at its last answer, to a second; None: not known."""
        date, came_at = self._transport.answered
        try:
            # It is the begin of the second in which the answer was made.
            return parsedate_to_datetime(date).timestamp() + 0.5 - came_at
        except ValueError:
            return None

    # --- reading ---
    async def get(self, kind: str, namespace: str | None, name: str) -> Object:
        """One object as it is now.

        Raises:
            NotFound, Forbidden, Unavailable: see errors.py.
        """
        self.calls["get", kind] += 1
        return await self._call(("get", kind), "GET", get_kind(kind).path(namespace, name))

    async def list(self, kind: str, namespace: str | None = None) -> list[Object]:
        """All objects of a kind, in pages; of all namespaces when none is given."""
        api_version = get_kind(kind).api_version

        def read(body: bytes) -> tuple[ListMeta, list[Object]]:
            page: _Page = _decode(body, kind, _Page)
            return page.metadata, page.items or []

        return [
            {"apiVersion": api_version, "kind": kind, **item}
            async for _, items in self.pages(kind, namespace, {}, read)
            for item in items
        ]

    async def pages(
        self,
        kind: str,
        namespace: str | None,
        params: Mapping[str, str],
        read: Callable[[bytes], tuple[ListMeta, T]],
        *,
        accept: str = JSON,
    ) -> AsyncIterator[tuple[ListMeta, T]]:
        """The pages of a list as `read` decodes them; a server that does not page answers with one.

        Each is decoded once: looking for the token of the next page alone costs a third of that again.

        Raises:
            Gone: the server forgot the list between two pages; start again.
        """
        path = get_kind(kind).path(namespace)
        more = ""
        while True:
            self.calls["list", kind] += 1
            asked = {**params, "limit": str(_PAGE), **({"continue": more} if more else {})}
            body = await self._transport.request(
                Request("GET", path, ("list", kind), params=asked, timeout_s=_LIST_S, accept=accept)
            )
            meta, page = read(body)
            yield meta, page
            more = meta.more
            if not more:
                return

    async def read(self, path: str) -> Object:
        """What has no kind of ours: `/version`, `/apis/GROUP/VERSION`.

        Raises:
            NotFound, Forbidden, Unavailable: see errors.py.
        """
        self.calls["get", path] += 1
        return await self._call(("get", path), "GET", path)

    async def try_create(self, obj: Object) -> Object:
        """What making the object would answer; nothing is made (server-side dry run).

        Raises:
            Invalid, Forbidden, QuotaExceeded, Unavailable: see errors.py.
        """
        self.calls["try", obj["kind"]] += 1
        path = get_kind(obj["kind"]).path(obj["metadata"].get("namespace"))
        return await self._call(
            ("try", obj["kind"]), "POST", path, body=obj, params={"dryRun": "All"}
        )

    async def review(self, path: str, body: Object) -> Object:
        """A question that is sent as an object, of which nothing is kept.

        Raises:
            NotFound, Forbidden, Unavailable: see errors.py.
        """
        self.calls["review", path] += 1
        return await self._call(("review", path), "POST", path, body=body)

    # --- writing ---
    async def create(self, obj: Object) -> Object:
        """Makes an object under the name that it carries; returns it as stored.

        Raises:
            AlreadyExists, Invalid, Forbidden, QuotaExceeded, Unavailable: see errors.py.
        """
        meta = obj["metadata"]
        path = get_kind(obj["kind"]).path(meta.get("namespace"))
        return await self._mutate("create", "POST", path, obj, body=obj)

    async def create_or_adopt(self, obj: Object) -> Object:
        """Makes an object, or takes over the one that an earlier try of ours made.

        A reply that got lost is repaired by reading back. Adopted is what carries the same
        `homeport.dev/owner` label and `homeport.dev/spec-hash` annotation.

        Raises:
            Conflict: the name is taken by something else; the text says what.
            ClusterError: as `create`; `Unavailable` and `QuotaExceeded` when reading back found
                nothing.
        """
        try:
            return await self.create(obj)
        except AlreadyExists:
            return self._adopted(obj, await self._read_back(obj))
        except (Unavailable, QuotaExceeded) as lost:
            # Quotas are looked at before names are: what is there may be what they have no room for.
            try:
                found = await self._read_back(obj)
            except ClusterError:
                raise lost from None
            return self._adopted(obj, found)

    async def _read_back(self, obj: Object) -> Object:
        meta = obj["metadata"]
        return await self.get(obj["kind"], meta.get("namespace"), meta["name"])

    @staticmethod
    def _adopted(wanted: Object, found: Object) -> Object:
        def mark(obj: Object) -> tuple[str, str]:
            meta = obj["metadata"]
            owner = (meta.get("labels") or {}).get(labels.OWNER, "")
            return owner, (meta.get("annotations") or {}).get(labels.SPEC_HASH, "")

        if mark(found) == mark(wanted):
            return found
        name = f"{wanted['kind']} {wanted['metadata']['name']}"
        if mark(found)[0] == mark(wanted)[0] != "":
            raise Conflict(409, "OtherSpec", f"{name} is ours but was created from another plan")
        raise Conflict(
            409,
            "Foreign",
            f"{name} exists and was not created by Homeport for this purpose; remove or rename "
            "it, and it is created again",
        )

    async def merge_patch(
        self, kind: str, namespace: str | None, name: str, patch: Object
    ) -> Object:
        """JSON merge patch (RFC 7386); returns the object as stored.

        With `metadata.resourceVersion` in the patch the server refuses when the object changed.

        Raises:
            Conflict: the object changed meanwhile.
            NotFound, Invalid, Forbidden, Unavailable: see errors.py.
        """
        path = get_kind(kind).path(namespace, name)
        about = {"kind": kind, "metadata": {"name": name, "namespace": namespace}}
        return await self._mutate(
            "patch", "PATCH", path, about, body=patch, content_type=_MERGE_PATCH
        )

    async def delete(
        self, kind: str, namespace: str | None, name: str, *, uid: str, grace_s: int | None = None
    ) -> Deleted:
        """Deletes exactly the object of this uid, and in the background what it owns.

        Returns:
            "deleted" (accepted), "gone" (was not there), "other" (the name has another uid now).
        """
        options: Object = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            # Without it a Job deleted over REST orphans its pods.
            "propagationPolicy": "Background",
            "preconditions": {"uid": uid},
        }
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        about = {"kind": kind, "metadata": {"name": name, "namespace": namespace, "uid": uid}}
        path = get_kind(kind).path(namespace, name)
        try:
            await self._mutate("delete", "DELETE", path, about, body=options)
        except NotFound:
            return "gone"
        except Conflict:
            return "other"
        return "deleted"

    async def _mutate(
        self,
        verb: str,
        method: str,
        path: str,
        about: Object,
        *,
        body: Object,
        content_type: str = JSON,
    ) -> Object:
        """The only way by which anything in the cluster changes."""
        await self._writes.take()
        self.calls[verb, about["kind"]] += 1
        if fault is not None:
            fault("before", verb, about)
        answer = await self._call(
            (verb, about["kind"]), method, path, body=body, content_type=content_type
        )
        if fault is not None:
            fault("after", verb, about)
        return answer

    # --- streams ---
    def stream(
        self,
        path: str,
        params: Mapping[str, str],
        *,
        silence_s: float | None,
        accept: str = JSON,
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """An endless answer as chunks: see `Transport.stream`."""
        return self._transport.stream(path, params, silence_s=silence_s, accept=accept)

    async def _call(
        self,
        about: tuple[str, str],
        method: str,
        path: str,
        *,
        body: Object | None = None,
        content_type: str = JSON,
        params: Mapping[str, str] | None = None,
    ) -> Object:
        raw = await self._transport.request(
            Request(method, path, about, body=body, content_type=content_type, params=params or {})
        )
        answer = _decode(raw, path)
        if not isinstance(answer, dict):
            raise Unavailable(0, "BadAnswer", f"{path} answered no object")
        return answer


class _Page(msgspec.Struct, frozen=True):
    metadata: ListMeta = ListMeta()
    items: list[Object] | None = None
