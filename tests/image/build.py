"""Builds deploy/image/Dockerfile by buildah on the Debian of the test nodes, where no registry of images can be reached.

Debian's Python stands for the image of Python that the file begins with elsewhere.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deploy.testcluster.nodes.images import debian
from tests.run import ROOT

BASE, IMAGE = "localhost/python", "localhost/homeport"
_AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
_TRUST_ALL = {"default": [{"type": "insecureAcceptAnything"}]}


class NoBuilderError(RuntimeError):
    """The image cannot be built on this machine; the text says what to do."""


def check_tools() -> None:
    """
    Raises:
        NoBuilderError: one of them is not there.
    """
    if os.geteuid() != 0:
        raise NoBuilderError("only root can build an image here without a daemon")
    if not shutil.which("buildah"):
        raise NoBuilderError("there is no buildah on this machine: apt-get install buildah")


def _run(*command: str | Path) -> str:
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise AssertionError(f"{command[0]} ended with {done.returncode}; its words are above")
    return done.stdout.strip()


@contextmanager
def built(store: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The root folder of the built image, and its configuration."""
    policy = store / "policy.json"
    policy.write_text(json.dumps(_TRUST_ALL))
    places = ("--root", str(store / "images"), "--runroot", str(store / "run"))
    trust = ("--signature-policy", str(policy))

    def buildah(*words: str | Path) -> str:
        return _run("buildah", *places, *words)

    empty = buildah("from", "scratch")
    buildah("add", "--quiet", empty, debian().file, "/")
    buildah("commit", "--quiet", "--rm", *trust, empty, BASE)
    print("Building the image ...", file=sys.stderr, flush=True)
    # A machine may come to its packages through a proxy with an authority of its own.
    ours = [
        f"--volume={_AUTHORITIES}:{_AUTHORITIES}:ro",
        f"--build-arg=SSL_CERT_FILE={_AUTHORITIES}",
    ]
    buildah(
        *(
            "build",
            "--quiet",
            "--isolation",
            "chroot",
            *trust,
            *ours,
            "--build-arg",
            f"BASE={BASE}",
        ),
        *("--build-arg", "COMMIT=0123abc", "-f", "deploy/image/Dockerfile", "-t", IMAGE, "."),
    )
    about = json.loads(buildah("inspect", "--type", "image", IMAGE))["OCIv1"]["config"]
    container = buildah("from", *trust, IMAGE)
    try:
        yield Path(buildah("mount", container)), about
    finally:
        buildah("umount", "--all")
        buildah("rm", "--all")
