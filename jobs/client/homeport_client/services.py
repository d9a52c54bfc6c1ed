"""Commands about notebooks and TensorBoards: create, list, open, start, stop, delete."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any, Callable

import click

from .exits import OK, REFUSED, ClientError
from .find import find_job, find_service, short_id
from .options import Group, jobs_argument, names_of, on_tab, output_option, yes_option
from .output import state_colour
from .sanitize import one_line
from .session import Session
from .table import Column, age_text
from .trainings import reason_of

Row = dict[str, Any]  # of REST's JSON

TITLES = {"notebooks": "notebook", "tensorboards": "TensorBoard"}
COLUMNS = (
    Column("ID"),
    Column("NAME", shrinks_to=12),
    Column("STATE", colour=state_colour),
    Column("AGE", is_right=True),
    Column("OWNER", shrinks_to=6),
    Column("WHY", shrinks_to=12, leaves_at=70),
    Column("IMAGE", is_wide=True),
)
# What will not run by itself any more.
_ENDED = frozenset({"stopped", "failed", "stopping"})


class ServiceCommands:
    """The commands of one kind, which is the folder in REST."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.title = TITLES[kind]

    def address(self, row: Row | None = None, verb: str = "") -> str:
        path = f"{self.kind}/" if row is None else f"{self.kind}/{row['id']}/"
        return f"{path}{verb}/" if verb else path

    def shown(self, row: Row) -> str:
        return f"{self.title} {one_line(row.get('name', ''))} ({short_id(row)})"

    def find(self, session: Session, word: str) -> Row:
        return find_service(session.rest, self.kind, word)

    def create(
        self, session: Session, body: Row, *, wait: bool, opens: bool, only_prints: bool
    ) -> int:
        terminal = session.terminal
        try:
            row = session.rest.post(self.address(), body)
        except ClientError as error:
            if error.refusals and error.code == REFUSED:
                lines = [
                    f"  {r.field}: {r.text}" if r.field else f"  {r.text}" for r in error.refusals
                ]
                error.text = "It is refused:\n" + "\n".join(lines)
            raise
        if wait or opens:
            row = self.wait_until_running(session, row)
        if session.output.is_data:
            session.output.data(row)
        elif session.output.form == "name":
            terminal.write(one_line(row.get("id", "")))
        elif not opens:
            terminal.tell(f"{self.shown(row)} is {one_line(row.get('state', ''))}.")
            terminal.tell(f"Open it: homeport {self.title.lower()} open {short_id(row)}", "dim")
        if opens:
            self.open(session, row, only_prints=only_prints)
        return OK

    def list(self, session: Session) -> int:
        rows = list(session.rest.every(self.address()))
        now = datetime.now(timezone.utc)
        session.output.rows(
            rows,
            COLUMNS,
            lambda row: [
                short_id(row),
                row.get("name", ""),
                row.get("state", ""),
                age_text(row.get("created_at") or row.get("queued_at"), now),
                row.get("owner", ""),
                reason_of(row)[0],
                row.get("image", ""),
            ],
            name=lambda row: one_line(row.get("id", "")),
            empty=f"No {self.title}s yet. Make one: homeport {self.title.lower()} create --name NAME",
        )
        return OK

    def act(self, session: Session, word: str, verb: str, told: str) -> int:
        """Starts or stops one."""
        row = session.rest.post(self.address(self.find(session, word), verb)) or {}
        if session.output.is_data:
            session.output.data(row)
        elif session.output.form == "name":
            session.terminal.write(one_line(row.get("id", "")))
        else:
            session.terminal.tell(f"{told} {self.shown(row)}; what is on /data stays.")
        return OK

    def delete(self, session: Session, word: str, *, yes: bool) -> int:
        row = self.find(session, word)
        question = f"Delete {self.shown(row)}? What is on /data stays."
        if not yes and not session.terminal.confirm(question):
            session.terminal.tell("Not deleted.")
            return OK
        session.rest.delete(self.address(row))
        session.terminal.tell(f"Deleted {self.shown(row)}.")
        return OK

    def open_when_running(self, session: Session, word: str, *, only_prints: bool) -> int:
        """A link that is good once and for a minute."""
        row = self.find(session, word)
        if row.get("state") not in _ENDED and row.get("state") != "running":
            row = self.wait_until_running(session, row)
        self.open(session, row, only_prints=only_prints)
        return OK

    def wait_until_running(self, session: Session, row: Row) -> Row:
        """The service once it runs; tells why it does not yet.

        Raises:
            ClientError: it ended instead.
        """
        from .watching import Changes

        told = ""
        with Changes(session.rest) as changes:
            while True:
                row = session.rest.get(self.address(row))
                state = one_line(row.get("state", ""))
                why, next_step = reason_of(row)
                if state == "running":
                    return row
                if state in _ENDED:
                    raise ClientError(
                        f"{self.shown(row)} is {state}. {why}".rstrip(), next_step, REFUSED
                    )
                now = f"{state}: {why}" if why else state
                if now != told:
                    session.terminal.tell(now, "dim")
                    told = now
                changes.wait(str(row["id"]))

    def open(self, session: Session, row: Row, *, only_prints: bool) -> None:
        import webbrowser

        link = session.rest.post(self.address(row, "open"))
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
                session.terminal.tell(f"Opened {self.shown(row)} in your browser.")
                return
            session.terminal.tell(
                "No browser could be opened here. The address is good once, for a minute:"
            )
        session.terminal.write(shown)


