"""What the parsers of all commands have in common: options for everywhere, and how one is added."""

from __future__ import annotations

import argparse
from typing import Any, Callable

from .output import FORMATS


def whole(low: int, high: int) -> Callable[[str], int]:
    """A type of argparse: a whole number within bounds."""

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdigit()) or not low <= int(text[:12]) <= high:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {low} to {high}")
        return int(text)

    return parse


def attempt_word(text: str) -> str:
    """A type of argparse: the number of an attempt, `latest` or `all`."""
    return text if text in ("latest", "all") else str(whole(1, 999_999)(text))


def common_options() -> argparse.ArgumentParser:
    """Options that every command takes, before or behind its name."""
    common = argparse.ArgumentParser(add_help=False)
    group = common.add_argument_group("everywhere")
    # No default here: one given before the command would be lost to the command's own default.
    none = argparse.SUPPRESS
    group.add_argument("--context", metavar="NAME", default=none, help="the portal to work with")
    group.add_argument(
        "--ca-file", metavar="FILE", default=none, help="certificates to trust beside the system's"
    )
    group.add_argument(
        "--color", choices=("auto", "always", "never"), default=none, help="colours (auto)"
    )
    group.add_argument(
        "-q", "--quiet", action="store_true", default=none, help="only results and errors"
    )
    return common


DEFAULTS = {"context": None, "ca_file": "", "color": "auto", "quiet": False}


class Commands:
    """Adds commands to a parser; each knows the function that carries it out, as `module:name`."""

    def __init__(self, parser: argparse.ArgumentParser, title: str = "command") -> None:
        self._common = common_options()
        self._actions = parser.add_subparsers(metavar=title.upper(), required=True, dest=title)

    def add(
        self,
        name: str,
        run: str,
        summary: str,
        **options: Any,
    ) -> argparse.ArgumentParser:
        made: argparse.ArgumentParser = self._actions.add_parser(
            name,
            help=summary,
            description=options.pop("description", summary[0].upper() + summary[1:] + "."),
            parents=[self._common],
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
            **options,
        )
        if run:
            made.set_defaults(run=run)
        return made

    def group(self, name: str, summary: str, title: str) -> Commands:
        """A command that has commands of its own."""
        return Commands(self.add(name, "", summary), title)


def output_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o",
        "--output",
        choices=FORMATS,
        default="table",
        help="table, wide (all columns), json, yaml, or name (ids only)",
    )
