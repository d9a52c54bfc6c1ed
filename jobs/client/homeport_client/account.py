"""Commands about who one is: login, logout, whoami, context."""

from __future__ import annotations

import os
import socket
from datetime import datetime, timezone

import urllib3

from . import contexts
from .address import parse_address
from .contexts import Context
from .exits import NOT_FOUND, NOT_SIGNED_IN, OK, ClientError, UsageError
from .refusals import RefusedError, unreachable
from .rest import Rest
from .sanitize import one_line
from .session import Session
from .table import Column, parse_time, span_text

CONTEXT_COLUMNS = (
    Column(""),
    Column("NAME"),
    Column("USER"),
    Column("URL", shrinks_to=16),
    Column("GOOD FOR"),
)


def login(session: Session) -> int:
    """The command `login`."""
    options, terminal = session.options, session.terminal
    saved = contexts.load(session.folder, terminal)
    given, token = options.url, options.token
    if token and "://" in token and not given:
        given, token = token, ""  # `login --token URL`: the token is asked for
    if not given:
        known = saved.by_name.get(options.context or saved.current)
        given = os.environ.get("HOMEPORT_URL", "") or (known.url if known else "")
    if not given:
        given = terminal.ask("Address of the portal")
    ca_file = os.path.abspath(session.ca_file) if session.ca_file else ""
    rest = Rest(_final_address(parse_address(given), ca_file), ca_file=ca_file, tell=terminal.tell)
    context = (
        _by_password(session, rest, ca_file)
        if token is None
        else _by_token(session, rest, ca_file, token)
    )
    name = options.context or rest.url.partition("://")[2]
    saved.by_name[name] = context
    saved.current = name
    contexts.save(session.folder, saved)
    terminal.tell(f"Signed in to {rest.url} as {context.user}{_good_until(context)}.", "green")
    if not _has_tenant(rest):
        terminal.tell("You have no namespace; ask for one on the home page before you submit.")
    return OK


def _final_address(url: str, ca_file: str) -> str:
    """Where the portal says that it lives; only steps that no token fears are followed."""
    pool = Rest(url, ca_file=ca_file)._pool
    for _step in range(3):
        try:
            answer = pool.request("GET", f"{url}/healthz", redirect=False, timeout=15)
        except urllib3.exceptions.HTTPError as error:
            raise unreachable(url, error, is_safe=True) from error
        location = answer.headers.get("Location", "")
        if not 300 <= answer.status < 400 or "://" not in location:
            return url
        following = parse_address(location)
        hosts = {_host(url), _host(following)}
        is_same = len(hosts) == 1 or hosts <= {"localhost", "127.0.0.1", "[::1]"}
        if not is_same:
            raise ClientError(
                f"{url} sends you to {following}.",
                f"If that is your portal: homeport login {following}",
            )
        url = following
    return url


def _host(url: str) -> str:
    host = url.partition("://")[2]
    return host if host.endswith("]") else host.rpartition(":")[0] or host


def _by_password(session: Session, rest: Rest, ca_file: str) -> Context:
    options, terminal = session.options, session.terminal
    user = options.user or terminal.ask("User name")
    password = terminal.ask_secret(f"Password of {user}")
    if not user or not password:
        raise UsageError(
            "A name and a password are needed.",
            "Without a terminal: --user NAME, with the password on standard input; or --token.",
        )
    body = {
        "username": user,
        "password": password,
        "name": f"homeport on {socket.gethostname()}"[:80],
    }
    body.update({key: getattr(options, key) for key in ("scope", "days") if getattr(options, key)})
    try:
        answer = rest.call("POST", "auth/token/", body=body, patient=False)
    except RefusedError as error:
        if error.status == 401:
            error.next_step = (
                "If you sign in by another service, make a token on the account page: "
                f"homeport login {rest.url} --token"
            )
        raise
    token = answer.get("token") if isinstance(answer, dict) else None
    if not isinstance(token, str) or not _is_token(token):
        raise ClientError(f"{rest.url} gave no token.", "Is it a Homeport?")
    rest.token = token
    return Context(rest.url, token, user, str(answer.get("expires_at") or ""), ca_file)


