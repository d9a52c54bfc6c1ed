"""Sends one file as a multipart form, piece by piece, and shows how far it is."""

from __future__ import annotations

import io
import secrets
from typing import BinaryIO, Callable

from .sanitize import one_line


class MultipartFile(io.RawIOBase):
    """A form with one field, `file`, as a file that can be read once more from its beginning."""

    def __init__(
        self, file: BinaryIO, size_bytes: int, name: str, moved: Callable[[int], None]
    ) -> None:
        """`moved` is told how many bytes of the file have been read."""
        self._file = file
        self._moved = moved
        boundary = secrets.token_hex(16)
        quoted = one_line(name).replace("\\", "_").replace('"', "_")
        head = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{quoted}"\r\n'
            "Content-Type: application/octet-stream\r\n\r\n"
        )
        self._parts = [
            io.BytesIO(head.encode()),
            file,
            io.BytesIO(f"\r\n--{boundary}--\r\n".encode()),
        ]
        self._at = 0
        tail_bytes = len(boundary) + 8
        self.headers = {
            "Content-Type": f"multipart/form-data; boundary={boundary}",
            "Content-Length": str(len(head.encode()) + size_bytes + tail_bytes),
        }

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        while self._at < len(self._parts):
            data = self._parts[self._at].read(size)
            if data:
                if self._at == 1:
                    self._moved(self._file.tell())
                return data
            self._at += 1
        return b""

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Only to the beginning."""
        if offset != 0 or whence != io.SEEK_SET:
            raise io.UnsupportedOperation("a form is read from its beginning")
        for part in self._parts:
            part.seek(0)
        self._at = 0
        return 0
