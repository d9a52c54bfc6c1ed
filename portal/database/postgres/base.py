"""A database backend like Django's own, in which no question waits for its answer without end.

libpq's time limits end a connection whose other side is gone, but a server that was stopped, or
that stands still on a dead disk, still acknowledges every packet. So here the client counts as well:
the connection is closed, the question fails as it does when a connection is cut, and `outage` knows.
A statement that merely takes long is ended by the server itself, a moment earlier.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import psycopg
from django.db.backends.postgresql import base
from psycopg.pq import TransactionStatus

from portal.database.postgres import commits
from portal.database.postgres.outage import outage
from portal.database.postgres.patience import patience

_MARGIN_S = 1.0  # for the server to end a statement by itself
_ASK_S = 2  # of a server that hung; libpq takes whole seconds, two at least
_TIMED_OUT = "connection timeout expired"  # psycopg's words, also for one of several servers
_IDLE_S = 60.0  # a transaction that says nothing for so long holds its locks for nobody


class Connection(psycopg.Connection[Any]):
    """One that is closed when an answer does not come in time."""

    is_back: Callable[[], bool] | None = None

    def wait(self, gen: Any, *args: Any, **kwargs: Any) -> Any:
        statement_s = patience.statement_s
        if statement_s is None or kwargs.get("timeout") is not None:
            return super().wait(gen, *args, **kwargs)
        kwargs["timeout"] = statement_s + _MARGIN_S
        try:
            return super().wait(gen, *args, **kwargs)
        except psycopg.OperationalError:
            # An error of the server's, or a cut, ends the statement; this one is still under way.
            if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                self.pgconn.finish()
                if self.is_back is not None:
                    outage.begin(self.is_back)
            raise


class _Driver:
    """psycopg as Django's backend uses it, but for the class of its connections."""

    connect = staticmethod(Connection.connect)

    def __getattr__(self, name: str) -> Any:
        return getattr(psycopg, name)


class DatabaseWrapper(base.DatabaseWrapper):
    """Named in `DATABASES` by its package, `portal.database.postgres`."""

    Database = _Driver()  # type: ignore[assignment]  # a module, for all that Django asks of it

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        if patience.statement_s is None:
            return super().get_new_connection(conn_params)
        if outage.is_on:
            raise psycopg.OperationalError("the database hangs; it is asked each second")
        is_back = partial(_answers, conn_params | {"connect_timeout": _ASK_S})
        try:
            connection = super().get_new_connection(conn_params)
        except psycopg.OperationalError as error:
            if _TIMED_OUT in str(error):
                outage.begin(is_back)
            raise
        connection.is_back = is_back
        return connection

    def _commit(self) -> None:
        commits.begin()
        super()._commit()  # type: ignore[misc]  # it has no types

    def init_connection_state(self) -> None:
        super().init_connection_state()
        statement_s = patience.statement_s
        if statement_s is not None and self.connection is not None:
            self.connection.execute(
                "SELECT set_config('statement_timeout', %s, false), "
                "set_config('idle_in_transaction_session_timeout', %s, false)",
                [str(int(statement_s * 1000)), str(int(_IDLE_S * 1000))],
            )


def _answers(parameters: dict[str, Any]) -> bool:
    """Whether the server can be asked something; in a thread of its own."""
    patience.of_thread = _ASK_S - _MARGIN_S
    try:
        with Connection.connect(**parameters) as connection:
            connection.execute("SELECT 1")
    except psycopg.Error:
        return False
    return True
