"""What every object store can do, whatever it keeps objects in.

Everything here blocks: call it from a thread, never from the event loop. Keys are made by us only
and begin with the tenant's id, so that one prefix holds all that a tenant has.
"""

import functools
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from portal import metrics, room
from portal.storage.waiting import Waiting

CHUNK_BYTES = 1024**2  # of what is written
READ_BYTES = 64 * 1024  # of what is read: each of those who take nothing has a few in our memory
LINK_TTL_S = 600
_MAX_KEY = 300  # as long as the columns that keep keys
_COUNTED = {"put_file", "open", "find_size", "delete", "delete_prefix", "take", "waiting"}
_KEY_PART = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


class StoreError(Exception):
    """The store cannot do what was asked, and another time it may: it is read-only, away, or refuses
    us; the text says what and which key."""


class ObjectMissingError(StoreError):
    """There is nothing under this key."""


class ObjectMismatchError(StoreError):
    """The bytes that came are not those that were announced."""


@dataclass(frozen=True)
class Link:
    """How to read or write one object without any other credentials, for a short time."""

    url: str
    method: str
    headers: dict[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {"url": self.url, "method": self.method, "headers": self.headers}


class Readable(Protocol):
    """An open binary file, or an upload."""

    def read(self, size: int = ..., /) -> bytes: ...


def check_key(key: str) -> str:
    """The key itself.

    Raises:
        StoreError: it could name something outside the store, or is too long.
    """
    parts = key.split("/")
    if len(key) > _MAX_KEY or not all(_KEY_PART.fullmatch(part) for part in parts):
        raise StoreError(f"{key[:80]!r} is not a key of the object store")
    return key


def check_prefix(prefix: str) -> str:
    """The prefix itself, which names whole parts: it ends with a slash.

    Raises:
        StoreError: no slash at its end, or not the beginning of a key.
    """
    if not prefix.endswith("/"):
        raise StoreError(f"{prefix[:80]!r} must end with / to name a prefix")
    check_key(prefix[:-1])
    return prefix


def _counting_errors(operation: str, work: Callable[..., Any]) -> Callable[..., Any]:
    """The same; what fails, though not for what was asked, is counted, and told as StoreError."""

    errors = metrics.STORE_ERRORS.labels(operation)

    @functools.wraps(work)
    def counted(*args: Any, **options: Any) -> Any:
        try:
            return work(*args, **options)
        except (ObjectMissingError, ObjectMismatchError):
            raise
        except Exception as error:
            errors.inc()
            of_s3 = type(error).__module__.partition(".")[0] in {"boto3", "botocore"}
            is_full = isinstance(error, OSError) and error.errno in room.NO_ROOM
            if is_full or not (of_s3 or isinstance(error, OSError)):
                raise
            raise StoreError(f"the object store fails ({operation}): {error}") from error

    return counted


class Store(ABC):
    """What both kinds can do. Sizes and positions are bytes, lifetimes of links seconds."""

    @abstractmethod
    def put_file(self, key: str, file: Readable) -> None:
        """Keeps everything that can be read from the file; readers see all of it or nothing."""

    @abstractmethod
    def open(self, key: str, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        """The bytes from `start` on, in pieces of `READ_BYTES`; at most `length` of them.

        Raises:
            ObjectMissingError: nothing there (raised by the call, not while iterating).
        """

    @abstractmethod
    def find_size(self, key: str) -> int | None:
        """Bytes of the object; None when there is none."""

    @abstractmethod
    def delete(self, key: str) -> None:
        """Removes one object, durably; harmless when there is none."""

    @abstractmethod
    def delete_prefix(self, prefix: str) -> None:
        """Removes every object whose key begins with the prefix (which ends with a slash)."""

    @abstractmethod
    def link_get(self, key: str, ttl_s: int = LINK_TTL_S) -> Link:
        """A link that reads the object."""

    @abstractmethod
    def link_put(
        self, key: str, size_bytes: int, ttl_s: int = LINK_TTL_S, *, sha256: str | None = None
    ) -> Link:
        """A link that writes exactly `size_bytes` bytes, of this SHA-256 (hex) when given."""

    @abstractmethod
    def waiting(self) -> "Waiting":
        """A new file for bytes whose key is not known yet; the caller takes or aborts it."""

    @abstractmethod
    def take(self, key: str, waiting: "Waiting") -> None:
        """Keeps a file that came by `waiting` under this key, without writing it again if it can."""

    def __init_subclass__(cls) -> None:
        for name in vars(cls).keys() & _COUNTED:
            setattr(cls, name, _counting_errors(name, getattr(cls, name)))

    def exists(self, key: str) -> bool:
        return self.find_size(key) is not None
