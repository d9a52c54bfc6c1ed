"""How much of a request is read: every route, by nobody and by people, with a length and without."""

import asyncio
import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import requests
from django.test import Client
from websockets.sync.client import connect

from portal.server import bodies
from portal.server.bodies import BodyDoor
from tests.portal.attackers import Call, form
from tests.portal.routes.table import TABLE
from tests.portal.routes.walk import Route, routes
from tests.portal.whole import Whole, whole_portal
from tests.tools.waiting import wait_for

MIB = 1024**2
BUNDLE_MAX_BYTES = 3 * MIB
UPLOADS = {"bundle-upload", "job-new", "api-bundles"}
BADGES = ("none", "wrong", "own")
SLACK_BYTES = 600 * 1024  # what one read of a socket brings


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bodies") / "count"


@pytest.fixture(scope="module")
def portal(counts: Path) -> Iterator[Whole]:
    counting = ("env", f"COUNT={counts}")
    with whole_portal(
        counts.parent / "home",
        wrapper=counting,
        module="tests.portal.counting_serve",
        BUNDLE_MAX_BYTES=str(BUNDLE_MAX_BYTES),
    ) as whole:
        yield whole


def address(route: Route) -> str:
    path = re.sub(r"<uuid:\w+>", str(uuid4()), route.path)
    path = re.sub(r"<int:\w+>", "1", re.sub(r"<slug:\w+>", "x", path))
    return "/" + path.replace("^api/.*", "api/v1/no-such-thing/")


def badge(portal: Whole, route: Route, which: str) -> dict[str, str]:
    if which == "none":
        return {}
    if route.path.startswith(("api/", "^api/")):
        token = portal.token if which == "own" else "hp_wrong"
        return {"Authorization": f"Token {token}"}
    if which == "wrong":
        return {"Cookie": "homeport_session=wrong"}
    return portal.page_headers


def taken(counts: Path, port: int) -> int:
    """Bytes that the portal read from the connection of this port, its head among them."""

    def found() -> list[str]:
        lines = counts.read_text().splitlines() if counts.exists() else []
        return [line for line in lines if line.startswith(f"{port} ")]

    wait_for("the connection ended", found, timeout_s=20)
    return int(found()[-1].split()[1])


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
@pytest.mark.parametrize("which", BADGES)
def test_no_route_reads_more_than_is_let(
    portal: Whole, counts: Path, which: str, chunked: bool
) -> None:
    """One after another: what is read of a body too large, at every address there is."""
    for route in routes():
        rule = TABLE[route.key]
        is_let = route.key in UPLOADS and which == "own"
        limit = BUNDLE_MAX_BYTES + bodies.FORM_BYTES if is_let else MIB
        method = "POST" if "POST" in rule.methods or not rule.methods else next(iter(rule.methods))
        headers = badge(portal, route, which)
        if chunked:
            headers["Transfer-Encoding"] = "chunked"
        call = Call(portal, method, address(route), headers, limit + 2 * MIB)
        if chunked:
            call.send()
        status, head, body = call.answer()
        said = f"{method} {route.path} by {which}: {status} {body!r}"
        assert status == 413, said
        assert "connection: close" in head, said
        assert json.loads(body)["errors"][0]["code"] == "too_large", said
        count = taken(counts, call.port)
        assert count < (limit + SLACK_BYTES if chunked else 4096), f"{said}: {count:,} bytes"


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
@pytest.mark.parametrize("key", sorted(UPLOADS))
def test_an_upload_is_taken_whole(portal: Whole, key: str, chunked: bool) -> None:
    route = next(route for route in routes() if route.key == key)
    headers = badge(portal, route, "own")
    if chunked:
        headers["Transfer-Encoding"] = "chunked"
    call = Call(portal, "POST", address(route), headers | {"Connection": "close"}, 2 * MIB)
    call.send()
    status, _head, body = call.answer()
    assert call.sent == 2 * MIB
    # The form of a training has only its file here: it comes back with what is missing.
    assert status == {"api-bundles": 201}.get(key, 200), body[:500]
    if key != "job-new":
        kept = json.loads(body)
        head, tail = form(2 * MIB)
        assert kept["size_bytes"] == 2 * MIB - len(head) - len(tail)
    room = portal.home / "store/.incoming"
    wait_for("what nobody took is gone", lambda: not list(room.iterdir()))
    assert not [path for path in portal.home.iterdir() if path.name.startswith("tmp")]


