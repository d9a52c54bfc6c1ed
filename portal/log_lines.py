"""Lines of the log as JSON (`LOG_FORMAT=json`), with what is known of the work that each comes from.

Who begins a piece of work, or finds out whose it is, says so by `note`; every line that is logged in the
same task or thread, and in what these start, tells it from then on.
"""

import io
import logging
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

from pythonjsonlogger.json import JsonFormatter

KEYS = ("request_id", "user_id", "tenant", "job", "epoch")
_known: ContextVar[dict[str, Any]] = ContextVar("known")


def note(**known: Any) -> None:
    """What of `KEYS` is known from here on; an empty value is known no longer."""
    _known.set({**_known.get({}), **known})


class JsonLines(JsonFormatter):
    """One object a line: `time`, `level`, `logger`, `message`, and those of `KEYS` that are known.

    A traceback is the rest of its message. Nothing else that a library says beside its message is
    taken, for a whole request with its cookies may be there.
    """

    def add_fields(
        self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]
    ) -> None:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        message = "\n".join(str(text) for text in (record.message, *message_dict.values()) if text)
        log_data.update(time=at, level=record.levelname, logger=record.name, message=message)
        known = {**_known.get({}), **vars(record)}  # of a line alone: `extra={"job": ...}`
        log_data.update({key: known[key] for key in KEYS if known.get(key)})


class LogStream(io.TextIOBase):
    """A stream that takes each text written to it as a message of the level ERROR."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log

    def write(self, text: str, /) -> int:
        if text.strip():
            self._log.error("%s", text.strip())
        return len(text)
