"""The table of limits against the real routes, and each row of it tried."""

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest
from django.http import HttpResponseBase

from portal import asgi
from portal.web.downloads import MAX_PER_PERSON, places
from tests.portal.routes.limits import STREAMING
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
        file, _, name = limit.test.partition("::")
        assert f"def {name}(" in (ROOT / file).read_text(), limit.test
