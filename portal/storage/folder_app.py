"""The door to a folder store: an ASGI layer that answers signed links, and passes on all the rest.

It stands in front of Django because uploads are large: Django would spool a whole body to a
temporary file before any of our code could say no. Here the link is checked first, bytes go
straight to their place in pieces of 1 MiB, written off the event loop, and an upload that is longer
than announced is cut at its first byte too many. With an S3 store this layer has nothing to answer.
"""

import asyncio
import logging
from urllib.parse import parse_qsl

from portal import metrics
from portal.asgi_answer import (
    CLOSE,
    App,
    Message,
    Receive,
    Send,
    name_route,
    send_answer,
    send_error,
)
from portal.storage import get_store
from portal.storage.folder import STORE_PATH, FolderStore, Incoming, SignedLink
from portal.storage.store import (
    CHUNK_BYTES,
    ObjectMismatchError,
    ObjectMissingError,
    StoreError,
)

log = logging.getLogger(__name__)
_SILENCE_S = 60.0  # a sender that is silent for so long has gone


class FolderStoreApp:
    """Answers `GET` and `PUT` below `STORE_PATH`; everything else goes to the inner application."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(STORE_PATH):
            await self._app(scope, receive, send)
            return
        name_route(scope, "store")
        store = get_store()
        method = scope["method"]
        if not isinstance(store, FolderStore) or method not in {"GET", "PUT"}:
            await _refuse(send, 404, "there is nothing here")
            return
        query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
        try:
            link = store.read_link(method, scope["path"][len(STORE_PATH) :], query)
        except StoreError as error:
            await _refuse(send, 403, str(error))
            return
        try:
            if method == "GET":
                await _give(store, link, send)
            else:
                await _take(store, link, receive, send)
        except StoreError as error:
            log.info("store: %s %s was left unfinished: %s", method, link.key, error)


async def _refuse(send: Send, status: int, text: str) -> None:
    await send_error(send, status, "store", text, [CLOSE])  # the rest of an upload is not read


async def _give(store: FolderStore, link: SignedLink, send: Send) -> None:
    try:
        size = await asyncio.to_thread(store.find_size, link.key)
        chunks = await asyncio.to_thread(store.open, link.key)
    except ObjectMissingError as error:
        await _refuse(send, 404, str(error))
        return
    except StoreError as error:  # whose text has paths of this machine
        log.error("the object store cannot give %s: %s", link.key, error)  # noqa: TRY400 (one line)
        await _refuse(send, 503, "the object store cannot be read right now; try again soon")
        return
    headers = [
        (b"content-type", b"application/octet-stream"),
        (b"content-length", b"%d" % (size or 0)),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    while (chunk := await asyncio.to_thread(next, chunks, None)) is not None:
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _take(store: FolderStore, link: SignedLink, receive: Receive, send: Send) -> None:
    try:
        incoming = await asyncio.to_thread(store.incoming, link.key, link.size_bytes or 0)
        try:
            await _receive_into(incoming, link, receive)
            await asyncio.to_thread(incoming.commit, size_bytes=link.size_bytes, sha256=link.sha256)
        finally:
            await asyncio.to_thread(incoming.abort)
    except ObjectMismatchError as error:
        await _refuse(send, 422, str(error))
    except OSError as error:
        metrics.STORE_ERRORS.labels("take").inc()
        log.error("the object store cannot keep %s: %s", link.key, error)  # noqa: TRY400 (one line)
        await _refuse(send, 507, f"the object store cannot keep it: {error.strerror}")
    else:
        await send_answer(send, 200, b"{}", b"application/json")


async def _receive_into(incoming: Incoming, link: SignedLink, receive: Receive) -> None:
    waiting = bytearray()
    more = True
    while more:
        try:
            message = await asyncio.wait_for(receive(), _SILENCE_S)
        except TimeoutError as error:
            raise StoreError(f"nothing came for {_SILENCE_S:.0f} s") from error
        if message["type"] == "http.disconnect":
            raise StoreError("the other side hung up")
        waiting += message.get("body", b"")
        more = message.get("more_body", False)
        if link.size_bytes is not None and incoming.size_bytes + len(waiting) > link.size_bytes:
            raise ObjectMismatchError(f"more than the announced {link.size_bytes} bytes came")
        if waiting and (len(waiting) >= CHUNK_BYTES or not more):
            await asyncio.to_thread(incoming.write, bytes(waiting))
            waiting.clear()
