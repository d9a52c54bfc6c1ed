"""GlusterFS on the nodes: one volume with a replica on each, and on each node a mount that is the node's own.

A node keeps both programs running, as systemd does elsewhere: the server with its brick, and the mount,
which is tried each second until the volume is there. The mount lies below `ROOT`, where pods look for it.
https://docs.gluster.org/en/latest/Administrator-Guide/Setting-Up-Volumes/
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from deploy.testcluster.nodes import network

VOLUME = "homeport"
ROOT = "/var/lib/homeport"
MOUNT = f"{ROOT}/gluster"
_WAIT_S = 60.0
# A mount whose program died stays and answers "not connected": it goes before the next try.
_MOUNT = f"""
mountpoint -q {MOUNT} || umount -l {MOUNT} 2>/dev/null
mkdir -p {MOUNT}
exec glusterfs --no-daemon --log-level=WARNING --log-file=/dev/stderr --volfile-id={VOLUME} "$@" {MOUNT}
"""


class GlusterError(RuntimeError):
    """There is no volume; the text has the program's own words."""


def programs(packages: Path, count: int) -> dict[str, list[str]]:
    """What a node keeps running: name -> command.

    Args:
        packages: folder with `etc` and `usr` of Debian's.
        count: of nodes, all of which know the volume.
    """
    servers = [f"--volfile-server={network.address(number)}" for number in range(1, count + 1)]
    options = packages / "etc/glusterfs/glusterd.vol"
    return {
        "glusterd": [
            "glusterd",
            "--no-daemon",
            "--log-level=WARNING",
            "--log-file=/dev/stderr",
            f"--volfile={options}",
        ],
        "gluster-mount": ["sh", "-c", _MOUNT, "sh", *servers],
    }


def create(enter: Callable[..., list[str]], bricks: Sequence[Path]) -> None:
    """Make one pool of all nodes and start the volume.

    Args:
        enter: turns words into a command that runs on the first node.
        bricks: a folder of each node, in the order of their numbers.

    Raises:
        GlusterError: it did not work in time.
    """
    places = [
        f"{network.address(number)}:{folder}" for number, folder in enumerate(bricks, start=1)
    ]
    for number in range(2, len(bricks) + 1):
        _until_done(enter("gluster", "--mode=script", "peer", "probe", network.address(number)))
    # A probe has answered before the other side is ready to take part; `create` says so and is tried again.
    words = ("volume", "create", VOLUME, "replica", str(len(bricks)), *places, "force")
    _until_done(enter("gluster", "--mode=script", *words))
    _until_done(enter("gluster", "--mode=script", "volume", "start", VOLUME))


def _until_done(command: list[str]) -> None:
    deadline = time.monotonic() + _WAIT_S
    while True:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return
        if time.monotonic() > deadline:
            raise GlusterError(f"{' '.join(command[-6:])}: {done.stdout}{done.stderr}")
        time.sleep(0.5)
