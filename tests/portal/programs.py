"""Programs of this checkout, run to their end with an installation of their own."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def environ_of(home: Path, **settings: str) -> dict[str, str]:
    """The test run's own with these settings, but for its database."""
    kept = {name: text for name, text in os.environ.items() if name != "DATABASE_URL"}
    own = {"DJANGO_SETTINGS_MODULE": "portal.settings", "HOMEPORT_HOME": str(home)}
    return {**kept, **own, **settings}


def program(home: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """What became of it and what it said; `arguments` follow the interpreter."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=environ_of(home, **settings),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
