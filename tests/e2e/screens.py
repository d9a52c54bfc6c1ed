"""Pictures of every page, wide and narrow, light and dark, for people to look at.

    .venv/bin/python -m tests.e2e.screens FOLDER [PAGE ...]

Starts a portal on a seeded database of its own (tests/e2e/seed.py). There is no cluster: the log of
the training that runs is played by this script through the browser's websocket.
"""

import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, WebSocketRoute, sync_playwright

from deploy.testcluster.ports import free_port
from tests.e2e.pages import PAGES
from tests.e2e.portal import ROOT
from tests.e2e.seed import PASSWORD
from tests.tools import browsers

WIDTHS = (1400, 400)


@contextmanager
def seeded_portal() -> Iterator[tuple[str, dict[str, str]]]:
    """A portal without a cluster; its address, and the seeded trainings' ids by short name."""
    with tempfile.TemporaryDirectory(prefix="homeport-screens-") as home:
        port = free_port()
        environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "portal.settings",
            "HOMEPORT_HOME": home,
            "PORT": str(port),
        }
        manage = [sys.executable, "manage.py"]
        for command in (["migrate", "-v0"], ["collectstatic", "--noinput", "-v0"]):
            subprocess.run([*manage, *command], cwd=ROOT, env=environment, check=True)
        seeded = subprocess.run(
            [sys.executable, "-m", "tests.e2e.seed"],
            cwd=ROOT,
            env=environment,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout
        log = Path(home, "server.log")
        with log.open("wb") as output:
            server = subprocess.Popen(
                [*manage, "runserver", "--noreload", str(port)],
                cwd=ROOT,
                env=environment,
                stdout=output,
                stderr=output,
            )
        try:
            wait_until_ready(f"http://localhost:{port}/readyz")
            yield f"http://localhost:{port}", dict(line.split() for line in seeded.splitlines())
        finally:
            server.terminate()
            server.wait(10)
            _, is_broken, told = log.read_text().partition("Traceback")
            print(is_broken + told, end="")


def wait_until_ready(address: str, timeout_s: float = 30) -> None:
    """Returns when the portal answers.

    Raises:
        TimeoutError: it does not in time.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            urllib.request.urlopen(address, timeout=2).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{address} does not answer") from None
            time.sleep(0.2)


def play_log(socket: WebSocketRoute) -> None:
    """What a training of two workers and a parameter server writes, with colours and a gap."""

    def lines(replica: str, *texts: str) -> None:
        shown = [{"t": "2026-11-20T10:02:03.123456Z", "text": text} for text in texts]
        frame = {"type": "lines", "replica": replica, "cursor": "c", "lines": shown}
        socket.send(json.dumps(frame))

    if "replica=" in socket.url:
        socket.send(
            json.dumps(
                {
                    "type": "state",
                    "replica": "worker-0",
                    "state": "starting",
                    "reason": "pulling the image",
                }
            )
        )
        return
    lines("ps-0", "server up ps 0", "\x1b[2mwaiting for sessions\x1b[0m")
    lines("worker-0", "server up worker 0", "\x1b[32mINFO\x1b[0m restored nothing, step 0")
    lines("worker-1", "server up worker 1", "\x1b[1;33mWARNING\x1b[0m cuDNN is not there, slower")
    for step in range(0, 400, 40):
        for worker in range(2):
            loss = 2.3 / (1 + step / 60) + worker / 90
            lines(
                f"worker-{worker}", f"step {step:5d}  loss {loss:.4f}  {880 + step % 77} images/s"
            )
    socket.send(json.dumps({"type": "skipped", "replica": "worker-1", "count": 1840}))
    lines("worker-1", "\x1b[31mERROR\x1b[0m a batch was broken: <b>not bold</b> & kept as text")
    lines("worker-0", "a long line: " + " ".join(f"weight_{n}=0.{n:03d}" for n in range(40)))


def sign_in(browser: Browser, url: str, name: str) -> Any:
    """The cookies of somebody who has signed in; none when the name is empty."""
    context = browser.new_context(base_url=url)
    page = context.new_page()
    if name:
        page.goto("/sign-in/")
        page.get_by_label("User name").fill(name)
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(f"{url}/")
    state = context.storage_state()
    context.close()
    return state


def open_page(browser: Browser, url: str, state: Any, *, width: int, is_dark: bool) -> Page:
    """A page whose websockets are played by this script; what its console says is printed."""
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if is_dark else "light",
        base_url=url,
        storage_state=state,
    )
    page = context.new_page()
    page.route_web_socket("**/ws/jobs/**", play_log)
    page.route_web_socket("**/ws/live/", lambda socket: None)
    page.on("console", lambda m: print(f"  {page.url}: console {m.type}: {m.text}"))
    page.on("pageerror", lambda error: print(f"  page error: {error}"))
    return page


def take(folder: Path, chosen: list[str]) -> None:
    """Writes FOLDER/PAGE-WIDTH-light|dark.png."""
    folder.mkdir(parents=True, exist_ok=True)
    with seeded_portal() as (url, jobs), sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=browsers.find(), chromium_sandbox=os.getuid() != 0
        )
        wanted = {name: page for name, page in PAGES.items() if name in chosen or not chosen}
        for who in {who for who, _path in wanted.values()}:
            state = sign_in(browser, url, who)
            for width, is_dark in itertools.product(WIDTHS, (False, True)):
                page = open_page(browser, url, state, width=width, is_dark=is_dark)
                for name in (name for name, (looks, _path) in wanted.items() if looks == who):
                    page.goto(wanted[name][1].format(**jobs))
                    page.wait_for_timeout(500)
                    target = folder / f"{name}-{width}-{'dark' if is_dark else 'light'}.png"
                    page.screenshot(path=target, full_page=True)
                    wide = page.evaluate("document.documentElement.scrollWidth")
                    if wide > width:
                        print(f"{target.name}: {wide} px wide")
                page.context.close()
        browser.close()


if __name__ == "__main__":
    take(Path(sys.argv[1]), sys.argv[2:])
