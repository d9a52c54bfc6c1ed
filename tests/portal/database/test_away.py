"""A database that hangs, is full, was cut off or takes no writes: 503 in words within 10 s, and it heals."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from tests.portal.postgres_server import PostgresServer, postgres_server
from tests.portal.whole import Whole, whole_portal
from tests.tools.waiting import wait_for

ANSWER_S = 10.0
HEALED_S = 30.0
AT_ONCE = 40  # twice as many as there are threads


@pytest.fixture(scope="module")
def database() -> Iterator[PostgresServer]:
    with postgres_server(max_connections=100) as made:
        yield made


@pytest.fixture(scope="module")
def portal(database: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    home = tmp_path_factory.mktemp("away")
    with whole_portal(home, DATABASE_URL=database.url) as whole:
        yield whole


def trainings(portal: Whole) -> int:
    return int(portal.rest("GET", "jobs/").json()["count"])


def all_are_refused(portal: Whole) -> None:
    """Submits, pages and probes, many at once."""

    def ask(number: int) -> tuple[requests.Response, float]:
        began = time.monotonic()
        if number % 3 == 0:
            answer = portal.submit()
        elif number % 3 == 1:
            answer = requests.get(f"{portal.url}/", headers=portal.page_headers, timeout=30)
        else:
            answer = requests.get(f"{portal.url}/readyz", timeout=30)
        return answer, time.monotonic() - began

    with ThreadPoolExecutor(AT_ONCE) as threads:
        for answer, took_s in threads.map(ask, range(AT_ONCE)):
            assert answer.status_code == 503, answer.text
            assert took_s < ANSWER_S
            assert "does not answer" in answer.text or "cannot be used" in answer.text


def test_one_that_hangs(portal: Whole, database: PostgresServer) -> None:
    assert portal.submit().status_code == 201
    before = trainings(portal)
    with database.hanging():
        all_are_refused(portal)
        began = time.monotonic()
        assert requests.get(f"{portal.url}/healthz", timeout=30).ok
        assert portal.submit().json()["errors"][0]["code"] == "database_unavailable"
        assert time.monotonic() - began < 2  # it is known by now
    wait_for("it is well", lambda: portal.submit().status_code == 201, timeout_s=HEALED_S)
    assert trainings(portal) == before + 1
    assert requests.get(f"{portal.url}/", headers=portal.page_headers, timeout=30).ok


def test_one_whose_connections_somebody_else_holds(portal: Whole, database: PostgresServer) -> None:
    before = trainings(portal)
    with database.without_connections():
        all_are_refused(portal)
    wait_for("it is well", lambda: portal.submit().status_code == 201, timeout_s=HEALED_S)
    assert trainings(portal) == before + 1
    assert requests.get(f"{portal.url}/", headers=portal.page_headers, timeout=30).ok


def test_one_that_takes_no_writes(portal: Whole, database: PostgresServer) -> None:
    before = trainings(portal)
    database.run("ALTER DATABASE homeport SET default_transaction_read_only = on")
    database.cut_all()
    refused = portal.submit()
    assert refused.status_code == 503, refused.text
    assert "nothing was changed" in refused.json()["errors"][0]["text"]
    assert trainings(portal) == before
    database.run("ALTER DATABASE homeport RESET default_transaction_read_only")
    database.cut_all()
    wait_for("it is well", lambda: portal.submit().status_code == 201, timeout_s=HEALED_S)


def test_one_that_was_cut_off(portal: Whole, database: PostgresServer) -> None:
    for _ in range(3):
        database.cut_all()
        assert trainings(portal) > 0
