"""`homeport artifacts`: lists the files that a training left, and downloads them.

Paths come from programs and from the network: none leads out of the folder of a download. What broke
off goes on where it was, if the file is still the same.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Callable

import click

from .amounts import age_text, size_text
from .answers import Json, short_id
from .exits import ERROR, NOT_FOUND, OK, ClientError, UnreachableError
from .find import find_job
from .options import Group, job_argument, output_option
from .output import Column
from .sanitize import one_line, written_out
from .session import CliSession

TRIES = 5
PART = ".homeport-part"
_BAD = re.compile(r"[\x00-\x1f\x7f-\x9f\\]|^[A-Za-z]:")


def _path(row: Json) -> str:
    return written_out(row.get("path", ""))


COLUMNS = (
    Column("PATH", _path, shrinks_to=20),
    Column("SIZE", lambda row: size_text(row.get("size_bytes")), is_right=True),
    Column("AGE", lambda row: age_text(row.get("uploaded_at")), is_right=True),
    Column("ID", is_wide=True),
)
artifacts = Group("artifacts", help="Files that a training left.", aliases={"ls": "list"})
patterns_argument = click.argument("patterns", nargs=-1, metavar="[PATTERN]...")


@artifacts.command("list")
@job_argument
@patterns_argument
@output_option
@click.pass_obj
def list_artifacts(session: CliSession, job: str, patterns: Sequence[str]) -> int:
    """List them, or those that match: '*.ckpt', checkpoints/."""
    training, rows = _artifacts(session, job, patterns)
    state = one_line(training.get("state", ""))
    session.output.rows(
        rows,
        COLUMNS,
        f"The training left no files; it is {state}. What it writes to $ARTIFACTS_DIR and $LOG_DIR "
        "is kept when it ends.",
        name=_path,
    )
    return OK


def _artifacts(session: CliSession, word: str, patterns: Sequence[str]) -> tuple[Json, list[Json]]:
    job = find_job(session.rest, word, session.terminal)
    rows = list(session.rest.every(f"jobs/{job['id']}/artifacts/"))
    if not patterns:
        return job, rows
    rows = [row for row in rows if any(_matches(str(row.get("path", "")), p) for p in patterns)]
    if not rows:
        raise ClientError(
            f"No file of the training matches {' '.join(patterns)}.",
            f"List them: homeport artifacts list {short_id(job)}",
            NOT_FOUND,
        )
    return job, rows


def _matches(path: str, pattern: str) -> bool:
    """A path matches as a whole, by its last part, or by a folder that it lies in."""
    return (
        fnmatch.fnmatchcase(path, pattern)
        or fnmatch.fnmatchcase(path.rpartition("/")[2], pattern)
        or path.startswith(pattern.rstrip("/") + "/")
    )


@artifacts.command("download")
@job_argument
@patterns_argument
@click.option("-d", "--directory", type=click.Path(), metavar="DIR", help="where to (ID-artifacts)")
@click.option("--again", is_flag=True, help="fetch what is here already, too")
@output_option
@click.pass_obj
def download_artifacts(
    session: CliSession, job: str, patterns: Sequence[str], directory: str | None, *, again: bool
) -> int:
    """Download them, or those that match: '*.ckpt', checkpoints/.

    What is here already is not fetched again, and what broke off goes on.
    """
    training, rows = _artifacts(session, job, patterns)
    if not rows:
        session.terminal.tell("The training left no files.")
        return OK
    target = Path(directory or f"{short_id(training)}-artifacts")
    written = []
    for row in rows:
        address = f"jobs/{training['id']}/artifacts/{row.get('id')}/"
        try:
            path = safe_path(target, str(row.get("path", "")))
            is_new = _download(session, address, row, path, again=again)
        except UnreachableError:
            session.terminal.tell("What is here is kept; the same command continues.")
            raise
        except ClientError as error:
            session.terminal.warn(f"{_path(row)}: {error.text}")
            continue
        written.append({"path": str(path), "size_bytes": row.get("size_bytes")})
        if not session.output.is_data:
            state = "" if is_new else "  (was here)"
            size = size_text(row.get("size_bytes"))
            session.terminal.write(f"{written_out(path)}  {size}{state}")
    if session.output.is_data:
        session.output.data(written)
    return OK if len(written) == len(rows) else ERROR


def safe_path(target: Path, path: str) -> Path:
    """Where a file of the training goes.

    Raises:
        ClientError: the path would lead out of the folder, or no honest file has it.
    """
    parts = path.split("/")
    if _BAD.search(path) or any(
        part in ("", ".", "..") or len(part.encode("utf-8", "replace")) > 255 for part in parts
    ):
        raise ClientError("this path leads elsewhere or cannot be a file here; not downloaded")
    folder = target
    for part in parts[:-1]:
        folder = folder / part
        if folder.is_symlink():
            raise ClientError(f"{folder} is a link; not followed")
    found = folder / parts[-1]
    if found.is_symlink() or found.is_dir():
        raise ClientError(f"{found} exists already and is no plain file; not replaced")
    return found


def _download(session: CliSession, address: str, row: Json, path: Path, *, again: bool) -> bool:
    """Brings one file; False when it is here already."""
    size = row.get("size_bytes")
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise ClientError("the portal does not say how large it is")
    if path.is_file() and path.stat().st_size == size and not again:
        return False
    name = path.name[:200]
    part = path.with_name(name + PART)
    stamp = f"{row.get('id')} {size} {row.get('uploaded_at')}"
    note = Note(path.with_name(f"{name}{PART}.json"), stamp)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(part, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        with os.fdopen(handle, "r+b") as file, session.terminal.progress(name[:30], size) as moved:
            _fetch(session, address, file, size, note, moved)
        os.replace(part, path)
        note.path.unlink(missing_ok=True)
    except OSError as error:
        raise ClientError(f"cannot be written: {error.strerror or error}") from error
    return True


@dataclass(frozen=True)
class Note:
    """Says of which file, and of which version of it, the part is that is here."""

    path: Path
    stamp: str

    def read(self) -> str:
        """The version's tag; empty when the part is of another file, or nobody knows."""
        try:
            found = json.loads(self.path.read_text(encoding="utf-8")[:4096])
        except (OSError, ValueError):
            return ""
        is_same = isinstance(found, dict) and found.get("stamp") == self.stamp
        return str(found.get("tag", "")) if is_same else ""

    def write(self, tag: str) -> None:
        self.path.write_text(json.dumps({"stamp": self.stamp, "tag": tag}), encoding="utf-8")


