"""The table of limits against the real routes, and each row of it tried."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.http import HttpResponseBase

from jobs.archive import archive_prefix
from jobs.kinds.interactive.tokens import portal_token, usage_token
from jobs.kinds.training.tokens import job_token
from jobs.pod_api.callers import find_caller
from portal import asgi
from portal.asgi_answer import Message, Receive, Send, report_pods, send_answer
from portal.server.pods_pace import PodsPace
from portal.storage import get_store
from portal.web.downloads import MAX_PER_PERSON, places
from tests.portal.routes.limits import PODS, STORE, STREAMING
from tests.portal.routes.scene import Scene, undone
from tests.portal.routes.table import TABLE, Door
from tests.portal.routes.test_routes import ROUTES, is_rest, those_of

pytestmark = pytest.mark.django_db
ROOT = Path(__file__).resolve().parents[3]


def get(scene: Scene, key: str, *, by: str = "session") -> HttpResponseBase:
    """The answer to an admin, about a thing of an admin, or of a team that an admin may see."""
    route, rule = ROUTES[key], TABLE[key]
    path = scene.address(route, rule, "root") or scene.address(route, rule, "alice")
    assert path is not None
    return scene.send("root", "GET", path, by=by)


def test_every_view_that_streams_has_a_row(scene: Scene) -> None:
    found = set()
    for key in [*those_of(Door.PEOPLE), *those_of(Door.PUBLIC)]:
        if TABLE[key].of("GET") is None:
            continue
        with undone(), closing(get(scene, key)) as answer:
            if answer.streaming:
                found.add(key)
    assert found == STREAMING.keys()
    assert set(asgi._downloads) == STREAMING.keys()


@contextmanager
def held(scene: Scene, count: int) -> Iterator[list[HttpResponseBase]]:
    """So many of one person that nobody takes, over all routes in turn."""
    keys = [key for key in STREAMING for _ in range(count)]
    with ExitStack() as stack:
        yield [
            stack.enter_context(closing(get(scene, key))) for key in keys[:: len(STREAMING)][:count]
        ]


@pytest.mark.parametrize("key", STREAMING)
def test_a_person_has_so_many_at_once(scene: Scene, key: str) -> None:
    """In all browsers and programs together; another person is not told of it, and what ends makes room."""
    ways = ("session", "token") if is_rest(ROUTES[key]) else ("session",)
    limit = STREAMING[key]
    with undone():
        with held(scene, limit.each) as ones:
            assert [one.status_code for one in ones] == [200] * limit.each
            for by in ways:
                with closing(get(scene, key, by=by)) as refused:
                    assert refused.status_code == limit.over[0]
                    assert refused["Retry-After"] == "5"
                    assert "Four of your downloads" in refused.content.decode()
            if key != "audit-csv":  # admins only
                path = scene.address(ROUTES[key], TABLE[key], "alice")
                assert path is not None
                with closing(scene.send("alice", "GET", path)) as other:
                    assert other.status_code == 200
            ones[0].close()
            ones[0].close()
            with closing(get(scene, key)) as again:
                assert again.status_code == 200
        with closing(get(scene, key)) as again:
            assert again.status_code == 200


def test_all_have_so_many_at_once(scene: Scene) -> None:
    with undone(), ExitStack() as stack:
        limit = STREAMING["api-job-logs"]
        for number in range(limit.in_all):
            stack.callback(places.take(number // MAX_PER_PERSON + 1000))
        with closing(get(scene, "api-job-logs")) as refused:
            assert refused.status_code == limit.over[1]
            assert refused["Retry-After"] == "5"
    with undone(), closing(get(scene, "api-job-logs")) as again:
        assert again.status_code == 200


def test_every_route_of_pods_has_a_row() -> None:
    assert PODS.keys() == {*those_of(Door.PODS), STORE}


@pytest.mark.parametrize("key", PODS)
async def test_a_token_has_its_pace_on_every_route_of_pods(scene: Scene, key: str) -> None:
    """By its own token, or link, as the door finds it out; another token's calls are answered meanwhile."""
    limit, may_end = PODS[key], asyncio.Event()

    async def work(scope: Message, _receive: Receive, send: Send) -> None:
        if scope["path"].endswith("first/"):
            report_pods(scope, 1)
        elif "other" not in scope:
            await may_end.wait()
        await send_answer(send, 200, b"{}", b"application/json")

    door = PodsPace(work, find_caller)

    async def call(whose: str, suffix: str = "", **more: str) -> Message:
        told: list[Message] = []

        async def tell(message: Message) -> None:
            told.append(message)

        async def receive() -> Message:
            raise AssertionError("a body was read before its turn")

        await door({**_asked(scene, key, whose, suffix), **more}, receive, tell)
        return told[0]

    assert find_caller(_asked(scene, key, "alice")) != find_caller(_asked(scene, key, "olga")) != ""
    if key != STORE:
        assert (await call("alice", "first/"))["status"] == 200
    ones = [asyncio.create_task(call("alice")) for _ in range(limit.at_once + limit.waiting)]
    await asyncio.sleep(0)
    if key != STORE:  # whose pods nobody has told of yet
        refused = await call("alice")
        assert refused["status"] == limit.over
        assert int(dict(refused["headers"])[b"retry-after"]) > 0
    assert (await call("olga", other="yes"))["status"] == 200
    may_end.set()
    assert [one["status"] for one in await asyncio.gather(*ones)] == [200] * len(ones)


def _asked(scene: Scene, key: str, whose: str, suffix: str = "") -> Message:
    """A request of this person's pod; with a suffix of a part of the same address that is nowhere."""
    thing = scene.things[whose]
    headers: list[tuple[bytes, bytes]] = []
    query = ""
    if key == STORE:
        link = urlsplit(get_store().link_get(f"{archive_prefix(thing.job)}logs/a").url)
        path, query = link.path, link.query
    else:
        found = scene.address(ROUTES[key], TABLE[key], whose)
        assert found is not None
        path = found + suffix
        make = usage_token if "/usage/" in key else portal_token
        is_service = "services" in key
        owner = thing.served["notebook"] if is_service else thing.job
        token = make(owner.pk) if is_service else job_token(owner.pk)
        headers = [(b"authorization", f"Bearer {token}".encode())]
    method = "GET" if key == STORE else next(iter(TABLE[key].methods))
    about = {"type": "http", "method": method, "headers": headers}
    return {**about, "path": path, "query_string": query.encode()}


def test_people_can_read_every_row() -> None:
    told = (
        (ROOT / "docs/operations.md")
        .read_text()
        .partition("\n## Limits\n")[2]
        .partition("\n## ")[0]
    )
    for key, limit in STREAMING.items():
        [row] = [line for line in told.splitlines() if f"`{key}`" in line]
        for number in (limit.each, limit.in_all, *limit.over):
            assert str(number) in row, row
        _check_test(limit.test)
    for key, pods in PODS.items():
        [row] = [line for line in told.splitlines() if f"`{key}`" in line]
        for number in (pods.at_once, pods.per_s, pods.waiting, pods.in_all, pods.over):
            assert f" {number}" in row, row
        _check_test(pods.test)


def _check_test(said: str) -> None:
    file, _, name = said.partition("::")
    assert f"def {name}(" in (ROOT / file).read_text(), said
