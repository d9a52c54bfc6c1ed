"""A whole installation is attacked in every way that once cost a portal its memory, its processor or
its answers, one after the other: it answers within a second, does not swell, and people go on working.
"""

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
import requests
from django.test import override_settings

from jobs.kinds.training.tokens import job_token
from onebox.testing.processes import command_line
from tests.e2e.portal import Portal, Rest, new_home, thrown_away
from tests.jobs import costly_archives
from tests.portal.attackers import Call, ask_at_once, many_descriptors, open_halves
from tests.portal.postgres_server import postgres_server
from tests.portal.whole import tree_memory_bytes, watching
from tests.tools.waiting import wait_for

pytestmark = pytest.mark.e2e

MIB = 1024**2
ANSWER_S = float(os.environ.get("HOMEPORT_ANSWER_S", "1"))  # more on a machine that is busy
GROWTH_BYTES = 300 * MIB  # of the `serve` process and those below it
LOOKS = 20  # at /healthz during each attack, at least
HALF_OPEN = 2000
LARGE_BYTES = 200 * MIB
DEEP = "[" * 5000 + "]" * 5000
TRAINING: dict[str, Any] = {
    "command": ["python", "-c", "print('trained')"],
    "replicas": {"worker": {"cpu": "100m", "memory": "64Mi"}},
}


@dataclass
class Scene:
    """Who attacks what.

    Attributes:
        serve: the pid of the portal's own process.
        ada, page: whose token and session attackers have; lin only works.
        job: a training of ada's, whose pods have a token.
        crowd: how many come at once.
    """

    portal: Portal
    serve: int
    ada: Rest
    lin: Rest
    page: requests.Session
    job: str
    crowd: int

    @property
    def token(self) -> dict[str, str]:
        return {"Authorization": f"Token {self.ada.token}"}

    @property
    def pod_token(self) -> dict[str, str]:
        key = (self.portal.home / "secret_key").read_text().strip()
        with override_settings(SECRET_KEY=key):
            return {"Authorization": f"Bearer {job_token(self.job)}"}


@pytest.fixture(params=[("sqlite", 100), ("postgresql", 40)], ids=lambda given: given[0])
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    database, crowd = request.param
    with ExitStack() as stack:
        url = ""
        if database == "postgresql":  # with its own default of connections
            url = stack.enter_context(postgres_server(max_connections=100)).url
        installation = Portal(
            new_home(f"attacked-{database}"),
            environment={"DATABASE_URL": url},
            # As Debian starts it: the soft limit of descriptors is far below the hard one.
            wrapper=("bash", "-c", 'ulimit -S -n 1024; exec "$@"', "-"),
        )
        portal = stack.enter_context(thrown_away(installation))
        ada, lin = portal.sign_in("ada"), portal.sign_in("lin")
        for person in (ada, lin):
            person.tenant()
        job = ada.submit(name="has pods", **TRAINING)
        ada.wait(job, "succeeded")
        (serve,) = [pid for pid in portal.processes() if "manage.py serve" in command_line(pid)]
        yield Scene(portal, serve, ada, lin, portal.session("ada"), job["id"], crowd)


# --- the attacks ----------------------------------------------------------------------------------


@contextmanager
def repeated(once: Callable[[], None]) -> Iterator[None]:
    """It is done again and again while the block runs; raises what it raised."""
    over = threading.Event()

    def work() -> None:
        once()
        while not over.is_set():
            once()

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(work)
        try:
            yield
        finally:
            over.set()
        done.result()


@cache
def made(make: Callable[[], bytes]) -> bytes:
    return make()


def archive(
    name: str, make: Callable[[], bytes]
) -> Callable[[Scene], AbstractContextManager[None]]:
    def attack(scene: Scene) -> AbstractContextManager[None]:
        url, data = f"{scene.portal.url}/bundles/", made(make)

        def upload() -> None:
            headers = {"X-CSRFToken": scene.page.cookies["homeport_csrf"]}
            answer = scene.page.post(url, files={"file": (name, data)}, headers=headers, timeout=60)
            if answer.status_code == 400:  # a pod would refuse it, so it is not taken either
                assert "cannot be unpacked" in answer.json()["errors"][0]["text"]
                return
            assert answer.status_code == 200, answer.text
            assert answer.json()["listing"]["is_cut"]

        return repeated(upload)

    return attack


