"""Commands about who one is: login, logout, whoami, context."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import click

from . import contexts
from .address import parse_address
from .amounts import left_s, parse_time, span_text
from .answers import Json, part
from .contexts import Context
from .exits import NOT_FOUND, NOT_SIGNED_IN, OK, ClientError, usage_error
from .options import Command, Group, context_names, number_option, on_tab, output_option
from .output import Column
from .sanitize import one_line
from .session import CliSession
from .version import difference

if TYPE_CHECKING:
    from .rest import Rest
    from .terminal import Terminal


@click.command(cls=Command)
@click.argument("url", required=False)
@click.option("-u", "--user", help="user name; else asked for")
@click.option(
    "--token",
    is_flag=False,
    flag_value="",
    metavar="[TOKEN]",
    help="sign in with a token of the account page; without TOKEN it is asked for, or read "
    "from standard input, and so stays out of the shell's history",
)
@click.option(
    "--scope",
    type=click.Choice(["read", "submit", "admin"]),
    help="what the token may do (all you may)",
)
@number_option("--days", low=1, high=90, text="how long it is good (90)")
@click.pass_obj
def login(
    session: CliSession,
    url: str | None,
    user: str | None,
    token: str | None,
    scope: str | None,
    days: int | None,
) -> int:
    """Sign in to a portal.

    URL is https://... of the portal; http only on this machine. Signs in by name and password, which
    are asked for, and keeps a token in ~/.config/homeport (readable by you only). The password is kept
    nowhere.
    """
    from .rest import Rest, final_address

    terminal = session.terminal
    saved = contexts.load(session.folder, terminal)
    given = url
    if token and "://" in token and not given:
        given, token = token, ""  # `login --token URL`: the token is asked for
    if not given:
        known = saved.by_name.get(session.context_option or saved.current)
        given = os.environ.get("HOMEPORT_URL", "") or (known.url if known else "")
    if not given:
        given = terminal.ask("Address of the portal")
    ca_file = os.path.abspath(session.ca_file) if session.ca_file else ""
    rest = Rest(final_address(parse_address(given), ca_file), ca_file=ca_file, tell=terminal.tell)
    context = (
        _by_password(session, rest, ca_file, user, {"scope": scope, "days": days})
        if token is None
        else _by_token(session, rest, ca_file, token)
    )
    name = session.context_option or rest.url.partition("://")[2]
    saved.by_name[name] = context
    saved.current = name
    contexts.save(session.folder, saved)
    terminal.tell(f"Signed in to {rest.url} as {context.user}{_good_until(context)}.", "green")
    me = rest.get("me/")
    _print_version_difference(terminal, rest, me)
    if not part(me, "tenant"):
        terminal.tell("You have no namespace; ask for one on the home page before you submit.")
    return OK


def _print_version_difference(terminal: Terminal, rest: Rest, me: Json) -> None:
    """Says that this is another build than the portal's, and how to install that one."""
    if text := difference(rest.version, str(me.get("command_line", ""))):
        terminal.tell(text, "yellow")


def _by_password(
    session: CliSession, rest: Rest, ca_file: str, user: str | None, limits: dict[str, object]
) -> Context:
    terminal = session.terminal
    user = user or terminal.ask("User name")
    password = terminal.ask_secret(f"Password of {user}")
    if not user or not password:
        raise usage_error(
            "A name and a password are needed.",
            "Without a terminal: --user NAME, with the password on standard input; or --token.",
        )
    body = {
        "username": user,
        "password": password,
        "name": f"homeport on {socket.gethostname()}"[:80],
        **{key: value for key, value in limits.items() if value},
    }
    try:
        answer = rest.call("POST", "auth/token/", body=body, patient=False)
    except ClientError as error:
        if error.status == 401:
            error.next_step = (
                "If you sign in with another service, create a token on the account page: homeport "
                f"login {rest.url} --token"
            )
        raise
    token = answer.get("token") if isinstance(answer, dict) else None
    if not isinstance(token, str) or not _is_token(token):
        raise ClientError(f"{rest.url} gave no token.", "Is it a Homeport?")
    rest.token = token
    return Context(rest.url, token, user, str(answer.get("expires_at") or ""), ca_file)


def _by_token(session: CliSession, rest: Rest, ca_file: str, token: str) -> Context:
    if token in {"", "-"}:
        token = session.terminal.ask_secret(f"Token (created at {rest.url}/account/)")
    token = token.strip()
    if not _is_token(token):
        raise usage_error(
            "That is no token.", f"Create one at {rest.url}/account/; it begins with hp_."
        )
    rest.token = token
    try:
        me = rest.get("me/")
    except ClientError as error:
        if error.code == NOT_SIGNED_IN:
            error.next_step = f"Create a new one at {rest.url}/account/"
        raise
    user = one_line(me.get("username", "")) if isinstance(me, dict) else ""
    return Context(rest.url, token, user, "", ca_file)


