"""`logs -f`: the lines of a training as they come, across lost connections without gap or repeat.

The portal gives a cursor with every frame. A new connection shows it and goes on behind the last
line that was written. The cursor is also kept when one leaves with Ctrl-C (`logs -f --resume`).
"""

from __future__ import annotations

import json
import random
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection

from .amounts import parse_time
from .answers import SHORT_LENGTH, Json, parts
from .contexts import own_folder
from .exits import ClientError, UnreachableError
from .logs import LineWriter
from .refusals import not_homeport
from .sanitize import one_line
from .session import CliSession
from .sockets import LOST, give_up_on, open_socket

FIRST_TRIES = 4  # of a portal that has not answered yet
PATIENCE_S = 15 * 60.0  # with one that did: restarts and trains through tunnels take a while
MAX_PAUSE_S = 20.0
QUIET_S = 0.4  # after so long without a frame, what comes is new
MAX_HISTORY_S = 3.0
# A cursor that is longer goes by frames, as the head of a request has at most 8 KiB, and frames have less; portals of
# before read it in the address only.
CURSOR_CHARS = 6500
FRAME_CHARS = 4000


@contextmanager
def interrupted_later() -> Iterator[None]:
    """Ctrl-C counts when what is inside has been done; a second one counts at once.

    The second is for whoever waits inside for what may never come: a pager that reads no more.

    Raises:
        KeyboardInterrupt: Ctrl-C came meanwhile.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield  # nothing is interrupted here: another thread, or a program told to ignore Ctrl-C
        return
    times = 0

    def note(number: int, frame: Any) -> None:
        nonlocal times
        times += 1
        if times > 1:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if times:
        raise KeyboardInterrupt


def cursor_file(job_id: str) -> Path:
    """Where it is kept how far one has read a training."""
    name = "".join(c for c in job_id if c.isalnum() or c == "-")
    return own_folder("XDG_STATE_HOME", ".local/state") / "cursors" / name


def _pieces(cursor: str) -> list[str]:
    """The frames that bring a cursor; none of one that has room in the address."""
    if len(cursor) <= CURSOR_CHARS:
        return []
    return [cursor[at : at + FRAME_CHARS] for at in range(0, len(cursor), FRAME_CHARS)]


@dataclass
class Follower:
    """Reads the log's websocket, again and again, and writes each line once."""

    session: CliSession
    job_id: str
    writer: LineWriter
    replica: str = ""
    attempt: str = ""  # a number, `all`, or empty: what runs, and the attempts that follow
    tail: int | None = None
    since: datetime | None = None
    _cursor: str = field(default="", init=False)
    _has_answered: bool = field(default=False, init=False)
    _failures: int = field(default=0, init=False)
    _lost_s: float | None = field(default=None, init=False)
    _told: dict[str, tuple[str, str]] = field(default_factory=dict, init=False)
    # What came before one began to watch, as long as it is not known to be all of it.
    _history: list[tuple[str, list[tuple[str, str]]]] | None = field(default=None, init=False)

    def follow(self, *, resume: bool = False) -> None:
        """Shows the lines of the training until it has ended and all is shown.

        Raises:
            ClientError: the portal stays away, or the training is gone.
        """
        path, identity = cursor_file(self.job_id), self.job_id[:SHORT_LENGTH]
        if resume:
            try:
                self._cursor = path.read_text(encoding="ascii")[:65536].strip()
            except (OSError, ValueError):
                raise ClientError(
                    "It is not known how far you have read this log.", "Leave --resume away."
                ) from None
        elif self.tail is not None:
            self._history = []
        try:
            self._run()
        except KeyboardInterrupt:
            again = f"homeport logs -f {identity}"
            again += f" --replica {self.replica}" if self.replica else ""
            again += f" --attempt {self.attempt}" if self.attempt else ""
            is_kept = self._keep_cursor(path)
            on = (
                f"Continue where you were: {again} --resume" if is_kept else f"Watch again: {again}"
            )
            self.session.terminal.tell(
                "\nNo longer watching; the training continues. "
                f"{on}; stop it: homeport stop {identity}"
            )
            raise
        except UnreachableError as error:
            self._keep_cursor(path)
            error.next_step = f"Continue where you were: homeport logs -f {identity} --resume"
            raise
        path.unlink(missing_ok=True)

    def _keep_cursor(self, path: Path) -> bool:
        """True when one can go on from it."""
        try:
            if self._cursor:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                path.write_text(self._cursor, encoding="ascii")
        except (OSError, ValueError):
            return False
        return bool(self._cursor)

    def _run(self) -> None:
        rest, path = self.session.rest, f"jobs/{self.job_id}/logs/"
        while True:
            query = {"replica": self.replica, "attempt": self.attempt, "cursor": self._cursor}
            pieces = _pieces(self._cursor)
            if pieces:
                query.update(cursor="", cursor_frames=str(len(pieces)))
            try:
                with open_socket(rest, path, query) as connection:
                    for piece in pieces:
                        connection.send(piece)
                    self._read(connection)
                return
            except LOST as error:
                if isinstance(error, ConnectionClosed):
                    give_up_on(error, rest, "The training")
                self._lost(error)

    def _lost(self, error: Exception) -> None:
        """Waits before the next try, or gives up."""
        now_s = time.monotonic()
        if self._lost_s is None:
            self._lost_s = now_s
            if self._has_answered:
                self._say("the connection was lost; going on ...")
        self._failures += 1
        is_hopeless = not self._has_answered and self._failures >= FIRST_TRIES
        if is_hopeless or now_s - self._lost_s > PATIENCE_S:
            raise UnreachableError(
                f"{self.session.rest.url} gives no logs: {one_line(error)[:200]}",
                "Check your network, or ask your admin whether the portal is up.",
            ) from error
        time.sleep(min(MAX_PAUSE_S, 0.25 * 2**self._failures) * random.uniform(0.7, 1.0))

    def _read(self, connection: ClientConnection) -> None:
        """Until the portal says that this is all."""
        history_until_s = time.monotonic() + MAX_HISTORY_S
        kind = None
        while kind != "end":
            try:
                text = connection.recv(timeout=None if self._history is None else QUIET_S)
            except TimeoutError:
                self._end_history()
                continue
            self._has_answered, self._failures, self._lost_s = True, 0, None
            try:
                frame = json.loads(text)
            except (ValueError, RecursionError):
                frame = None
            if not isinstance(frame, dict):
                raise not_homeport(self.session.rest.url)
            self._take(frame)
            kind = frame.get("type")
            if kind == "end" or time.monotonic() > history_until_s:
                self._end_history()

    def _take(self, frame: Json) -> None:
        kind, replica = frame.get("type"), str(frame.get("replica", ""))
        if kind == "lines":
            rows = parts(frame, "lines")
            lines = [
                (str(row.get("t", "")), str(row.get("text", "")))
                for row in rows
                if not self._is_before(row.get("t"))
            ]
            with interrupted_later():
                if self._history is None:
                    self.writer.write(replica, lines)
                else:
                    self._history.append((replica, lines))
                self._cursor = str(frame.get("cursor", ""))
        elif kind == "unfinished" and self._history is None:
            for row in parts(frame, "lines"):
                self.writer.write_unfinished(replica, str(row.get("text", "")))
        elif kind == "skipped":
            self._say(f"{replica}: {frame.get('count')} lines were skipped here, they came faster")
        elif kind == "state":
            state, reason = str(frame.get("state", "")), str(frame.get("reason", ""))
            is_new = self._told.get(replica) != (state, reason)
            self._told[replica] = (state, reason)
            # Of replicas only failures: the training's own state says the rest.
            if is_new and (not replica or state == "failed"):
                what = f"{replica} {state}" if replica else state
                self._say(f"{what}: {reason}" if reason else what)

    def _is_before(self, stamp: object) -> bool:
        """Whether a line is older than what is wanted; one without a time is not."""
        if self.since is None:
            return False
        # The kubelet writes nanoseconds, of which Python 3.9 reads nothing.
        at = parse_time(re.sub(r"\.\d+", "", str(stamp)))
        return at is not None and at < self.since.replace(microsecond=0)

    def _end_history(self) -> None:
        """Writes the last lines of each replica that had come before one began to watch."""
        history, self._history = self._history or [], None
        left: dict[str, int] = {}
        kept: list[tuple[str, list[tuple[str, str]]]] = []
        for replica, lines in reversed(history):
            room = left.setdefault(replica, self.tail or 0)
            shown = lines[-room:] if room else []
            left[replica] = room - len(shown)
            kept.append((replica, shown))
        for replica, lines in reversed(kept):
            if lines:
                self.writer.write(replica, lines)

    def _say(self, text: str) -> None:
        self.writer.clear()
        self.session.terminal.tell(f"[homeport] {one_line(text)}", "dim")
