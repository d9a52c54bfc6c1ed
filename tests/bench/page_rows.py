"""Rows about pages: M11 and M12 of performance.md.

A whole portal, its reconciler included, holds 10,000 pods; its pages are compared with the least that
answers under the same middleware, and with the least that answers at all.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from deploy.testcluster.ports import free_port
from tests.bench.processes import running
from tests.bench.requests_side import Page, cost_ms
from tests.bench.results import Result, Sides, at_least, at_most, exactly_none
from tests.bench.world import is_served, portal_environment, seeded
from tests.tools.servers import answers
from tests.tools.waiting import wait_for

PODS = 10_000
WARM_UP = 40
ROUNDS = 120
HELLOS = 2000
KINDS = 13  # that the portal watches
WEB = "of-the-web"
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
        """`requests`, or `modify?events=N`."""
        answer = requests.get(f"http://127.0.0.1:{self.port}/bench/{what}", timeout=60)
        told: dict[str, Any] = answer.json()
        return told

    def calls(self, who: str) -> list[str]:
        """Every call that one account made so far, as `GET /path?query`."""
        found: list[str] = self.control("requests")["calls"].get(who, [])
        return found


@dataclass(frozen=True)
class Pages:
    """A portal whose pages are measured, and what they are compared with.

    Attributes:
        web: pages of a second process, the web server alone, which has an account of its own: the
            reconciler has calls to make at any time, and none of them is a page's.
    """

    cluster: Cluster
    web: tuple[Page, ...]
    page: Page
    rows: Page
    hello: Page
    bare: Page


@contextmanager
def fake_cluster(folder: Path, pods: int) -> Iterator[Cluster]:
    port = free_port()
    arguments = ["-m", "tests.bench.fakecluster", str(port), str(pods)]
    with running(arguments, folder / "fakecluster.log", lambda: answers(port)) as pid:
        yield Cluster(port, pid)


@contextmanager
def world(folder: Path, pods: int = PODS) -> Iterator[Pages]:
    """`manage.py serve` as it is, on a cluster with many pods, and a bare server."""
    with ExitStack() as stack:
        cluster = stack.enter_context(fake_cluster(folder, pods))
        home = folder / "pages"
        home.mkdir()
        environment = portal_environment(home, cluster.port)
        made = seeded("tests.bench.pages_seed", environment=environment)
        environment["DJANGO_SETTINGS_MODULE"] = "tests.bench.hello_settings"
        whole = stack.enter_context(served(folder, environment))
        web = stack.enter_context(
            served(folder, portal_environment(home, cluster.port, WEB), "--no-reconciler")
        )
        bare_port = free_port()
        arguments = ["-m", "tests.bench.hello", str(bare_port)]
        bare_pid = stack.enter_context(
            running(arguments, folder / "hello.log", lambda: answers(bare_port))
        )
        wait_for("all watches", lambda: cluster.control("requests")["watches"] >= KINDS)
        cookie = made["cookie"]
        views = (*VIEWS, f"/trainings/{made['job']}/")
        yield Pages(
            cluster,
            tuple(Page(*web, path, cookie) for path in views),
            Page(*whole, "/trainings/", cookie),
            Page(*whole, "/api/v1/jobs/?page_size=200", cookie),
            Page(*whole, "/hello/"),
            Page(bare_pid, bare_port, "/"),
        )


@contextmanager
def served(folder: Path, environment: dict[str, str], *options: str) -> Iterator[tuple[int, int]]:
    """`manage.py serve`: its process and its port."""
    port = free_port()
    log = folder / f"serve-{port}.log"
    arguments = ["manage.py", "serve", *options]
    environment = {**environment, "PORT": str(port)}
    with running(arguments, log, lambda: is_served(port), environment) as pid:
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


async def pages(world: Pages, repeats: int) -> list[Result]:
    """M11 and M12."""
    for page in (world.page, world.rows, world.hello, world.bare):
        await cost_ms(page, WARM_UP)
    over_hello, rows_over_hello, per_bare = Sides(), Sides(), Sides()
    for _ in range(repeats):
        page = await cost_ms(world.page, ROUNDS)
        hello = await cost_ms(world.hello, HELLOS // 4)
        rows = await cost_ms(world.rows, ROUNDS // 2)
        bare = await cost_ms(world.bare, HELLOS)
        over_hello.add(page, hello)
        rows_over_hello.add(rows, hello)
        per_bare.add(1000 / page, 1000 / bare)
    calls = await calls_of_views(world.cluster, WEB, world.web)
    what = "a list of 25 of 200 trainings"
    return [
        Result(
            "M11",
            f"CPU of {what}, portal / hello under the same middleware",
            over_hello.ratio,
            at_most(1.5),
            sides=over_hello.words("ms", "hello"),
            void=over_hello.void,
        ),
        Result(
            "M11",
            "CPU of 200 trainings as JSON, portal / hello",
            rows_over_hello.ratio,
            at_most(5),
            sides=rows_over_hello.words("ms", "hello"),
            void=rows_over_hello.void,
        ),
        calls_gate(calls, len(world.web)),
        Result(
            "M12",
            f"{what}, requests per s of CPU, portal / bare ASGI hello",
            per_bare.ratio,
            at_least(1 / 25),
            sides=per_bare.words("1/s", "bare"),
            void=per_bare.void,
        ),
    ]
