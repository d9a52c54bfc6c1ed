"""`homeport`, or `python -m homeport_client`: runs one command and ends with its exit code."""

from __future__ import annotations

import os
import sys
import traceback

import click

from .cli import COMPLETE_VARIABLE, cli
from .exits import ERROR, INTERRUPTED, OUTPUT_CLOSED, USAGE, ClientError
from .session import CliSession
from .terminal import Terminal


def run(given: list[str], terminal: Terminal) -> int:
    """Carries out a command line; what stands behind `--` is the command of a training.

    Raises:
        ClientError, click.ClickException: it cannot be done.
    """
    at = given.index("--") if "--" in given else len(given)
    session = CliSession(terminal, given[at + 1 :])
    try:
        with cli.make_context("homeport", given[:at], obj=session) as context:
            code: int = cli.invoke(context)
    except click.exceptions.Exit as ended:
        code = ended.exit_code
    return code


def main(arguments: list[str] | None = None) -> int:
    """The exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    if COMPLETE_VARIABLE in os.environ:
        cli.main(given, "homeport", COMPLETE_VARIABLE)
    terminal = Terminal()
    try:
        code = run(given, terminal)
    except ClientError as error:
        terminal.fail(error)
        return error.code
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else "homeport"
        terminal.fail(ClientError(error.format_message(), f"Options are shown by: {path} --help"))
        return USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001  the fence: no trace of ours is of use to a user
        if os.environ.get("HOMEPORT_DEBUG"):
            traceback.print_exc()
        terminal.fail(
            ClientError(
                f"This command has a fault: {type(error).__name__}: {error}",
                "Run it again with HOMEPORT_DEBUG=1 and show that to your admin.",
            )
        )
        return ERROR
    if code == OUTPUT_CLOSED:
        # Python flushes once more at its end; nobody would hear of it but the user.
        for stream in (sys.stdout, sys.stderr):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return code


if __name__ == "__main__":
    sys.exit(main())
