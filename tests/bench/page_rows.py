"""Rows about pages: M11 and M12 of performance.md.

A whole portal, its reconciler included, has made 50 namespaces and holds 10,000 pods in them; its pages are
compared with the least that answers under the same middleware, and with the least that answers at all.
Warm is a page of which nothing has changed since the last visit, cold the first visit after a change.
"""

import asyncio
import statistics
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import requests

from deploy.testcluster.ports import free_port
from tests.bench.processes import running
from tests.bench.requests_side import Page, RealPages, cost_ms
from tests.bench.results import Result, Sides, at_least, at_most, exactly_none
from tests.bench.world import is_served, portal_environment, seeded
from tests.tools.servers import answers
from tests.tools.waiting import wait_for

PODS = 10_000
WARM_UP = 40
ROUNDS = 120
HELLOS = 2000
COLD_LOOKS = 4
SMALL = {
    "name": "one more",
    "image": "python:3.11-slim",
    "command": ["python", "train.py"],
    "replicas": {"worker": {"cpu": "1", "memory": "1Gi"}},
}
KINDS = 13  # that the portal watches
WEB = "of-the-web"
_NAMESPACES_S = 300.0
LOOKS = 8
VIEWS = (
    "/",
    "/trainings/",
    "/trainings/new/",
    "/notebooks/",
    "/tensorboards/",
    "/nodes/",
    "/queue/",
    "/admin/namespaces/",
    "/admin/people/",
    "/admin/audit/",
    "/admin/health/",
    "/api/v1/jobs/?page_size=200",
    "/api/v1/tenants/",
    "/api/v1/queue/",
)


@dataclass(frozen=True)
class Cluster:
    """The API server with many pods (`fakecluster`)."""

    port: int
    pid: int

    def control(self, what: str) -> dict[str, Any]:
        """`requests`, `counts`, `forget`, or `modify?events=N`."""
        answer = requests.get(f"http://127.0.0.1:{self.port}/bench/{what}", timeout=60)
        told: dict[str, Any] = answer.json()
        return told

    def counts(self) -> dict[str, int]:
        """How many calls of each sort (`POST jobs`) there were; lists of all pods are `all pods`."""
        return self.control("counts")

    def calls(self, who: str) -> list[str]:
        """Every call that one account made so far, as `GET /path?query`."""
        found: list[str] = self.control("requests")["calls"].get(who, [])
        return found


@dataclass(frozen=True)
class Pages:
    """A portal whose pages are measured, and what they are compared with.

    Attributes:
        hello: below middleware, as Django runs it under ASGI.
        token: of a person who may submit a lot.
        web: pages of a second process, the web server alone, which has an account of its own: the
            reconciler has calls to make at any time, and none of them is a page's.
    """

    cluster: Cluster
    web: tuple[Page, ...]
    page: Page
    rows: Page
    hello: Page
    bare: Page
    token: str

    def submit(self, **body: Any) -> None:
        """A training of the person with the token."""
        address = f"http://localhost:{self.page.port}/api/v1/jobs/"
        headers = {"Authorization": f"Token {self.token}"}
        answer = requests.post(address, json=body, headers=headers, timeout=60)
        assert answer.status_code == 201, answer.text


@contextmanager
def fake_cluster(
    folder: Path, port: int, pods: int, namespaces: Sequence[str] = ()
) -> Iterator[Cluster]:
    arguments = ["-m", "tests.bench.fakecluster", str(port), str(pods), *namespaces]
    with running(arguments, folder / "fakecluster.log", lambda: answers(port)) as pid:
        yield Cluster(port, pid)


@contextmanager
def world(folder: Path, pods: int = PODS) -> Iterator[Pages]:
    """`manage.py serve` as it is, on a cluster with many pods, and a bare server."""
    with ExitStack() as stack:
        home = folder / "pages"
        home.mkdir()
        port = free_port()
        environment = portal_environment(home, port)
        made = seeded("tests.bench.pages_seed", environment=environment)
        cluster = stack.enter_context(fake_cluster(folder, port, pods, made["namespaces"]))
        whole = stack.enter_context(served(folder, environment))
        web = stack.enter_context(
            served(folder, portal_environment(home, cluster.port, WEB), "--no-reconciler")
        )
        bare = stack.enter_context(hello(folder, environment))
        django = stack.enter_context(hello(folder, environment, "django"))
        wait_for("all watches", lambda: cluster.control("requests")["watches"] >= KINDS)
        cookie = made["cookie"]
        wait_for("all namespaces", lambda: are_active(whole[1], cookie), timeout_s=_NAMESPACES_S)
        views = (*VIEWS, f"/trainings/{made['job']}/")
        yield Pages(
            cluster,
            tuple(Page(*web, path, cookie) for path in views),
            Page(*whole, "/trainings/", cookie),
            Page(*whole, "/api/v1/jobs/?page_size=200", cookie),
            Page(*django, "/hello/"),
            Page(*bare, "/"),
            made["token"],
        )


