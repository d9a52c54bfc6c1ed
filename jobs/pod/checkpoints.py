# ruff: noqa: UP006, UP035, UP045 (the syntax of Python 3.6: images bring their own Python)
"""Finds the newest checkpoint that a training has left, for whoever wants to go on from it."""

import fnmatch
import os
import re
import time
from collections import deque
from typing import Any, Deque, Dict, NamedTuple, Optional, Sequence, Tuple

from jobs.pod.portal_client import RetryBudget
from jobs.pod.protocol.placeholders import ReplicaContext
from jobs.pod.segments import open_plain

MOST_ENTRIES = 10_000
MOST_S = 5.0
MOST_CHARS = 200
# As TensorFlow, Keras, Lightning and PyTorch name what they save.
_PATTERNS = ("checkpoint", "*.ckpt*", "ckpt-*.index", "*.pt", "*.pth", "*.keras", "*.safetensors")
# What Orbax leaves in the folder of a checkpoint that is whole:
# https://orbax.readthedocs.io/en/latest/guides/checkpoint/checkpoint_format.html
_OF_ORBAX = ("_CHECKPOINT_METADATA", "orbax.checkpoint")
_UNFINISHED = re.compile(r"\.tmp$|\.tempstate|orbax-checkpoint-tmp")
_PART = re.compile(r"\.(index|meta|data-\d+-of-\d+)$")


class Checkpoint(NamedTuple):
    """Attributes:
    name: its path below the folder that was searched, without what tells its files apart.
    mtime: when it was written, as a time stamp.
    """

    name: str
    mtime: float


def find_checkpoint(folders: Sequence[str], most_s: float = MOST_S) -> Optional[Checkpoint]:
    """The newest below these folders: of the first entries, from the top, that are seen in this time."""
    until = time.monotonic() + most_s
    waiting: Deque[Tuple[str, str]] = deque((folder, folder) for folder in folders)
    newest: Optional[Checkpoint] = None
    count = 0
    while waiting:
        base, folder = waiting.popleft()
        try:
            for entry in os.scandir(folder):
                count += 1
                if count > MOST_ENTRIES or time.monotonic() > until:
                    return newest
                if _UNFINISHED.search(entry.name):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    if entry.name != ".homeport":
                        waiting.append((base, entry.path))
                elif entry.name in _OF_ORBAX or _is_file_of_one(entry.name):
                    mtime = entry.stat(follow_symlinks=False).st_mtime
                    if newest is None or mtime > newest.mtime:
                        newest = Checkpoint(_name(base, entry.path), mtime)
        except OSError:
            continue
    return newest


def _is_file_of_one(name: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in _PATTERNS)


def _name(base: str, path: str) -> str:
    """What people call it; a name that is no UTF-8 or has control characters is shown as far as it goes."""
    folder, name = os.path.split(path)
    if name in _OF_ORBAX:
        path = folder
    elif name == "checkpoint":
        path = os.path.join(folder, _latest(path) or name)
    shown = os.path.relpath(path, base) if path != base else os.path.basename(path)
    text = os.fsencode(_PART.sub("", shown)).decode("utf-8", "replace")
    return re.sub(r"[\x00-\x1f\x7f]", "?", text)[-MOST_CHARS:]


def _latest(path: str) -> str:
    """The one that TensorFlow's note of the latest names; empty: it is none."""
    try:
        with open_plain(path) as file:
            found = re.match(rb'model_checkpoint_path: "([^"]+)"', file.read(4096))
    except OSError:
        return ""
    return os.path.basename(os.fsdecode(found.group(1))) if found else ""


def told_checkpoint(context: ReplicaContext, budget: RetryBudget) -> Dict[str, Any]:
    """What is told of the newest in LOG_DIR and ARTIFACTS_DIR with a replica's end; nothing: there is none."""
    left_s = (budget.hard_deadline or float("inf")) - time.monotonic()
    found = find_checkpoint([context.log_dir, context.artifacts_dir], min(MOST_S, left_s))
    if found is None:
        return {}
    return {"checkpoint": {"name": found.name, "mtime": min(max(0.0, found.mtime), time.time())}}
