"""A database backend like Django's own, in which no writer of a process overtakes another.

SQLite has one writer at a time. The others ask again and again, each after sleeps that grow to 100 ms
(https://www.sqlite.org/c3ref/busy_timeout.html), so whoever asks at the right moment is next: under
many writers some find it locked each time, until their time is over. Here the threads of a process
stand in one line before they ask SQLite, which then has to arbitrate only between processes.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db.backends.sqlite3 import base

from portal.database.sqlite.turns import Turns

_WRITES = ("INSERT", "UPDATE", "DELETE", "REPLACE")
_TIMEOUT_S = 5.0  # SQLite's own in Python, when DATABASES says none

_turns: dict[str, Turns] = {}  # by the file's path


class DatabaseWrapper(base.DatabaseWrapper):
    """A turn lasts as long as a transaction, or as a statement that writes outside of one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._turns = _turns.setdefault(str(self.settings_dict["NAME"]), Turns())
        self._has_turn = False
        self.execute_wrappers.append(self._execute_in_turn)

    def _start_transaction_under_autocommit(self) -> None:
        self._take_turn()
        try:
            super()._start_transaction_under_autocommit()  # type: ignore[misc]
        except BaseException:
            self._give_turn_back()
            raise

    def _commit(self) -> None:
        super()._commit()  # type: ignore[misc]  # failing, it is rolled back
        self._give_turn_back()

    def _rollback(self) -> None:
        try:
            super()._rollback()  # type: ignore[misc]
        finally:
            self._give_turn_back()

    def _close(self) -> None:
        try:
            super()._close()  # type: ignore[misc]
        finally:
            self._give_turn_back()

    def _execute_in_turn(
        self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any
    ) -> Any:
        if self._has_turn or not sql.lstrip().upper().startswith(_WRITES):
            return execute(sql, params, many, context)
        with self._turn():
            return execute(sql, params, many, context)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        self._take_turn()
        try:
            yield
        finally:
            self._give_turn_back()

    def _take_turn(self) -> None:
        """
        Raises:
            OperationalError: those before it did not end within the time that SQLite would wait.
        """
        if self.is_in_memory_db():  # one connection has it, or all share a lock that never waits
            return
        timeout_s = self.settings_dict["OPTIONS"].get("timeout", _TIMEOUT_S)
        with self.wrap_database_errors:
            if not self._turns.take(timeout_s):
                busy = sqlite3.OperationalError("database is locked")
                busy.sqlite_errorname = "SQLITE_BUSY"
                raise busy
        self._has_turn = True

    def _give_turn_back(self) -> None:
        if self._has_turn:
            self._has_turn = False
            self._turns.give_back()
