"""However many ask at once, the web keeps few database connections and refuses nobody for them."""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from pathlib import Path

import requests
from websockets.asyncio.client import ClientConnection, connect

from tenants.sockets import MAX_PER_USER, MAX_SOCKETS, TRY_LATER
from tests.portal.attackers import all_at_once, ask_at_once, many_descriptors, open_ones
from tests.portal.postgres_server import postgres_server
from tests.portal.whole import TRAINING, UNLIMITED, Whole, tree_memory_bytes, whole_portal
from tests.tools.waiting import wait_for

AT_ONCE = 500
WRITERS = 100  # of them
THREADS = 20  # WEB_THREADS, as it is unless it is set
DESCRIPTORS = 1024
LIMITS = ("prlimit", f"--nofile={DESCRIPTORS}:{DESCRIPTORS}")
# A busy machine may let them wait.
PATIENT = {**UNLIMITED, "WEB_WAIT_S": "400"}
MEMORY_BYTES = 100 * 1024**2


def work_at_once(whole: Whole) -> Counter[object]:
    """Status -> how often: some submit, the others look at a page or ask by REST, all together."""
    headers = {**whole.rest_headers, **whole.page_headers}

    def get(path: str) -> Callable[[], requests.Response]:
        return partial(requests.get, f"{whole.url}{path}", headers=headers, timeout=400)

    jobs = f"{whole.url}/api/v1/jobs/"
    submit = partial(requests.post, jobs, json=TRAINING, headers=headers, timeout=400)
    readers = [get("/" if number % 2 else "/api/v1/me/") for number in range(AT_ONCE - WRITERS)]
    return all_at_once([submit] * WRITERS + readers)


def test_postgresql_with_its_default_of_connections(tmp_path: Path) -> None:
    with (
        postgres_server(max_connections=100) as database,
        whole_portal(tmp_path, DATABASE_URL=database.url, **PATIENT) as whole,
    ):
        assert work_at_once(whole) == {200: AT_ONCE - WRITERS, 201: WRITERS}
        # Pages of errors are made in threads of another kind.
        assert ask_at_once(f"{whole.url}/nowhere/", AT_ONCE, whole.rest_headers) == {404: AT_ONCE}
        spare_threads = min(32, (os.cpu_count() or 1) + 4)
        assert 0 < database.connections() <= THREADS + spare_threads


def test_sqlite_with_few_descriptors(tmp_path: Path) -> None:
    with whole_portal(tmp_path, wrapper=LIMITS, **PATIENT) as whole:
        assert work_at_once(whole) == {200: AT_ONCE - WRITERS, 201: WRITERS}
        assert 0 < open_files(whole).count(str(tmp_path / "homeport.sqlite3")) <= THREADS


def test_while_the_portal_is_held_up_all_who_come_are_kept(tmp_path: Path) -> None:
    asked = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with (
        whole_portal(tmp_path, wrapper=LIMITS) as whole,
        many_descriptors(AT_ONCE),
        ExitStack() as stack,
    ):
        os.kill(whole.pid, signal.SIGSTOP)
        try:
            ones = open_ones(stack, whole.port, AT_ONCE, asked)
        finally:
            os.kill(whole.pid, signal.SIGCONT)
        assert {one.recv(12) for one in ones} == {b"HTTP/1.1 200"}


async def test_as_many_websockets_as_may_be_open(tmp_path: Path) -> None:
    assert MAX_SOCKETS == AT_ONCE
    with whole_portal(tmp_path, wrapper=LIMITS, admins=AT_ONCE // MAX_PER_USER) as whole:
        before, base_bytes = len(open_files(whole)), tree_memory_bytes(whole.pid)
        async with AsyncExitStack() as stack:

            async def open_one(token: str) -> ClientConnection:
                return await stack.enter_async_context(
                    connect(
                        f"{whole.url.replace('http', 'ws')}/ws/live/",
                        additional_headers={"Authorization": f"Token {token}"},
                        compression=None,
                        open_timeout=60,
                    )
                )

            tokens = whole.admin_tokens * MAX_PER_USER
            sockets = await asyncio.gather(*map(open_one, tokens))
            told = asyncio.gather(*(socket.recv() for socket in sockets))
            while not told.done():
                # Who opened last may not listen yet.
                assert (await asyncio.to_thread(whole.submit)).status_code == 201
                await asyncio.wait([told], timeout=1)
            assert all('"changed"' in str(frame) for frame in told.result())
            count, growth = len(open_files(whole)), tree_memory_bytes(whole.pid) - base_bytes
            print(f"{count} descriptors of {DESCRIPTORS}, +{growth / 1024**2:.0f} MiB")
            assert count < DESCRIPTORS
            assert growth < MEMORY_BYTES
            one_more = await open_one(whole.token)
            await one_more.wait_closed()
            assert one_more.close_code == TRY_LATER
        wait_for("they are gone", lambda: len(open_files(whole)) < before + THREADS)


def open_files(whole: Whole) -> list[str]:
    """What the portal's descriptors are of; empty: closed meanwhile."""
    found = []
    for path in Path(f"/proc/{whole.pid}/fd").iterdir():
        try:
            found.append(os.readlink(path))
        except OSError:
            found.append("")
    return found
