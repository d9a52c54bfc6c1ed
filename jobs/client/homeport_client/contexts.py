"""Who one is at which portal, kept in `$XDG_CONFIG_HOME/homeport/contexts.json` (0600).

A context is a portal and a token under a name; one of them is the current one. The file holds
secrets: it is made readable by its owner only before a byte is in it, and replaced as a whole.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from .address import parse_address
from .exits import NOT_SIGNED_IN, ClientError, usage_error
from .terminal import Terminal

FILE_NAME = "contexts.json"


@dataclass
class Context:
    """One portal with one person's token."""

    url: str
    token: str
    user: str = ""
    expires_at: str = ""
    ca_file: str = ""


@dataclass
class Contexts:
    """All that the file says."""

    current: str = ""
    by_name: dict[str, Context] = field(default_factory=dict)


def own_folder(variable: str, default: str, environ: Mapping[str, str] = os.environ) -> Path:
    """Ours among the XDG base directories; relative paths there are ignored."""
    given = environ.get(variable, "")
    return (Path(given) if given.startswith("/") else Path.home() / default) / "homeport"


def config_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where settings live."""
    return own_folder("XDG_CONFIG_HOME", ".config", environ)


def load(folder: Path, terminal: Terminal) -> Contexts:
    """What was saved; empty when nothing was.

    Raises:
        ClientError: the file cannot be read or is not ours.
    """
    path = folder / FILE_NAME
    again = "Correct or remove it, then sign in again."
    try:
        with path.open("rb") as file:
            _make_private(file.fileno(), path, terminal)
            found = json.loads(file.read(1024**2))
    except FileNotFoundError:
        return Contexts()
    except (OSError, ValueError, RecursionError) as error:
        raise ClientError(f"{path} cannot be read: {error}", again) from error
    names = [one.name for one in fields(Context)]
    try:
        by_name = {
            str(name): Context(*(str(row.get(key, "")) for key in names))
            for name, row in found["contexts"].items()
        }
        return Contexts(str(found["current"]), by_name)
    except (KeyError, TypeError, AttributeError) as error:
        raise ClientError(f"{path} does not hold contexts of Homeport.", again) from error


def _make_private(handle: int, path: Path, terminal: Terminal) -> None:
    mode = stat.S_IMODE(os.fstat(handle).st_mode)
    if mode & 0o077:
        os.fchmod(handle, mode & 0o700)
        terminal.warn(
            f"others on this machine could read your tokens in {path}; it is yours alone now. "
            "If somebody may have read them, revoke them on the account page and sign in again."
        )


def save(folder: Path, contexts: Contexts) -> None:
    """Replaces the file; a reader sees the old one or the new one.

    Raises:
        ClientError: it cannot be written.
    """
    import tempfile

    rows = {name: asdict(row) for name, row in sorted(contexts.by_name.items())}
    path = folder / FILE_NAME
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # mkstemp makes it 0600, whatever the umask says.
        handle, name = tempfile.mkstemp(prefix=f".{FILE_NAME}.", dir=folder)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump({"current": contexts.current, "contexts": rows}, file, indent=2)
                file.write("\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ClientError(
            f"{path} cannot be written: {error}",
            "Make the folder writable, or name another one by XDG_CONFIG_HOME.",
        ) from error


def choose(
    contexts: Contexts, name: str | None, environ: Mapping[str, str] = os.environ
) -> tuple[str, Context]:
    """The context to work in: `--context`, HOMEPORT_URL with HOMEPORT_TOKEN, HOMEPORT_CONTEXT, or
    the current one.

    Raises:
        ClientError: there is none, or none of this name.
    """
    if name is None and environ.get("HOMEPORT_TOKEN"):
        url = environ.get("HOMEPORT_URL", "")
        if not url:
            raise usage_error(
                "HOMEPORT_TOKEN is set, but HOMEPORT_URL is not.", "Set both or none."
            )
        return "environment", Context(parse_address(url), environ["HOMEPORT_TOKEN"].strip())
    wanted = name or environ.get("HOMEPORT_CONTEXT") or contexts.current
    if not contexts.by_name or not wanted:
        raise ClientError(
            "You are not signed in to a portal.", "Sign in: homeport login URL", NOT_SIGNED_IN
        )
    found = contexts.by_name.get(wanted)
    if found is None:
        known = ", ".join(sorted(contexts.by_name))
        raise usage_error(f"There is no context {wanted!r}.", f"Known are: {known}.")
    # The file may have been edited: a token goes to no address that `login` would refuse.
    found.url = parse_address(found.url)
    return wanted, found
