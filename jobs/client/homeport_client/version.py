"""Which build of the command line this is: its portal's, as the two are built of one checkout."""

from __future__ import annotations

from functools import cache
from pathlib import Path

PACKAGE = "homeport-client"


@cache
def own_version() -> str:
    """What the package was built as; in a checkout (`pip install -e`) what that is now."""
    client = Path(__file__).resolve().parents[1]
    checkout = client.parents[1]
    version_file = checkout / "portal" / "version.py"
    if (client / "pyproject.toml").is_file() and version_file.is_file():
        from runpy import run_path

        return str(run_path(str(version_file))["VERSION"])
    from importlib.metadata import PackageNotFoundError, version

    try:
        found = version(PACKAGE)
    except PackageNotFoundError:  # its files alone, copied from somewhere
        found = "0.dev0"
    # `pip install ./jobs/client` builds it without asking anybody for a version.
    return found if not found.endswith(".dev0") else f"{found}+s{_fingerprint()}"


def install_step(command_line: str) -> str:
    """How to get the portal's own.

    Args:
        command_line: the address of its package, as `me/` has it; empty where the portal offers none.
    """
    if command_line:
        return f"Install the portal's own: pip install {command_line}"
    return "The account page has the line that installs the portal's own, where it offers one."


def difference(portals: str, command_line: str) -> str:
    """Says that this is not the portal's command line, and how to get that; empty where it is.

    Args:
        portals: its version; empty where it is too old to say.
        command_line: as of `install_step`.
    """
    if portals == own_version():
        return ""
    return (
        f"This command line is {own_version()}, the portal is {portals or 'an older one'}. "
        f"{install_step(command_line)}"
    )


def _fingerprint() -> str:
    import hashlib

    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(f"{path.name}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:8]
