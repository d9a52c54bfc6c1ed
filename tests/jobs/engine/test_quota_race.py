"""However many ask at once, and whoever admits, no more GPUs are given away than the quota has."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.jobs.engine.quota_race import ROOM, THREADS

ROOT = Path(__file__).resolve().parents[3]


@contextmanager
def database(folder: Path) -> Iterator[dict[str, str]]:
    """The environment of a process with a new database: a file, or one of the server of the tests."""
    settings = {
        **os.environ,
        "HOMEPORT_HOME": str(folder),
        "DJANGO_SETTINGS_MODULE": "portal.settings",
    }
    (folder / "static").mkdir()
    url = os.environ.get("DATABASE_URL", "")  # tests/settings.py lets no other one through
    if not url:
        yield settings
        return
    import psycopg

    name = f"quota_race_{os.getpid()}"
    with psycopg.connect(url, autocommit=True) as server:
        server.execute(f'CREATE DATABASE "{name}"')
        try:
            yield {**settings, "DATABASE_URL": urlsplit(url)._replace(path=f"/{name}").geturl()}
        finally:
            server.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.mark.parametrize(
    ("rounds", "reconcilers"),
    [
        (20, 1),
        (20, 2),
        pytest.param(100, 1, marks=pytest.mark.slow),
        pytest.param(100, 2, marks=pytest.mark.slow),
    ],
)
def test_exactly_the_quota_is_given_away(tmp_path: Path, rounds: int, reconcilers: int) -> None:
    with database(tmp_path) as environment:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "tests.jobs.engine.quota_race",
                str(rounds),
                str(reconcilers),
            ],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=1500,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["vendor"] == ("postgresql" if os.environ.get("DATABASE_URL") else "sqlite")
    # After every commit of a reconciler, and in the cluster.
    assert found["most"] == ROOM
    assert found["most_pods"] == ROOM
    assert found["settled"] == {str(ROOM): rounds}
    # Nobody's request was lost, and both kinds had their share.
    kinds = found["kinds"]
    assert sum(kinds.values()) == rounds * THREADS
    assert kinds["job"]
    assert kinds["notebook"]
    # They really fought.
    assert (found["lost"] > rounds) == (reconcilers > 1)
