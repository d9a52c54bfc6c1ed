"""An earlier version itself: its files in a folder of their own, with a virtualenv of its own requirements."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.portal import ROOT


@dataclass(frozen=True)
class Version:
    """One from which people upgrade.

    Attributes:
        packages: what its Makefile installs of its own.
        cluster: the module of its embedded cluster.
        has_pod_port: pods come to a port of their own.
    """

    commit: str
    packages: tuple[str, ...]
    cluster: str
    has_pod_port: bool

    def __str__(self) -> str:
        return self.commit[:7]


FIRST = Version(
    "0d1432eef85052cda5d770210e6373f21c0c3281", ("jobs/client",), "deploy.onebox", False
)
# The last one with tables of trainings and of services.
TWO_TABLES = Version(
    "775ec617986cbe515a794f58851fc6be94d2c233", ("jobs/client", "deploy/onebox"), "onebox", True
)

# One whose runner does not tell where in the log a container begins, and keeps no time that a refusal names.
OLD_RUNNER = "04e656a38cc161e20d03af821e2938de98c88f89"


class NoHistoryError(RuntimeError):
    """The commit cannot be had from this checkout; the text says why."""


TODAY = Version("HEAD", (), "onebox", True)


@dataclass(frozen=True)
class Old:
    """A checkout of the earlier version.

    Attributes:
        python: of its own virtualenv.
    """

    version: Version
    checkout: Path
    python: str


# This one, with its cluster apart from its portal.
OURS = Old(TODAY, ROOT, sys.executable)


def _git(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", *words], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )


def need_history(commit: str) -> None:
    """Returns when the commit is here; a shallow clone is deepened first.

    Raises:
        NoHistoryError: there is no history, and none can be fetched.
    """
    if shutil.which("git") is None:
        raise NoHistoryError("git is not installed: apt-get install git")
    wanted = ("cat-file", "-e", f"{commit}^{{commit}}")
    if _git(*wanted).returncode == 0:
        return
    told = "this checkout has no history"
    if _git("rev-parse", "--is-shallow-repository").stdout.strip() == "true":
        fetched = _git("fetch", "--quiet", "--unshallow")
        if _git(*wanted).returncode == 0:
            return
        told = f"this clone is shallow, and git fetch --unshallow did not help: {fetched.stderr}"
    raise NoHistoryError(f"{told.strip()}; the upgrade starts from commit {commit}")


def unpack(commit: str, folder: Path, *paths: str) -> None:
    """Files of an earlier version, all of them or what lies at some paths.

    Raises:
        NoHistoryError: see `need_history`.
    """
    need_history(commit)
    words = ["git", "archive", commit, *paths]
    archive = subprocess.run(words, cwd=ROOT, capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)


def _uv(*words: str, cwd: Path = ROOT) -> None:
    """Bytecode is made when it is needed: to compile all of it at once takes minutes."""
    uv = Path(sys.executable).with_name("uv")
    command = [str(uv), "--quiet", *words]
    done = subprocess.run(
        command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}"


@contextmanager
def old_version(version: Version, *, with_tests: bool = False) -> Iterator[Old]:
    """An earlier version, ready to run, as long as the context is open.

    Args:
        with_tests: what its own tests need is installed as well.

    Raises:
        NoHistoryError: see `need_history`.
    """
    folder = Path(tempfile.mkdtemp(prefix="homeport-old-"))
    folder.chmod(0o755)  # its cluster's pods look into it
    try:
        unpack(version.commit, folder)
        python = folder / ".venv" / "bin" / "python"
        _uv("venv", "--python", sys.executable, str(folder / ".venv"))
        wanted = ["-r", "requirements.txt"]
        wanted += ["-r", "requirements-dev.txt"] if with_tests else []
        install = ("pip", "install", "--python", str(python))
        _uv(*install, *wanted, cwd=folder)
        packages = [word for name in version.packages for word in ("--editable", name)]
        _uv(*install, "--offline", "--no-deps", *packages, cwd=folder)
        yield Old(version, folder, str(python))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
