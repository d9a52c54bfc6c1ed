"""The door for bodies: an ASGI layer that says how much a request may send, before it is read.

It stands in front of Django, which would write a body of any size to a disk before anybody looks.
No request sends more than `MAX_BODY_BYTES`; one that stays below is passed on when all of it has
come. More is taken at the addresses of uploads alone, as a form, and of people with a valid session
or token: such a form is read here, straight into the store's waiting room, and Django is given it
ready. Who sends too much, nothing for too long, too many uploads at once or more than the disk has
room for is refused in words, and the connection is closed. Counts are of this process.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Hashable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from typing import Any, cast

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core import signals
from django.core.exceptions import RequestAborted, SuspiciousOperation
from django.core.handlers.asgi import ASGIHandler, ASGIRequest, get_script_prefix
from django.db import DatabaseError
from django.http import FileResponse
from django.http.multipartparser import MultiPartParser, MultiPartParserError
from django.urls import set_script_prefix

from portal import room
from portal.asgi_answer import (
    CLOSE,
    App,
    Message,
    Receive,
    Send,
    name_route,
    retry_after,
    send_error,
)
from portal.web.refusals import BUSY, DATABASE_AWAY, DISK_FULL, Refusal, form_limit
from portal.web.uploads import WaitingFileHandler

FindPerson = Callable[[Message], Awaitable[Hashable | None]]

MAX_BODY_BYTES = 1024**2
FORM_BYTES = 256 * 1024  # of an upload's form, besides its file
SILENCE_S = 15.0
BODY_S = 60.0  # for all of a body that is no upload
# Of bodies that have not come whole, together; beyond it the largest of them is given up.
MAX_HELD_BYTES = 64 * 1024**2
UPLOAD_SILENCE_S = 60.0
MAX_UPLOADS = 16
MAX_UPLOADS_PER_PERSON = 2
_RETRY_S = 5
_PIECE_BYTES = 512 * 1024
_FORM = "homeport.form"  # in the scope: what was read here, as `(POST, FILES)`

log = logging.getLogger(__name__)


class BodyError(Exception):
    """A refusal: its status, a code, a sentence, and when another try may help."""

    def __init__(self, status: int, code: str, text: str, wait_s: int | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.code = code
        self.wait_s = wait_s


class FormHandler(ASGIHandler):
    """Django's handler, for requests whose form may have been read already.

    A request is one call in its thread, from its beginning to its end. As Django would have it, each
    middleware is called on the event loop, and goes to the thread and back for itself.
    """

    def load_middleware(self, is_async: bool = False) -> None:
        super().load_middleware(is_async=False)

    async def handle(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            body_file = await self.read_body(receive)
        except RequestAborted:
            return
        answering = asyncio.create_task(self._answer(scope, body_file, send))
        leaving = asyncio.create_task(receive())
        try:
            await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            answering.cancel()  # harmless, unless the other side has left
            with closing(body_file), suppress(asyncio.CancelledError):
                await answering

    async def _answer(self, scope: Any, body_file: Any, send: Any) -> None:
        response = await sync_to_async(self._respond)(scope, body_file)
        try:
            await self.send_response(response, send)
        finally:
            if response.streaming:
                await sync_to_async(response.close)()

    def _respond(self, scope: Any, body_file: Any) -> Any:
        """The answer. Unless it is streamed it is over, and only wants to be sent."""
        set_script_prefix(get_script_prefix(scope))
        signals.request_started.send(sender=type(self), scope=scope)
        request, refusal = self.create_request(scope, body_file)
        response: Any = refusal if request is None else self.get_response(request)
        response._handler_class = type(self)
        if isinstance(response, FileResponse):
            response.block_size = self.chunk_size
        if not response.streaming:
            response.close()
        return response

    def resolve_request(self, request: Any) -> Any:
        match = super().resolve_request(request)
        name_route(request.scope, match.view_name)
        return match

    class request_class(ASGIRequest):  # noqa: N801 (named by Django)
        """As if a middleware had looked at the form before."""

        def __init__(self, scope: dict[str, Any], body_file: Any) -> None:
            super().__init__(scope, body_file)
            if _FORM in scope:
                self._post, self._files = scope[_FORM]
                self._read_started = True


class BodyDoor:
    """Passes on what may be sent; see the module.

    Args:
        upload_paths: where more than `MAX_BODY_BYTES` may come, by POST.
        find_person: whose session or token a request shows; None: nobody's. Is asked only where
            more comes, and may raise DatabaseError.
    """

    def __init__(self, app: App, upload_paths: Collection[str], find_person: FindPerson) -> None:
        self._app = app
        self._upload_paths = frozenset(upload_paths)
        self._find_person = find_person
        self._held = _Held()
        self._uploads: Counter[Hashable] = Counter()
        # Each waits for what comes over the network, so they must not be threads of others.
        self._readers = ThreadPoolExecutor(MAX_UPLOADS, "upload")

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        length: int | None = 0
        if scope["type"] == "http":
            length = _announced_bytes(scope)
        if length == 0:
            await self._app(scope, receive, send)
            return
        try:
            if (length is None or length > MAX_BODY_BYTES) and self._is_upload(scope):
                await self._large(scope, receive, send, length)
            else:
                await self._small(scope, receive, send, length)
        except BodyError as error:
            headers = [CLOSE, *retry_after(error.wait_s)]  # the rest is not read
            await send_error(send, error.status, error.code, str(error), headers)
        except RequestAborted:
            pass

    def _is_upload(self, scope: Message) -> bool:
        kind = dict(scope["headers"]).get(b"content-type", b"").lower()
        is_form: bool = kind.startswith(b"multipart/form-data")
        return is_form and scope["method"] == "POST" and scope["path"] in self._upload_paths

    # --- what anybody may send ---
    async def _small(
        self, scope: Message, receive: Receive, send: Send, length: int | None
    ) -> None:
        if length is not None and length > MAX_BODY_BYTES:
            raise _too_large(scope, self._upload_paths)
        reading = self._held.reading()
        try:
            body = await reading.read(receive)
        except _TooLongError as error:
            raise _too_large(scope, self._upload_paths) from error
        if length is None:
            scope = _with_length(scope, len(body))
        await self._app(scope, _after(body, receive), send)

    # --- uploads ---
    async def _large(
        self, scope: Message, receive: Receive, send: Send, length: int | None
    ) -> None:
        limit = settings.BUNDLE_MAX_BYTES + FORM_BYTES
        if length is not None and length > limit:
            raise _upload_too_large()
        try:
            person = await self._find_person(scope)
        except DatabaseError as error:
            log.warning("an upload was refused: the database does not answer: %s", error)
            raise _as_elsewhere(DATABASE_AWAY) from error
        if person is None:
            await self._small(scope, receive, send, length)
            return
        if self._uploads[person] >= MAX_UPLOADS_PER_PERSON:
            text = "Two of your uploads are already under way. Wait until one has ended."
            raise BodyError(429, "too_many_uploads", text, _RETRY_S)
        if self._uploads.total() >= MAX_UPLOADS:
            text = "Too many people are uploading at the moment. Try again soon."
            raise BodyError(503, "too_many_uploads", text, _RETRY_S)
        self._uploads[person] += 1
        try:
            form, count = await self._read_form(scope, receive, limit, length or 0)
        finally:
            self._uploads -= Counter((person,))
        try:
            scope = {**_with_length(scope, count), _FORM: form}
            await self._app(scope, _after(b"", receive), send)
        finally:
            for file in [file for _name, files in form[1].lists() for file in files]:
                file.close()

    async def _read_form(
        self, scope: Message, receive: Receive, limit: int, announced: int
    ) -> tuple[tuple[Any, Any], int]:
        """The form and its bytes, of which so many were announced; 0: nobody said."""
        loop = asyncio.get_running_loop()
        stream = _Stream(receive, limit, loop)
        handler = WaitingFileHandler()
        headers = dict(scope["headers"])
        meta = {"CONTENT_TYPE": headers[b"content-type"].decode("latin-1"), "CONTENT_LENGTH": limit}

        def parse() -> tuple[Any, Any]:
            room.check(announced)  # before anything is read
            return MultiPartParser(meta, cast(Any, stream), [handler]).parse()

        try:
            return await loop.run_in_executor(self._readers, parse), stream.count
        except _TooLongError as error:
            raise _upload_too_large() from error
        except TimeoutError as error:
            raise _too_slow(UPLOAD_SILENCE_S) from error
        except (MultiPartParserError, SuspiciousOperation) as error:
            too_many = form_limit(error)
            if too_many is not None:
                raise BodyError(413, "too_large", str(too_many)) from error
            text = f"The form cannot be read: {error}"
            raise BodyError(400, "parse_error", text) from error
        except OSError as error:
            log.error("an upload cannot be kept: %s", error)  # noqa: TRY400 (one line)
            raise _as_elsewhere(DISK_FULL) from error
        finally:
            stream.close()
            handler.upload_interrupted()


class _TooLongError(Exception):
    """More bytes than are taken."""


class _Held:
    """What has come of bodies that are not whole yet."""

    def __init__(self) -> None:
        self._readings: set[_Reading] = set()

    def reading(self) -> "_Reading":
        return _Reading(self._readings)


class _Reading:
    """One body that comes; small."""

    def __init__(self, others: "set[_Reading]") -> None:
        self._others = others
        self._timer: asyncio.Timeout | None = None
        self._parts = bytearray()
        self._is_given_up = False

    async def read(self, receive: Receive) -> bytes:
        """All of it.

        Raises:
            _TooLongError, RequestAborted; BodyError: too slow, or given up for the sake of others.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + BODY_S
        try:
            async with asyncio.timeout(SILENCE_S) as self._timer:
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise RequestAborted
                    self._parts += message.get("body", b"")
                    if len(self._parts) > MAX_BODY_BYTES:
                        raise _TooLongError
                    if not message.get("more_body", False):
                        return bytes(self._parts)
                    self._others.add(self)
                    self._make_room(loop.time())
                    if not self._is_given_up:
                        self._timer.reschedule(min(loop.time() + SILENCE_S, until))
        except TimeoutError as error:
            if self._is_given_up:
                raise _as_elsewhere(BUSY) from error
            if loop.time() >= until:
                text = f"The request did not come whole within {BODY_S:.0f} s. Send it again."
                raise BodyError(408, "too_slow", text) from error
            raise _too_slow(SILENCE_S) from error
        finally:
            self._others.discard(self)

    def _make_room(self, now: float) -> None:
        if sum(len(other._parts) for other in self._others) > MAX_HELD_BYTES:
            largest = max(self._others, key=lambda other: len(other._parts))
            largest._is_given_up = True
            self._others.discard(largest)
            assert largest._timer is not None
            if not largest._timer.expired():  # or it ends by itself in this moment
                largest._timer.reschedule(now)


