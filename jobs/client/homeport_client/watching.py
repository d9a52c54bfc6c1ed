"""Waits for the end of a training: hears of changes by websocket, and looks now and then anyway."""

from __future__ import annotations

import json
import time
from collections.abc import Container
from contextlib import ExitStack, closing, suppress

from websockets.sync.client import ClientConnection

from .amounts import lasted_text
from .answers import FINAL, Json, parts, reason_of, resources_of, state_colour
from .exits import ERROR, OK, ClientError, UnreachableError
from .rest import Rest
from .sanitize import one_line
from .sockets import LOST, open_socket
from .terminal import Terminal

LOOK_AGAIN_S = 15.0
WITHOUT_SOCKET_S = 2.0
PATIENCE_S = 15 * 60.0  # with a portal that does not answer


class Changes:
    """Wakes when something changed; a plain pause where the websocket cannot be had."""

    def __init__(self, rest: Rest) -> None:
        self._rest = rest
        self._stack = ExitStack()
        self._connection: ClientConnection | None = None

    def wait(self, identity: str) -> None:
        """Until this thing changed, or for a while."""
        deadline_s = time.monotonic() + LOOK_AGAIN_S
        try:
            if self._connection is None:
                self._connection = self._stack.enter_context(open_socket(self._rest, "live/"))
                return  # what changed before it was open is seen by looking now
            while (left_s := deadline_s - time.monotonic()) > 0:
                frame = json.loads(self._connection.recv(timeout=left_s))
                if isinstance(frame, dict) and frame.get("id") == identity:
                    return
        except TimeoutError:
            return
        except (*LOST, ValueError, ClientError):
            self.close()
            time.sleep(WITHOUT_SOCKET_S)

    def close(self) -> None:
        self._connection = None
        with suppress(*LOST):
            self._stack.close()


def wait_until(
    rest: Rest,
    path: str,
    states: Container[str],
    terminal: Terminal,
    patience_s: float = 0,
    what: tuple[str, str] = ("training", "homeport get"),
) -> Json:
    """What is at a path, once its state is one of these; tells how it is on the way.

    `what` is its kind, and the command that shows one.

    Raises:
        ClientError: it is gone, or the portal stays away for longer than `patience_s`.
    """
    told = ""
    lost_s: float | None = None
    with closing(Changes(rest)) as changes:
        while True:
            try:
                row = rest.get(path)
                lost_s = None
            except UnreachableError:
                lost_s = lost_s or time.monotonic()
                if time.monotonic() - lost_s >= patience_s:
                    raise
                continue
            if not isinstance(row, dict):
                raise ClientError(f"The portal did not say how the {what[0]} is.", what[1])
            if row.get("state") in states:
                return row
            now = ": ".join(filter(None, (one_line(row.get("state", "")), reason_of(row)[0])))
            if now != told:
                told = now
                terminal.tell(now, "dim")
            changes.wait(str(row.get("id")))


def wait_for_end(rest: Rest, job_id: str, terminal: Terminal) -> Json:
    """The training once it has ended."""
    return wait_until(rest, f"jobs/{job_id}/", FINAL, terminal, PATIENCE_S)


def tell_end(job: Json, terminal: Terminal) -> None:
    """How a training ended, and what to do about it."""
    state, (why, step) = one_line(job.get("state", "")), reason_of(job)
    without_s = job.get("suspended_s")
    lasted = lasted_text(job.get("started_at"), job.get("finished_at"), without_s=without_s)
    text = f"{one_line(job.get('name', ''))} {'is' if state == 'stopped' else 'has'} {state}"
    text += f" after {lasted}" if job.get("started_at") else ""
    if state != "succeeded" and why:
        text += f": {why} {step}"
    terminal.tell(text.rstrip().rstrip(".") + ".", state_colour(state))


def code_of(job: Json) -> int:
    """The training's own exit code: 0 when it succeeded, else that of the replica that failed.

    Of several the one that failed first counts, of the first role that has one: parameter servers
    come last. 1 when none has one: never started, stopped.
    """
    if job.get("state") == "succeeded":
        return OK
    failed = [
        row
        for row in parts(job, "replicas")
        if row.get("state") == "failed"
        and isinstance(row.get("exit_code"), int)
        and row.get("attempt") in (None, job.get("attempt"))
    ]
    place = {role: number for number, role in enumerate(resources_of(job))}

    def order(row: Json) -> tuple[int, str]:
        at = place.get(str(row.get("role")), len(place))
        return at, str(row.get("finished_at") or "~")

    failed.sort(key=order)
    codes = [int(row["exit_code"]) & 0xFF for row in failed]
    return next((code for code in codes if code), ERROR)