def large_body(headers: dict[str, str]) -> Callable[[Scene], AbstractContextManager[None]]:
    def attack(scene: Scene) -> AbstractContextManager[None]:
        def send() -> None:
            for path in ("/sign-in/", "/api/v1/auth/token/"):
                call = Call(scene.portal, "POST", path, headers, LARGE_BYTES)
                call.send()
                status, _head, body = call.answer()
                assert status == 413, body
                assert call.sent < LARGE_BYTES / 10

        return repeated(send)

    return attack


@contextmanager
def half_open(scene: Scene) -> Iterator[None]:
    with many_descriptors(HALF_OPEN), ExitStack() as stack:
        open_halves(stack, scene.portal.port, HALF_OPEN)
        yield


def crowd(scene: Scene) -> AbstractContextManager[None]:
    def come() -> None:
        for path, status in (("/api/v1/jobs/", 200), ("/nowhere/", 404)):
            found = ask_at_once(scene.portal.url + path, scene.crowd, scene.token)
            assert found == {status: scene.crowd}

    return repeated(come)


def deep(scene: Scene) -> AbstractContextManager[None]:
    people, pods = scene.portal.url, f"http://localhost:{scene.portal.pod_port}"
    doors = (
        (f"{people}/api/v1/auth/token/", "username", {}),
        (f"{people}/api/v1/jobs/", "command", scene.token),
        (f"{pods}/internal/v1/jobs/{scene.job}/artifacts/", "files", scene.pod_token),
    )

    def send() -> None:
        for url, field, badge in doors:
            answer = requests.post(
                url,
                data=f'{{"{field}": {DEEP}}}',
                headers={"Content-Type": "application/json", **badge},
                timeout=30,
            )
            assert answer.status_code == 400, f"{url}: {answer.status_code} {answer.text}"

    return repeated(send)


ATTACKS: dict[str, Callable[[Scene], AbstractContextManager[None]]] = {
    "a long name of 600 MiB": archive("a.tar.bz2", costly_archives.long_name_bz2),
    "a pax header of a million digits": archive("a.tar.bz2", costly_archives.digits),
    "a zip with a million names": archive("a.zip", costly_archives.million_names),
    "200 MiB, with their length": large_body({}),
    "200 MiB, in chunks": large_body({"Transfer-Encoding": "chunked"}),
    "2,000 half-open connections": half_open,
    "many at once": crowd,
    "JSON 5,000 deep": deep,
}


def test_all_attacks_in_one_go(scene: Scene) -> None:
    before_bytes = tree_memory_bytes(scene.serve)
    found, work = {}, []
    for name, attack in ATTACKS.items():
        under_way = attack(scene)  # what it sends is made before anybody looks
        with watching(scene.portal.url, scene.serve) as seen, under_way:
            wait_for("it goes on", lambda: seen.asked >= LOOKS / 2)
            work.append(scene.lin.submit(name=f"training {len(work)}", **TRAINING))
            wait_for("it went on", lambda: seen.asked >= LOOKS)
        found[name] = seen
        print(
            f"{name}: slowest of {seen.asked} /healthz {seen.slowest_s:.2f} s, memory at most "
            f"{seen.peak_bytes / MIB:.0f} MiB, {before_bytes / MIB:.0f} MiB before all",
            flush=True,
        )
    work.append(scene.lin.submit(name="afterwards", **TRAINING))
    for job in work:
        scene.lin.wait(job, "succeeded")
    for name, seen in found.items():
        assert not seen.errors, name
        assert seen.slowest_s < ANSWER_S, name
        assert seen.peak_bytes - before_bytes < GROWTH_BYTES, name
    assert "Traceback" not in scene.portal.log.read_text()
