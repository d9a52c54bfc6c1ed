"""`logs -f` over a connection that is cut again and again: no gap, no repeat."""

import copy
import io
import json
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.sync.server import ServerConnection, serve

from homeport_client import follow, watching
from homeport_client.exits import INTERRUPTED, NOT_FOUND, NOT_SIGNED_IN, UNREACHABLE
from homeport_client.follow import cursor_file, interrupted_later
from homeport_client.output import text_width
from homeport_client.terminal import Terminal
from tests.jobs.client.world import JOB_ID, Answer, CommandLine, Scripted, job

Talk = Callable[[ServerConnection, str], None]


class Logs:
    """A websocket server whose connections go as a test says: `talk(connection, cursor)`."""

    def __init__(self) -> None:
        self.talk: Talk = lambda connection, cursor: None
        self.cursors: list[str] = []
        self.queries: list[dict[str, list[str]]] = []
        self.headers: list[str] = []

    def handle(self, connection: ServerConnection) -> None:
        assert connection.request is not None
        query = parse_qs(urlsplit(connection.request.path).query)
        self.queries.append(query)
        self.headers.append(connection.request.headers.get("Authorization", ""))
        frames = [connection.recv() for _ in range(int(query.get("cursor_frames", ["0"])[0]))]
        self.cursors.append(query.get("cursor", ["".join(map(str, frames))])[0])
        self.talk(connection, self.cursors[-1])


@pytest.fixture
def logs(portal: Scripted, monkeypatch: pytest.MonkeyPatch) -> Iterator[Logs]:
    """Where the command line opens its websockets, for a training that runs."""
    made = Logs()
    portal.answers[f"GET jobs/{JOB_ID}/"] = job()
    monkeypatch.setattr(follow.time, "sleep", lambda _seconds: None)
    silent = logging.getLogger("tests.silent")
    silent.setLevel(logging.CRITICAL)
    with serve(made.handle, "127.0.0.1", 0, ping_interval=None, logger=silent) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        port = server.socket.getsockname()[1]
        real = follow.open_socket

        @contextmanager
        def elsewhere(rest: Any, path: str, query: Any = None) -> Iterator[Any]:
            there = copy.copy(rest)
            there.url = f"http://127.0.0.1:{port}"
            with real(there, path, query) as connection:
                yield connection

        monkeypatch.setattr(follow, "open_socket", elsewhere)
        monkeypatch.setattr(watching, "open_socket", elsewhere)
        yield made
        server.shutdown()
        thread.join()


def lines(
    connection: ServerConnection, cursor: str, *texts: str, replica: str = "worker-0"
) -> None:
    rows = [{"t": "2026-11-20T10:00:00Z", "text": text} for text in texts]
    frame = {"type": "lines", "replica": replica, "cursor": cursor, "lines": rows}
    connection.send(json.dumps(frame))


def end(connection: ServerConnection) -> None:
    connection.send('{"type": "end"}')


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    # One that is silent for so long at its begin is given up, and rightly.
    pieces=st.lists(st.integers(0, 5), min_size=1, max_size=12).filter(
        lambda p: any(p[: follow.FIRST_TRIES]) or len(p) <= follow.FIRST_TRIES
    ),
    is_pulled=st.lists(st.booleans(), min_size=12, max_size=12),
)
def test_every_line_once_whatever_is_cut(
    homeport: CommandLine, logs: Logs, pieces: list[int], is_pulled: list[bool]
) -> None:
    """`pieces`: how many lines each connection brings before it is cut, or closed politely."""
    total = sum(pieces)
    waiting = list(pieces)

    def talk(connection: ServerConnection, cursor: str) -> None:
        at = int(cursor or 0)
        count = waiting.pop(0) if waiting else total - at
        for number in range(at, min(total, at + count)):
            lines(connection, str(number + 1), f"line {number}")
        if at + count >= total and not waiting:
            end(connection)
            return
        if is_pulled[len(waiting)]:
            connection.socket.shutdown(socket.SHUT_RDWR)  # as a cable that is pulled
        else:
            connection.close(1013)

    logs.talk = talk
    ran = homeport("logs", "-f", JOB_ID)
    assert ran.code == 0, ran.err
    assert ran.out.splitlines() == [f"line {number}" for number in range(total)]
    assert logs.headers[-1] == "Token hp_token"


