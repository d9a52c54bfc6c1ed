"""Who uses Homeport while something happens to it: viewers of logs, slow uploads, submits and looks.

A viewer does what static/js/socket.js does: it comes back with its last cursor, after the same waits.
"""

import asyncio
import hashlib
import json
import os
import random
import re
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from tests.bench.viewers import Account, Target, Viewer
from tests.e2e.portal import ROOT, Rest
from tests.scale.two.lab import Lab, training

_SOCKET_JS = (ROOT / "static" / "js" / "socket.js").read_text()
_CURSOR = re.compile(rb'"cursor":"([^"]*)"')
_NUMBER = re.compile(rb"#(\d{9}) ")
_COME_S = 30.0
_UPLOAD_BYTES, _PARTS = 2**20, 40
_LOOK_EACH_S, _SUBMIT_EACH_S = 0.25, 2.0


def _of_js(pattern: str) -> list[int]:
    found = re.search(pattern, _SOCKET_JS)
    assert found is not None, f"socket.js has no {pattern}"
    return [int(number) for number in re.findall(r"\d+", found[1].replace("_", ""))]


_FIRST_MS = _of_js(r"FIRST_WAIT_MS = ([\d_]+);")[0]
_LONGEST_MS = _of_js(r"LONGEST_WAIT_MS = ([\d_]+);")[0]
_FINAL = _of_js(r"FINAL_CODES = new Set\(\[([\d, ]+)\]\)")


@dataclass
class Place(Account):
    """What one viewer got over all of its connections, from whatever line it begins with.

    Attributes:
        gap_s: the longest time without a line.
        connects: how often it has connected.
    """

    cursor: str = ""
    gap_s: float = 0.0
    connects: int = 0

    def take(self, raw: bytearray, start: int, end: int, now_ns: int) -> None:
        first = _NUMBER.search(raw, start, end)
        if first is not None:
            if not self.is_ready:
                self.next_number, self.is_ready = int(first[1]), True
            elif self.last_at:
                self.gap_s = max(self.gap_s, now_ns / 1e9 - self.last_at)
        found = _CURSOR.search(raw, start, end)
        if found is not None:
            self.cursor = found[1].decode()
        super().take(raw, start, end, now_ns)

    def begin(self) -> None:
        """What came before is not measured."""
        self.gap_s, self.lines, self.oldest_ms = 0.0, 0, []


async def watch(port: int, job: str, token: str, place: Place) -> None:
    """Looks at the log of a training until it is cancelled."""
    loop, tries = asyncio.get_running_loop(), 0
    while True:
        path = f"/ws/jobs/{job}/logs/?replica=worker-0"
        path += f"&cursor={place.cursor}" if place.cursor else ""
        viewer = Viewer(Target(port, path, (f"Authorization: Token {token}",)))
        viewer.account = place
        place.connects += 1
        transport = None
        try:
            transport, _ = await loop.create_connection(lambda: viewer, "127.0.0.1", port)  # noqa: B023
            await viewer.is_open.wait()
            tries = tries if viewer.is_lost else 0
            await viewer.done.wait()
        except OSError as error:
            viewer.refusal = repr(error)
        finally:
            if transport is not None:
                transport.abort()
        if any(viewer.refusal == f"closed with {code}" for code in _FINAL):
            place.wrong.append(viewer.refusal)
            return
        longest_ms = min(_LONGEST_MS, _FIRST_MS * 2**tries)
        tries += 1
        await asyncio.sleep(longest_ms / 1000 * (0.5 + random.random() / 2))


@dataclass(frozen=True)
class Answer:
    """What somebody was told; `status` 0: nothing, and `text` says how that was."""

    at: float
    what: str
    status: int
    text: str = ""

    @property
    def is_done(self) -> bool:
        return 200 <= self.status < 300

    @property
    def is_refused_in_words(self) -> bool:
        try:
            return self.status == 503 and bool(json.loads(self.text)["errors"][0]["text"])
        except (ValueError, LookupError, TypeError):
            return False


