"""How commands are made: options that all take, arguments that several share, names on Tab."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import reduce
from io import StringIO
from typing import Any, Callable

import click
from click.shell_completion import CompletionItem

from . import contexts
from .exits import usage_error
from .output import FORMATS
from .sanitize import one_line
from .session import CliSession
from .terminal import Terminal

NAMES = 100


def on_tab(values: Callable[[], Iterable[str]]) -> Callable[..., list[CompletionItem]]:
    """A completion of click; whatever goes wrong gives none, and never a message amid a line."""

    def complete(_context: object, _parameter: object, incomplete: str) -> list[CompletionItem]:
        with suppress(Exception):
            names = sorted({one_line(name) for name in values()})
            return [CompletionItem(name) for name in names if name.startswith(incomplete)]
        return []

    return complete


def files_on_tab(_context: object, _option: object, incomplete: str) -> list[CompletionItem]:
    """As `click.Path` completes; that one looks for the file, and a marked word names none."""
    return [CompletionItem(incomplete, type="file")]


def context_names() -> list[str]:
    return list(contexts.load(contexts.config_folder(), Terminal(err=StringIO())).by_name)


def names_of(path: str) -> Callable[[], list[str]]:
    """The names of the newest of a list in REST."""

    def names() -> list[str]:
        session = CliSession(Terminal(err=StringIO()), is_hasty=True)
        rows, _count = session.rest.page(path, {"page_size": NAMES})
        return [str(row.get("name", "")) for row in rows]

    return names


def _kept(place: str) -> dict[str, Any]:
    """Of an option whose value is kept in the session, at `terminal.colour` and so on."""
    *objects, name = place.split(".")

    def keep(context: click.Context, _option: click.Parameter, value: Any) -> None:
        if context.obj is not None and value not in (None, False):
            setattr(reduce(getattr, objects, context.obj), name, value)

    return {"expose_value": False, "callback": keep}


COMMON = (
    click.Option(
        ["--context"],
        **_kept("context_option"),
        metavar="NAME",
        help="the portal to work with",
        shell_complete=on_tab(context_names),
    ),
    click.Option(
        ["--ca-file"],
        **_kept("ca_option"),
        type=click.Path(),
        metavar="FILE",
        help="certificates to trust beside the system's",
    ),
    click.Option(
        ["--color"],
        **_kept("terminal.colour"),
        type=click.Choice(["auto", "always", "never"]),
        help="colours (auto)",
    ),
    click.Option(
        ["-q", "--quiet"],
        **_kept("terminal.is_quiet"),
        is_flag=True,
        help="only results and errors",
    ),
)


# Words that begin like an option and cannot be one.
_NO_OPTION = re.compile(r"-(\d+|\d*\.\d+|.* .*)", re.DOTALL)
_MARK = "\0"  # in front of them until click has parsed; no command line can hold it


class Command(click.Command):
    """A command, which takes the common options, too."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.params += COMMON

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does it; but `-n=5` is `-n 5`, and `-5` and `-a b` are words and no options."""
        options = [one for one in self.get_params(ctx) if isinstance(one, click.Option)]
        known = {name for option in options for name in option.opts}
        # Those with a value, and whether they may stand without it.
        takes = {
            name: option.flag_value == ""
            for option in options
            if not option.is_flag
            for name in option.opts
        }
        words: list[str] = []
        for word in args:
            name, equals, value = word.partition("=")
            if equals and len(name) == 2 and name in takes:
                words += [name, value]
            elif equals and takes.get(name) and value.startswith("-"):
                words.append(f"{name}={_MARK}{value}")
            elif (
                _NO_OPTION.fullmatch(word)
                and known.isdisjoint((word, name, word[:2]))
                and not (words and takes.get(words[-1]) is False)
            ):
                words.append(_MARK + word)
            else:
                words.append(word)
        rest = super().parse_args(ctx, words)
        for name, given in ctx.params.items():
            if isinstance(given, str):
                ctx.params[name] = given.removeprefix(_MARK)
            elif isinstance(given, tuple):
                ctx.params[name] = tuple(word.removeprefix(_MARK) for word in given)
        return rest

    def invoke(self, ctx: click.Context) -> Any:
        if ctx.obj.command and self.name not in {"submit", "continue"}:
            text = "Only submit and continue take a command behind --."
            raise usage_error(text, "homeport --help")
        return super().invoke(ctx)


class Group(click.Group):
    """A command that has commands of its own, some by a second name."""

    command_class = Command

    def __init__(
        self, *args: Any, aliases: Mapping[str, str] | None = None, **options: Any
    ) -> None:
        options.setdefault("no_args_is_help", False)
        super().__init__(*args, **options)
        self.params += COMMON
        self.aliases = aliases or {}

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, self.aliases.get(cmd_name, cmd_name))


output_option = click.option(
    "-o",
    "--output",
    **_kept("output.form"),
    type=click.Choice(FORMATS),
    help="table, wide (all columns), json, yaml, or name (ids only)",
)


def number_option(
    *names: str, low: int, high: int, text: str, **options: Any
) -> Callable[..., Any]:
    """The decorator for a whole number within bounds."""
    return click.option(*names, type=click.IntRange(low, high), metavar="N", help=text, **options)


yes_option = click.option("-y", "--yes", is_flag=True, help="do not ask")
training_names = on_tab(names_of("jobs/"))
job_argument = click.argument("job", metavar="TRAINING", shell_complete=training_names)


def jobs_argument(*, required: bool) -> Callable[..., Any]:
    """One training or several."""
    return click.argument(
        "jobs",
        nargs=-1,
        required=required,
        metavar="TRAINING...",
        shell_complete=training_names,
    )
