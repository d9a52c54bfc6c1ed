"""`homeport`, or `python -m homeport_client`: runs one command and ends with its exit code."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from importlib import import_module

from .exits import ERROR, INTERRUPTED, OK, OUTPUT_CLOSED, USAGE, ClientError, OutputClosedError
from .parser import build
from .session import Session
from .terminal import Terminal
from .words import DEFAULTS


def parse(arguments: list[str]) -> argparse.Namespace:
    """The options. What stands behind `--` is the command of a training."""
    command: list[str] = []
    if "--" in arguments:
        at = arguments.index("--")
        arguments, command = arguments[:at], arguments[at + 1 :]
    parser = build()
    options, more = parser.parse_known_args(arguments, argparse.Namespace(**DEFAULTS))
    # argparse takes several words of one kind only where no option stands between or before them.
    several = next((name for name in ("patterns", "jobs") if hasattr(options, name)), None)
    if more and (several is None or any(word.startswith("-") for word in more)):
        parser.error(f"unrecognized arguments: {' '.join(more)}")
    if several is not None:
        setattr(options, several, [*getattr(options, several), *more])
    if command and options.command != "submit":
        raise ClientError("Only submit takes a command behind --.", "homeport --help", USAGE)
    options.command = command
    return options


def main(arguments: list[str] | None = None) -> int:
    """The exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["__complete"]:
        return _complete(given[1:])
    terminal = Terminal()
    try:
        options = parse(given)
        terminal = Terminal(colour=options.color)
        terminal.is_quiet = options.quiet
        module, _, name = options.run.partition(":")
        run = getattr(import_module(f".{module}", __package__), name)
        code: int = run(Session(options, terminal))
    except ClientError as error:
        terminal.fail(error)
        return error.code
    except KeyboardInterrupt:
        return INTERRUPTED
    except OutputClosedError:
        # Python flushes once more at its end; nobody would hear of it but the user.
        for stream in (sys.stdout, sys.stderr):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return OUTPUT_CLOSED
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
    return code


def _complete(given: list[str]) -> int:
    """Candidates for Tab; whatever goes wrong gives none, and never a message amid a line."""
    try:
        from .completion import candidates

        for word in candidates(given):
            sys.stdout.write(word + "\n")
        sys.stdout.flush()
    except Exception:  # noqa: BLE001, S110
        pass
    return OK


if __name__ == "__main__":
    sys.exit(main())
