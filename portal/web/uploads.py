"""Uploads on their way in: a file of a form goes straight to the store's waiting room.

It is written once, hashed and counted as it comes, and a store takes it from there by its key.
"""

from typing import Any

from django.core.files.uploadedfile import UploadedFile
from django.core.files.uploadhandler import FileUploadHandler
from django.http import HttpRequest
from rest_framework.request import Request

from portal.storage import get_store
from portal.storage.store import CHUNK_BYTES
from portal.storage.waiting import Waiting


class WaitingFile(UploadedFile):  # type: ignore[type-arg] # not a generic when it runs
    """An upload that lies in the waiting room; gone when it is closed, unless somebody took it."""

    def __init__(self, waiting: Waiting, name: str | None, content_type: str | None) -> None:
        self.waiting = waiting
        waiting.flush()
        super().__init__(waiting.path.open("rb"), name, content_type, waiting.size_bytes)

    def close(self) -> None:
        super().close()
        self.waiting.abort()


class WaitingFileHandler(FileUploadHandler):
    """Makes `WaitingFile`s of the files of a form."""

    chunk_size = CHUNK_BYTES
    _waiting: Waiting | None = None

    def new_file(self, *args: Any, **kwargs: Any) -> None:
        super().new_file(*args, **kwargs)
        self._waiting = get_store().waiting()

    def receive_data_chunk(self, raw_data: bytes, start: int) -> None:
        assert self._waiting is not None
        self._waiting.write(raw_data)

    def file_complete(self, file_size: int) -> WaitingFile:
        assert self._waiting is not None
        waiting, self._waiting = self._waiting, None
        return WaitingFile(waiting, self.file_name, self.content_type)

    def upload_interrupted(self) -> None:
        """Forgets the file that was coming."""
        if self._waiting is not None:
            self._waiting.abort()
            self._waiting = None

    # Django tells of an upload that ends too early, but not of one that ends by an error.
    __del__ = upload_interrupted


def find_upload(request: HttpRequest | Request) -> WaitingFile | None:
    """The field `file` of a form; None: there is none, or it is text."""
    found = request.FILES.get("file")
    return found if isinstance(found, WaitingFile) else None
