"""Finds kubectl for tests: a current one, and the 1.20 of Debian 12, each cached outside the
repository.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

HERE = Path(__file__).resolve().parent / "kubectl"
CURRENT_MINOR = 30  # older ones are not "current" any more
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "homeport"
GO_BUILD_S = 900


class NoKubectlError(RuntimeError):
    """There is none and none can be made; the text says what to install."""


def minor_version(program: str) -> int:
    """The minor version of a kubectl, 0 when it does not say."""
    out = subprocess.run(
        [program, "version", "--client", "-o", "json"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    ).stdout
    try:
        text = str(json.loads(out)["clientVersion"]["minor"])
    except (ValueError, KeyError):
        return 0
    digits = re.match(r"\d+", text)
    return int(digits[0]) if digits else 0


@cache
def current_kubectl() -> str:
    """Path of a current kubectl: the PATH's, else one built from upstream's Go module.

    Raises:
        NoKubectlError: neither a kubectl nor Go is there, or the build fails.
    """
    found = shutil.which("kubectl")
    if found and minor_version(found) >= CURRENT_MINOR:
        return found
    version = re.search(r"k8s\.io/kubectl (v[\d.]+)", (HERE / "go.mod").read_text())
    assert version is not None
    target = CACHE / f"kubectl-{version[1]}"
    if target.exists():
        return str(target)
    if shutil.which("go") is None:
        raise NoKubectlError(
            f"no kubectl of version 1.{CURRENT_MINOR} or newer in PATH, and no Go to build one: "
            "install either"
        )
    CACHE.mkdir(parents=True, exist_ok=True)
    half_made = target.with_suffix(f".{os.getpid()}")
    built = subprocess.run(
        ["go", "build", "-o", str(half_made), "."],
        cwd=HERE,
        capture_output=True,
        text=True,
        timeout=GO_BUILD_S,
        check=False,
    )
    if built.returncode:
        raise NoKubectlError(f"kubectl could not be built: {built.stderr[-500:]}")
    half_made.rename(target)
    return str(target)


@cache
def old_kubectl() -> str:
    """Path of Debian 12's kubectl 1.20, unpacked (not installed) from its package.

    Raises:
        NoKubectlError: apt is not there or does not have it.
    """
    target = CACHE / "kubectl-1.20"
    if target.exists():
        return str(target)
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for command in (
            ["apt-get", "download", "kubernetes-client"],
            ["sh", "-c", "dpkg -x kubernetes-client*.deb unpacked"],
        ):
            try:
                done = subprocess.run(
                    command, cwd=folder, capture_output=True, text=True, timeout=300, check=False
                )
            except FileNotFoundError as error:
                raise NoKubectlError(f"{command[0]} is not there: this is no Debian") from error
            if done.returncode:
                raise NoKubectlError(
                    f"{' '.join(command)}: {done.stderr.strip()[-300:]}; try apt-get update"
                )
        unpacked = Path(folder) / "unpacked" / "usr" / "bin" / "kubectl"
        if not unpacked.exists():
            raise NoKubectlError("the package kubernetes-client has no usr/bin/kubectl")
        half_made = target.with_suffix(f".{os.getpid()}")
        shutil.copy(unpacked, half_made)
        half_made.rename(target)
    return str(target)


@cache
def any_kubectl() -> str:
    """Path of the newest kubectl that can be had.

    Raises:
        NoKubectlError: none can.
    """
    try:
        return current_kubectl()
    except NoKubectlError:
        return old_kubectl()
