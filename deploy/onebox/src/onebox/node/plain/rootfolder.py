"""Makes the folders of a container's files, and the view that shows them at their paths."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import Any

from onebox.node import syscalls
from onebox.node.plain.loopback import Loopback
from onebox.node.plain.view import View
from onebox.node.program import Failure
from onebox.node.rootfs import (
    EMPTY_FOLDERS,
    ETC_ENTRIES,
    PROGRAM_FOLDERS,
    checked_path,
)
from onebox.node.spec import GATEWAY_IP


def build_view(spec: Mapping[str, Any], loopback: Loopback) -> View:
    """Make what is missing and return the view; may be called again for the same container.

    Raises:
        Failure: a mount of the pod cannot be had; the text names it.
        OSError: the machinery itself failed.
    """
    root, tmp = f"{spec['stage']}/root", f"{spec['stage']}/tmp"
    shm = f"{spec['tmpfs_folder']}/shm-{spec['key']}"
    for folder in (root, tmp, shm):
        os.makedirs(folder, exist_ok=True)
    os.chmod(tmp, 0o1777)
    read_only = spec["read_only_root"]
    places = {"/tmp": (tmp, read_only), "/dev/shm": (shm, False)}
    for mount in spec["mounts"]:
        places[checked_path(mount["path"])] = (
            _source(mount, spec["tmpfs_folder"]),
            mount["read_only"],
        )
    seen = {f"/{name}": False for name in ("proc", "sys", "dev")}
    seen |= {f"/{name}": True for name in PROGRAM_FOLDERS}
    seen |= {f"/etc/{name}": True for name in ETC_ENTRIES}
    seen = {path: read_only for path, read_only in seen.items() if os.path.exists(path)}
    view = View(seen, places, root, read_only_root=read_only)
    _fill_root(root, spec, loopback)
    for path in sorted((*seen, *places)):
        _stand_in(root, path, view.real(path))
    for real in (*(real for real, _ in places.values()), root):
        _make_inside(root, os.path.dirname(real))
    for path in (spec["env"].get("HOME", "/"), spec["cwd"]):
        with contextlib.suppress(OSError):
            os.makedirs(view.real(path), exist_ok=True)
    return view


def _source(mount: Mapping[str, Any], tmpfs_folder: str) -> str:
    path: str = mount["path"]
    source: str = mount["source"]
    sub_path: str = mount["sub_path"]
    if mount["kind"] == "tmpfs":
        source = os.path.join(tmpfs_folder, source)
    try:
        if not sub_path:
            os.stat(source)
            return os.path.realpath(source)
        folder = os.open(source, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            found = syscalls.open_beneath(folder, sub_path)
        finally:
            os.close(folder)
        real = os.readlink(f"/proc/self/fd/{found}")
        os.close(found)
    except OSError as error:
        what = f'"{sub_path}" of a volume' if sub_path else "a volume"
        text = f'{what} cannot be mounted at "{path}": {os.strerror(error.errno or 0)}'
        raise Failure(128, "CreateContainerError", text) from error
    return real


def _fill_root(root: str, spec: Mapping[str, Any], loopback: Loopback) -> None:
    for name in (*EMPTY_FOLDERS, "etc", "var/tmp"):
        os.makedirs(f"{root}/{name}", exist_ok=True)
    gateway, _port = loopback.locate(GATEWAY_IP, 0)
    for name, text in spec["etc"].items():
        if name == "resolv.conf":
            # Libraries compare where an answer came from with whom they asked.
            text = text.replace(GATEWAY_IP, gateway)
        with open(f"{root}/etc/{name}", "w") as file:
            file.write(text)
    for link, target in (("etc/mtab", "/proc/mounts"), ("var/run", "/run")):
        if not os.path.lexists(f"{root}/{link}"):
            os.symlink(target, f"{root}/{link}")


def _stand_in(root: str, path: str, real: str) -> None:
    """Let what lies elsewhere appear in its folder, and be found from there."""
    if _make_inside(root, os.path.dirname(path)) and not os.path.lexists(root + path):
        os.symlink(real, root + path)


def _make_inside(root: str, path: str) -> bool:
    """Make a folder of the container's own; False where the path leads out of those."""
    real = os.path.realpath(root + path)
    if real != root + path.rstrip("/"):
        return False
    with contextlib.suppress(OSError):
        os.makedirs(real, exist_ok=True)
    return os.path.isdir(real)