def _by_token(session: Session, rest: Rest, ca_file: str, token: str) -> Context:
    if token in {"", "-"}:
        token = session.terminal.ask_secret(f"Token (made at {rest.url}/account/)")
    token = token.strip()
    if not _is_token(token):
        raise UsageError("That is no token.", f"Make one at {rest.url}/account/; it begins hp_.")
    rest.token = token
    try:
        me = rest.get("me/")
    except RefusedError as error:
        if error.code == NOT_SIGNED_IN:
            error.next_step = f"Make a new one at {rest.url}/account/"
        raise
    user = one_line(me.get("username", "")) if isinstance(me, dict) else ""
    return Context(rest.url, token, user, "", ca_file)


def _is_token(token: str) -> bool:
    """Whether it can be sent in a header at all."""
    return 8 <= len(token) <= 500 and token.isascii() and token.isprintable() and " " not in token


def _has_tenant(rest: Rest) -> bool:
    return bool((rest.get("me/") or {}).get("tenant"))


def _good_until(context: Context) -> str:
    at = parse_time(context.expires_at)
    return f", until {at.astimezone():%d %b %Y}" if at else ""


def logout(session: Session) -> int:
    """The command `logout`: revokes the token at the portal and forgets it here."""
    saved = contexts.load(session.folder, session.terminal)
    name, context = contexts.choose(saved, session.options.context, {})
    # Forgotten first: whatever the portal says, this machine has no token any more.
    del saved.by_name[name]
    if saved.current == name:
        saved.current = next(iter(sorted(saved.by_name)), "")
    contexts.save(session.folder, saved)
    try:
        Rest(context.url, context.token, ca_file=session.ca_file or context.ca_file).call(
            "DELETE", "auth/token/", patient=False
        )
    except RefusedError as error:
        if error.status != 401:
            _warn_of_token(session, context, error)
    except ClientError as error:
        _warn_of_token(session, context, error)
    session.terminal.tell(f"Signed out of {context.url}.")
    if saved.current:
        session.terminal.tell(f"The current context is {saved.current} now.")
    return OK


def _warn_of_token(session: Session, context: Context, error: ClientError) -> None:
    session.terminal.warn(
        f"the token is forgotten here, but the portal has not revoked it ({error.text}). "
        f"Revoke it at {context.url}/account/"
    )


def whoami(session: Session) -> int:
    """The command `whoami`."""
    me = session.me
    if session.output.is_data:
        session.output.data(me)
        return OK
    if session.output.form == "name":
        session.terminal.write(one_line(me.get("username", "")))
        return OK
    tenant = me.get("tenant") if isinstance(me.get("tenant"), dict) else None
    leads = me.get("leads") or []
    facts = [
        ("User", f"{me.get('username', '')} ({me.get('role', '')})"),
        ("Team", me.get("team") or "none"),
        ("Leads", ", ".join(str(team) for team in leads)),
        ("Portal", f"{session.rest.url} (context {session.context_name})"),
        ("Namespace", f"{tenant.get('namespace')} ({tenant.get('state')})" if tenant else "none"),
    ]
    if tenant:
        quota, used = tenant.get("quota") or {}, tenant.get("used") or {}
        shown = [f"{key} {used.get(key, 0)} of {value}" for key, value in quota.items()]
        facts.append(("Used", ", ".join(shown)))
    for title, value in facts:
        session.terminal.write_fact(title, value, 11)
    return OK


# --- contexts -------------------------------------------------------------------------------------


def list_contexts(session: Session) -> int:
    """The command `context list`. Tokens are never shown."""
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

    def cells(row: dict[str, object]) -> list[object]:
        at = parse_time(row["expires_at"])
        left_s = (at - datetime.now(timezone.utc)).total_seconds() if at else None
        good = "" if left_s is None else span_text(left_s) if left_s > 0 else "expired"
        return ["*" if row["is_current"] else " ", row["name"], row["user"], row["url"], good]

    session.output.rows(
        rows,
        CONTEXT_COLUMNS,
        cells,
        name=lambda row: one_line(row["name"]),
        empty="You are not signed in to a portal. Sign in: homeport login URL",
    )
    return OK


def use_context(session: Session) -> int:
    """The command `context use`."""
    saved = contexts.load(session.folder, session.terminal)
    name = session.options.name
    if name not in saved.by_name:
        known = ", ".join(sorted(saved.by_name)) or "none"
        raise ClientError(f"There is no context {name!r}.", f"Known are: {known}.", NOT_FOUND)
    saved.current = name
    contexts.save(session.folder, saved)
    session.terminal.tell(f"Working with {saved.by_name[name].url} as {saved.by_name[name].user}.")
    return OK