class _Stream:
    """What comes, as a file that a thread reads; the event loop never waits for it."""

    def __init__(self, receive: Receive, limit: int, loop: asyncio.AbstractEventLoop) -> None:
        self._receive = receive
        self._limit = limit
        self._loop = loop
        self._waiting = b""
        self._is_over = False
        self._is_closed = False
        self._task: asyncio.Task[bytes] | None = None
        self.count = 0

    def read(self, size: int) -> bytes:
        """At most `size` bytes; none at the end. Raises what `_next` does."""
        while not self._waiting and not self._is_over:
            self._waiting = asyncio.run_coroutine_threadsafe(self._next(), self._loop).result()
        piece, self._waiting = self._waiting[:size], self._waiting[size:]
        return piece

    async def _next(self) -> bytes:
        """Some bytes.

        Raises:
            _TooLongError, RequestAborted, TimeoutError.
        """
        if self._is_closed:
            raise RequestAborted
        self._task = asyncio.current_task()
        found = bytearray()
        async with asyncio.timeout(UPLOAD_SILENCE_S) as timer:
            while not self._is_over and len(found) < _PIECE_BYTES:
                message = await self._receive()
                if message["type"] == "http.disconnect":
                    raise RequestAborted
                found += message.get("body", b"")
                self.count += len(message.get("body", b""))
                self._is_over = not message.get("more_body", False)
                if self.count > self._limit:
                    raise _TooLongError
                timer.reschedule(self._loop.time() + UPLOAD_SILENCE_S)
        return bytes(found)

    def close(self) -> None:
        """Nobody waits for more: the thread that still reads is told so."""
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()  # harmless when it is done