def _group(
    name: str, service: ServiceCommands, help_text: str, fields: Sequence[Callable[..., Any]]
) -> Group:
    """The commands of a kind; `fields` are the options of `create` that go into its body."""
    group = Group(name, help=help_text, aliases={"ls": "list", "rm": "delete"})
    named = click.argument("name", shell_complete=on_tab(names_of(service.kind)))
    prints = click.option("--print", "only_prints", is_flag=True, help="print the address instead")

    @click.option("--name", required=True)
    @click.option("-w", "--wait", is_flag=True, help="until it runs")
    @click.option("--open", "opens", is_flag=True, help="and open it in the browser")
    @prints
    @output_option
    @click.pass_obj
    def create(
        session: Session, /, *, wait: bool, opens: bool, only_prints: bool, **body: Any
    ) -> int:
        """Make one and start it."""
        given = {key: value for key, value in body.items() if value not in (None, ())}
        if words := given.pop("jobs", ()):
            found = [find_job(session.rest, word, session.terminal) for word in words]
            given["jobs"] = [str(row["id"]) for row in found]
        return service.create(session, given, wait=wait, opens=opens, only_prints=only_prints)

    for add in reversed(fields):
        create = add(create)
    group.command("create")(create)

    @group.command("list")
    @output_option
    @click.pass_obj
    def list_(session: Session) -> int:
        """List them."""
        return service.list(session)

    @group.command("open")
    @named
    @prints
    @output_option
    @click.pass_obj
    def open_(session: Session, name: str, *, only_prints: bool) -> int:
        """Open one in the browser, as soon as it runs."""
        return service.open_when_running(session, name, only_prints=only_prints)

    @group.command("start")
    @named
    @output_option
    @click.pass_obj
    def start(session: Session, name: str) -> int:
        """Start a stopped one again; what is on /data is still there."""
        return service.act(session, name, "start", "Starting")

    @group.command("stop")
    @named
    @output_option
    @click.pass_obj
    def stop(session: Session, name: str) -> int:
        """Stop one; what is on /data stays."""
        return service.act(session, name, "stop", "Stopping")

    @group.command("delete")
    @named
    @yes_option
    @click.pass_obj
    def delete(session: Session, name: str, *, yes: bool) -> int:
        """Delete one; what is on /data stays."""
        return service.delete(session, name, yes=yes)

    return group


notebook = _group(
    "notebook",
    ServiceCommands("notebooks"),
    "Notebooks: JupyterLab with your volumes.",
    [
        click.option("--image", help="one of those that the portal offers"),
        click.option("--size", help="a size that the portal offers"),
        click.option("--cpu", help="CPUs, also as 500m"),
        click.option("--memory", help="such as 4Gi"),
        click.option("--gpu", type=click.IntRange(0, 100_000), metavar="N", help="GPUs"),
    ],
)
tensorboard = _group(
    "tensorboard",
    ServiceCommands("tensorboards"),
    "TensorBoards on what trainings logged.",
    [jobs_argument(required=False)],
)
