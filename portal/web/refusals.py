"""What is said when the database, the disk, the object store or the catalog is why something cannot be done.

`find` tells these from mistakes of our own, which stay 500. The views of errors use it, and so do
the ASGI layers outside of Django: `send_refusal` needs neither database, session nor thread.
"""

import errno
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import django.db
from django.conf import settings
from django.core.exceptions import RequestDataTooBig, TooManyFieldsSent, TooManyFilesSent
from django.template.loader import get_template
from django.utils.translation import gettext_lazy as _

from portal.asgi_answer import CLOSE, Message, Send, retry_after, send_answer
from portal.database import schema
from portal.database.postgres import commits
from portal.errors import ConfigurationError
from portal.room import NO_ROOM
from portal.storage.store import ObjectMismatchError, ObjectMissingError, StoreError

_RETRY_S = 5
_OF_THE_OBJECT = (ObjectMissingError, ObjectMismatchError)  # the store itself is well
# Of a file system that somebody else has to mend, where it was met while a file was being written.
_BROKEN = frozenset({errno.EROFS, errno.EIO, errno.ESTALE, errno.ENOTCONN})
_SQLITE_FULL = frozenset({"SQLITE_FULL", "SQLITE_IOERR_SHMSIZE", "SQLITE_IOERR_WRITE"})
# Others of SQLite's OperationalErrors are mistakes in a statement.
_SQLITE_AWAY = (
    "SQLITE_BUSY",
    "SQLITE_LOCKED",
    "SQLITE_IOERR",
    "SQLITE_CANTOPEN",
    "SQLITE_READONLY",
)
# PostgreSQL's codes.
_READ_ONLY = "25006"  # Django calls it an InternalError
_DISK_FULL = "53100"
# No such column, no such table, a value missing: a mistake in a statement, or tables of another version.
_OTHER_TABLES = frozenset({"42703", "42P01", "23502"})


@dataclass(frozen=True)
class Refusal:
    """Status and words of an answer, in the language that is active when they are printed.

    Attributes:
        retry_s: when it is worth another try; 0: nobody knows.
    """

    status: int
    code: str
    title: Any
    text: Any
    retry_s: int = 0


DATABASE_AWAY = Refusal(
    503,
    "database_unavailable",
    _("The database does not answer"),
    _("Homeport's database cannot be used right now, so nothing was changed. Try again soon."),
    _RETRY_S,
)
UPGRADING = Refusal(
    503,
    "upgrading",
    _("Homeport is being upgraded"),
    _(
        "Homeport's database is being brought to another version, so nothing was changed. Try again soon."
    ),
    _RETRY_S,
)
IN_DOUBT = Refusal(
    503,
    "in_doubt",
    _("The database does not answer"),
    _(
        "Homeport's database stopped answering in the middle of this: it may have been done or not. "
        "Look before you try again."
    ),
    # Longer than the command line waits to ask again by itself, for that could be to do it twice.
    120,
)
BUSY = Refusal(
    503,
    "busy",
    _("Too much at once"),
    _("Homeport is busy and could not take this, so nothing was changed. Try again soon."),
    _RETRY_S,
)
DISK_FULL = Refusal(
    507,
    "disk_full",
    _("The disk is full"),
    _(
        "Homeport's disk has no room left, so this could not be kept. Delete trainings that are "
        "no longer needed, or tell an admin."
    ),
)

STORE_AWAY = Refusal(
    503,
    "store_unavailable",
    _("The object store does not answer"),
    _(
        "Homeport's object store, which keeps code, logs and files, cannot be used right now, so "
        "this was not done. Try again soon."
    ),
    _RETRY_S,
)

CATALOG_WRONG = Refusal(
    503,
    "catalog_wrong",
    _("The catalog cannot be used"),
    _(
        "Homeport's catalog of images, sizes and quotas cannot be read, so this was not done. What runs "
        "is not affected. Tell an admin: the health page says what is wrong."
    ),
)


def database_away() -> Refusal:
    """What is said of a database that failed while the request of this context was answered."""
    return IN_DOUBT if commits.have_begun() else DATABASE_AWAY


def find(error: BaseException | None) -> Refusal | None:
    """The refusal that an exception, or what caused it, stands for; None: it is a mistake of ours."""
    for one in _causes(error):
        if isinstance(one, ConfigurationError) and one.is_catalog:
            return CATALOG_WRONG
        if isinstance(one, OSError) and one.errno in NO_ROOM:
            return DISK_FULL
        if isinstance(one, StoreError) and not isinstance(one, _OF_THE_OBJECT):
            return STORE_AWAY
        if isinstance(one, OSError) and one.errno in _BROKEN:
            return STORE_AWAY
        if isinstance(one, django.db.Error):
            found = _of_database(one)
            if found is not None:
                return found
    return None


@contextmanager
def if_there_is_room() -> Iterator[None]:
    """Around writes of a request that only reads: a full disk does not refuse it."""
    try:
        yield
    except django.db.Error as error:
        if find(error) is not DISK_FULL:
            raise


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _of_database(error: django.db.Error) -> Refusal | None:
    name = getattr(error.__cause__, "sqlite_errorname", None)
    if name is not None:
        if name in _SQLITE_FULL:
            return DISK_FULL
        return DATABASE_AWAY if name.startswith(_SQLITE_AWAY) else None
    code = getattr(error.__cause__, "sqlstate", None)
    if code == _DISK_FULL:
        return DISK_FULL
    if code in _OTHER_TABLES and not commits.have_begun() and schema.differs():
        return UPGRADING
    is_away = isinstance(error, (django.db.OperationalError, django.db.InterfaceError))
    if is_away or code == _READ_ONLY:
        return database_away()
    return None


def form_limit(error: BaseException) -> Any | None:
    """Which limit of a form was passed, as a sentence; None: none was."""
    if isinstance(error, RequestDataTooBig):
        most = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        return _("A form has at most %(most)s bytes besides its files.") % {"most": f"{most:,}"}
    if isinstance(error, TooManyFieldsSent):
        most = settings.DATA_UPLOAD_MAX_NUMBER_FIELDS
        return _("A request has at most %(most)s fields.") % {"most": f"{most:,}"}
    if isinstance(error, TooManyFilesSent):
        most = settings.DATA_UPLOAD_MAX_NUMBER_FILES
        return _("A form has at most %(most)s files.") % {"most": f"{most:,}"}
    return None


def body_of(refusal: Refusal, path: str, *, is_part: bool) -> tuple[str, bytes]:
    """Content type and body: JSON below `/api/` and `/internal/`, a page or a line elsewhere.

    Args:
        is_part: htmx asks, and shows the line where the person looks.
    """
    if path.startswith(("/api/", "/internal/")):
        error = {"field": "", "code": refusal.code, "text": str(refusal.text)}
        return "application/json", json.dumps({"errors": [error]}).encode()
    if is_part:
        return "text/plain; charset=utf-8", str(refusal.text).encode()
    page = get_template("error_alone.html").render({"refusal": refusal})
    return f"text/html; charset={settings.DEFAULT_CHARSET}", page.encode()


async def send_refusal(scope: Message, send: Send, refusal: Refusal) -> None:
    """Answers a request outside of Django; the connection ends, for its body may be unread."""
    is_part = (b"hx-request", b"true") in scope["headers"]
    content_type, body = body_of(refusal, scope["path"], is_part=is_part)
    headers = [(b"cache-control", b"no-store"), CLOSE, *retry_after(refusal.retry_s)]
    await send_answer(send, refusal.status, body, content_type.encode(), headers)