def _is_token(token: str) -> bool:
    """Whether it can be sent in a header at all."""
    return 8 <= len(token) <= 500 and token.isascii() and token.isprintable() and " " not in token


def _good_until(context: Context) -> str:
    at = parse_time(context.expires_at)
    return f", until {at.astimezone():%d %b %Y}" if at else ""


@click.command(cls=Command)
@click.pass_obj
def logout(session: CliSession) -> int:
    """Forget the token and revoke it at the portal."""
    from .rest import Rest

    saved = contexts.load(session.folder, session.terminal)
    name, context = contexts.choose(saved, session.context_option, {})
    # Forgotten first: whatever the portal says, this machine has no token any more.
    del saved.by_name[name]
    if saved.current == name:
        saved.current = next(iter(sorted(saved.by_name)), "")
    contexts.save(session.folder, saved)
    try:
        Rest(context.url, context.token, ca_file=session.ca_file or context.ca_file).call(
            "DELETE", "auth/token/", patient=False
        )
    except ClientError as error:
        if error.status != 401:
            session.terminal.warn(
                f"the token is forgotten here, but the portal has not revoked it ({error.text}). "
                f"Revoke it at {context.url}/account/"
            )
    session.terminal.tell(f"Signed out of {context.url}.")
    if saved.current:
        session.terminal.tell(f"The current context is {saved.current} now.")
    return OK


# Kinds of a quota as pages call them.
_KINDS = {
    "cpu": "CPU",
    "memory": "Memory",
    "gpu": "GPU",
    "pods": "Pods",
    "nodeports": "Notebooks and TensorBoards",
}


@click.command(cls=Command)
@output_option
@click.pass_obj
def whoami(session: CliSession) -> int:
    """Show who you are, and your namespace and quota."""
    me, tenant = session.me, part(session.me, "tenant")
    if session.output.row(me, key="username"):
        return OK
    used = part(tenant, "used")
    shown = [
        f"{_KINDS.get(key, key)} {used.get(key, 0)} of {room}"
        for key, room in part(tenant, "quota").items()
    ]
    facts = {
        "User": f"{me.get('username', '')} ({me.get('role', '')})",
        "Team": me.get("team") or "none",
        "Leads": ", ".join(map(str, me.get("leads") or [])),
        "Portal": f"{session.rest.url} (context {session.chosen[0]})",
        "Namespace": f"{tenant.get('namespace')} ({tenant.get('state')})" if tenant else "none",
        "Used": ", ".join(shown),
    }
    session.terminal.write_facts(facts, 11, {})
    _print_version_difference(session.terminal, session.rest, me)
    return OK


# --- contexts -------------------------------------------------------------------------------------


def _good_for(row: Json) -> str:
    seconds = left_s(row["expires_at"])
    return "" if seconds is None else span_text(seconds) if seconds > 0 else "expired"


CONTEXT_COLUMNS = (
    Column("", lambda row: "*" if row["is_current"] else ""),
    Column("NAME"),
    Column("USER"),
    Column("URL", shrinks_to=16),
    Column("GOOD FOR", _good_for),
)
context = Group("context", help="Portals that you are signed in to.")


@context.command("list")
@output_option
@click.pass_obj
def list_contexts(session: CliSession) -> int:
    """List them; tokens are never shown."""
    saved = contexts.load(session.folder, session.terminal)
    rows = [
        {
            "name": name,
            "is_current": name == saved.current,
            "url": row.url,
            "user": row.user,
            "expires_at": row.expires_at,
        }
        for name, row in sorted(saved.by_name.items())
    ]
    session.output.rows(
        rows,
        CONTEXT_COLUMNS,
        "You are not signed in to a portal. Sign in: homeport login URL",
        name=lambda row: one_line(row["name"]),
    )
    return OK


@context.command("use")
@click.argument("name", shell_complete=on_tab(context_names))
@click.pass_obj
def use_context(session: CliSession, name: str) -> int:
    """Choose the one to work with."""
    saved = contexts.load(session.folder, session.terminal)
    if name not in saved.by_name:
        known = ", ".join(sorted(saved.by_name)) or "none"
        raise ClientError(f"There is no context {name!r}.", f"Known are: {known}.", NOT_FOUND)
    saved.current = name
    contexts.save(session.folder, saved)
    session.terminal.tell(f"Working with {saved.by_name[name].url} as {saved.by_name[name].user}.")
    return OK
