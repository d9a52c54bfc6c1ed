"""A command of tests as a child that puts away what it started, however the process that waits for it is ended."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence

from deploy.child import tied_to

PUT_AWAY_S = 90.0


def run_to_the_end(command: Sequence[str], environ: Mapping[str, str] | None = None) -> int:
    """Its exit code.

    It has a session of its own: a terminal's Ctrl-C, which comes to a whole group, and a signal that comes to this
    process alone both reach it once, through us.
    """
    child = subprocess.Popen(
        command,
        env=environ,
        start_new_session=True,
        preexec_fn=tied_to(os.getpid()),  # noqa: PLW1509 (we have one thread)
    )
    try:
        return child.wait()
    except BaseException:
        child.send_signal(signal.SIGINT)
        try:
            child.wait(PUT_AWAY_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        raise
