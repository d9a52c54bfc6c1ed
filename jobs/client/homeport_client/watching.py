"""Waits for the end of a training: hears of changes by websocket, and looks now and then anyway."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack, suppress
from datetime import datetime, timezone
from types import TracebackType
from typing import Any

from websockets.sync.client import ClientConnection

from .exits import ERROR, OK, ClientError, UnreachableError
from .find import FINAL
from .output import state_colour
from .rest import Rest
from .sanitize import one_line
from .sockets import LOST, open_socket
from .table import lasted_text
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

    def __enter__(self) -> Changes:  # noqa: PYI034  Self is of Python 3.11
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def wait_for_end(rest: Rest, job_id: str, terminal: Terminal) -> dict[str, Any]:
    """The training once it has ended; tells how it is on the way.

    Raises:
        ClientError: it is gone, or the portal stays away.
    """
    told = ("", "")
    lost_s: float | None = None
    with Changes(rest) as changes:
        while True:
            try:
                job = rest.get(f"jobs/{job_id}/")
                lost_s = None
            except UnreachableError:
                lost_s = lost_s or time.monotonic()
                if time.monotonic() - lost_s > PATIENCE_S:
                    raise
                continue
            if not isinstance(job, dict):
                raise ClientError("The portal did not say how the training is.", "homeport get")
            if job.get("state") in FINAL:
                return job
            now = _words(job)
            if now != told:
                told = now
                terminal.tell(": ".join(part for part in now if part), "dim")
            changes.wait(job_id)


def _words(job: dict[str, Any]) -> tuple[str, str]:
    reason = job.get("reason")
    text = reason.get("text", "") if isinstance(reason, dict) else ""
    return one_line(job.get("state", "")), one_line(text)


def tell_end(job: dict[str, Any], terminal: Terminal) -> None:
    """How a training ended, and what to do about it."""
    state, why = _words(job)
    began, now = job.get("started_at"), datetime.now(timezone.utc)
    lasted = f" after {lasted_text(began, job.get('finished_at'), now)}" if began else ""
    reason = job.get("reason")
    step = one_line(reason.get("next_step", "")) if isinstance(reason, dict) else ""
    text = (
        f"{one_line(job.get('name', ''))} {'is ' if state == 'stopped' else 'has '}{state}{lasted}"
    )
    if state != "succeeded" and why:
        text += f": {why} {step}"
    terminal.tell(text.rstrip().rstrip(".") + ".", state_colour(state))


def code_of(job: dict[str, Any]) -> int:
    """The training's own exit code: 0 when it succeeded, else that of the replica that failed.

    Of several the worker that failed first counts. 1 when none has one: never started, stopped.
    """
    if job.get("state") == "succeeded":
        return OK
    rows = job.get("replicas")
    failed = [
        row
        for row in (rows if isinstance(rows, list) else [])
        if isinstance(row, dict)
        and row.get("state") == "failed"
        and isinstance(row.get("exit_code"), int)
        and row.get("attempt") in (None, job.get("attempt"))
    ]
    failed.sort(key=lambda row: (row.get("role") == "ps", str(row.get("finished_at") or "~")))
    codes = [int(row["exit_code"]) & 0xFF for row in failed]
    return next((code for code in codes if code), ERROR)
