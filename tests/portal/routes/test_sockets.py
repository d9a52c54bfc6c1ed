"""Every websocket of the application that is served, tried by everybody, from every kind of page."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from django.conf import settings

from jobs.logs import hub
from portal import live
from portal.asgi import application
from portal.storage import get_store
from tests.jobs.logs.fakes import FakeCluster
from tests.portal.routes.scene import CALLERS, HOST, NOT_PEOPLE, Scene
from tests.portal.routes.table import SOCKETS, Rule
from tests.portal.routes.walk import sockets

pytestmark = pytest.mark.django_db(transaction=True)
ROUTES = {route.path: route for route in sockets()}
RULE = Rule({})
OURS = settings.WEBSOCKET_ORIGINS[0]
NOT_SIGNED_IN, NOT_FOUND = "4401", "4404"


@pytest.fixture
async def scene(transactional_db: None) -> AsyncIterator[Scene]:
    made = hub.Hub(FakeCluster())
    hub.set_hub(made)
    scene = await sync_to_async(Scene)()
    yield scene
    await made.close()
    hub.set_hub(None)
    for things in scene.things.values():
        await sync_to_async(get_store().delete)(things.artifact.storage_key)


def headers_of(scene: Scene, caller: str, by: str, origin: str | None) -> list[tuple[bytes, bytes]]:
    headers = [(b"host", HOST.encode())]
    headers += [] if origin is None else [(b"origin", origin.encode())]
    if caller != "nobody" and by == "session":
        cookie = f"{settings.SESSION_COOKIE_NAME}={scene.things[caller].cookie}"
        headers.append((b"cookie", cookie.encode()))
    elif caller != "nobody":
        headers.append((b"authorization", f"Token {scene.things[caller].token}".encode()))
    return headers


async def outcome(path: str, headers: list[tuple[bytes, bytes]]) -> str:
    """`refused` (the handshake), a close code, or `open`: it says something."""
    scope = {
        "type": "websocket",
        "path": path,
        "query_string": b"",
        "headers": headers,
        "subprotocols": [],
    }
    socket = ApplicationCommunicator(application, scope)
    await socket.send_input({"type": "websocket.connect"})
    if (await socket.receive_output(timeout=10))["type"] == "websocket.close":
        return "refused"
    async with asyncio.timeout(10):
        while await socket.receive_nothing(timeout=0.01, interval=0.002):
            await live.tell_everybody("nodes", 1)  # of which every open `/ws/live/` hears
    said: dict[str, Any] = await socket.receive_output()
    await socket.send_input({"type": "websocket.disconnect", "code": 1000})
    await socket.wait(timeout=10)
    return "open" if said["type"] == "websocket.send" else str(said["code"])


def test_every_websocket_has_a_line_in_the_table() -> None:
    assert ROUTES
    for path in ROUTES:
        assert path in SOCKETS, f"{path} is new: who may open it?"
    assert ROUTES.keys() == SOCKETS.keys()


@pytest.mark.parametrize("key", sorted(ROUTES))
async def test_people_get_what_the_table_says(scene: Scene, key: str) -> None:
    route, may = ROUTES[key], SOCKETS[key]
    for caller in CALLERS:
        for what, whose in scene.targets(caller, has_id=scene.has_id(route)).items():
            asked = "alice" if whose == "nobody" else whose
            path = scene.address(route, RULE, asked)
            assert path is not None
            if caller in NOT_PEOPLE:
                right = NOT_SIGNED_IN
            else:
                is_seen = asked is not None and may & scene.relations(caller, asked)
                right = "open" if is_seen else NOT_FOUND
            for by, origin in (("session", OURS), ("token", OURS), ("token", None)):
                if caller == "nobody" and origin is None:
                    continue  # neither a cookie nor a token nor an origin: see below
                found = await outcome(path, headers_of(scene, caller, by, origin))
                assert found == right, f"{path} by {by} ({origin}) of {caller}, {what}"


async def test_there_is_no_log_of_a_notebook(scene: Scene) -> None:
    own = scene.things["alice"]
    for row in own.served.values():
        found = await outcome(
            f"/ws/jobs/{row.pk}/logs/", headers_of(scene, "alice", "session", OURS)
        )
        assert found == NOT_FOUND


def wrong_origins() -> list[str | None]:
    scheme, host, port = OURS.split(":")
    return [
        None,
        "null",
        "",
        f"{scheme}:{host}:{int(port) + 1}",
        f"{scheme}:{host}",  # at port 80 another program of this machine may serve pages
        f"https:{host}:{port}",
        f"{scheme}:{host}:{port}.evil.example",
        f"{scheme}://evil.{host.strip('/')}:{port}",
        f"{scheme}:{host}:{port}1",
        f"{scheme}:{host.upper()}:{port}",
        f"{scheme}://[::1]:{port}",
        f"{scheme}://127.0.0.1:{port}",
        f"{scheme}:{host}:{port}/",
        "http://evil.example",
        f"{OURS} http://evil.example",
    ]


@pytest.mark.parametrize("key", sorted(ROUTES))
async def test_a_page_from_elsewhere_never_speaks_as_who_is_signed_in(
    scene: Scene, key: str
) -> None:
    path = scene.address(ROUTES[key], RULE, "alice")
    assert path is not None
    right = "open" if SOCKETS[key] else NOT_FOUND
    for origin in wrong_origins():
        for caller in ("alice", "root", "nobody"):
            found = await outcome(path, headers_of(scene, caller, "session", origin))
            assert found == "refused", f"{origin!r} of {caller}"
        # No page can make a browser send a token, so only programs come without an origin.
        found = await outcome(path, headers_of(scene, "alice", "token", origin))
        assert found == (right if origin is None else "refused"), repr(origin)
    for origin in settings.WEBSOCKET_ORIGINS:
        assert await outcome(path, headers_of(scene, "alice", "session", origin)) == right


async def test_two_origins_are_none(scene: Scene) -> None:
    headers = [*headers_of(scene, "alice", "session", OURS), (b"origin", b"http://evil.example")]
    assert await outcome("/ws/live/", headers) == "refused"
