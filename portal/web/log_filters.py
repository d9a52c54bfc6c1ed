"""What a line of the log leaves out."""

import logging
import time
from collections import defaultdict, deque
from collections.abc import Hashable

A_MINUTE = 3  # lines about each thing that a client can cause
MOST_CHARS = 500  # of such a line, as others' words may be in it
_MINUTE_S = 60.0
# What uvicorn says of what came.
_OF_UVICORN = {
    "Invalid HTTP request received.",
    "Unsupported upgrade request.",
    "Invalid UTF-8 sequence received from client.",
}
# Loggers of ours that speak while somebody's request is answered: whoever sends many has each told, and where a
# server that we ask does not work, whoever comes. `tests/portal/test_log_lines.py` finds those that are missing.
OF_REQUESTS = {
    "jobs.bundle_listing",
    "jobs.engine.dry_runs",
    "jobs.logs.consumers",
    "jobs.logs.sources",
    "jobs.logs.tail",
    "portal.server.bodies",
    "portal.server.tls",
    "portal.storage.folder_app",
    "tenants.people.oidc",
}


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


class OfClients(logging.Filter):
    """What whoever sends requests can cause, as often as they like: one line, below ERROR, a few a minute.

    For the handler, since a filter of a logger does not see what its children say. Failures of ours, and what
    Django says of a disk, database or object store that does not work, stay as they are.
    """

    def __init__(self) -> None:
        super().__init__()
        self._said_at: dict[Hashable, deque[float]] = defaultdict(lambda: deque(maxlen=A_MINUTE))

    def filter(self, record: logging.LogRecord) -> bool:
        cause = _cause_of(record)
        if cause is None:
            return True
        said_at, now = self._said_at[cause], time.monotonic()
        if len(said_at) == A_MINUTE and now - said_at[0] < _MINUTE_S:
            return False
        said_at.append(now)
        record.exc_info = record.exc_text = None
        record.msg, record.args = " ".join(record.getMessage().split())[:MOST_CHARS], ()
        # What ours call an error is a disk or a store that does not work: seldom told, and told as that.
        if record.levelno >= logging.ERROR and record.name not in OF_REQUESTS:
            record.levelno, record.levelname = logging.WARNING, "WARNING"
        return True


def _cause_of(record: logging.LogRecord) -> Hashable | None:
    """What a client did, of a number that has a bound; None: it was no client."""
    if record.name.startswith("django.security."):
        return record.name
    if record.name == "uvicorn.error" and record.msg in _OF_UVICORN:
        return record.msg
    if record.name == "django.request":
        status = getattr(record, "status_code", 500)
        # A refusal is an answer. What is answered for an error of ours comes with it.
        if status < 500 or (status == 503 and not record.exc_info):
            found = getattr(getattr(record, "request", None), "resolver_match", None)
            return status, getattr(found, "view_name", "")
    if record.name in OF_REQUESTS and not record.exc_info:
        return record.name, record.msg  # as it stands in the code, without what it is about
    return None