@pytest.mark.parametrize("key", ["bundle-upload", "api-bundles"])
def test_the_largest_upload_there_may_be(portal: Whole, key: str) -> None:
    route = next(route for route in routes() if route.key == key)

    def upload(size_bytes: int) -> requests.Response:
        return requests.post(
            portal.url + address(route),
            files={"file": ("a.bin", b"x" * size_bytes)},
            headers=badge(portal, route, "own"),
            timeout=20,
        )

    kept = upload(BUNDLE_MAX_BYTES)
    assert kept.ok, kept.text
    assert kept.json()["size_bytes"] == BUNDLE_MAX_BYTES
    refused = upload(BUNDLE_MAX_BYTES + 1)
    assert refused.status_code == 413
    assert f"at most {BUNDLE_MAX_BYTES:,}" in refused.json()["errors"][0]["text"]


def test_a_small_body_in_chunks_is_read_as_any_other(portal: Whole) -> None:
    def chunks(data: bytes) -> Iterator[bytes]:
        yield from (data[at : at + 5] for at in range(0, len(data), 5))

    wrong = json.dumps({"username": "alice", "password": "wrong"}).encode()
    answer = requests.post(
        f"{portal.url}/api/v1/auth/token/",
        data=chunks(wrong),
        headers={"Content-Type": "application/json"},
        timeout=20,
    )
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (401, ""), answer.text
    made = requests.Request("POST", portal.url, files={"file": ("a.py", b"print(1)")}).prepare()
    answer = requests.post(
        f"{portal.url}/api/v1/bundles/",
        data=chunks(made.body),
        headers={"Content-Type": made.headers["Content-Type"], **portal.rest_headers},
        timeout=20,
    )
    assert (answer.status_code, answer.json()["size_bytes"]) == (201, 8)


def test_what_follows_an_upload_on_its_connection_is_another_request(portal: Whole) -> None:
    """With a context, and by that a thread, of its own: uploads one after the other, a websocket."""
    files = {"file": ("a.bin", bytes(2 * MIB))}
    made = requests.Request("POST", portal.url, files=files).prepare()
    headers = {"Content-Type": made.headers["Content-Type"], **portal.rest_headers}
    for _ in range(5):
        connection = HTTPConnection("localhost", portal.port, timeout=20)
        for _ in range(2):
            connection.request("POST", "/api/v1/bundles/", made.body, headers)
            answer = connection.getresponse()
            assert answer.status == 201, answer.read()
            answer.read()
        address = f"ws://localhost:{portal.port}/ws/live/"
        with connect(address, sock=connection.sock, additional_headers=portal.rest_headers) as live:
            live.ping().wait(10)


def test_two_uploads_of_a_person_at_once(portal: Whole) -> None:
    """The third is refused before its first byte, and what is left unfinished is tidied up."""
    calls = [
        Call(portal, "POST", "/api/v1/bundles/", portal.rest_headers, 2 * MIB) for _ in range(3)
    ]
    wait_for("one of them is refused", lambda: any(call.has_answer() for call in calls))
    (refused,) = [call for call in calls if call.has_answer(0.2)]
    status, head, body = refused.answer()
    assert status == 429
    assert "retry-after: 5" in head
    assert json.loads(body)["errors"][0]["code"] == "too_many_uploads"
    going = [call for call in calls if call is not refused]
    going[0].socket.sendall(form(2 * MIB)[0] + b"x" * MIB)
    for call in going:
        call.socket.close()
    room = portal.home / "store/.incoming"
    wait_for("nothing is left of them", lambda: not room.exists() or not list(room.iterdir()))

    def is_taken() -> bool:
        headers = portal.rest_headers | {"Connection": "close"}
        last = Call(portal, "POST", "/api/v1/bundles/", headers, 2 * MIB)
        last.send()
        return last.answer()[0] == 201

    wait_for("there is room for another", is_taken)


