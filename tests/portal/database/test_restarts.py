"""PostgreSQL is restarted, crashes and hands over to a copy under load: what was acknowledged is there, once."""

import itertools
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import requests

from homeport_client.rest import MAX_PAUSE_S
from tests.portal.postgres_server import PostgresServer, postgres_server
from tests.portal.whole import TRAINING, UNLIMITED, Whole, whole_portal
from tests.tools.waiting import wait_for

RESTARTS = 20
SUBMITTERS = 8
UNCHANGED = "nothing was changed"
ANSWER_S = 10.0
ON_DISK = {"max_connections": 100, "fsync": "on"}


@dataclass
class Load:
    """What became of trainings that are submitted all the time, each under a name of its own.

    Attributes:
        refused: name -> the words.
        wrong: answers that nobody should get, or nobody should wait for.
    """

    acknowledged: set[str] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    slowest_s: float = 0.0

    def note(self, name: str, answer: requests.Response) -> None:
        if answer.status_code == 201:
            self.acknowledged.add(name)
        elif answer.status_code == 503:
            self.refused[name] = text = answer.json()["errors"][0]["text"]
            # Or the command line would submit it again.
            if UNCHANGED not in text and int(answer.headers["Retry-After"]) <= MAX_PAUSE_S:
                self.wrong.append(text)
        else:
            self.wrong.append(f"{answer.status_code} {answer.text[:300]}")
        took_s = answer.elapsed.total_seconds()
        self.slowest_s = max(self.slowest_s, took_s)
        if took_s > ANSWER_S:
            self.wrong.append(f"{answer.status_code} after {took_s:.1f} s")

    def goes_on(self) -> None:
        """Waits until trainings are acknowledged that were submitted after this began."""
        enough = len(self.acknowledged) + SUBMITTERS + 1
        wait_for("it is well", lambda: len(self.acknowledged) >= enough)

    def is_refused(self) -> None:
        enough = len(self.refused) + SUBMITTERS
        wait_for("all are refused", lambda: len(self.refused) >= enough)

    def check(self, database: PostgresServer) -> None:
        found = database.one(
            "SELECT json_object_agg(name, many) FROM "
            "(SELECT name, count(*) AS many FROM jobs_workload GROUP BY name) AS names"
        )
        assert not self.wrong
        assert self.acknowledged <= found.keys()
        assert set(found.values()) == {1}
        unchanged = {name for name, text in self.refused.items() if UNCHANGED in text}
        assert not unchanged & found.keys()
        recorded = "SELECT count(*) FROM tenants_auditentry WHERE verb = 'submit'"
        assert database.one(recorded) == len(found)
        in_doubt = self.refused.keys() - unchanged
        print(
            f"{len(self.acknowledged)} acknowledged, {len(self.refused)} refused, of them "
            f"{len(in_doubt)} in doubt, {len(in_doubt & found.keys())} there, slowest {self.slowest_s:.1f} s"
        )


@contextmanager
def submitting(portal: Whole) -> Iterator[Load]:
    load, over, numbers = Load(), threading.Event(), itertools.count()

    def submit() -> None:
        with requests.Session() as session:
            session.headers.update(portal.rest_headers)
            while not over.is_set():
                name = f"training-{next(numbers)}"
                training = {**TRAINING, "name": name}
                try:
                    answer = session.post(f"{portal.url}/api/v1/jobs/", json=training, timeout=30)
                except requests.RequestException as error:
                    load.wrong.append(str(error))
                else:
                    load.note(name, answer)
                    over.wait(0.02 if answer.status_code == 503 else 0)

    threads = [threading.Thread(target=submit) for _ in range(SUBMITTERS)]
    for thread in threads:
        thread.start()
    try:
        yield load
    finally:
        over.set()
        for thread in threads:
            thread.join()


def test_it_is_restarted_and_crashes(tmp_path: Path) -> None:
    with (
        postgres_server(**ON_DISK) as database,
        whole_portal(tmp_path, DATABASE_URL=database.url, **UNLIMITED) as portal,
    ):
        with submitting(portal) as load:
            for number in range(RESTARTS):
                load.goes_on()
                database.stop(signal.SIGINT if number % 2 else signal.SIGQUIT)
                load.is_refused()
                database.start()
            load.goes_on()
        load.check(database)


def test_it_is_lost_and_a_copy_takes_over(tmp_path: Path) -> None:
    with postgres_server(**ON_DISK) as database, database.standby() as standby:
        hosts = f"127.0.0.1:{database.server.port},127.0.0.1:{standby.server.port}"
        url = f"postgres://homeport@{hosts}/homeport?target_session_attrs=read-write"
        with (
            whole_portal(tmp_path, DATABASE_URL=url, **UNLIMITED) as portal,
            ExitStack() as lost,
        ):
            with submitting(portal) as load:
                load.goes_on()
                lost.enter_context(database.hanging())
                load.is_refused()
                assert standby.one("SELECT pg_promote()")
                load.goes_on()
            load.check(standby)
