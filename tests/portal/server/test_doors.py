"""Which door a request came by is known by its socket; nothing that it says changes it."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import aiohttp
import pytest

from portal.asgi import application
from tests.portal.servers import serving

HOSTS = ["localhost", "127.0.0.1", "10.244.0.1:8000", "evil.example", ""]
STORED = "/internal/v1/store/t/a"


@pytest.fixture
async def ports(settings: Any, db: None) -> AsyncIterator[tuple[int, int]]:
    """Of people and of pods."""
    async with serving(application) as people, serving(application) as pods:
        settings.POD_PORT = pods
        settings.BROWSER_HOSTS = ["localhost"]
        yield people, pods


async def status(port: int, method: str, path: str, host: str, **headers: str) -> int:
    """Of an answer to exactly these words."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    given = {"Host": host, "Content-Length": "0", "Connection": "close", **headers}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {text}" for name, text in given.items())]
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
    answer = await asyncio.wait_for(reader.readline(), 10)
    writer.close()
    return int(answer.split()[1])


@pytest.mark.parametrize("host", HOSTS)
async def test_by_the_pods_door_there_is_nothing_else(ports: tuple[int, int], host: str) -> None:
    _people, pods = ports
    here = {"X-Forwarded-Host": "localhost", "X-Forwarded-Port": str(_people)}
    for path in ("/", "/sign-in/", "/api/v1/me/", "/api/v1/schema/", "/healthz", "/readyz"):
        assert await status(pods, "GET", path, host, **here) == 404, path
    for path in ("//internal/../sign-in/", "/internal", "/internal%2f../sign-in/"):
        assert await status(pods, "GET", path, host) == 404, path
    assert await status(pods, "POST", "/api/v1/auth/token/", host) == 404
    assert await status(pods, "GET", STORED, host) == 403  # the link is not signed


@pytest.mark.parametrize("host", HOSTS)
async def test_people_have_no_way_to_the_pods_door(ports: tuple[int, int], host: str) -> None:
    people, pods = ports
    here = {"X-Forwarded-Host": f"127.0.0.1:{pods}", "X-Forwarded-Port": str(pods)}
    for path in (STORED, f"/internal/v1/jobs/{uuid4()}/source/", "/%69nternal/v1/store/t/a"):
        assert await status(people, "GET", path, host, **here) == 404, path


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
@pytest.mark.parametrize("host", [*HOSTS, "10.244.1.7:8000", "[fd00::7]:8000", "b\u00e4d host"])
async def test_probes_may_name_any_host(
    transactional_db: None, ports: tuple[int, int], path: str, host: str
) -> None:
    assert await status(ports[0], "GET", path, host) == 200


async def _opens(port: int, host: str) -> bool:
    """Whether a handshake is taken; who it is from is asked afterwards."""
    async with aiohttp.ClientSession() as session:
        try:
            socket = await session.ws_connect(
                f"http://127.0.0.1:{port}/ws/live/",
                headers={"Host": host, "Authorization": "Token x"},
            )
        except aiohttp.WSServerHandshakeError:
            return False
        await socket.close()
        return True


async def test_websockets_are_opened_by_people_in_the_portals_name_only(
    transactional_db: None, ports: tuple[int, int]
) -> None:
    people, pods = ports
    found = {host: (await _opens(people, host), await _opens(pods, host)) for host in HOSTS if host}
    assert found == {
        "localhost": (True, False),
        "127.0.0.1": (True, False),  # programs on this machine, with a token
        "10.244.0.1:8000": (False, False),
        "evil.example": (False, False),
    }
