"""The machine's programs, as containers find them in PATH: all but those of another Python.

`pip` of the machine installs for the machine's Python, which is not the image's: whoever calls it in
a container gets packages that no program there finds.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from pathlib import Path

FOLDERS = ("/usr/local/bin", "/usr/bin", "/bin")
_OF_PYTHON = re.compile(r"(\S+-)?(python|pypy|pip|pydoc|idle|2to3|easy_install)[\d.]*(-config)?")
_HEAD_BYTES = 256


class HostPrograms:
    """A folder of links to the programs, made anew when programs come or go.

    Args:
        folder: holds the folders of links; nothing else uses it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: list[int] = []
        self._links = folder
        current = self.links()
        for left in folder.iterdir():  # no container is alive yet that could use it
            if left != current:
                shutil.rmtree(left, ignore_errors=True)

    def links(self) -> Path:
        """Return the folder of links; what was returned before stays as it was.

        Raises:
            OSError: it cannot be made.
        """
        seen = [os.stat(path).st_mtime_ns for path in FOLDERS if os.path.isdir(path)]
        if seen != self._seen:
            self._links = _link_all(self._folder, _find_programs())
            self._seen = seen
        return self._links


def _find_programs() -> dict[str, str]:
    """Return the programs of the machine, name -> path."""
    found: dict[str, str] = {}
    for folder in FOLDERS:
        if not os.path.isdir(folder):
            continue
        for entry in os.scandir(folder):
            if entry.name not in found and _is_for_containers(entry):
                found[entry.name] = entry.path
    return found


def _is_for_containers(entry: os.DirEntry[str]) -> bool:
    if not entry.is_file() or not os.access(entry.path, os.X_OK):
        return False
    names = (entry.name, os.path.basename(os.path.realpath(entry.path)))
    return not (any(map(_OF_PYTHON.fullmatch, names)) or _is_python_script(entry.path))


def _is_python_script(path: str) -> bool:
    """Whether Python runs it: by its first line, or by the second of a script for a long path."""
    try:
        with open(path, "rb") as file:
            first, second, *_ = [*file.read(_HEAD_BYTES).split(b"\n"), b"", b""]
    except OSError:
        return False  # not readable, and so no script
    return first.startswith(b"#!") and (
        b"python" in first or (b"exec" in second and b"python" in second)
    )


def _link_all(folder: Path, programs: dict[str, str]) -> Path:
    """Return the folder that links just these programs."""
    text = "\0".join(f"{name}\0{path}" for name, path in sorted(programs.items()))
    final = folder / hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    if not final.is_dir():
        half_built = folder / f"{final.name}.tmp-{os.getpid()}"
        shutil.rmtree(half_built, ignore_errors=True)
        half_built.mkdir(parents=True)
        for name, path in programs.items():
            (half_built / name).symlink_to(path)
        half_built.rename(final)
    return final
