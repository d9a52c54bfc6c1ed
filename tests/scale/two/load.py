"""Who uses Homeport while something happens to it: viewers of logs, slow uploads, submits and looks."""

import asyncio
import hashlib
import json
import os
import random
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from tests.e2e.portal import Rest
from tests.scale.two.crowd import Place, Viewers
from tests.scale.two.lab import Lab, training

_COME_S = 30.0
_UPLOAD_BYTES, _PARTS = 2**20, 40
_LOOK_EACH_S, _SUBMIT_EACH_S = 0.25, 2.0


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
    answers: list[Answer] = field(default_factory=list)
    uploaded: list[str] = field(default_factory=list)
    submitted: list[str] = field(default_factory=list)
    _viewers: Viewers = field(default_factory=Viewers)
    _others: list[asyncio.Task[None]] = field(default_factory=list)
    _is_over: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def places(self) -> list[Place]:
        return self._viewers.places

    async def come(self, viewers: int) -> None:
        """So many viewers, each of whom sees lines."""
        await self._viewers.come(self.lab.proxy.port, self.lab.seats(viewers))

    async def leave(self) -> None:
        await self._viewers.leave()
        for task in self._others:
            task.cancel()
        await asyncio.gather(*self._others, return_exceptions=True)

    async def catch_up(self) -> int:
        """How many viewers do not come to what others of the same training have seen by now, in time."""
        newest: dict[str, int] = {}
        seats = self.lab.seats(len(self.places))
        looks = [(seat.job, place) for seat, place in zip(seats, self.places, strict=True)]
        for job, place in looks:
            newest[job] = max(newest.get(job, 0), place.next_number)
        until = time.monotonic() + _COME_S
        while True:
            late = sum(place.next_number < newest[job] for job, place in looks)
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
            head = f'--{name}\r\nContent-Disposition: form-data; name="file"; filename="code.bin"\r\n\r\n'
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
