"""A database that 0d1432e wrote, migrated by today's code: all that was shown is still shown."""

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.e2e.portal import ROOT
from tests.upgrade import dump
from tests.upgrade.looking import flat

LARGEST_SQL_BYTES = 300_000


def look(home: Path) -> dict[str, Any]:
    """What today's code shows of the restored and migrated database."""
    dump.restore(home)
    environment = {
        **{k: v for k, v in os.environ.items() if k not in ("DATABASE_URL", "TESTS_WITH_SERVERS")},
        "DJANGO_SETTINGS_MODULE": "portal.settings",
        "HOMEPORT_HOME": str(home),
    }
    run(environment, "-m", "deploy.prepare")
    found: dict[str, Any] = json.loads(
        run(environment, "tests/upgrade/looking.py", told=json.dumps(dump.record()))
    )
    return found


def run(environment: dict[str, str], *words: str, told: str = "") -> str:
    done = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env=environment,
        input=told,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


# Part of an address -> words that its page's own texts had, and that happen to be in some row, too.
REWORDED = {
    "/notebooks/": {"sign-in"},
    "/tensorboards/": {"sign-in"},
    "/audit/?q=nothing": {"everything"},
    "/admin/health/": {"It answers.", "change"},
    "/admin/namespaces/": {"grace"},
    "/reset/": {"New"},
}


def lacks(record: dict[str, Any], shown: dict[str, Any]) -> list[str]:
    """What was shown before, and is not shown now."""
    names, found = record["names"], []
    for address, before in record["shown"].items():
        after = shown[address]
        if after["status"] != before["status"]:
            found.append(f"{address}: {after['status']}, and it was {before['status']}")
        gone = {names[place] for place in {*before.get("names", ())} - {*after.get("names", ())}}
        gone -= {word for part, words in REWORDED.items() if part in address for word in words}
        if gone:
            found.append(f"{address} does not show {sorted(gone)[:5]}")
        if "json" in before:
            was, now = flat(before["json"]), flat(after.get("json"))
            lost = {
                key: (value, now.get(key))
                for key, value in was.items()
                # A replica of which nothing was told is told of today.
                if now.get(key) != value and not (key.endswith("/reason") and value == "")
            }
            if lost:
                found.append(f"{address} differs (before, now): {dict(list(lost.items())[:5])}")
    return found


# Models that are called otherwise today: they keep their types and permissions.
MOVED = {
    ("jobs", "job"): ("jobs", "workload"),
    ("jobs", "jobevent"): ("jobs", "workloadevent"),
    ("jobs", "usageinterval"): ("usage", "usageinterval"),
    ("tenants", "session"): ("people", "session"),
    ("tenants", "signincount"): ("people", "signincount"),
}


def permissions(home: Path) -> set[tuple[int, int, str, str, str]]:
    """Ids of permissions and of their content types, and what they are called."""
    database = sqlite3.connect(home / "homeport.sqlite3")
    try:
        return set(
            database.execute(
                "SELECT p.id, t.id, t.app_label, t.model, p.codename FROM auth_permission p"
                " JOIN django_content_type t ON t.id = p.content_type_id"
            )
        )
    finally:
        database.close()


def test_every_page_and_resource_shows_what_it_showed(tmp_path: Path) -> None:
    record, today = dump.record(), look(tmp_path)
    assert len(record["shown"]) > 400
    missing = lacks(record, today["shown"])
    assert not missing, "\n".join(missing[:40])
    assert today["signed_in"] == record["signed_in"] == record["people"]
    dump.restore(tmp_path / "before")
    expected = {
        (number, type_id, *MOVED.get((app, model), (app, model)), name)
        for number, type_id, app, model, name in permissions(tmp_path / "before")
    }
    now = permissions(tmp_path)
    assert expected <= now
    assert not {(app, model) for _, _, app, model, _ in now} & MOVED.keys()


def test_the_dump_stays_small() -> None:
    assert dump.SQL.stat().st_size < LARGEST_SQL_BYTES
