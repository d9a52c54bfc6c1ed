"""What lies in Go modules of others, for tests that run or read it as it is."""

import json
import os
import subprocess
import tempfile
from pathlib import Path
from zipfile import ZipFile

from deploy.testcluster.binaries import GO_SETTINGS, NoBinariesError, go
from tests.tools.missing import is_missing


def file_of_module(module: str, name: str, folder: Path) -> Path:
    """A file of a module, put into a folder; Go fetches the module once and checks its sum.

    Args:
        module: with its version, `host/path@v1.2.3`.
        name: path of the file within the module.
    """
    try:
        command = [go(), "mod", "download", "-json", module]
    except NoBinariesError as error:
        is_missing(str(error))
    with tempfile.TemporaryDirectory() as nowhere:  # no go.mod above it has a say
        done = subprocess.run(
            command,
            env={**os.environ, **GO_SETTINGS},
            cwd=nowhere,
            capture_output=True,
            check=False,
        )
    found = json.loads(done.stdout or "{}")
    assert "Zip" in found, f"{module}: {found.get('Error')} {done.stderr.decode()[-1000:]}"
    target = folder / Path(name).name
    with ZipFile(found["Zip"]) as packed:
        target.write_bytes(packed.read(f"{module}/{name}"))
    return target
