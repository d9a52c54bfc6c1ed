"""Builds the wheel of the command line with nothing but the standard library.

A build backend of PEP 517 and 660, named in jobs/client/pyproject.toml: so a checkout can be
installed without a network for build tools. `python homeport_wheel.py FOLDER` writes the same wheel,
which the portal offers for download. Equal sources give equal bytes.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import re
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PACKAGE = "homeport_client"
SOURCE = Path(__file__).resolve().parents[1] / PACKAGE
PYTHON = ">=3.9"
REQUIRES = (
    "urllib3>=2.2,<3",  # HTTP
    "websockets>=15",  # logs and changes
    "PyYAML>=6",  # job files, -o yaml
)
SUMMARY = "The command line of Homeport, a portal over Kubernetes for machine-learning teams"
ENTRY_POINTS = f"[console_scripts]\nhomeport = {PACKAGE}.__main__:main\n"
EPOCH = (1980, 1, 1, 0, 0, 0)  # zip knows no earlier time


def version() -> str:
    """The version that the package says."""
    found = re.search(r'^__version__ = "([0-9a-z.]+)"$', _init(), re.MULTILINE)
    assert found is not None, "jobs/client/__init__.py names no version"
    return found[1]


def _init() -> str:
    return (SOURCE / "__init__.py").read_text(encoding="utf-8")


def _info_folder() -> str:
    return f"{PACKAGE}-{version()}.dist-info"


def _modules() -> dict[str, bytes]:
    return {f"{PACKAGE}/{path.name}": path.read_bytes() for path in sorted(SOURCE.glob("*.py"))}


def _information() -> dict[str, bytes]:
    metadata = [
        "Metadata-Version: 2.1",
        "Name: homeport-client",
        f"Version: {version()}",
        f"Summary: {SUMMARY}",
        "License: Apache-2.0",
        f"Requires-Python: {PYTHON}",
        *(f"Requires-Dist: {requirement}" for requirement in REQUIRES),
    ]
    wheel = "Wheel-Version: 1.0\nGenerator: homeport\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    return {
        f"{_info_folder()}/METADATA": ("\n".join(metadata) + "\n").encode(),
        f"{_info_folder()}/WHEEL": wheel.encode(),
        f"{_info_folder()}/entry_points.txt": ENTRY_POINTS.encode(),
    }


def _write(folder: str, files: Mapping[str, bytes]) -> str:
    """A wheel of these files; its name."""
    record = io.StringIO()
    name = f"{PACKAGE}-{version()}-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        for path, data in files.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.write(f"{path},sha256={digest},{len(data)}\n")
            _add(wheel, path, data)
        path = f"{_info_folder()}/RECORD"
        record.write(f"{path},,\n")
        _add(wheel, path, record.getvalue().encode())
    return name


def _add(wheel: zipfile.ZipFile, path: str, data: bytes) -> None:
    info = zipfile.ZipInfo(path, EPOCH)
    info.external_attr = 0o644 << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    wheel.writestr(info, data)


# --- what installers call (https://peps.python.org/pep-0517/, pep-0660) ---------------------------


def build_wheel(
    wheel_directory: str,
    config_settings: Mapping[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """The wheel."""
    return _write(wheel_directory, {**_modules(), **_information()})


def build_editable(
    wheel_directory: str,
    config_settings: Mapping[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """A wheel whose package lies in this checkout: what is changed here holds at once."""
    init = f"{_init()}\n__path__ = [{str(SOURCE)!r}]\n"
    return _write(wheel_directory, {f"{PACKAGE}/__init__.py": init.encode(), **_information()})


def build_sdist(sdist_directory: str, config_settings: Mapping[str, Any] | None = None) -> str:
    """The sources as an archive."""
    base = f"{PACKAGE}-{version()}"
    files = {"pyproject.toml": SOURCE / "pyproject.toml"}
    files.update({path.name: path for path in sorted(SOURCE.glob("*.py"))})
    files.update(
        {f"packaging/{path.name}": path for path in sorted((SOURCE / "packaging").glob("*.py"))}
    )
    metadata = _information()[f"{_info_folder()}/METADATA"]
    with tarfile.open(os.path.join(sdist_directory, f"{base}.tar.gz"), "w:gz") as archive:
        for name, data in [
            ("PKG-INFO", metadata),
            *((name, path.read_bytes()) for name, path in files.items()),
        ]:
            info = tarfile.TarInfo(f"{base}/{name}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return f"{base}.tar.gz"


if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    build_wheel(sys.argv[1])
