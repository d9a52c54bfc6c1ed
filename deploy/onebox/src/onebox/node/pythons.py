"""The Python of an image: the machine's interpreter with a place of its own for packages.

It is no virtual environment. In one of those pip knows no place but the environment, which is
read-only in a container. Here it does what it does in any image whose user is not root: it installs
below the user's home, which Python looks through first
(https://docs.python.org/3/library/site.html#site.USER_SITE).
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from onebox.node.interpreter import real_interpreter

NAME = "python{}.{}".format(*sys.version_info[:2])
# Of the standard library's folder: what belongs to the machine's own installation, and what only
# its distribution says (https://packaging.python.org/en/latest/specifications/externally-managed-environments/).
_OF_THE_MACHINE = frozenset(
    {
        *("site-packages", "dist-packages", "EXTERNALLY-MANAGED"),
        *("sitecustomize.py", "usercustomize.py"),
    }
)
# Its Python installs everything below `local`.
_IS_OF_DEBIAN = "posix_local" in sysconfig.get_scheme_names()
# The shell starts it: a first line has no room for a long path.
_PIP_SCRIPT = """#!/bin/sh
"exec" "{program}" "$0" "$@"
import sys
from pip._internal.cli.main import main
sys.exit(main())
"""
_PACKAGES_FILE = "packages-of-this-machine.pth"


def build_python(folder: Path, package_folders: Sequence[str] = ()) -> Path:
    """Make a Python in a new folder, which may be moved as a whole; return its program.

    Args:
        package_folders: of this machine, looked through after what is installed.

    Raises:
        OSError: something cannot be written.
        ValueError: the interpreter's library lies outside of its prefix.
    """
    library = Path(sysconfig.get_path("stdlib"))
    where = library.relative_to(sys.base_prefix)
    own = folder / where
    own.mkdir(parents=True)
    for entry in library.iterdir():
        if entry.name not in _OF_THE_MACHINE:
            (own / entry.name).symlink_to(entry)
    compiled = Path(sys.base_exec_prefix, where, "lib-dynload")
    if compiled.is_dir() and not (own / compiled.name).exists():
        (own / compiled.name).symlink_to(compiled)
    _link_libraries(folder)
    headers = Path(sysconfig.get_path("include"))
    if headers.is_dir():
        (folder / "include").mkdir()
        (folder / "include" / headers.name).symlink_to(headers)
    if _IS_OF_DEBIAN:
        (folder / "local").symlink_to(".")
    packages = _packages(folder)
    packages.mkdir(parents=True, exist_ok=True)
    if package_folders:
        (packages / _PACKAGES_FILE).write_text("".join(f"{path}\n" for path in package_folders))
    return _copy_program(folder)


def _copy_program(folder: Path) -> Path:
    """Copy the interpreter: by where it lies, and not a link to it, it finds its folders."""
    (folder / "bin").mkdir()
    program = folder / "bin" / NAME
    shutil.copyfile(real_interpreter(), program)
    program.chmod(0o755)
    for name in ("python", "python3"):
        (folder / "bin" / name).symlink_to(NAME)
    return program


def _link_libraries(folder: Path) -> None:
    """Link the libraries that some interpreters look for beside themselves ($ORIGIN/../lib)."""
    if (sys.base_prefix + "/").startswith("/usr/"):
        return
    (folder / "lib").mkdir(exist_ok=True)
    for path in Path(sys.base_prefix, "lib").glob("lib*.so*"):
        (folder / "lib" / path.name).symlink_to(path)


def bundled_pip() -> Path | None:
    """Return the wheel of pip that the interpreter brings; None where it has been left out."""
    spec = importlib.util.find_spec("ensurepip")
    places = [Path(spec.origin).parent / "_bundled"] if spec and spec.origin else []
    apart = sysconfig.get_config_var("WHEEL_PKG_DIR")  # Debian's and Fedora's lie there
    places += [Path(path) for path in (apart, "/usr/share/python-wheels") if path]
    found = [wheel for place in places for wheel in sorted(place.glob("pip-*.whl"))]
    return found[0] if found else None


def put_pip(unpacked: Path, folder: Path) -> None:
    """Put an unpacked pip into a Python: its files are linked where the file system lets them be.

    Raises:
        OSError: something cannot be written.
    """
    packages = _packages(folder)
    for path in unpacked.glob("pip*"):
        shutil.copytree(path, packages / path.name, copy_function=_link_or_copy)
    for name in ("pip", "pip3", NAME.replace("python", "pip")):
        script = folder / "bin" / name
        script.write_text(_PIP_SCRIPT.format(program=folder / "bin" / NAME))
        script.chmod(0o755)


def _packages(folder: Path) -> Path:
    """Return where packages are installed."""
    return folder / "lib" / NAME / ("dist-packages" if _IS_OF_DEBIAN else "site-packages")


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        shutil.copy2(source, target)
