"""`homeport artifacts`: lists the files that a training left, and downloads them.

Paths come from programs and from the network: none leads out of the folder of a download. What broke
off goes on where it was, if the file is still the same.
"""

from __future__ import annotations

import contextlib
import fnmatch
import json
import os
import re
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .exits import ERROR, NOT_FOUND, OK, ClientError, UnreachableError
from .find import find_job, short_id
from .options import Group, job_argument, output_option
from .progress import Progress
from .sanitize import one_line, written_out
from .session import Session
from .table import Column, age_text, size_text

if TYPE_CHECKING:
    import urllib3

TRIES = 5
PART = ".homeport-part"
_BAD = re.compile(r"[\x00-\x1f\x7f-\x9f\\]")
COLUMNS = (
    Column("PATH", shrinks_to=20),
    Column("SIZE", is_right=True),
    Column("AGE", is_right=True),
    Column("ID", is_wide=True),
)


artifacts = Group("artifacts", help="Files that a training left.", aliases={"ls": "list"})
patterns_argument = click.argument("patterns", nargs=-1, metavar="[PATTERN]...")


@artifacts.command("list")
@job_argument
@patterns_argument
@output_option
@click.pass_obj
def list_artifacts(session: Session, job: str, patterns: Sequence[str]) -> int:
    """List them, or those that match: '*.ckpt', checkpoints/."""
    training, rows = _artifacts(session, job, patterns)
    now = datetime.now(timezone.utc)
    session.output.rows(
        rows,
        COLUMNS,
        lambda row: [
            written_out(row.get("path", "")),
            size_text(row.get("size_bytes")),
            age_text(row.get("uploaded_at"), now),
            row.get("id", ""),
        ],
        name=lambda row: written_out(row.get("path", "")),
        empty=f"The training left no files; it is {one_line(training.get('state', ''))}. What it writes "
        "to $ARTIFACTS_DIR and $LOG_DIR is kept when it ends.",
    )
    return OK


def _artifacts(
    session: Session, word: str, patterns: Sequence[str]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    job = find_job(session.rest, word, session.terminal)
    rows = list(session.rest.every(f"jobs/{job['id']}/artifacts/"))
    if patterns:
        rows = [
            row
            for row in rows
            if any(_matches(str(row.get("path", "")), pattern) for pattern in patterns)
        ]
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
    session: Session, job: str, patterns: Sequence[str], directory: str | None, *, again: bool
) -> int:
    """Download them, or those that match: '*.ckpt', checkpoints/.

    What is here already is not fetched again, and what broke off goes on.
    """
    training, rows = _artifacts(session, job, patterns)
    if not rows:
        session.terminal.tell("The training left no files.")
        return OK
    target = Path(directory or f"{short_id(training)}-artifacts")
    failed = 0
    written = []
    for row in rows:
        try:
            path = safe_path(target, str(row.get("path", "")))
            is_new = _download(session, str(training["id"]), row, path, again=again)
        except UnreachableError:
            session.terminal.tell("What is here is kept; the same command goes on.")
            raise
        except ClientError as error:
            session.terminal.warn(f"{written_out(row.get('path', ''))}: {error.text}")
            failed += 1
            continue
        written.append({"path": str(path), "size_bytes": row.get("size_bytes")})
        if not session.output.is_data:
            state = "" if is_new else "  (was here)"
            session.terminal.write(
                f"{written_out(path)}  {size_text(row.get('size_bytes'))}{state}"
            )
    if session.output.is_data:
        session.output.data(written)
    return ERROR if failed else OK


def safe_path(target: Path, path: str) -> Path:
    """Where a file of the training goes.

    Raises:
        ClientError: the path would lead out of the folder, or no honest file has it.
    """
    parts = path.split("/")
    is_bad = (
        not path
        or _BAD.search(path) is not None
        or any(
            part in ("", ".", "..") or len(part.encode("utf-8", "replace")) > 255 for part in parts
        )
        or bool(re.match(r"[A-Za-z]:", path))
    )
    if is_bad:
        raise ClientError("this path leads elsewhere or cannot be a file here; not downloaded")
    folder = target
    for part in parts[:-1]:
        folder = folder / part
        if folder.is_symlink():
            raise ClientError(f"{folder} is a link; not followed")
    found = target.joinpath(*parts)
    if found.is_symlink() or found.is_dir():
        raise ClientError(f"{found} is there already and is no plain file; not replaced")
    return found


def _download(
    session: Session, job_id: str, row: dict[str, Any], path: Path, *, again: bool
) -> bool:
    """Brings one file; False when it is here already."""
    size = row.get("size_bytes")
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise ClientError("the portal does not say how large it is")
    stamp = f"{row.get('id')} {size} {row.get('uploaded_at')}"
    part = path.with_name(path.name[:200] + PART)
    note = path.with_name(path.name[:200] + PART + ".json")
    if path.is_file() and path.stat().st_size == size and not again:
        return False
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        known = _read_note(note)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(part, flags, 0o644)
        with os.fdopen(handle, "r+b") as file:
            if known.get("stamp") != stamp:
                file.truncate(0)
                known = {}
            _fetch(
                session, f"jobs/{job_id}/artifacts/{row.get('id')}/", file, size, note, stamp, known
            )
        os.replace(part, path)
        with contextlib.suppress(FileNotFoundError):
            note.unlink()
    except OSError as error:
        raise ClientError(f"cannot be written: {error.strerror or error}") from error
    return True


def _read_note(note: Path) -> dict[str, str]:
    try:
        found = json.loads(note.read_text(encoding="utf-8")[:4096])
    except (OSError, ValueError):
        return {}
    return {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}


def _fetch(  # noqa: PLR0913
    session: Session,
    address: str,
    file: Any,
    size: int,
    note: Path,
    stamp: str,
    known: dict[str, str],
) -> None:
    """Writes all of a file, going on behind what is there; a lost connection is tried again."""
    rest = session.rest
    tag = known.get("tag", "")
    with Progress(session.terminal, note.name[: -len(PART) - 5][:30], size) as progress:
        for number in range(1, TRIES + 1):
            start = min(file.seek(0, os.SEEK_END), size) if tag else 0
            if tag and start == size:
                return
            headers = {"Accept": "*/*"}
            if start:
                headers.update({"Range": f"bytes={start}-", "If-Range": tag})
            answer = rest.open("GET", address, headers=headers)
            if answer.status != 206 or not _begins_at(answer, start):
                start = 0
            file.seek(start)
            file.truncate()
            tag = answer.headers.get("ETag", "")
            note.write_text(json.dumps({"stamp": stamp, "tag": tag}), encoding="utf-8")
            try:
                done = start
                for chunk in rest.chunks(answer):
                    done += len(chunk)
                    if done > size:
                        raise ClientError(f"is larger than the {size:,} bytes that were announced")
                    file.write(chunk)
                    progress.move(done)
                if done == size:
                    return
                error: ClientError = UnreachableError(f"{rest.url} broke off.")
            except UnreachableError as cause:
                error = cause
            finally:
                file.flush()
            if number == TRIES:
                raise error
            session.terminal.tell(f"{error.text}; going on.", "dim")


def _begins_at(answer: urllib3.BaseHTTPResponse, start: int) -> bool:
    return answer.headers.get("Content-Range", "").startswith(f"bytes {start}-")
