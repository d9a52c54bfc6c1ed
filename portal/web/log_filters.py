"""What a line of the log leaves out."""

import logging
import time

_MINUTE_S = 60.0


class OnceAMinute(logging.Filter):
    """One line a minute of each logger, its cause in place of the traceback: for what fails again each second."""

    def __init__(self) -> None:
        super().__init__()
        self._said_at: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now = time.monotonic()
        if now - self._said_at.get(record.name, float("-inf")) < _MINUTE_S:
            return False
        self._said_at[record.name] = now
        if record.exc_info:
            record.msg, record.args = f"{record.getMessage()}: {record.exc_info[1]}", ()
            record.exc_info = record.exc_text = None
        return True


class KnownCause(logging.Filter):
    """Leaves out the traceback of what is answered as a refusal: a full disk, no database."""

    def filter(self, record: logging.LogRecord) -> bool:
        from portal.web import refusals  # needs Django, which sets up logging first

        error = record.exc_info[1] if record.exc_info else None
        if refusals.find(error) is not None:
            record.msg, record.args = f"{record.getMessage()}: {error}", ()
            record.exc_info = record.exc_text = None
        return True


class OneLine(logging.Filter):
    """Leaves out the traceback: for refusals that anybody can cause as often as they like."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.exc_info = None
        record.exc_text = None
        return True
