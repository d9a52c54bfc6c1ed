# ruff: noqa: UP006, UP035, UP045 (the syntax of Python 3.6: images bring their own Python)
"""The files that a training leaves on its log volume, and how they get to the object store."""

import functools
import os
import re
import stat
import time
from typing import Any, BinaryIO, Dict, Iterator, List, NamedTuple, Optional

from jobs.pod.errors import PodError, PortalError
from jobs.pod.portal_client import PortalClient, RetryBudget
from jobs.pod.protocol import codes
from jobs.pod.protocol.placeholders import ReplicaContext
from jobs.pod.segments import open_plain

ARTIFACT_BATCH = 200
LINK_FRESH_S = 300


class Artifacts(NamedTuple):
    """The files that a training left, and what of them is too much to be kept."""

    files: List[Dict[str, Any]]  # {"path", "size_bytes", "mtime_ns"}
    skipped_count: int
    skipped_bytes: int


def list_artifacts(context: ReplicaContext, config: Dict[str, Any]) -> Artifacts:
    """Every regular file of the job, except our own, up to what is kept; links are not followed.

    In the folder of a training that this one continues, what has changed since this one was asked for.
    """
    limit_bytes, since = int(config["limits"]["artifacts_bytes"]), float(config.get("since") or 0)
    files: List[Dict[str, Any]] = []
    skipped_count = skipped_bytes = total = 0
    for name in _names(context):
        base = _base(context, name)
        try:
            about = os.lstat(os.path.join(base, name))
        except OSError:
            continue
        is_older = about.st_mtime < since and base != context.own_folder
        if is_older or not stat.S_ISREG(about.st_mode):
            continue
        path = _portable(name)
        fits = total + about.st_size <= limit_bytes and len(files) < codes.MAX_ARTIFACTS
        if not fits or path is None:
            skipped_count += 1
            skipped_bytes += about.st_size
            continue
        total += about.st_size
        files.append(_described(path, about))
    return Artifacts(files, skipped_count, skipped_bytes)


def _names(context: ReplicaContext) -> Iterator[str]:
    """What lies in LOG_DIR, and the own artifacts where these lie elsewhere; each folder in order."""
    is_apart = context.own_folder != context.log_dir
    hidden = {".homeport", "artifacts"} if is_apart else {".homeport"}
    for start in [context.log_dir, context.artifacts_dir] if is_apart else [context.log_dir]:
        base = context.log_dir if start == context.log_dir else context.own_folder
        for parent, folders, names in os.walk(start):
            found = set(folders) - hidden if parent == context.log_dir else folders
            folders[:] = sorted(found)
            for name in sorted(names):
                yield os.path.relpath(os.path.join(parent, name), base)


def _base(context: ReplicaContext, name: str) -> str:
    """The folder that the name of an artifact is relative to."""
    return context.own_folder if name.startswith("artifacts/") else context.log_dir


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


def _on_volume(context: ReplicaContext, path: str) -> str:
    return os.path.join(_base(context, path), os.fsdecode(path.encode("utf-8")))


def ship_artifacts(
    portal: PortalClient,
    job_path: str,
    context: ReplicaContext,
    found: Artifacts,
    budget: RetryBudget,
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
            sentences += _ship_batch(portal, job_path, context, batch, changed, budget)
        left = changed
        if not left:
            break
    sentences += [file["path"] + " is still being written" for file in left]
    return sentences


def _ship_batch(
    portal: PortalClient,
    job_path: str,
    context: ReplicaContext,
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
            budget.keep_trying(functools.partial(_ship_file, links, context, file))
            done.append(file)
        except (PodError, OSError):
            newer = _look_again(context, file["path"])
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


def _ship_file(links: Links, context: ReplicaContext, file: Dict[str, Any]) -> None:
    with open_plain(_on_volume(context, file["path"])) as opened:
        _check_unchanged(opened, file)
        links.portal.put(links.get(file), opened, file["size_bytes"])
        _check_unchanged(opened, file)


def _check_unchanged(opened: BinaryIO, file: Dict[str, Any]) -> None:
    if _described(file["path"], os.fstat(opened.fileno())) != file:
        raise PodError(codes.FILE_CHANGED, "it changed")


def _look_again(context: ReplicaContext, path: str) -> Optional[Dict[str, Any]]:
    try:
        about = os.lstat(_on_volume(context, path))
    except OSError:
        return None
    return _described(path, about) if stat.S_ISREG(about.st_mode) else None