def test_a_field_that_is_too_large_is_said_in_words(db: None) -> None:
    client = Client(HTTP_HOST="localhost")
    answer = client.post("/sign-in/", {"username": "x" * 2 * MIB, "password": "y"})
    assert answer.status_code == 413
    assert "at most 1,048,576 bytes" in answer.content.decode()


def test_too_large_a_form_costs_one_line_of_the_log(portal: Whole) -> None:
    fields = {"note": "x" * (MIB + 10), "file": ("a.py", b"1")}
    files = {
        key: value if isinstance(value, tuple) else (None, value) for key, value in fields.items()
    }
    answer = requests.post(
        f"{portal.url}/api/v1/bundles/", files=files, headers=portal.rest_headers, timeout=20
    )
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (413, "too_large")
    assert "Traceback" not in portal.log


# --- what a clock or a crowd decides: the layer alone ---------------------------------------------


class Sender:
    """The other side of a request: sends these messages, and then nothing."""

    def __init__(self, *pieces: bytes, head: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        self.scope = {
            "type": "http",
            "method": "POST",
            "path": "/upload/",
            "headers": [(b"transfer-encoding", b"chunked"), *head],
        }
        self.pieces = list(pieces)
        self.said: list[Any] = []

    async def receive(self) -> dict[str, Any]:
        if not self.pieces:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": self.pieces.pop(0), "more_body": True}

    async def send(self, message: Any) -> None:
        self.said.append(message)

    @property
    def status(self) -> int:
        return int(self.said[0]["status"])


FORM = ((b"content-type", b"multipart/form-data; boundary=homeport"),)


@contextmanager
def door() -> Iterator[BodyDoor]:
    async def app(*_: Any) -> None:
        raise AssertionError("nothing came whole")

    async def find(_scope: Any) -> str:
        return "alice"

    yield BodyDoor(app, {"/upload/"}, find)


async def test_who_falls_silent_is_told_so_and_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "SILENCE_S", 0.1)
    monkeypatch.setattr(bodies, "UPLOAD_SILENCE_S", 0.2)
    with door() as layer:
        small, large = Sender(b"x"), Sender(form(1)[0], b"x" * MIB, head=FORM)
        began = time.monotonic()
        for sender in (small, large):
            await layer(sender.scope, sender.receive, sender.send)
        assert time.monotonic() - began < 10
        assert (small.status, large.status) == (408, 408)
        assert not layer._uploads


async def test_drops_do_not_keep_a_body_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "BODY_S", 0.3)
    sender = Sender()

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(0.02)
        return {"type": "http.request", "body": b"x", "more_body": True}

    with door() as layer:
        async with asyncio.timeout(10):
            await layer(sender.scope, receive, sender.send)
    assert sender.status == 408
    assert b"did not come whole" in sender.said[1]["body"]


async def test_bodies_that_are_not_whole_have_a_bound_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bodies, "MAX_HELD_BYTES", 2 * MIB)
    with door() as layer:
        senders = [Sender(b"x" * (600 * 1024 + n)) for n in range(4)]
        small = Sender(b"x")
        tasks = [
            asyncio.create_task(layer(one.scope, one.receive, one.send))
            for one in (small, *senders)
        ]
        async with asyncio.timeout(10):
            while not any(one.said for one in senders):
                await asyncio.sleep(0.01)
        assert [one.status for one in senders if one.said] == [503]
        assert not small.said
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def test_a_body_that_ends_in_this_moment_is_not_ended_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bodies, "MAX_HELD_BYTES", MIB)
    held = bodies._Held()
    late, other = held.reading(), held.reading()
    late._parts += b"x" * 2 * MIB
    late._others.add(late)
    with suppress(TimeoutError):
        async with asyncio.timeout(0) as late._timer:
            await asyncio.Event().wait()
    other._make_room(asyncio.get_running_loop().time())
    assert late not in held._readings
