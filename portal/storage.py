"""The object store: code bundles go in, archived logs and artifacts come out.

Two kinds with one surface: `S3Store` (any S3 server, through boto3) and `FolderStore` (a folder in
HOMEPORT_HOME, for one machine). `get_store` gives the one that the settings name. Everything here
blocks: call it from a thread, never from the event loop. Keys are made by us only and begin with
the tenant's id, so that one prefix holds all that a tenant has.
"""

import base64
import functools
import os
import re
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, urlencode

from django.conf import settings
from django.utils.crypto import constant_time_compare, salted_hmac

from portal.waiting import Waiting, put_on_disk, remove_stale

CHUNK_BYTES = 1024**2
LINK_TTL_S = 600
STORE_PATH = "/internal/v1/store/"
_MAX_KEY = 300  # as long as the columns that keep keys
_KEY_PART = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


class StoreError(Exception):
    """The store cannot do what was asked; the text says what and which key."""


class ObjectMissingError(StoreError):
    """There is nothing under this key."""


class BadKeyError(StoreError):
    """Not a key that this store could ever hold."""


class ObjectMismatchError(StoreError):
    """The bytes that came are not those that were announced."""


class BadLinkError(StoreError):
    """A link that was not made here, was changed, or has expired."""


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
        BadKeyError: it could name something outside the store, or is too long.
    """
    parts = key.split("/")
    if len(key) > _MAX_KEY or not all(_KEY_PART.fullmatch(part) for part in parts):
        raise BadKeyError(f"{key[:80]!r} is not a key of the object store")
    return key


def check_prefix(prefix: str) -> str:
    """The prefix itself, which names whole parts: it ends with a slash.

    Raises:
        BadKeyError: no slash at its end, or not the beginning of a key.
    """
    if not prefix.endswith("/"):
        raise BadKeyError(f"{prefix[:80]!r} must end with / to name a prefix")
    check_key(prefix[:-1])
    return prefix


class Store(ABC):
    """What both kinds can do. Sizes and positions are bytes, lifetimes of links seconds."""

    @abstractmethod
    def put_file(self, key: str, file: Readable) -> None:
        """Keeps everything that can be read from the file; readers see all of it or nothing."""

    @abstractmethod
    def open(self, key: str, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        """The bytes from `start` on, in pieces; at most `length` of them.

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

    def exists(self, key: str) -> bool:
        return self.find_size(key) is not None


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
class Grant:
    """What a link allows, read back from its address."""

    key: str
    size_bytes: int | None
    sha256: str | None


class FolderStore(Store):
    """Objects as files below one folder; links lead to the portal itself (portal/store_door.py)."""

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
                    chunk = file.read(CHUNK_BYTES if left is None else min(CHUNK_BYTES, left))
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
                "signature": _signature(method, key, size, sha256, expires),
            }
        )
        return Link(f"{self._portal_url}{STORE_PATH}{quote(key)}?{query}", method)

    @staticmethod
    def grant(method: str, key: str, query: dict[str, str]) -> Grant:
        """What the address of a request allows.

        Raises:
            BadLinkError: made by somebody else, changed, for another method, or expired.
        """
        size, sha256, expires = (query.get(name, "") for name in ("size", "sha256", "expires"))
        expected = _signature(method, key, size, sha256, expires)
        if not constant_time_compare(expected, query.get("signature", "")):
            raise BadLinkError("this link is not valid")
        if int(expires) < time.time():
            raise BadLinkError("this link has expired; ask for a new one")
        return Grant(check_key(key), int(size) if size else None, sha256 or None)


def _signature(method: str, key: str, size: str, sha256: str, expires: str) -> str:
    # What we sign has exactly four newlines; a part that held one more could never match.
    text = f"{method}\n{key}\n{size}\n{sha256}\n{expires}"
    return salted_hmac("homeport.store-link", text, algorithm="sha256").hexdigest()