def _fetch(
    session: CliSession,
    address: str,
    file: BinaryIO,
    size: int,
    note: Note,
    moved: Callable[[int], None],
) -> None:
    """Writes all of a file, going on behind what is there; a lost connection is tried again."""
    rest, tag = session.rest, note.read()
    for number in range(1, TRIES + 1):
        done = min(file.seek(0, os.SEEK_END), size) if tag else 0
        if tag and done == size:
            return
        headers = {"Accept": "*/*"}
        if done:
            headers.update({"Range": f"bytes={done}-", "If-Range": tag})
        answer = rest.open("GET", address, headers=headers)
        begins = answer.headers.get("Content-Range", "")
        if answer.status != 206 or not begins.startswith(f"bytes {done}-"):
            done = 0
        file.seek(done)
        file.truncate()
        tag = answer.headers.get("ETag", "")
        note.write(tag)
        try:
            for chunk in rest.chunks(answer):
                done += len(chunk)
                if done > size:
                    raise ClientError(f"is larger than the {size:,} bytes that were announced")
                file.write(chunk)
                moved(done)
            if done == size:
                return
            error: ClientError = UnreachableError(f"{rest.url} closed the connection.")
        except UnreachableError as cause:
            error = cause
        finally:
            file.flush()
        if number == TRIES:
            raise error
        session.terminal.tell(f"{error.text}; going on.", "dim")
