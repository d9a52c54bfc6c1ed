"""Whether the settings that docs/settings.md calls safe are: `check --deploy` says nothing of them.

`python -m tests.tools.documented_settings`, a part of `make check`.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def documented() -> dict[str, str]:
    """The environment of the example in docs/settings.md."""
    text = (ROOT / "docs" / "settings.md").read_text()
    _, _, after = text.partition("## By HTTPS")
    found = dict(re.findall(r"^    ([A-Z0-9_]+)=(\S+)", after, re.MULTILINE))
    assert found, "docs/settings.md has no example by HTTPS"
    return found


def problems() -> str:
    """What `check --deploy` says of them; empty: nothing."""
    with tempfile.TemporaryDirectory() as folder:
        given = {**documented(), "HOMEPORT_HOME": folder}
        for name in ("GATE_TLS_CERT_FILE", "GATE_TLS_KEY_FILE"):
            path = Path(folder, name)
            path.write_text("-")
            given[name] = str(path)
        kept = {k: os.environ[k] for k in ("PATH", "HOME") if k in os.environ}
        done = subprocess.run(
            [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"],
            cwd=ROOT,
            env={**kept, **given},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    told = f"{done.stdout}{done.stderr}".strip()
    return "" if done.returncode == 0 and "(0 silenced)" not in told and _is_silent(told) else told


def _is_silent(told: str) -> bool:
    return re.fullmatch(r"System check identified no issues \(\d+ silenced\)\.", told) is not None


if __name__ == "__main__":
    sys.exit(problems() or 0)
