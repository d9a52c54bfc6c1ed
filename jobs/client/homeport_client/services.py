"""Commands about notebooks and TensorBoards: create, list, open, start, stop, delete."""

from __future__ import annotations

from functools import reduce
from typing import Any, Callable, NamedTuple

import click

from .amounts import age_text
from .answers import Json, named, reason_of, short_id, state_colour
from .body import SECRET, put_secrets
from .exits import OK, REFUSED, ClientError, refused_line_by_line
from .find import find_job, find_service
from .options import (
    Group,
    jobs_argument,
    names_of,
    number_option,
    on_tab,
    output_option,
    yes_option,
)
from .output import Column
from .sanitize import one_line
from .session import CliSession

COLUMNS = (
    Column("ID", short_id),
    Column("NAME", shrinks_to=12),
    Column("STATE", colour=state_colour),
    Column(
        "AGE",
        lambda row: age_text(row.get("created_at") or row.get("queued_at")),
        is_right=True,
    ),
    Column("OWNER", shrinks_to=6),
    Column("WHY", lambda row: reason_of(row)[0], shrinks_to=12, leaves_at=70),
    Column("IMAGE", is_wide=True),
)
# What will not run by itself any more.
_ENDED = frozenset({"stopped", "failed", "stopping"})


class Kind(NamedTuple):
    """What it is called in sentences and on the command line, and where it is in REST."""

    title: str
    name: str
    path: str

    def shown(self, row: Json) -> str:
        return f"{self.title} {named(row)}"


def _run(session: CliSession, kind: Kind, row: Json) -> Json:
    """The service once it runs; tells why it does not yet. Raises ClientError: it ended instead."""
    from .watching import wait_until

    path = f"{kind.path}{row['id']}/"
    what = (kind.title, f"homeport {kind.name} list")
    row = wait_until(session.rest, path, {*_ENDED, "running"}, session.terminal, what=what)
    if row["state"] in _ENDED:
        why, next_step = reason_of(row)
        text = f"{kind.shown(row)} is {one_line(row['state'])}. {why}".rstrip()
        raise ClientError(text, next_step, REFUSED)
    return row


def _open(session: CliSession, kind: Kind, row: Json, *, only_prints: bool) -> None:
    """A link that is good once and for a minute."""
    import webbrowser

    link = session.rest.post(f"{kind.path}{row['id']}/open/")
    url = link.get("url") if isinstance(link, dict) else None
    if not isinstance(url, str) or not url.startswith(("http://", "https://")):
        raise ClientError("The portal gave no address to open.")
    if session.output.is_data:
        session.output.data(link)
        return
    shown = one_line(url).replace(" ", "%20")
    # A browser is opened only where somebody sits in front of it.
    if not only_prints and session.terminal.is_live(session.terminal.out):
        if webbrowser.open(shown):
            session.terminal.tell(f"Opened {kind.shown(row)} in your browser.")
            return
        session.terminal.tell(
            "No browser could be opened here. The address is good once, for a minute:"
        )
    session.terminal.write(shown)


def _create(
    session: CliSession, kind: Kind, body: Json, *, wait: bool, opens: bool, only_prints: bool
) -> int:
    given = {key: value for key, value in body.items() if value not in (None, ())}
    put_secrets(given, given.pop("secret", ()))
    if words := given.pop("jobs", ()):
        found = [find_job(session.rest, word, session.terminal) for word in words]
        given["jobs"] = [str(row["id"]) for row in found]
    with refused_line_by_line("It is refused:"):
        row = session.rest.post(kind.path, given)
    if wait or opens:
        row = _run(session, kind, row)
    if not session.output.row(row) and not opens:
        state = one_line(row.get("state", ""))
        session.terminal.tell(f"{kind.shown(row)} is {state}.")
        session.terminal.tell(f"Open it: homeport {kind.name} open {short_id(row)}", "dim")
    if opens:
        _open(session, kind, row, only_prints=only_prints)
    return OK


def _group(kind: Kind, help_text: str, *fields: Callable[..., Any]) -> Group:
    """The commands of a kind; `fields` are the options of `create` that go into its body."""
    group = Group(kind.name, help=help_text, aliases={"ls": "list", "rm": "delete"})
    word_argument = click.argument(
        "word", metavar="NAME", shell_complete=on_tab(names_of(kind.path))
    )
    print_option = click.option(
        "--print", "only_prints", is_flag=True, help="print the address instead"
    )

    def field_options(command: Any) -> Any:
        return reduce(lambda made, add: add(made), reversed(fields), command)

    @group.command("create")
    @field_options
    @click.option("--name", required=True)
    @click.option("-w", "--wait", is_flag=True, help="until it runs")
    @click.option("--open", "opens", is_flag=True, help="and open it in the browser")
    @print_option
    @output_option
    @click.pass_obj
    def create(
        session: CliSession, /, *, wait: bool, opens: bool, only_prints: bool, **body: Any
    ) -> int:
        """Make one and start it."""
        return _create(session, kind, body, wait=wait, opens=opens, only_prints=only_prints)

    @group.command("list")
    @output_option
    @click.pass_obj
    def list_(session: CliSession) -> int:
        """List them."""
        empty = f"No {kind.title}s yet. Create one: homeport {kind.name} create --name NAME"
        session.output.rows(list(session.rest.every(kind.path)), COLUMNS, empty)
        return OK

    @group.command("open")
    @word_argument
    @print_option
    @output_option
    @click.pass_obj
    def open_(session: CliSession, word: str, *, only_prints: bool) -> int:
        """Open one in the browser, as soon as it runs."""
        row = find_service(session.rest, kind.title, word)
        if row.get("state") not in {*_ENDED, "running"}:
            row = _run(session, kind, row)
        _open(session, kind, row, only_prints=only_prints)
        return OK

    def add_verb(verb: str, told: str, help_text: str) -> None:
        @group.command(verb, help=help_text)
        @word_argument
        @output_option
        @click.pass_obj
        def act(session: CliSession, word: str) -> int:
            found = find_service(session.rest, kind.title, word)
            row = session.rest.post(f"{kind.path}{found['id']}/{verb}/") or {}
            if not session.output.row(row):
                session.terminal.tell(f"{told} {kind.shown(row)}; what is on /data stays.")
            return OK

    add_verb("start", "Starting", "Start a stopped one again; what is on /data is still there.")
    add_verb("stop", "Stopping", "Stop one; what is on /data stays.")

    @group.command("delete")
    @word_argument
    @yes_option
    @click.pass_obj
    def delete(session: CliSession, word: str, *, yes: bool) -> int:
        """Delete one; what is on /data stays."""
        row = find_service(session.rest, kind.title, word)
        shown = kind.shown(row)
        question = f"Delete {shown}? What is on /data stays."
        if session.terminal.may_delete(question, yes=yes):
            session.rest.delete(f"{kind.path}{row['id']}/")
            session.terminal.tell(f"Deleted {shown}.")
        return OK

    return group


notebook = _group(
    Kind("notebook", "notebook", "notebooks/"),
    "Notebooks: JupyterLab with your volumes.",
    click.option("--image", help="one of those that the portal offers"),
    click.option("--size", help="a size that the portal offers"),
    click.option("--cpu", help="CPUs, also as 500m"),
    click.option("--memory", help="such as 4Gi"),
    number_option("--gpu", low=0, high=100_000, text="GPUs"),
    click.option("--secret", multiple=True, metavar=SECRET.metavar, help=SECRET.help),
)
tensorboard = _group(
    Kind("TensorBoard", "tensorboard", "tensorboards/"),
    "TensorBoards on what trainings logged.",
    jobs_argument(required=False),
)
