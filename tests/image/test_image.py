"""What Homeport's image holds, and that a portal serves from it: as nobody, on a root that it cannot write to."""

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

from deploy.testcluster.ports import free_port
from portal.version import VERSION, tag
from portal.web.cli_download import WHEEL
from tests.image import build
from tests.run import ROOT
from tests.tools.missing import is_missing
from tests.tools.waiting import wait_for

MOST_BYTES = 250 * 1024**2
# Mounts are this process's own, and go with it.
_INSIDE = """
mount --rbind "$0" "$0"
mkdir -p "$0/var/lib/homeport"
mount -t tmpfs -o mode=1777 tmpfs "$0/tmp"
mount -t tmpfs -o uid=1000,gid=100 tmpfs "$0/var/lib/homeport"
mount -t proc proc "$0/proc"
mount -t tmpfs tmpfs "$0/dev"
for file in null urandom; do touch "$0/dev/$file"; mount --bind "/dev/$file" "$0/dev/$file"; done
mount -o remount,ro,bind "$0"
exec chroot "$0" setpriv --reuid=1000 --regid=100 --clear-groups --bounding-set=-all --no-new-privs -- "$@"
"""


@dataclass(frozen=True)
class Image:
    """The root folder of the image, and its configuration."""

    root: Path
    about: dict[str, Any]

    def command(self, *words: str, env: dict[str, str] | None = None) -> list[str]:
        """What runs words in it as a pod under `restricted` would run them."""
        own = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private")
        given = [*self.about["Env"], *(f"{name}={value}" for name, value in (env or {}).items())]
        where = ["env", "-i", "-C", self.about["WorkingDir"], *given]
        return [*own, "sh", "-euc", _INSIDE, str(self.root), *where, *words]

    def says(self, *words: str) -> str:
        """All output of a command."""
        done = subprocess.run(
            self.command(*words), capture_output=True, text=True, timeout=120, check=False
        )
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    try:
        build.check_tools()
    except build.NoBuilderError as error:
        is_missing(str(error))
    with (
        tempfile.TemporaryDirectory(prefix="homeport-image-", dir="/var/tmp") as store,
        build.built(Path(store)) as (root, about),
    ):
        yield Image(root, about)


def test_it_holds_what_is_needed_and_no_more(image: Image) -> None:
    files = {(it.st_dev, it.st_ino): it for it in map(os.lstat, image.root.rglob("*"))}
    assert sum(it.st_blocks * 512 for it in files.values()) <= MOST_BYTES
    about = image.about
    assert about["User"] == "1000:100"
    labels = about["Labels"]
    assert labels["org.opencontainers.image.version"] == tag(VERSION)
    for module in ("portal.version", "homeport_client.version"):
        ask = f"import {module} as it; print(getattr(it, 'VERSION', '') or it.own_version())"
        assert image.says("python", "-c", ask) == f"{VERSION}\n"
    assert [path.name for path in (image.root / "opt/static/cli").iterdir()] == [WHEEL]
    assert labels["org.opencontainers.image.revision"] == "0123abc"
    # Pods of the embedded cluster and of every other have the same packages.
    pins = (ROOT / "deploy" / "image" / "requirements.txt").read_text().splitlines()
    pinned = {line.split(" ;")[0] for line in pins}
    assert pinned <= set((ROOT / "requirements.txt").read_text().split())
    assert "id=1000 1000:100" in image.says("sh", "-c", "echo id=$(id -u) $(id -u):$(id -g)")
    assert "cannot create" in image.says("sh", "-c", "echo > /var/tmp/x")


def test_its_programs_fetch_code(image: Image) -> None:
    assert "Connection refused" in image.says("ssh", "-o", "BatchMode=yes", "-p1", "127.0.0.1")
    assert "Failed to connect" in image.says("git", "ls-remote", "https://127.0.0.1:1/code.git")
    made = "cd /tmp && git init -q code && cd code && git -c gc.auto=0 fetch /nowhere; git version"
    assert "git version" in image.says("sh", "-c", made)
    for path in sorted((ROOT / "jobs" / "pod").glob("*.py")):
        said = image.says("python3", "-m", f"jobs.pod.{path.stem}", "--help")
        assert "ModuleNotFoundError" not in said, (path, said)


def test_a_portal_serves_from_it(image: Image) -> None:
    port = free_port()
    env = {"PORT": str(port), "POD_PORTAL_URL": "http://portal", "ACCEPT_INSECURE": "no-redis"}
    start = "python manage.py migrate --verbosity 0 && exec python manage.py serve --no-reconciler"
    command = image.command("sh", "-c", start, env=env)
    with tempfile.TemporaryFile("w+") as log:
        served = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
        url = f"http://127.0.0.1:{port}"

        def is_ready() -> bool:
            log.seek(0)
            assert served.poll() is None, log.read()
            try:
                return requests.get(f"{url}/readyz", timeout=5).status_code == 200
            except requests.RequestException:
                return False

        try:
            wait_for("the portal is ready", is_ready, timeout_s=120)
            page = requests.get(f"{url}/", timeout=10)
            found = set(re.findall(r'(?:href|src)="(/static/[^"]+)"', page.text))
            assert len(found) > 2, page.text
            for address in found:
                assert requests.get(url + address, timeout=10).ok, address
        finally:
            # Of its own it would stay: who changes the user is no longer killed with its parent.
            os.killpg(served.pid, signal.SIGKILL)
            served.wait()