@pytest.mark.parametrize(("replicas", "by"), [(120, "cursor"), (400, "cursor_frames")])
def test_a_place_in_many_replicas_is_longer_than_a_head_and_is_not_lost(
    homeport: CommandLine, logs: Logs, replicas: int, by: str
) -> None:
    """Older portals read it in the address only, where it goes as long as there is room."""
    place = "~".join(f"worker-{n}.l.1.1732900000123456789.1.4abcdef012345" for n in range(replicas))

    def talk(connection: ServerConnection, cursor: str) -> None:
        if cursor:
            lines(connection, place, "second")
            end(connection)
        else:
            lines(connection, place, "first")
            connection.close(1013)

    logs.talk = talk
    ran = homeport("logs", "-f", JOB_ID)
    assert (ran.code, ran.out) == (0, "first\nsecond\n"), ran.err
    assert logs.cursors == ["", place]
    assert logs.queries[1].keys() == {by}


@pytest.mark.parametrize(
    ("words", "attempt"),
    [((), None), (("--attempt", "2"), ["2"]), (("--attempt", "all"), ["all"])],
)
def test_one_attempt_or_all_can_be_followed(
    homeport: CommandLine, logs: Logs, words: tuple[str, ...], attempt: list[str] | None
) -> None:
    logs.talk = lambda connection, cursor: end(connection)
    homeport.answers[f"GET jobs/{JOB_ID}/"] = job(attempt=2)
    assert homeport("logs", "-f", JOB_ID, *words).code == 0
    assert logs.queries[-1].get("attempt") == attempt


def test_replicas_have_their_names_in_front_and_nothing_moves_the_terminal(
    homeport: CommandLine, logs: Logs
) -> None:
    def talk(connection: ServerConnection, cursor: str) -> None:
        lines(connection, "1", "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", replica="worker-0")
        lines(connection, "2", "\u202eevil\x9b2J", replica="ps-0")
        lines(connection, "3", "x", replica="\x1b[2Jps-9")
        connection.send('{"type": "skipped", "replica": "ps-0", "count": 7}')
        connection.send('{"type": "later", "than": "this client"}')
        end(connection)

    logs.talk = talk
    two = {"ps": {"count": 1}, "worker": {"count": 1}}
    homeport.answers[f"GET jobs/{JOB_ID}/"] = job(resources=two)
    ran = homeport("logs", "-f", JOB_ID)
    assert ran.out.splitlines() == [
        "worker-0 | red",
        "worker-0 | ",
        "ps-0     | evil",
        "ps-9     | x",
    ]
    assert "ps-0: 7 lines were skipped here" in ran.err
    raw = homeport("logs", "-f", JOB_ID, "--raw", "--replica", "worker-0")
    assert "\x1b[31mred\x1b[0m\n" in raw.out
    assert logs.queries[-1]["replica"] == ["worker-0"]


def test_a_tail_is_of_each_replica(homeport: CommandLine, logs: Logs) -> None:
    def talk(connection: ServerConnection, cursor: str) -> None:
        lines(connection, "1", "a1", "a2", "a3", replica="worker-0")
        lines(connection, "2", "b1", replica="worker-1")
        lines(connection, "3", "a4", replica="worker-0")
        end(connection)

    logs.talk = talk
    homeport.answers[f"GET jobs/{JOB_ID}/"] = job(resources={"worker": {"count": 2}})
    ran = homeport("logs", "-f", JOB_ID, "--tail", "2")
    assert ran.out.splitlines() == ["worker-0 | a3", "worker-1 | b1", "worker-0 | a4"]
    assert homeport("logs", "-f", JOB_ID, "--tail", "0").out == ""
    for second, count in ((0, 5), (1, 0)):
        ran = homeport("logs", "-f", JOB_ID, "--since-time", f"2026-11-20T10:00:0{second}Z")
        assert len(ran.out.splitlines()) == count


