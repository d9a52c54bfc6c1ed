"""`serve` ends when it is asked to: cleanly, whatever is still open, with exit code 0."""

import asyncio
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from websockets.sync.client import connect

from deploy.testcluster.ports import free_port
from portal.management.commands.serve import listen
from tests.portal.programs import ROOT, environ_of
from tests.tools.waiting import wait_for


class Served:
    """One `serve` process and what its reconciler reported."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.port, self.pod_port = free_port(), free_port()
        self.report = home / "report"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *arguments: str, **environ: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.portal.endless_portal", *arguments],
            cwd=ROOT,
            env=environ_of(
                self.home,
                **{
                    "PORT": str(self.port),
                    "POD_PORT": str(self.pod_port),
                    "REPORT": str(self.report),
                    **environ,
                },
            ),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def reported(self) -> list[str]:
        return self.report.read_text().splitlines() if self.report.exists() else []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.process.stdout.read()  # type: ignore[union-attr]
        try:
            return requests.get(self.url, timeout=2).text == "here"
        except requests.RequestException:
            return False

    def ready(self) -> None:
        wait_for("serve answers", self.answers)
        wait_for("the reconciler runs", lambda: "start 1" in self.reported())

    def ended(self, timeout_s: float) -> tuple[int, str]:
        """Exit code and output."""
        assert self.process is not None
        output, _ = self.process.communicate(timeout=timeout_s)
        return self.process.returncode, output.decode()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    one = Served(tmp_path)
    yield one
    if one.process is not None and one.process.poll() is None:
        one.process.kill()
        one.process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly(served: Served, number: signal.Signals):
    served.start()
    served.ready()
    served.process.send_signal(number)
    code, output = served.ended(10)
    assert (code, served.reported()) == (0, ["start 1", "put down"]), output
    assert "Traceback" not in output


def test_open_downloads_and_websockets_do_not_hold_the_exit(served: Served):
    served.start()
    served.ready()
    with (
        requests.get(f"{served.url}/endless", stream=True, timeout=5) as download,
        connect(f"ws://127.0.0.1:{served.port}/") as websocket,
    ):
        assert download.raw.read(10)
        began = time.monotonic()
        served.process.terminate()
        code, output = served.ended(20)
        assert code == 0, output
        assert time.monotonic() - began < 12
        assert websocket.protocol.close_code in {None, 1006, 1012}
    assert served.reported()[-1] == "put down"


def test_a_second_signal_hurries(served: Served):
    served.start()
    served.ready()
    with requests.get(f"{served.url}/endless", stream=True, timeout=5) as download:
        assert download.raw.read(10)
        began = time.monotonic()
        served.process.send_signal(signal.SIGINT)
        wait_for("the first is heard", lambda: "put down" in served.reported())
        served.process.send_signal(signal.SIGINT)
        code, output = served.ended(10)
        assert code == 0, output
        assert time.monotonic() - began < 4.5  # the first alone waits for 5 s


def test_a_reconciler_that_dies_is_started_again_and_the_web_stays(served: Served):
    served.start(DIES="1")
    served.ready()
    wait_for("the second life", lambda: "start 2" in served.reported())
    assert served.answers()
    served.process.terminate()
    code, output = served.ended(10)
    assert code == 0
    assert "the first life was short" in output
    assert served.reported()[-1] == "put down"


def test_the_web_alone_has_no_reconciler(served: Served):
    served.start("--no-reconciler")
    wait_for("serve answers", served.answers)
    served.process.terminate()
    assert served.ended(10)[0] == 0
    assert served.reported() == []


def test_the_reconciler_alone_listens_nowhere(served: Served):
    served.start("--no-web")
    wait_for("the reconciler runs", lambda: served.reported() == ["start 1"])
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", served.port)) != 0
    served.process.terminate()
    assert served.ended(10)[0] == 0
    assert served.reported() == ["start 1", "put down"]


def test_a_taken_port_is_a_sentence(served: Served):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", served.port))
        taken.listen()
        served.start()
        code, output = served.ended(20)
    assert code == 1
    assert "Set PORT" in output
    assert "Traceback" not in output
    assert served.reported() == []


@pytest.mark.parametrize(
    ("arguments", "settings", "words"),
    [
        ([], {"PORT": "70000"}, "Set PORT"),
        (["--no-web", "--no-reconciler"], {}, "leave nothing to run"),
        ([], {"POD_PORTAL_URL": ""}, "POD_PORTAL_URL is empty"),
    ],
)
def test_what_cannot_be_served_is_a_sentence(
    served: Served, arguments: list[str], settings: dict[str, str], words: str
):
    served.start(*arguments, **settings)
    code, output = served.ended(20)
    assert code == 1
    assert words in output
    assert "Traceback" not in output


async def test_answers_of_several_writes_do_not_wait_for_acknowledgements() -> None:
    options: list[int] = []
    done = asyncio.Event()

    def came(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted = writer.get_extra_info("socket")
        options.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()
        done.set()

    bound = listen("127.0.0.1", 0)
    async with await asyncio.start_server(came, sock=bound):
        _reader, writer = await asyncio.open_connection(*bound.getsockname())
        async with asyncio.timeout(10):
            await done.wait()
        writer.close()
    assert options == [1]