def _announced_bytes(scope: Message) -> int | None:
    """What a request says that it sends; None: it does not say (chunked)."""
    length = 0
    for name, value in scope["headers"]:
        if name == b"transfer-encoding":
            return None
        if name == b"content-length":
            length = int(value)  # digits: the server has looked
    return length


def _with_length(scope: Message, length: int) -> Message:
    """The scope of a request that had said how much it sends, as Django needs it."""
    told = (b"content-length", b"transfer-encoding")
    headers = [(name, value) for name, value in scope["headers"] if name not in told]
    return {**scope, "headers": [*headers, (b"content-length", b"%d" % length)]}


def _after(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the whole body first, and then what else comes: that somebody left."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_next() -> Message:
        return waiting.pop() if waiting else await receive()

    return receive_next


def _too_large(scope: Message, upload_paths: Collection[str]) -> BodyError:
    text = f"A request has at most {MAX_BODY_BYTES:,} bytes here."
    if scope["path"] in upload_paths:
        text += " Files may be larger: sign in, and send them as the field `file` of a form."
    return BodyError(413, "too_large", text)


def _upload_too_large() -> BodyError:
    most = settings.BUNDLE_MAX_BYTES
    text = f"At most {most:,} bytes are taken. Put large data on the data volume instead."
    return BodyError(413, "too_large", text)


def _as_elsewhere(refusal: Refusal) -> BodyError:
    wait_s = _RETRY_S if refusal.status == 503 else None
    return BodyError(refusal.status, refusal.code, str(refusal.text), wait_s)


def _too_slow(silence_s: float) -> BodyError:
    text = f"Nothing more of the request came for {silence_s:.0f} s. Send it again."
    return BodyError(408, "too_slow", text)
