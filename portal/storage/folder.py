"""An object store in a folder, for one machine, with signed links that lead to the portal itself."""

import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlencode

from portal import signing
from portal.storage.store import (
    CHUNK_BYTES,
    LINK_TTL_S,
    READ_BYTES,
    Link,
    ObjectMismatchError,
    ObjectMissingError,
    Readable,
    Store,
    StoreError,
    check_key,
    check_prefix,
)
from portal.storage.waiting import Waiting, put_on_disk, remove_stale

_SALT = "homeport.store-link"

STORE_PATH = "/internal/v1/store/"


class Incoming(Waiting):
    """A file on its way into a folder store: visible under its key only after `commit`."""

    def __init__(self, target: Path, waiting_room: Path, size_bytes: int = 0) -> None:
        super().__init__(waiting_room, size_bytes)
        self._target = target

    def commit(self, *, size_bytes: int | None = None, sha256: str | None = None) -> None:
        """Puts the file in place, durably.

        Raises:
            ObjectMismatchError: size or SHA-256 differ from what is expected; nothing is kept.
        """
        if size_bytes is not None and self.size_bytes != size_bytes:
            self.abort()
            raise ObjectMismatchError(f"{self.size_bytes} bytes came, announced were {size_bytes}")
        if sha256 is not None and self.sha256 != sha256:
            self.abort()
            raise ObjectMismatchError(f"the SHA-256 is {self.sha256}, not {sha256}")
        self.move(self._target)


@dataclass(frozen=True)
class SignedLink:
    """What a link allows, read back from its address."""

    key: str
    size_bytes: int | None
    sha256: str | None


class FolderStore(Store):
    """Objects as files below one folder; links lead to the portal itself (portal/storage/folder_app.py)."""

    def __init__(self, root: Path, portal_url: str) -> None:
        self._root = root
        self._portal_url = portal_url.rstrip("/")

    def _path(self, key: str) -> Path:
        return self._root / check_key(key)

    def incoming(self, key: str, size_bytes: int = 0) -> Incoming:
        """Begins to write an object, of so many bytes if known; the caller commits or aborts."""
        return Incoming(self._path(key), self._waiting_room, size_bytes)

    @property
    def _waiting_room(self) -> Path:
        # No part of a key begins with a dot, so nothing can be addressed in here.
        return self._root / ".incoming"

    def waiting(self) -> Waiting:
        return Waiting(self._waiting_room)

    def take(self, key: str, waiting: Waiting) -> None:
        waiting.move(self._path(key))

    def list_keys(self) -> Iterator[str]:
        """Everything that is kept, in any order."""
        for folder, names, files in os.walk(self._root):
            names[:] = [name for name in names if not name.startswith(".")]
            for name in files:
                yield (Path(folder) / name).relative_to(self._root).as_posix()

    def remove_stale(self) -> None:
        """Removes what interrupted uploads left more than a day ago."""
        remove_stale(self._waiting_room)

    def put_file(self, key: str, file: Readable) -> None:
        incoming = self.incoming(key)
        try:
            while chunk := file.read(CHUNK_BYTES):
                incoming.write(chunk)
            incoming.commit()
        finally:
            incoming.abort()

    def open(self, key: str, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        try:
            file = self._path(key).open("rb")
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
            raise ObjectMissingError(f"{key} is not in the object store") from error

        def pieces() -> Iterator[bytes]:
            with file:
                file.seek(start)
                left = length
                while left is None or left > 0:
                    chunk = file.read(READ_BYTES if left is None else min(READ_BYTES, left))
                    if not chunk:
                        return
                    left = None if left is None else left - len(chunk)
                    yield chunk

        return pieces()

    def find_size(self, key: str) -> int | None:
        path = self._path(key)
        return path.stat().st_size if path.is_file() else None

    def delete(self, key: str) -> None:
        path = self._path(key)
        if path.exists():
            path.unlink(missing_ok=True)
            put_on_disk(path.parent)

    def delete_prefix(self, prefix: str) -> None:
        folder = self._root / check_prefix(prefix)
        if folder.is_dir():
            shutil.rmtree(folder)
            put_on_disk(folder.parent)

    def link_get(self, key: str, ttl_s: int = LINK_TTL_S) -> Link:
        return self._link("GET", key, "", "", ttl_s)

    def link_put(
        self, key: str, size_bytes: int, ttl_s: int = LINK_TTL_S, *, sha256: str | None = None
    ) -> Link:
        return self._link("PUT", key, str(size_bytes), sha256 or "", ttl_s)

    def _link(self, method: str, key: str, size: str, sha256: str, ttl_s: int) -> Link:
        check_key(key)
        expires = str(int(time.time()) + ttl_s)
        query = urlencode(
            {
                "expires": expires,
                "size": size,
                "sha256": sha256,
                "signature": signing.derived(
                    _SALT, _signed_text(method, key, size, sha256, expires)
                ),
            }
        )
        return Link(f"{self._portal_url}{STORE_PATH}{quote(key)}?{query}", method)

    @staticmethod
    def read_link(method: str, key: str, query: dict[str, str]) -> SignedLink:
        """What the address of a request allows.

        Raises:
            StoreError: made by somebody else, changed, for another method, or expired.
        """
        size, sha256, expires = (query.get(name, "") for name in ("size", "sha256", "expires"))
        text = _signed_text(method, key, size, sha256, expires)
        if not signing.is_derived(_SALT, text, query.get("signature", "")):
            raise StoreError("this link is not valid")
        if int(expires) < time.time():
            raise StoreError("this link has expired; ask for a new one")
        return SignedLink(check_key(key), int(size) if size else None, sha256 or None)


def _signed_text(method: str, key: str, size: str, sha256: str, expires: str) -> str:
    # What we sign has exactly four newlines; a part that held one more could never match.
    return f"{method}\n{key}\n{size}\n{sha256}\n{expires}"
