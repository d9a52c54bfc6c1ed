# ruff: noqa: UP006, UP035, UP045 (the syntax of Python 3.6: images bring their own Python)
"""The files that a training leaves on its log volume, and how they get to the object store."""

import functools
import os
import re
import stat
import time
from typing import Any, BinaryIO, Dict, List, NamedTuple, Optional

from jobs.pod.errors import PodError, PortalError
from jobs.pod.portal_client import PortalClient, RetryBudget
from jobs.pod.protocol import codes
from jobs.pod.segments import open_plain

ARTIFACT_BATCH = 200
LINK_FRESH_S = 300


class Artifacts(NamedTuple):
    """The files that a training left, and what of them is too much to be kept."""

    files: List[Dict[str, Any]]  # {"path", "size_bytes", "mtime_ns"}
    skipped_count: int
    skipped_bytes: int


def list_artifacts(folder: str, limit_bytes: int) -> Artifacts:
    """Every regular file below the job's folder, except our own; links are not followed."""
    files: List[Dict[str, Any]] = []
    skipped_count = skipped_bytes = total = 0
    for parent, folders, names in os.walk(folder):
        folders.sort()
        if parent == folder and ".homeport" in folders:
            folders.remove(".homeport")
        for name in sorted(names):
            full = os.path.join(parent, name)
            try:
                about = os.lstat(full)
            except OSError:
                continue
            if not stat.S_ISREG(about.st_mode):
                continue
            path = _portable(os.path.relpath(full, folder))
            fits = total + about.st_size <= limit_bytes and len(files) < codes.MAX_ARTIFACTS
            if not fits or path is None:
                skipped_count += 1
                skipped_bytes += about.st_size
                continue
            total += about.st_size
            files.append(_described(path, about))
    return Artifacts(files, skipped_count, skipped_bytes)


def _described(path: str, about: os.stat_result) -> Dict[str, Any]:
    return {"path": path, "size_bytes": about.st_size, "mtime_ns": about.st_mtime_ns}


def _portable(path: str) -> Optional[str]:
    """The path as the portal may know it; None where it cannot be shown or is too long.

    Python 3.6 with a poor locale reads file names as ASCII, so the bytes decide.
    """
    try:
        text = os.fsencode(path).decode("utf-8")
    except UnicodeDecodeError:
        return None
    is_shown = not re.search(r"[\x00-\x1f\x7f]", text)
    return text if is_shown and len(text) <= codes.MAX_ARTIFACT_PATH_CHARS else None


def _on_volume(folder: str, path: str) -> str:
    return os.path.join(folder, os.fsdecode(path.encode("utf-8")))


def ship_artifacts(
    portal: PortalClient, job_path: str, folder: str, found: Artifacts, budget: RetryBudget
) -> List[str]:
    """Brings the files to the object store that are not there in this version.

    A file that is being written meanwhile is tried again, three times in all.

    Returns:
        A sentence for each thing that stays on the volume only.

    Raises:
        PortalError: see `PortalClient`.
    """
    left = found.files
    sentences: List[str] = []
    for _ in range(3):
        changed: List[Dict[str, Any]] = []
        for at in range(0, len(left), ARTIFACT_BATCH):
            batch = left[at : at + ARTIFACT_BATCH]
            sentences += _ship_batch(portal, job_path, folder, batch, changed, budget)
        left = changed
        if not left:
            break
    sentences += [file["path"] + " is still being written" for file in left]
    return sentences


def _ship_batch(
    portal: PortalClient,
    job_path: str,
    folder: str,
    batch: List[Dict[str, Any]],
    changed: List[Dict[str, Any]],
    budget: RetryBudget,
) -> List[str]:
    path = job_path + "artifacts/"
    answer = budget.keep_trying(lambda: portal.post(path, {"files": batch}))
    links = Links(portal, path, answer["links"], time.monotonic())
    sentences = list(answer.get("refused", {}).values())
    done = []
    for file in batch:
        if file["path"] not in answer["links"]:
            continue  # there already, or refused
        try:
            budget.keep_trying(functools.partial(_ship_file, links, folder, file))
            done.append(file)
        except (PodError, OSError):
            newer = _look_again(folder, file["path"])
            if newer is not None:
                changed.append(newer)
        except PortalError as error:
            if error.is_final or not error.status:
                raise
            sentences.append(f"{file['path']} was refused: {error}")
    if done:
        budget.keep_trying(lambda: portal.post(path + "done/", {"files": done}))
    return sentences


class Links(NamedTuple):
    """Links to write files, all asked for at one time; they live for ten minutes."""

    portal: PortalClient
    path: str
    links: Dict[str, Dict[str, Any]]
    asked_at: float

    def get(self, file: Dict[str, Any]) -> Dict[str, Any]:
        """A link that is still good for this file."""
        if time.monotonic() - self.asked_at < LINK_FRESH_S:
            return self.links[file["path"]]
        links = self.portal.post(self.path, {"files": [file]})["links"]
        if file["path"] not in links:
            raise PodError(codes.FILE_CHANGED, "another replica has shipped it meanwhile")
        return dict(links[file["path"]])


def _ship_file(links: Links, folder: str, file: Dict[str, Any]) -> None:
    with open_plain(_on_volume(folder, file["path"])) as opened:
        _check_unchanged(opened, file)
        links.portal.put(links.get(file), opened, file["size_bytes"])
        _check_unchanged(opened, file)


def _check_unchanged(opened: BinaryIO, file: Dict[str, Any]) -> None:
    if _described(file["path"], os.fstat(opened.fileno())) != file:
        raise PodError(codes.FILE_CHANGED, "it changed")


def _look_again(folder: str, path: str) -> Optional[Dict[str, Any]]:
    try:
        about = os.lstat(_on_volume(folder, path))
    except OSError:
        return None
    return _described(path, about) if stat.S_ISREG(about.st_mode) else None
