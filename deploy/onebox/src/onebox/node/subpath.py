"""Makes the folder of a volumeMount's subPath, without ever following a link that a pod placed.

Like the kubelet's SafeMakeDir: each part is opened by descriptor with O_NOFOLLOW and made below
the one before, with the owner and mode of its parent.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable

from onebox.node.spec import Mount

_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def make_sub_paths(mounts: Iterable[Mount]) -> None:
    """Make what is missing below writable bind mounts; blocking.

    A part that exists as a link or file is left to the mount itself, which resolves links
    inside the volume only.

    Raises:
        OSError: a folder cannot be made.
    """
    for mount in mounts:
        if mount.sub_path and mount.kind == "bind":
            _make(mount.source, [part for part in mount.sub_path.split("/") if part != "."])


def _make(root: str, parts: list[str]) -> None:
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts:
            if not part:
                continue
            below = _step(folder, part)
            if below is None:
                return
            os.close(folder)
            folder = below
    finally:
        os.close(folder)


def _step(folder: int, part: str) -> int | None:
    """Open one part, made if missing; None when it is no folder."""
    try:
        return os.open(part, _FLAGS, dir_fd=folder)
    except FileNotFoundError:
        pass
    except OSError:
        return None
    parent = os.fstat(folder)
    os.mkdir(part, 0o700, dir_fd=folder)
    made = os.open(part, _FLAGS, dir_fd=folder)
    if os.geteuid() == 0:
        os.fchown(made, parent.st_uid, parent.st_gid)
    os.fchmod(made, stat.S_IMODE(parent.st_mode))
    return made
