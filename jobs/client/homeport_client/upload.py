"""Local code on its way to the portal: what is sent, and whether it is there already."""

from __future__ import annotations

import io
import secrets
import tempfile
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Callable

from .body import name_of
from .exits import ClientError, usage_error
from .pack import Selection, pack, select, sha256_of
from .progress import Progress
from .sanitize import one_line
from .session import Session
from .table import size_text

BIG_BYTES = 100 * 1024**2  # of code; more is mostly data by mistake
SPOOL_BYTES = 16 * 1024**2
SHOWN_WARNINGS = 10


def tell_selection(session: Session, chosen: Selection) -> None:
    """What of a folder is sent and what is not."""
    for warning in chosen.warnings[:SHOWN_WARNINGS]:
        session.terminal.warn(warning)
    if len(chosen.warnings) > SHOWN_WARNINGS:
        session.terminal.warn(f"{len(chosen.warnings) - SHOWN_WARNINGS} more are not sent")
    ignored = f", {chosen.ignored_count:,} ignored" if chosen.ignored_count else ""
    files = "file" if len(chosen.entries) == 1 else "files"
    session.terminal.tell(
        f"{len(chosen.entries):,} {files}, {size_text(chosen.size_bytes)}{ignored}", "dim"
    )
    if chosen.size_bytes > BIG_BYTES:
        largest = max(chosen.entries, key=lambda row: row.size_bytes)
        session.terminal.warn(
            f"that is much for code; the largest is {largest.path} "
            f"({size_text(largest.size_bytes)}). Name data in .homeportignore."
        )


class Code(AbstractContextManager["Code"]):
    """Code as one file that can be sent: an archive of a folder, else the file itself."""

    def __init__(self, session: Session, path: Path) -> None:
        """Raises ClientError: it cannot be read or cannot be sent."""
        self._session = session
        self._file: BinaryIO
        if path.is_dir():
            chosen = select(path)
            tell_selection(session, chosen)
            self._file = tempfile.SpooledTemporaryFile(SPOOL_BYTES)  # type: ignore[assignment]  # noqa: SIM115
            with Progress(session.terminal, "packing", chosen.size_bytes) as progress:
                self.sha256, self.size_bytes = pack(chosen, self._file, progress.move)
            self.name = f"{name_of(path)}.tar.gz"
            return
        try:
            self._file = path.open("rb")
            self.sha256, self.size_bytes = sha256_of(self._file)
        except OSError as error:
            raise usage_error(f"{path} cannot be read: {error.strerror}.") from error
        self.name = path.name

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def find(self) -> str | None:
        """The id under which the portal has these bytes already."""
        query = {"sha256": self.sha256, "page_size": 1}
        rows, _count = self._session.rest.page("bundles/", query)
        if rows and rows[0].get("sha256") == self.sha256 and rows[0].get("id"):
            return str(rows[0]["id"])
        return None

    def send(self) -> str:
        """The id under which the portal keeps it.

        Raises:
            ClientError: it did not arrive as it was sent.
        """
        rest = self._session.rest
        self._file.seek(0)
        with Progress(self._session.terminal, "sending", self.size_bytes) as progress:
            form = MultipartFile(self._file, self.size_bytes, self.name, progress.move)
            sent = rest.read_json(rest.open("POST", "bundles/", content=form, headers=form.headers))
        if not isinstance(sent, dict) or sent.get("sha256") != self.sha256 or not sent.get("id"):
            raise ClientError("The code did not arrive as it was sent.", "Submit again.")
        self._session.terminal.tell(f"Sent {size_text(self.size_bytes)}.", "dim")
        return str(sent["id"])


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
