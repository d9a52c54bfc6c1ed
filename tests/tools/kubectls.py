"""Finds the kubectl of the tests, which lies beside their Python, and says what it answered.

One that somebody has in PATH is tried besides, in tests that look at effects alone.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

GIVEN = "HOMEPORT_KUBECTL"  # a file to try in place of the one beside Python
OLDEST_MINOR = 31
TIMEOUT_S = 60.0
CURRENT, IN_PATH = "current", "in-path"


class NoKubectlError(RuntimeError):
    """There is no such kubectl, or none that is tried; the text says which and why."""


@dataclass(frozen=True)
class Said:
    """An answer of kubectl, its output and its errors and warnings apart.

    The server's words of a refusal are among the errors; what is around them is the client's and
    differs from one version to the next.
    """

    code: int
    out: str
    errors: str

    @property
    def is_done(self) -> bool:
        return self.code == 0


def ask(
    command: Sequence[str],
    *,
    stdin: str | None = None,
    environment: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> Said:
    """Run a command of kubectl to its end."""
    done = subprocess.run(
        command,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        env=environment,
        check=False,
    )
    return Said(done.returncode, done.stdout, done.stderr)


@dataclass(frozen=True)
class Kubectl:
    """A kubectl in one namespace of one cluster.

    Attributes:
        home: where it keeps what it learned of a server.
    """

    program: str
    kubeconfig: Path
    namespace: str
    home: Path

    def __call__(self, *arguments: str, stdin: str | None = None, code: int = 0) -> str:
        """What it puts out.

        Raises:
            AssertionError: it ends with another code.
        """
        return self.says(*arguments, stdin=stdin, code=code).out

    def refusal(self, *arguments: str, stdin: str | None = None) -> str:
        """What it says of a call that fails; AssertionError when it does not."""
        return self.says(*arguments, stdin=stdin, code=1).errors

    def says(self, *arguments: str, stdin: str | None, code: int) -> Said:
        """All of its answer; AssertionError when it ends with another code."""
        command = [self.program, "--kubeconfig", str(self.kubeconfig), "-n", self.namespace]
        environment = {"HOME": str(self.home), "PATH": "/usr/bin:/bin"}
        said = ask([*command, *arguments], stdin=stdin, environment=environment)
        assert said.code == code, f"kubectl {' '.join(arguments)}: {said}"
        return said


@cache
def current_kubectl() -> str:
    """Path of the kubectl that all tests use: the one of HOMEPORT_KUBECTL, else the one that
    requirements-dev.txt puts beside this Python.

    Raises:
        NoKubectlError: it is not there.
    """
    if given := os.environ.get(GIVEN):
        found = shutil.which(given)
        if found is None:
            raise NoKubectlError(f"{GIVEN} names {given}, which is no program")
        return str(Path(found).absolute())
    beside = Path(sys.executable).with_name("kubectl")
    if not beside.is_file():
        raise NoKubectlError(
            f"{beside} is not there: install requirements-dev.txt into this environment"
        )
    return str(beside)


@cache
def kubectl_in_path() -> str:
    """Path of another kubectl that is in PATH and new enough to be tried.

    Raises:
        NoKubectlError: there is none; the text names one that is too old.
    """
    for folder in os.get_exec_path():
        found = shutil.which("kubectl", path=folder) if folder else None
        if found is None or Path(found).samefile(current_kubectl()):
            continue
        minor = minor_version(found)
        if minor is None:
            raise NoKubectlError(f"{found} is left out: it does not say its version")
        if minor < OLDEST_MINOR:
            raise NoKubectlError(f"{found} is left out: 1.{minor} is older than 1.{OLDEST_MINOR}")
        return found
    raise NoKubectlError("there is no other kubectl in PATH")


def kubectl(which: str) -> str:
    """Path of the kubectl that is called CURRENT or IN_PATH; raises NoKubectlError."""
    return current_kubectl() if which == CURRENT else kubectl_in_path()


def minor_version(program: str) -> int | None:
    """The minor version of a kubectl; None when it does not say."""
    try:
        said = ask([program, "version", "--client", "-o", "json"])
        text = str(json.loads(said.out)["clientVersion"]["minor"])
    except (OSError, subprocess.TimeoutExpired, ValueError, KeyError, TypeError):
        return None
    digits = re.match(r"\d+", text)
    return int(digits[0]) if digits else None
