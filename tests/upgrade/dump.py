"""The committed database of 0d1432e: puts it back as if it had been written just now."""

import base64
import json
import re
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SQL = HERE / "dump_0d1432e.sql"
RECORD = HERE / "dump_0d1432e.json"
# As SQLite keeps a time, and as JSON columns do.
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)([ T])(\d\d:\d\d:\d\d)(\.\d+)?(Z|\+00:00)?(?=['\"])")


def record() -> dict[str, Any]:
    """`made_at`, `store`, `wanted`, `names` and `shown`, as `make_dump.py` wrote them."""
    found: dict[str, Any] = json.loads(RECORD.read_text())
    return found


def moved(text: str, by: timedelta) -> str:
    """SQL with every time in it later by so much."""

    def later(match: re.Match[str]) -> str:
        day, between, clock, fraction, zone = match.groups(default="")
        at = datetime.fromisoformat(f"{day} {clock}") + by
        return f"{at:%Y-%m-%d}{between}{at:%H:%M:%S}{fraction}{zone}"

    return _TIME.sub(later, text)


def restore(home: Path) -> None:
    """Makes the database and the store in an empty HOMEPORT_HOME."""
    found = record()
    by = datetime.now(UTC) - datetime.fromisoformat(found["made_at"])
    home.mkdir(parents=True, exist_ok=True)
    database = sqlite3.connect(home / "homeport.sqlite3")
    database.executescript(moved(SQL.read_text(), timedelta(seconds=int(by.total_seconds()))))
    database.close()
    for key, content in found["store"].items():
        path = home / "store" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(content))
