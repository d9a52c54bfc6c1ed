"""`logs -f`: the lines of a training as they come, across lost connections without gap or repeat.

The portal gives a cursor with every frame. A new connection shows it and goes on behind the last
line that was written. The cursor is also kept when one leaves with Ctrl-C (`logs -f --resume`).
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection

from .exits import ClientError, UnreachableError
from .find import SHORT_LENGTH
from .interrupts import interrupted_later
from .lines import LineWriter
from .refusals import not_homeport
from .sanitize import one_line
from .session import Session
from .sockets import LOST, give_up_on, open_socket

FIRST_TRIES = 4  # of a portal that has not answered yet
PATIENCE_S = 15 * 60.0  # with one that did: restarts and trains through tunnels take a while
MAX_PAUSE_S = 20.0
QUIET_S = 0.4  # after so long without a frame, what comes is new
MAX_HISTORY_S = 3.0


class StreamEnd(Exception):  # noqa: N818  not an error
    """All has been shown."""


def cursor_file(job_id: str, environ: Mapping[str, str] = os.environ) -> Path:
    """Where it is kept how far one has read a training."""
    given = environ.get("XDG_STATE_HOME", "")
    base = Path(given) if given.startswith("/") else Path.home() / ".local" / "state"
    return base / "homeport" / "cursors" / "".join(c for c in job_id if c.isalnum() or c == "-")


def follow(session: Session, follower: Follower, *, resume: bool = False) -> None:
    """Shows the lines of a training until it has ended and all is shown.

    Raises:
        ClientError: the portal stays away, or the training is gone.
    """
    path = cursor_file(follower.job_id)
    identity = follower.job_id[:SHORT_LENGTH]
    if resume:
        follower.cursor = _read_cursor(path)
        follower.tail = None
    try:
        follower.run()
    except KeyboardInterrupt:
        _say_how_to_go_on(session, follower, path, identity)
        raise
    except UnreachableError as error:
        _keep(path, follower.cursor)
        error.next_step = f"Go on where you were: homeport logs -f {identity} --resume"
        raise
    path.unlink(missing_ok=True)


def _read_cursor(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")[:65536].strip()
    except (OSError, ValueError):
        raise ClientError(
            "It is not known how far you have read this log.", "Leave --resume away."
        ) from None


def _keep(path: Path, cursor: str) -> bool:
    if not cursor:
        return False
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text(cursor, encoding="ascii")
    except (OSError, ValueError):
        return False
    return True


def _say_how_to_go_on(session: Session, follower: Follower, path: Path, identity: str) -> None:
    again = f"homeport logs -f {identity}"
    if follower.replica:
        again += f" --replica {follower.replica}"
    if follower.attempt:
        again += f" --attempt {follower.attempt}"
    text = "\nNot watching any more; the training goes on. "
    text += (
        f"Go on where you were: {again} --resume"
        if _keep(path, follower.cursor)
        else f"Watch again: {again}"
    )
    session.terminal.tell(f"{text}; stop it: homeport stop {identity}")


class Follower:
    """Reads the log's websocket, again and again, and writes each line once."""

    def __init__(
        self,
        session: Session,
        job_id: str,
        writer: LineWriter,
        replica: str = "",
        attempt: str = "",
        tail: int | None = None,
    ) -> None:
        """`attempt` is a number, `all`, or empty: what runs, and the attempts that follow."""
        self._session = session
        self._terminal = session.terminal
        self.job_id = job_id
        self._writer = writer
        self.replica = replica
        self.attempt = attempt
        self.cursor = ""
        self.tail = tail
        self._has_answered = False
        self._failures = 0
        self._lost_s: float | None = None
        self._told: dict[str, tuple[str, str]] = {}
        self._history: list[tuple[str, list[tuple[str, str]]]] | None = None

    def run(self) -> None:
        """Returns when all has been shown."""
        if self.tail is not None:
            self._history = []
        while True:
            try:
                query = {
                    "replica": self.replica,
                    "attempt": self.attempt,
                    "cursor": self.cursor,
                }
                path = f"jobs/{self.job_id}/logs/"
                with open_socket(self._session.rest, path, query) as connection:
                    self._read(connection)
            except StreamEnd:
                return
            except ConnectionClosed as error:
                give_up_on(error, self._session.rest, "The training")
                self._lost(error)
            except LOST as error:
                self._lost(error)

    def _lost(self, error: Exception) -> None:
        """Waits before the next try, or gives up."""
        now_s = time.monotonic()
        if self._lost_s is None:
            self._lost_s = now_s
            if self._has_answered:
                self._terminal.tell("[homeport] the connection was lost; going on ...", "dim")
        self._failures += 1
        is_hopeless = not self._has_answered and self._failures >= FIRST_TRIES
        if is_hopeless or now_s - self._lost_s > PATIENCE_S:
            raise UnreachableError(
                f"{self._session.rest.url} gives no logs: {one_line(error)[:200]}",
                "Check your network, or ask your admin whether the portal is up.",
            ) from error
        time.sleep(min(MAX_PAUSE_S, 0.25 * 2**self._failures) * random.uniform(0.7, 1.0))

    def _read(self, connection: ClientConnection) -> None:
        began_s = time.monotonic()
        while True:
            try:
                wait_s = QUIET_S if self._history is not None else None
                text = connection.recv(timeout=wait_s)
            except TimeoutError:
                self._end_history()
                continue
            self._has_answered = True
            self._failures = 0
            if self._lost_s is not None:
                self._lost_s = None
            try:
                frame = json.loads(text)
            except (ValueError, RecursionError) as error:
                raise not_homeport(self._session.rest.url) from error
            if not isinstance(frame, dict):
                raise not_homeport(self._session.rest.url)
            self._take(frame)
            if self._history is not None and time.monotonic() - began_s > MAX_HISTORY_S:
                self._end_history()

    def _take(self, frame: dict[str, Any]) -> None:
        kind, replica = frame.get("type"), str(frame.get("replica", ""))
        if kind == "lines":
            rows = frame.get("lines")
            lines = [
                (str(row.get("t", "")), str(row.get("text", "")))
                for row in (rows if isinstance(rows, list) else [])
                if isinstance(row, dict)
            ]
            with interrupted_later():
                if self._history is not None:
                    self._history.append((replica, lines))
                else:
                    self._writer.write(replica, lines)
                self.cursor = str(frame.get("cursor", ""))
        elif kind == "skipped":
            self._say(f"{replica}: {frame.get('count')} lines were skipped here, they came faster")
        elif kind == "state":
            self._tell_state(replica, str(frame.get("state", "")), str(frame.get("reason", "")))
        elif kind == "end":
            self._end_history()
            raise StreamEnd

    def _end_history(self) -> None:
        """Writes the last lines of each replica that had come before one began to watch."""
        if self._history is None:
            return
        left: dict[str, int] = {}
        kept: list[tuple[str, list[tuple[str, str]]]] = []
        for replica, lines in reversed(self._history):
            room = left.setdefault(replica, self.tail or 0)
            shown = lines[-room:] if room else []
            left[replica] = room - len(shown)
            kept.append((replica, shown))
        self._history = None
        for replica, lines in reversed(kept):
            if lines:
                self._writer.write(replica, lines)

    def _tell_state(self, replica: str, state: str, reason: str) -> None:
        if self._told.get(replica) == (state, reason):
            return
        self._told[replica] = (state, reason)
        if replica and state != "failed":
            return  # the training's own state says it
        what = f"{replica} " if replica else ""
        self._say(f"{what}{state}" + (f": {reason}" if reason else ""))

    def _say(self, text: str) -> None:
        self._terminal.tell(f"[homeport] {one_line(text)}", "dim")
