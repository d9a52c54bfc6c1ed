"""A PostgreSQL of one test, which may do to it what happens to databases."""

import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, LiteralString

import psycopg

from tests.tools import servers
from tests.tools.missing import is_missing
from tests.tools.waiting import wait_for


@dataclass
class PostgresServer:
    """Attributes: what is on the stack is what runs."""

    server: servers.Postgres
    _stack: ExitStack

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def has_ended(self) -> bool:
        """By itself, as it does where it cannot go on."""
        return not (self.server.data / "postmaster.pid").exists()

    @property
    def _processes(self) -> list[int]:
        """The server and one process for each connection."""
        first = int((self.server.data / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
        return [first, *map(int, children)]

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """It stands still, with all its connections open."""
        # The server itself first: from then on none of its processes is new, and none vanishes.
        first = self._processes[0]
        os.kill(first, signal.SIGSTOP)
        wait_for("it stands still", lambda: _state(first) == "T")
        stopped = self._processes
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)

    def stop(self, how: signal.Signals) -> None:
        """Ends it: by SIGINT as an operator does, by SIGQUIT as a crash does."""
        os.kill(self._processes[0], how)
        self._stack.close()

    def start(self) -> None:
        """After it was stopped, or has ended by itself."""
        self._stack.enter_context(self.server.running())

    @contextmanager
    def standby(self) -> Iterator["PostgresServer"]:
        """A copy that every commit waits for from now on."""
        copy = servers.Postgres(self.server.folder.with_name("standby"))
        where = ("--host=127.0.0.1", f"--port={self.server.port}", "--username=homeport")
        how = ("--checkpoint=fast", "--write-recovery-conf", "--no-sync")
        copy.run("pg_basebackup", *where, *how, f"--pgdata={copy.data}")
        with ExitStack() as stack:
            stack.enter_context(copy.running())
            self.run("ALTER SYSTEM SET synchronous_standby_names = '*'")
            self.run("SELECT pg_reload_conf()")
            state = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
            wait_for("commits wait for the copy", lambda: self.one(state) == 1)
            yield PostgresServer(copy, stack)

    def one(self, query: str) -> Any:
        """The only value that a query gives."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            row = connection.execute(query).fetchone()
        return None if row is None else row[0]

    def run(self, statement: LiteralString) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("SET default_transaction_read_only = off")
            connection.execute(statement)

    def connections(self) -> int:
        """How many there are besides the one that asks."""
        return self.one(
            "SELECT count(*) FROM pg_stat_activity "
            "WHERE datname = 'homeport' AND pid <> pg_backend_pid()"
        )

    def cut_all(self) -> None:
        """Ends every connection but the one that asks for it."""
        self.one(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE datname = 'homeport' AND pid <> pg_backend_pid()"
        )

    @contextmanager
    def without_connections(self) -> Iterator[None]:
        """Somebody else holds all that there may be."""
        most = int(self.one("SHOW max_connections"))
        with ExitStack() as held:
            self.cut_all()

            def has_all() -> bool:
                # Those that were cut off end a moment later.
                try:
                    while True:
                        held.enter_context(psycopg.connect(self.url, autocommit=True))
                        found.append(1)
                except psycopg.OperationalError:
                    return len(found) == most

            found: list[int] = []
            wait_for("all connections are held", has_all)
            yield


def _state(pid: int) -> str:
    """Of a process, as /proc has it: T when it is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@contextmanager
def postgres_server(place: Path | None = None, **settings: object) -> Iterator[PostgresServer]:
    """While the block runs; where there is no PostgreSQL, see `is_missing`.

    Args:
        place: where it keeps all that it has, readable by everybody; a new folder if None.
        settings: the server's.
    """
    with tempfile.TemporaryDirectory(prefix="homeport-database-") as name:
        folder = place or Path(name)
        folder.chmod(0o755)  # the server runs as somebody else than root
        try:
            with servers.running_postgres(folder / "postgres", **settings) as (server, stack):
                yield PostgresServer(server, stack)
        except servers.NoServerError as error:
            is_missing(str(error))