def are_active(port: int, cookie: str) -> bool:
    """The portal has made every namespace that was asked for."""
    address = f"http://localhost:{port}/api/v1/tenants/?page_size=200"
    rows = requests.get(address, headers={"Cookie": cookie}, timeout=30).json()["results"]
    return all(row["state"] == "active" for row in rows)


@contextmanager
def served(folder: Path, environment: dict[str, str], *options: str) -> Iterator[tuple[int, int]]:
    """`manage.py serve`: its process and its port."""
    port = free_port()
    log = folder / f"serve-{port}.log"
    arguments = ["manage.py", "serve", *options]
    environment = {**environment, "PORT": str(port), "POD_PORT": str(free_port())}
    with running(arguments, log, lambda: is_served(port), environment) as pid:
        yield pid, port


@contextmanager
def hello(folder: Path, environment: dict[str, str], *what: str) -> Iterator[tuple[int, int]]:
    """`tests.bench.hello`: its process and its port."""
    port = free_port()
    environment = {**environment, "DJANGO_SETTINGS_MODULE": "tests.bench.hello_settings"}
    arguments = ["-m", "tests.bench.hello", str(port), *what]
    log = folder / f"hello-{port}.log"
    with running(arguments, log, lambda: answers(port), environment) as pid:
        yield pid, port


async def calls_of_views(cluster: Cluster, who: str, pages: Sequence[Page]) -> list[str]:
    """What an account asks of the cluster while its server answers these pages."""
    before = len(await asyncio.to_thread(cluster.calls, who))
    for page in pages:
        await cost_ms(page, LOOKS)
    return (await asyncio.to_thread(cluster.calls, who))[before:]


def calls_gate(calls: Sequence[str], pages: int) -> Result:
    """M11's gate: `calls` were made while each of so many pages was opened `LOOKS` times."""
    return Result(
        "M11",
        "calls to Kubernetes while pages are opened",
        len(calls),
        exactly_none(),
        "calls",
        "; ".join([f"{pages * LOOKS} views of {pages} pages", *calls[:3]]),
    )


async def real_pages(world: RealPages, repeats: int) -> list[Result]:
    """M11 on a real cluster, with the trainings that are there.

    Raises:
        AssertionError: a call that was made for it would not have been noticed.
    """
    over_hello, page = Sides(), next(one for one in world.views if one.path == "/trainings/")
    for one in (page, world.hello):
        await cost_ms(one, WARM_UP)
    for _ in range(repeats):
        over_hello.add(await cost_ms(page, ROUNDS), await cost_ms(world.hello, HELLOS // 4))
    await asyncio.to_thread(world.ask)
    before = len(await asyncio.to_thread(world.calls))
    assert before
    for view in world.views:
        await cost_ms(view, LOOKS)
    calls = (await asyncio.to_thread(world.calls))[before:]
    # A watch is opened again at any time, and by no page.
    calls = [call for call in calls if not call.startswith("watch ")]
    return [
        over_hello.result(
            "M11", "CPU of a list of trainings, warm, portal / hello", at_most(5), "ms", "hello"
        ),
        calls_gate(calls, len(world.views)),
    ]


async def cold_ms(world: Pages) -> float:
    """CPU of the list just after a training was submitted to it; of the web server alone."""
    page = replace(world.web[0], path=world.page.path)
    await cost_ms(page, 1)
    found = []
    for _ in range(COLD_LOOKS):
        await asyncio.to_thread(world.submit, **SMALL)
        found.append(await cost_ms(page, 1))
    return statistics.median(found)


async def pages(world: Pages, repeats: int) -> list[Result]:
    """M11 and M12."""
    for page in (world.page, world.rows, world.hello, world.bare):
        await cost_ms(page, WARM_UP)
    over_hello, cold_over_hello, rows_over_hello, per_bare = Sides(), Sides(), Sides(), Sides()
    for _ in range(repeats):
        page = await cost_ms(world.page, ROUNDS)
        hello = await cost_ms(world.hello, HELLOS // 4)
        rows = await cost_ms(world.rows, ROUNDS // 2)
        bare = await cost_ms(world.bare, HELLOS)
        over_hello.add(page, hello)
        cold_over_hello.add(await cold_ms(world), hello)
        rows_over_hello.add(rows, hello)
        per_bare.add(1000 / page, 1000 / bare)
    calls = await calls_of_views(world.cluster, WEB, world.web)
    what = "a list of 25 of 200 trainings"
    return [
        over_hello.result(
            "M11",
            f"CPU of {what}, warm, portal / hello below middleware, as Django runs it",
            at_most(5),
            "ms",
            "hello",
        ),
        cold_over_hello.result(
            "M11", f"CPU of {what}, cold, portal / hello", at_most(5), "ms", "hello"
        ),
        rows_over_hello.result(
            "M11", "CPU of 200 trainings as JSON, warm, portal / hello", None, "ms", "hello"
        ),
        calls_gate(calls, len(world.web)),
        per_bare.result(
            "M12",
            f"{what}, requests per s of CPU, portal / bare ASGI hello",
            at_least(1 / 100),
            "1/s",
            "bare",
        ),
    ]