class S3Store(Store):
    """Objects in one bucket of an S3 server. Credentials come from where boto3 looks for them."""

    def __init__(self, bucket: str, endpoint: str, region: str, pod_endpoint: str = "") -> None:
        self._bucket = bucket
        self._waiting_room = settings.HOMEPORT_HOME / "incoming"
        self._client = self._connect(endpoint, region)
        # Links are for pods, and a link's signature covers the host name in it.
        self._links = self._connect(pod_endpoint, region) if pod_endpoint else self._client

    @staticmethod
    def _connect(endpoint: str, region: str) -> Any:
        # Imported here: 60 MB and half a second that a folder store need not pay.
        import boto3
        from botocore.config import Config

        return boto3.client(
            "s3",
            endpoint_url=endpoint or None,
            region_name=region,
            config=Config(
                signature_version="s3v4",
                connect_timeout=5,
                read_timeout=30,
                retries={"max_attempts": 4, "mode": "standard"},
                # Servers other than Amazon's know no trailing checksums.
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
                s3={"addressing_style": "path"} if endpoint else {},
            ),
        )

    def put_file(self, key: str, file: Readable) -> None:
        self._client.upload_fileobj(file, self._bucket, check_key(key))

    def waiting(self) -> Waiting:
        return Waiting(self._waiting_room)

    def take(self, key: str, waiting: Waiting) -> None:
        waiting.flush()
        with waiting.path.open("rb") as file:
            self.put_file(key, file)
        waiting.abort()

    def remove_stale(self) -> None:
        """Removes what interrupted uploads left more than a day ago."""
        remove_stale(self._waiting_room)

    def open(self, key: str, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        size = self.find_size(key)
        if size is None:
            raise ObjectMissingError(f"{key} is not in the object store")
        end = size if length is None else min(size, start + length)
        if start >= end:  # S3 answers an empty range with an error
            return iter(())
        answer = self._client.get_object(
            Bucket=self._bucket, Key=key, Range=f"bytes={start}-{end - 1}"
        )
        chunks: Iterator[bytes] = answer["Body"].iter_chunks(CHUNK_BYTES)
        return chunks

    def find_size(self, key: str) -> int | None:
        from botocore.exceptions import ClientError

        try:
            answer = self._client.head_object(Bucket=self._bucket, Key=check_key(key))
        except ClientError as error:
            if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") == 404:
                return None
            raise StoreError(f"the object store refused to look at {key}: {error}") from error
        return int(answer["ContentLength"])

    def delete(self, key: str) -> None:
        self._client.delete_object(Bucket=self._bucket, Key=check_key(key))

    def delete_prefix(self, prefix: str) -> None:
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=check_prefix(prefix)
        )
        for page in pages:
            for item in page.get("Contents", ()):
                self._client.delete_object(Bucket=self._bucket, Key=item["Key"])

    def link_get(self, key: str, ttl_s: int = LINK_TTL_S) -> Link:
        url = self._links.generate_presigned_url(
            "get_object", Params={"Bucket": self._bucket, "Key": check_key(key)}, ExpiresIn=ttl_s
        )
        return Link(url, "GET")

    def link_put(
        self, key: str, size_bytes: int, ttl_s: int = LINK_TTL_S, *, sha256: str | None = None
    ) -> Link:
        # Both are signed headers: S3 refuses another length, and other bytes than announced.
        params: dict[str, Any] = {
            "Bucket": self._bucket,
            "Key": check_key(key),
            "ContentLength": size_bytes,
        }
        headers = {"Content-Length": str(size_bytes)}
        if sha256 is not None:
            checksum = base64.b64encode(bytes.fromhex(sha256)).decode()
            params["ChecksumSHA256"] = checksum
            headers["x-amz-checksum-sha256"] = checksum
        url = self._links.generate_presigned_url("put_object", Params=params, ExpiresIn=ttl_s)
        return Link(url, "PUT", headers)


@functools.cache
def _s3(bucket: str, endpoint: str, region: str, pod_endpoint: str) -> S3Store:
    store = S3Store(bucket, endpoint, region, pod_endpoint)
    store.remove_stale()
    return store


@functools.cache
def _folder(root: Path, portal_url: str) -> FolderStore:
    store = FolderStore(root, portal_url)
    store.remove_stale()
    return store


def get_store() -> Store:
    """The store that the settings name."""
    if settings.S3_BUCKET:
        return _s3(
            settings.S3_BUCKET, settings.S3_ENDPOINT, settings.S3_REGION, settings.S3_POD_ENDPOINT
        )
    return _folder(settings.HOMEPORT_HOME / "store", settings.POD_PORTAL_URL)