def test_ctrl_c_says_how_to_go_on_and_resume_does(
    homeport: CommandLine, logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def talk(connection: ServerConnection, cursor: str) -> None:
        at = int(cursor or 0)
        lines(connection, str(at + 1), f"line {at}")
        end(connection)

    logs.talk = talk

    def interrupted(self: Any, frame: dict[str, Any]) -> None:
        if frame["type"] == "end":
            raise KeyboardInterrupt
        real(self, frame)

    real = follow.Follower._take
    with monkeypatch.context() as patch:
        patch.setattr(follow.Follower, "_take", interrupted)
        ran = homeport("logs", "-f", JOB_ID)
    assert ran.code == INTERRUPTED
    assert ran.out == "line 0\n"
    assert "homeport logs -f 12345678 --resume" in ran.err
    assert "homeport stop 12345678" in ran.err
    path = cursor_file(JOB_ID)
    assert path.read_text() == "1"

    again = homeport("logs", "-f", JOB_ID, "--resume")
    assert (again.code, again.out) == (0, "line 1\n")
    assert not path.exists(), "all has been read"
    assert homeport("logs", "-f", JOB_ID, "--resume").code == 1


@pytest.mark.parametrize(("code", "ends"), [(4401, NOT_SIGNED_IN), (4404, NOT_FOUND)])
def test_a_door_that_is_shut_is_not_knocked_at_again(
    homeport: CommandLine, logs: Logs, code: int, ends: int
) -> None:
    logs.talk = lambda connection, cursor: connection.close(code)
    assert homeport("logs", "-f", JOB_ID).code == ends
    assert len(logs.cursors) == 1


def test_a_portal_that_never_answers_is_given_up(homeport: CommandLine, logs: Logs) -> None:
    logs.talk = lambda connection, cursor: connection.close(1013)
    ran = homeport("logs", "-f", JOB_ID)
    assert ran.code == UNREACHABLE
    assert len(logs.cursors) == follow.FIRST_TRIES


@pytest.mark.parametrize(
    "text", ["", "null", "3", "[]", "[" * 200_000, '{"type": "lines"', "\x00", '"x"']
)
def test_frames_that_are_none_end_in_words(homeport: CommandLine, logs: Logs, text: str) -> None:
    logs.talk = lambda connection, cursor: connection.send(text)
    ran = homeport("logs", "-f", JOB_ID)
    assert ran.code == 1
    assert "does not answer as Homeport does" in ran.err


@pytest.mark.parametrize(
    "frame",
    [
        {"type": "lines", "replica": 3, "cursor": None, "lines": "text"},
        {"type": "lines", "lines": [1, None, {"text": {"a": 1}}, {}]},
        {"type": "state", "replica": [], "state": None, "reason": 7},
        {"type": "skipped", "count": "\x1b[2J"},
        {"type": None},
        {},
    ],
)
def test_frames_of_a_wrong_form_do_no_harm(
    homeport: CommandLine, logs: Logs, frame: dict[str, Any]
) -> None:
    def talk(connection: ServerConnection, cursor: str) -> None:
        connection.send(json.dumps(frame))
        end(connection)

    logs.talk = talk
    ran = homeport("logs", "-f", JOB_ID)
    assert ran.code == 0
    assert "\x1b" not in ran.out + ran.err


class Closed(io.StringIO):
    """An output that nobody reads."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_a_closed_output_is_no_lost_connection(
    homeport: CommandLine, logs: Logs, tmp_path: Path
) -> None:
    from homeport_client.__main__ import run
    from homeport_client.exits import OUTPUT_CLOSED
    from homeport_client.terminal import Terminal

    logs.talk = lambda connection, cursor: lines(connection, "1", "line")
    terminal = Terminal(Closed(), io.StringIO())
    assert run(["logs", "-f", JOB_ID], terminal) == OUTPUT_CLOSED
    assert len(logs.cursors) == 1


# --- Ctrl-C while a line is written: the line and the note that it was written stay together ---


def press_ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def within(*steps: Callable[[], object]) -> None:
    with interrupted_later():
        for step in steps:
            step()


def test_it_counts_when_what_was_begun_is_done() -> None:
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        within(press_ctrl_c, lambda: done.append("the other half"))
    assert done == ["the other half"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_one_ends_what_may_never_end() -> None:
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        within(press_ctrl_c, press_ctrl_c, lambda: done.append("never reached"))
    assert done == []
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_error_inside_is_what_is_told() -> None:
    def breaks() -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        within(press_ctrl_c, breaks)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_who_ignores_ctrl_c_goes_on_ignoring_it() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interrupted_later():
            press_ctrl_c()
            press_ctrl_c()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def test_other_threads_are_not_interrupted_anyhow() -> None:
    done = []

    def work() -> None:
        with interrupted_later():
            done.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [signal.default_int_handler]


# --- submit --wait ---


def failed(code: int | None, **more: Any) -> dict[str, Any]:
    return {"state": "failed", "exit_code": code, **more}


OF_A_PS = failed(3, role="ps", finished_at="1")
OF_WORKERS = [failed(code, role="worker", finished_at=at) for code, at in ((5, "3"), (4, "2"))]
ENDS = [
    ({"state": "succeeded"}, 0),
    ({"state": "failed"}, 1),
    ({"state": "stopped"}, 1),
    *(({"state": "failed", "replicas": [failed(code)]}, code) for code in (7, 137)),
    *(({"state": "failed", "replicas": [failed(code)]}, 1) for code in (None, 256)),
    ({"state": "failed", "replicas": "none"}, 1),
    (
        {
            "state": "failed",
            "replicas": [OF_A_PS, *OF_WORKERS, {"state": "succeeded", "exit_code": 0}],
        },
        4,
    ),
    (
        {"state": "failed", "attempt": 2, "replicas": [failed(9, attempt=1), failed(8, attempt=2)]},
        8,
    ),
]


@pytest.mark.parametrize(("ended", "code"), ENDS)
def test_waiting_ends_with_the_trainings_own_code(
    homeport: CommandLine, logs: Logs, ended: dict[str, Any], code: int
) -> None:
    def talk(connection: ServerConnection, cursor: str) -> None:
        connection.send(json.dumps({"type": "changed", "kind": "job", "id": "another"}))
        connection.send(json.dumps({"type": "changed", "kind": "job", "id": JOB_ID}))
        connection.recv()

    logs.talk = talk
    homeport.answers["POST jobs/"] = job(state="queued")
    homeport.answers[f"GET jobs/{JOB_ID}/"] = [job(state="queued"), job(), job(**ended)]
    ran = homeport("submit", "--image", "x", "--name", "mnist", "--wait", "--", "python", "x.py")
    assert ran.code == code, ran.err
    assert ended["state"] in ran.err


def test_waiting_needs_no_websocket(
    homeport: CommandLine, logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs.talk = lambda connection, cursor: connection.close(1013)
    homeport.answers["POST jobs/"] = job(state="queued")
    homeport.answers[f"GET jobs/{JOB_ID}/"] = [job(), job(), job(), job(state="succeeded")]
    assert homeport("submit", "--image", "x", "--wait", "--", "y").code == 0


@pytest.mark.parametrize("is_terminal", [True, False])
def test_an_unfinished_line_is_shown_on_a_terminal_until_it_has_ended(
    homeport: CommandLine, logs: Logs, monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    def talk(connection: ServerConnection, _cursor: str) -> None:
        for text in ("10%", "20%\x1b[2J"):
            row = {"t": "", "text": text}
            frame = {"type": "unfinished", "replica": "worker-0", "lines": [row]}
            connection.send(json.dumps(frame))
        lines(connection, "1", "100%")
        end(connection)

    logs.talk = talk
    monkeypatch.setattr(Terminal, "is_live", lambda _terminal, _stream: is_terminal)
    ran = homeport("--color", "never", "logs", "-f", JOB_ID)
    states = "\r10%\x1b[K\r20%\x1b[K\r\x1b[K" if is_terminal else ""
    assert ran.out == f"{states}100%\n", ran.err


@pytest.mark.parametrize("sign", ["#", "\u2501", "\u5b57", "\t", "e\u0301"])
def test_a_bar_of_4000_columns_takes_one_line_of_the_terminal(
    homeport: CommandLine, logs: Logs, monkeypatch: pytest.MonkeyPatch, sign: str
) -> None:
    """Else each state leaves lines behind that are not written over."""

    def talk(connection: ServerConnection, _cursor: str) -> None:
        for percent in (10, 20):
            row = {"t": "", "text": f"{percent}% " + sign * 4_000}
            frame = {"type": "unfinished", "replica": "worker-0", "lines": [row]}
            connection.send(json.dumps(frame))
        lines(connection, "1", "100%")
        end(connection)

    logs.talk = talk
    monkeypatch.setattr(Terminal, "is_live", lambda _terminal, _stream: True)
    monkeypatch.setenv("COLUMNS", "80")
    ran = homeport("--color", "never", "logs", "-f", JOB_ID)
    states = ran.out.split("\x1b[K")
    assert [state[:5] for state in states[:2]] == ["\r10% ", "\r20% "]
    for state in states[:2]:
        assert 30 < text_width(state[1:]) < 80
        assert "\t" not in state
    assert states[-1] == "100%\n"


def test_of_a_progress_bar_the_last_state_is_printed(homeport: CommandLine) -> None:
    homeport.answers[f"GET jobs/{JOB_ID}/"] = job(state="succeeded")
    bar = b"\rEpoch 0/60\rEpoch 59/60\r\nwindows\r\n"
    homeport.answers[f"GET jobs/{JOB_ID}/logs/"] = Answer(data=bar)
    assert homeport("logs", JOB_ID).out == "Epoch 59/60\nwindows\n"
    assert homeport("logs", "--raw", JOB_ID).out == bar.decode()


@pytest.mark.parametrize("names", [("worker-0",), ("worker-0", "ps-0")], ids=["one", "two"])
def test_of_a_line_with_returns_the_time_stays(
    homeport: CommandLine, names: tuple[str, ...]
) -> None:
    """The archive has no times, and a return there is of the program alone."""
    asked = {"count": 1, "cpu": "1", "memory": "1Gi", "gpu": 0}
    resources = {name[:-2]: asked for name in names}
    homeport.answers[f"GET jobs/{JOB_ID}/"] = job(state="succeeded", resources=resources)
    mark = "worker-0 | " if len(names) > 1 else ""
    stamp = "2026-11-20T10:00:00.123456789Z "
    lines_of_pod = [f"{stamp}\rEpoch 0/60\rEpoch 59/60\r", f"{stamp}windows\r", f"{stamp}\r", stamp]
    other = ["[homeport] lines of the archive have no times", "0%\r100%", "no time\rstays"]
    data = "".join(f"{mark}{line}\n" for line in lines_of_pod + other).encode()
    homeport.answers[f"GET jobs/{JOB_ID}/logs/"] = Answer(data=data)
    shown = [f"{stamp}Epoch 59/60", f"{stamp}windows", stamp, stamp, other[0], "100%", "stays"]
    assert homeport("logs", "--timestamps", JOB_ID).out == "".join(
        f"{mark}{line}\n" for line in shown
    )
    plain = homeport("logs", JOB_ID).out.splitlines()
    assert plain[0] == f"{mark}Epoch 59/60", "without times they are the program's own words"
