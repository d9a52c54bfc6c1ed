"""Builds deploy/image/Dockerfile by buildah on the Debian of the test nodes, where no registry of images can be reached.

Debian's Python stands for the image of Python that the file begins with elsewhere.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deploy.testcluster import binaries
from deploy.testcluster.nodes.images import debian
from portal.version import read, tag
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


def _run(*command: str | Path, configuration: Path) -> str:
    environ = os.environ | {"CONTAINERS_CONF": str(configuration)}
    done = subprocess.run(
        command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise AssertionError(f"{command[0]} ended with {done.returncode}; its words are above")
    return done.stdout.strip()


def _buildah(store: Path) -> Callable[..., str]:
    """Runs buildah in a store of its own, and nothing of it elsewhere: it would create /etc/cni."""
    configuration = store / "containers.conf"
    configuration.write_text(f'[network]\nnetwork_config_dir = "{store / "networks"}"\n')
    policy = store / "policy.json"
    policy.write_text(json.dumps(_TRUST_ALL))
    places = ("--root", str(store / "images"), "--runroot", str(store / "run"))
    trusting = {"commit", "build", "from", "push"}

    def buildah(command: str, *words: str | Path) -> str:
        trust = ("--signature-policy", str(policy)) if command in trusting else ()
        return _run("buildah", *places, command, *trust, *words, configuration=configuration)

    return buildah


def _build(buildah: Callable[..., str], checkout: Path = ROOT) -> None:
    empty = buildah("from", "scratch")
    buildah("add", "--quiet", empty, debian().file, "/")
    buildah("commit", "--quiet", "--rm", empty, BASE)
    print("Building the image ...", file=sys.stderr, flush=True)
    # A machine may come to its packages through a proxy with an authority of its own.
    ours = [
        f"--volume={_AUTHORITIES}:{_AUTHORITIES}:ro",
        f"--build-arg=SSL_CERT_FILE={_AUTHORITIES}",
    ]
    version = read(checkout)
    args = (f"BASE={BASE}", "COMMIT=0123abc", f"VERSION={version}", f"TAG={tag(version)}")
    buildah(
        *("build", "--quiet", "--isolation", "chroot", *ours),
        *(f"--build-arg={arg}" for arg in args),
        *("-f", checkout / "deploy/image/Dockerfile", "-t", IMAGE, checkout),
    )


@contextmanager
def built(store: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The root folder of the built image, and its configuration."""
    buildah = _buildah(store)
    _build(buildah)
    about = json.loads(buildah("inspect", "--type", "image", IMAGE))["OCIv1"]["config"]
    container = buildah("from", IMAGE)
    try:
        yield Path(buildah("mount", container)), about
    finally:
        buildah("umount", "--all")
        buildah("rm", "--all")


def archive(reference: str, checkout: Path = ROOT) -> Path:
    """The image as a file that a node imports, as docs/cluster.md writes it; made once of what it is made of.

    The latest two are kept.
    """
    said = hashlib.sha256(reference.encode())
    for file in _made_of(checkout):
        said.update(str(file.relative_to(checkout)).encode() + b"\0" + file.read_bytes())
    kept = binaries.cache_root() / "homeport-images"
    kept.mkdir(parents=True, exist_ok=True)
    target = kept / f"{said.hexdigest()[:12]}.tar"
    if not target.exists():
        with tempfile.TemporaryDirectory(prefix=".new-", dir=kept) as folder:
            buildah = _buildah(Path(folder))
            _build(buildah, checkout)
            unfinished = Path(folder, "homeport.tar")
            buildah("push", "--quiet", IMAGE, _written_to(unfinished, reference))
            unfinished.rename(target)
    target.touch()
    for old in sorted(kept.glob("*.tar"), key=lambda file: file.stat().st_mtime)[:-2]:
        old.unlink()
    return target


def _written_to(file: Path, reference: str) -> str:
    """What the page gives to `buildah push`, with this file and this name of the image in place of its own."""
    page = (ROOT / "docs/cluster.md").read_text()
    [[name, place]] = re.findall(r"^ +buildah push (\S+) (oci-archive:\S+)$", page, re.MULTILINE)
    return place.replace(name, reference).replace("homeport.tar", str(file))


def _made_of(checkout: Path) -> list[Path]:
    """The files of the image: what .dockerignore does not ignore, and how it is built."""
    lines = (checkout / ".dockerignore").read_text().splitlines()
    places = [checkout / line[1:] for line in lines if line.startswith("!")]
    found = [checkout / "deploy/image/Dockerfile", *places]
    found += [file for place in places if place.is_dir() for file in place.rglob("*")]
    return sorted(file for file in found if file.is_file() and "__pycache__" not in file.parts)
