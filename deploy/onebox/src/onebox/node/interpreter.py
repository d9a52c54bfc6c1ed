"""The Python that images are built on: where it lies, and what of it a pod must see."""

from __future__ import annotations

import os
import sys

from onebox.node.spec import Mount


def real_interpreter() -> str:
    """Return the path of the running interpreter itself, outside of any virtual environment."""
    name = os.path.basename(os.path.realpath(sys.executable))
    base = os.path.join(sys.base_prefix, "bin", name)
    return os.path.realpath(base if os.path.exists(base) else sys.executable)


def interpreter_mounts() -> tuple[Mount, ...]:
    """Return the folders of the interpreter, to be mounted at their own paths, read-only.

    Empty where it belongs to the system (below /usr), which every container sees anyway. Only
    bin, lib and include: a Python installed right into someone's home must not show the rest.
    """
    prefixes = {os.path.realpath(sys.base_prefix), os.path.realpath(sys.base_exec_prefix)}
    folders = [
        os.path.join(prefix, name)
        for prefix in sorted(prefixes)
        for name in ("bin", "lib", "lib64", "include")
        if not (prefix + "/").startswith("/usr/")
    ]
    return tuple(
        Mount(source=folder, path=folder, read_only=True)
        for folder in folders
        if os.path.isdir(folder) and not os.path.islink(folder)
    )
