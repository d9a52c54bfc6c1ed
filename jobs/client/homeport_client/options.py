"""How commands are made: options that all take, arguments that several share, names on Tab."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from io import StringIO
from typing import Any, Callable

import click
from click.shell_completion import CompletionItem

from .exits import usage_error
from .output import FORMATS
from .sanitize import one_line
from .session import Session

NAMES = 100
STATES = ("queued", "starting", "running", "stopping", "succeeded", "failed", "stopped")


def _keep(place: Callable[[Session], object], name: str) -> Callable[..., None]:
    """A callback of click: what is given is kept at a place of the session."""

    def keep(context: click.Context, _option: click.Parameter, value: Any) -> None:
        if context.obj is not None and value not in (None, False):
            setattr(place(context.obj), name, value)

    return keep


def kept_option(
    place: Callable[[Session], object], name: str, *names: str, **options: Any
) -> click.Option:
    return click.Option(names, expose_value=False, callback=_keep(place, name), **options)


Values = Callable[[], Sequence[str]]


def on_tab(values: Values) -> Callable[..., list[CompletionItem]]:
    """A completion of click; whatever goes wrong gives none, and never a message amid a line."""

    def complete(_context: object, _parameter: object, incomplete: str) -> list[CompletionItem]:
        found: list[CompletionItem] = []
        with suppress(Exception):
            names = {one_line(name) for name in values()}
            found = [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]
        return found

    return complete


def context_names() -> list[str]:
    from . import contexts
    from .terminal import Terminal

    return list(contexts.load(contexts.config_folder(), Terminal(err=StringIO())).by_name)


def names_of(kind: str) -> Values:
    """The names of the newest of a kind, which is the folder in REST."""

    def names() -> list[str]:
        from . import contexts
        from .rest import Rest
        from .terminal import Terminal

        saved = contexts.load(contexts.config_folder(), Terminal(err=StringIO()))
        _name, context = contexts.choose(saved, None)
        rest = Rest(context.url, context.token, ca_file=context.ca_file, is_hasty=True)
        rows, _count = rest.page(f"{kind}/", {"page_size": NAMES})
        return [str(row.get("name", "")) for row in rows]

    return names


COMMON = (
    kept_option(
        lambda session: session,
        "context_option",
        "--context",
        metavar="NAME",
        help="the portal to work with",
        shell_complete=on_tab(context_names),
    ),
    kept_option(
        lambda session: session,
        "ca_option",
        "--ca-file",
        type=click.Path(),
        metavar="FILE",
        help="certificates to trust beside the system's",
    ),
    kept_option(
        lambda session: session.terminal,
        "colour",
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        help="colours (auto)",
    ),
    kept_option(
        lambda session: session.terminal,
        "is_quiet",
        "-q",
        "--quiet",
        is_flag=True,
        help="only results and errors",
    ),
)


class Command(click.Command):
    """A command, which takes the common options, too."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.params += COMMON

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does it; `-n=5` is `-n 5`."""
        takes = {
            name
            for option in self.params
            if isinstance(option, click.Option) and not option.is_flag
            for name in option.opts
            if len(name) == 2
        }
        words: list[str] = []
        for word in args:
            is_both = word[:2] in takes and word[2:3] == "="
            words += [word[:2], word[3:]] if is_both else [word]
        return super().parse_args(ctx, words)

    def invoke(self, ctx: click.Context) -> Any:
        if ctx.obj.command and self.name != "submit":
            raise usage_error("Only submit takes a command behind --.", "homeport --help")
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


def attempt(text: str) -> str:
    """A type of click: the number of an attempt, `latest` or `all`."""
    if text in ("latest", "all"):
        return text
    return str(click.IntRange(1, 999_999)(text))


output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(FORMATS),
    expose_value=False,
    callback=_keep(lambda session: session.output, "form"),
    help="table, wide (all columns), json, yaml, or name (ids only)",
)
yes_option = click.option("-y", "--yes", is_flag=True, help="do not ask")
job_argument = click.argument("job", metavar="TRAINING", shell_complete=on_tab(names_of("jobs")))


def jobs_argument(*, required: bool) -> Callable[..., Any]:
    """One training or several."""
    return click.argument(
        "jobs",
        nargs=-1,
        required=required,
        metavar="TRAINING...",
        shell_complete=on_tab(names_of("jobs")),
    )
