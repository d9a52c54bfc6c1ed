"""0d1432e itself: its files in a folder of their own, with a virtualenv of its own requirements."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.portal import ROOT

COMMIT = "0d1432eef85052cda5d770210e6373f21c0c3281"


class NoHistoryError(RuntimeError):
    """The commit cannot be had from this checkout; the text says why."""


@dataclass(frozen=True)
class Old:
    """A checkout of the earlier version.

    Attributes:
        python: of its own virtualenv.
    """

    checkout: Path
    python: str


def _git(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", *words], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )


def need_history() -> None:
    """Returns when the commit is here; a shallow clone is deepened first.

    Raises:
        NoHistoryError: there is no history, and none can be fetched.
    """
    if shutil.which("git") is None:
        raise NoHistoryError("git is not installed: apt-get install git")
    wanted = ("cat-file", "-e", f"{COMMIT}^{{commit}}")
    if _git(*wanted).returncode == 0:
        return
    told = "this checkout has no history"
    if _git("rev-parse", "--is-shallow-repository").stdout.strip() == "true":
        fetched = _git("fetch", "--quiet", "--unshallow")
        if _git(*wanted).returncode == 0:
            return
        told = f"this clone is shallow, and git fetch --unshallow did not help: {fetched.stderr}"
    raise NoHistoryError(f"{told.strip()}; the upgrade starts from commit {COMMIT}")


def _uv(*words: str, cwd: Path = ROOT) -> None:
    """Bytecode is made when it is needed: to compile all of it at once takes minutes."""
    uv = Path(sys.executable).with_name("uv")
    command = [str(uv), "--quiet", *words]
    done = subprocess.run(
        command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}"


@contextmanager
def old_version(*, with_tests: bool = False) -> Iterator[Old]:
    """The earlier version, ready to run, as long as the context is open.

    Args:
        with_tests: what its own tests need is installed as well.

    Raises:
        NoHistoryError: see `need_history`.
    """
    need_history()
    folder = Path(tempfile.mkdtemp(prefix="homeport-old-"))
    folder.chmod(0o755)  # its cluster's pods look into it
    try:
        archive = subprocess.run(
            ["git", "archive", COMMIT], cwd=ROOT, capture_output=True, check=True
        )
        subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
        python = folder / ".venv" / "bin" / "python"
        _uv("venv", "--python", sys.executable, str(folder / ".venv"))
        wanted = ["-r", "requirements.txt"]
        wanted += ["-r", "requirements-dev.txt"] if with_tests else []
        install = ("pip", "install", "--python", str(python))
        _uv(*install, *wanted, cwd=folder)
        _uv(*install, "--offline", "--no-deps", "--editable", "jobs/client", cwd=folder)
        yield Old(folder, str(python))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
