"""The browser of the tests: found in PATH, in Playwright's cache, or fetched by `ensure`."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

# Debian's Chromium without windows does the same in a fifth less of processor time.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
PACKAGES = ("chromium-headless-shell", "fonts-dejavu-core")
NONE = f"there is no browser: apt-get install {' '.join(PACKAGES)}"
FETCH_S = 600
_PLACE = """
from playwright.sync_api import sync_playwright
with sync_playwright() as playwright:
    print(playwright.chromium.executable_path)
"""


@cache
def _playwrights() -> Path:
    """Where Playwright's own installer puts a browser of its version, there or not."""
    said = subprocess.run(
        [sys.executable, "-c", _PLACE], capture_output=True, text=True, check=True, timeout=60
    )
    return Path(said.stdout.strip())


def _starts(program: Path) -> bool:
    """Whether it runs here at all; one that was fetched may lack libraries."""
    try:
        done = subprocess.run([program, "--version"], capture_output=True, timeout=60, check=False)
        return done.returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def find() -> Path | None:
    """The program of a browser that starts here; None where there is none."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is not None:
        return Path(found)
    own = _playwrights()
    return own if own.exists() and _starts(own) else None


def ensure(say: Callable[[str], None]) -> Path | None:
    """The browser's program, fetched where there is none; None where that cannot be done either.

    Playwright's installer fetches into the person's own cache. What cannot be fetched so is
    installed by apt where nobody has to be asked for a password, with the line shown.
    """
    program = find()
    if program is not None:
        return program
    say("There is no browser in PATH. Playwright fetches one into its cache (once) ...")
    fetched = _run([sys.executable, "-m", "playwright", "install", "chromium"])
    program = find()
    if program is not None:
        return program
    told = [line.strip() for line in fetched.splitlines() if "rror" in line]
    say(f"That gave no browser that starts here{': ' + told[0] if told else ''}.")
    as_root = _as_root()
    if as_root is not None and shutil.which("apt-get"):
        install = [*as_root, "apt-get", "install", "-y", "--no-install-recommends", *PACKAGES]
        say(f"Installing one: {' '.join(install)}")
        _run([*as_root, "apt-get", "update", "-qq"])
        if failed := _run(install):
            say(failed.strip().splitlines()[-1])
    return find()


def _as_root() -> list[str] | None:
    """The words in front of a command that needs root; None where somebody would be asked."""
    if os.getuid() == 0:
        return []
    if shutil.which("sudo") and not subprocess.call(["sudo", "-n", "true"], stderr=-3):
        return ["sudo", "-n"]
    return None


def _run(command: list[str]) -> str:
    """What it said where it failed, else nothing."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=FETCH_S, stdin=-3, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return done.stderr or done.stdout if done.returncode else ""
