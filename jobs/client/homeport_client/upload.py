"""Local code on its way to the portal: what is sent, and whether it is there already."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Callable, cast

from .amounts import size_text
from .body import name_of
from .exits import ClientError, usage_error
from .pack import Selection, pack, select, sha256_of
from .rest import once
from .sanitize import one_line
from .session import CliSession

BIG_BYTES = 100 * 1024**2  # of code; more is mostly data by mistake
SPOOL_BYTES = 16 * 1024**2
CHUNK_BYTES = 256 * 1024
SHOWN_WARNINGS = 10


def tell_selection(session: CliSession, chosen: Selection) -> None:
    """What of a folder is sent and what is not."""
    terminal, count = session.terminal, len(chosen.entries)
    for warning in chosen.warnings[:SHOWN_WARNINGS]:
        terminal.warn(warning)
    if len(chosen.warnings) > SHOWN_WARNINGS:
        terminal.warn(f"{len(chosen.warnings) - SHOWN_WARNINGS} more are not sent")
    ignored = f", {chosen.ignored_count:,} ignored" if chosen.ignored_count else ""
    files = "file" if count == 1 else "files"
    terminal.tell(f"{count:,} {files}, {size_text(chosen.size_bytes)}{ignored}", "dim")
    if chosen.size_bytes > BIG_BYTES:
        largest = max(chosen.entries, key=lambda row: row.size_bytes)
        terminal.warn(
            f"that is much for code; the largest is {largest.path} "
            f"({size_text(largest.size_bytes)}). Name data in .homeportignore."
        )


class Code:
    """Code as one file that can be sent: an archive of a folder, else the file itself."""

    def __init__(self, session: CliSession, path: Path) -> None:
        """Raises ClientError: it cannot be read or cannot be sent."""
        self._session = session
        self._file: BinaryIO
        if path.is_dir():
            chosen = select(path)
            tell_selection(session, chosen)
            self._file = cast(BinaryIO, tempfile.SpooledTemporaryFile(SPOOL_BYTES))  # noqa: SIM115
            with session.terminal.progress("packing", chosen.size_bytes) as moved:
                self.sha256, self.size_bytes = pack(chosen, self._file, moved)
            self.name = f"{name_of(path)}.tar.gz"
            return
        try:
            self._file = path.open("rb")
            self.sha256, self.size_bytes = sha256_of(self._file)
        except OSError as error:
            raise usage_error(f"{path} cannot be read: {error.strerror}.") from error
        self.name = path.name

    def close(self) -> None:
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
        with self._session.terminal.progress("sending", self.size_bytes) as moved:
            body, headers = multipart(self._file, self.size_bytes, self.name, moved)
            sent = rest.read_json(
                rest.open("POST", "bundles/", content=body, headers={**headers, **once()})
            )
        if not isinstance(sent, dict) or sent.get("sha256") != self.sha256 or not sent.get("id"):
            raise ClientError("The code did not arrive as it was sent.", "Submit again.")
        self._session.terminal.tell(f"Sent {size_text(self.size_bytes)}.", "dim")
        for note in sent.get("notes") or ():  # portals from before 0.2.0 have none
            self._session.terminal.tell(one_line(note), "yellow")
        return str(sent["id"])


def multipart(
    file: BinaryIO, size_bytes: int, name: str, moved: Callable[[int], None]
) -> tuple[Callable[[], Iterator[bytes]], dict[str, str]]:
    """A form with one field, `file`: what gives its body from the beginning, and its headers.

    `moved` is told how many bytes of the file have been read.
    """
    boundary = secrets.token_hex(16)
    quoted = one_line(name).replace("\\", "_").replace('"', "_")
    head = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{quoted}"\r\n'
        "Content-Type: application/octet-stream\r\n\r\n"
    ).encode()
    tail = f"\r\n--{boundary}--\r\n".encode()

    def body() -> Iterator[bytes]:
        file.seek(0)
        yield head
        while data := file.read(CHUNK_BYTES):
            moved(file.tell())
            yield data
        yield tail

    return body, {
        "Content-Type": f"multipart/form-data; boundary={boundary}",
        "Content-Length": str(len(head) + size_bytes + len(tail)),
    }