@dataclass
class Load:
    """All of them, until `end`.

    Attributes:
        answers: all that were given, in turn.
        uploaded, submitted: SHA-256 and names of what was acknowledged.
    """

    lab: Lab
    places: list[Place] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    uploaded: list[str] = field(default_factory=list)
    submitted: list[str] = field(default_factory=list)
    _viewers: list[asyncio.Task[None]] = field(default_factory=list)
    _others: list[asyncio.Task[None]] = field(default_factory=list)
    _is_over: asyncio.Event = field(default_factory=asyncio.Event)

    async def come(self, viewers: int) -> None:
        """So many viewers, each of whom sees lines."""
        lab = self.lab
        for number in range(viewers):
            place = Place()
            self.places.append(place)
            job, token = lab.jobs[number % len(lab.jobs)], lab.tokens[number % len(lab.tokens)]
            work = watch(lab.proxy.port, job, token, place)
            self._viewers.append(asyncio.create_task(work))
            await asyncio.sleep(0.02)
        async with asyncio.timeout(60 + viewers / 5):
            while not all(place.is_ready for place in self.places):
                await asyncio.sleep(0.1)

    async def leave(self) -> None:
        for task in (*self._viewers, *self._others):
            task.cancel()
        await asyncio.gather(*self._viewers, *self._others, return_exceptions=True)

    async def catch_up(self) -> int:
        """How many viewers do not come to what others of the same training have seen by now, in time."""
        count, newest = len(self.lab.jobs), {}
        for number, place in enumerate(self.places):
            newest[number % count] = max(newest.get(number % count, 0), place.next_number)
        until = time.monotonic() + _COME_S
        while True:
            late = sum(p.next_number < newest[n % count] for n, p in enumerate(self.places))
            if not late or time.monotonic() > until:
                return late
            await asyncio.sleep(0.1)

    # --- uploads, submits, looks ---
    def begin(self, uploads: int, upload_s: float) -> None:
        """All others but the viewers; each of the uploads is followed by another one until `finish`."""
        owners = self.lab.owners
        works = [self._upload(owners[n // 2 % (len(owners) - 1)], upload_s) for n in range(uploads)]
        works += [self._submit(owners[-1]), self._look(owners[0])]
        self._others = [asyncio.create_task(work) for work in works]

    async def finish(self) -> None:
        """What has begun is brought to its end."""
        self._is_over.set()
        await asyncio.gather(*self._others)

    async def call(self, rest: Rest, method: str, path: str, **more: Any) -> Answer:
        headers = {"Authorization": f"Token {rest.token}", **more.pop("headers", {})}
        what = f"{method} {path}"
        # A connection of its own for each, so that a failure is Homeport's or the proxy's.
        timeout = aiohttp.ClientTimeout(total=300)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.request(
                    method, f"{rest.portal.url}/api/v1/{path}", headers=headers, **more
                ) as reply,
            ):
                answer = Answer(time.monotonic(), what, reply.status, await reply.text())
        except (aiohttp.ClientError, TimeoutError) as error:
            answer = Answer(time.monotonic(), what, 0, repr(error))
        self.answers.append(answer)
        return answer

    async def _until_done(self, key: str, call: Any) -> None:
        """Calls again with the same key, as api.md says, until it is done."""
        while not (await call({"Idempotency-Key": key})).is_done:
            await asyncio.sleep(1)

    async def _upload(self, rest: Rest, upload_s: float) -> None:
        await asyncio.sleep(random.random() * upload_s / 2)
        while not self._is_over.is_set():
            content = os.urandom(_UPLOAD_BYTES)
            name = hashlib.sha256(content).hexdigest()
            head = f'--{name}\r\nContent-Disposition: form-data; name="file"; filename="code.zip"\r\n\r\n'
            whole = head.encode() + content + f"\r\n--{name}--\r\n".encode()
            form = {
                "Content-Type": f"multipart/form-data; boundary={name}",
                "Content-Length": str(len(whole)),
            }

            async def body(whole: bytes = whole) -> AsyncIterator[bytes]:
                size = -(-len(whole) // _PARTS)
                for start in range(0, len(whole), size):
                    yield whole[start : start + size]
                    await asyncio.sleep(upload_s / _PARTS)

            await self._until_done(
                name,
                lambda key, form=form, body=body: self.call(
                    rest, "POST", "bundles/", headers={**form, **key}, data=body()
                ),
            )
            self.uploaded.append(name)

    async def _submit(self, rest: Rest) -> None:
        while not self._is_over.is_set():
            name = f"waits {len(self.submitted)} {random.getrandbits(32):x}"
            job = training(name, "pass")
            await self._until_done(
                name.replace(" ", "-"),
                lambda key, job=job: self.call(rest, "POST", "jobs/", headers=key, json=job),
            )
            self.submitted.append(name)
            await asyncio.sleep(_SUBMIT_EACH_S)

    async def _look(self, rest: Rest) -> None:
        while not self._is_over.is_set():
            await self.call(rest, "GET", "jobs/")
            await asyncio.sleep(_LOOK_EACH_S)
