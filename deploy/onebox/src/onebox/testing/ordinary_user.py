"""Run a command as an ordinary user: `python ordinary_user.py UID GID HOME COMMAND...` as root.

Where the interpreter lies below a folder that only root may enter (a root's home), the command
sees, in mounts of its own, a folder in that place that shows nothing but the interpreter.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from onebox.node import syscalls


def _closed_ancestor(path: str) -> str | None:
    for folder in reversed(Path(path).parents):
        if not folder.stat().st_mode & 0o001:
            return str(folder)
    return None


def _uncover(path: str) -> None:
    closed = _closed_ancestor(path)
    if closed is None:
        return
    tree = syscalls.open_tree(path)
    syscalls.mount("tmpfs", closed, "tmpfs", 0, "mode=755")
    os.makedirs(path)
    syscalls.move_mount(tree, path)
    os.close(tree)


def main() -> None:
    uid, gid, home = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    syscalls.unshare(syscalls.CLONE_NEWNS)
    syscalls.set_propagation("/", syscalls.MS_PRIVATE)
    _uncover(os.path.realpath(sys.base_prefix))
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    kept = ("PATH", "LANG", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "SSL_CERT_FILE")
    env = {name: value for name, value in os.environ.items() if name in kept}
    os.execvpe(sys.argv[4], sys.argv[4:], {**env, "HOME": home})


if __name__ == "__main__":
    main()
