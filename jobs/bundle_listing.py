"""What is inside an upload, as its table of contents says; nothing is ever unpacked here.

The pod that unpacks a bundle checks every member itself (`jobs/pod/fetch.py`); this is only for
people, so that a wrong archive is noticed before the training starts. Archives are read by a child
process (`bundle_reader.py`): some need minutes of processor time or gigabytes for a few bytes.
"""

import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.utils.translation import gettext as _

from portal.errors import FieldError, Refused

TIMEOUT_S = 5.0  # waiting for a turn included
TURN_S = 1.0
MAX_AT_ONCE = 2
COMMAND = (sys.executable, "-I", "-S", str(Path(__file__).with_name("bundle_reader.py")))

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Listing:
    """The first files of an archive in their order; `total` counts all that were seen."""

    files: tuple[tuple[str, int], ...]  # path, bytes
    total: int
    is_archive: bool
    is_cut: bool
    # The one folder that holds everything, which is taken off when the code is unpacked.
    top_folder: str
    odd_scripts: tuple[tuple[str, str], ...] = ()  # path, and `crlf` or `bom`

    @property
    def notes(self) -> list[str]:
        """What will probably fail, in sentences."""
        texts = {
            "crlf": _(
                "%(name)s has the line ends of Windows (CRLF), with which no shell runs it. Save it with line ends of "
                "Unix (LF), for example by dos2unix, and upload it again."
            ),
            "bom": _(
                "%(name)s begins with a byte order mark (BOM), in front of which no shell finds its first line. Save it "
                "as UTF-8 without one, and upload it again."
            ),
        }
        return [texts[oddity] % {"name": path} for path, oddity in self.odd_scripts]

    def as_json(self) -> dict[str, Any]:
        return {
            "files": [{"path": path, "size_bytes": size} for path, size in self.files],
            "total": self.total,
            "is_archive": self.is_archive,
            "is_cut": self.is_cut,
            "top_folder": self.top_folder,
            "notes": self.notes,
        }


# What an archive says that ran out of time, memory or turn before it said anything.
UNREAD = Listing((), 0, is_archive=True, is_cut=True, top_folder="")


def list_bundle(path: Path, name: str, size_bytes: int, *, person: Hashable) -> Listing:
    """The listing of an upload, within `TIMEOUT_S`; cut where it would cost too much.

    Args:
        path: where its bytes are.
        name: of the file; tells which kind of archive it says it is, as in the pod.
        person: who asks. Of one person one archive is read at a time.

    Raises:
        Refused: it says that it is an archive, and is damaged or cut off, or no pod unpacks it, as with a link in it or
            more members than one takes. The code is the reason that the pod would give.
    """
    deadline = time.monotonic() + TIMEOUT_S
    with _turns.taken(person) as is_ours:
        if not is_ours:
            return UNREAD
        answer = _read(path, name, deadline - time.monotonic())
    if answer is None:
        return UNREAD
    if "broken" in answer:
        text = f"{name} cannot be read as an archive: {answer['broken']}. Create it again."
        raise Refused([FieldError("file", answer["reason"], text)])
    if "refused" in answer:
        text = f"{name} cannot be unpacked: {answer['refused']}. Create it again without that."
        raise Refused([FieldError("file", answer["reason"], text)])
    if not answer["is_archive"]:
        odd = tuple((path, oddity) for path, oddity in answer.get("odd_scripts", ()))
        return Listing(((name, size_bytes),), 1, False, False, "", odd)
    files = tuple((path, size) for path, size in answer.pop("files"))
    odd = tuple((path, oddity) for path, oddity in answer.pop("odd_scripts"))
    return Listing(files, odd_scripts=odd, **answer)


def _read(path: Path, name: str, timeout_s: float) -> dict[str, Any] | None:
    """The child's answer; None: its limits ended it."""
    try:
        done = subprocess.run(
            COMMAND,
            input=json.dumps({"path": str(path), "name": name}).encode(),
            capture_output=True,
            timeout=timeout_s,
            cwd="/",
            env={},
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        if done.returncode >= 0:  # not killed
            last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
            log.warning("an archive was not listed: %s", last[:300])
        return None
    return answer


class _Turns:
    """At most `MAX_AT_ONCE` in this process, and one of each person."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._busy: set[Hashable] = set()

    @contextmanager
    def taken(self, person: Hashable) -> Iterator[bool]:
        """Whether there was a turn within `TURN_S`."""

        def is_free() -> bool:
            return len(self._busy) < MAX_AT_ONCE and person not in self._busy

        with self._change:
            is_ours = self._change.wait_for(is_free, TURN_S)
            if is_ours:
                self._busy.add(person)
        try:
            yield is_ours
        finally:
            if is_ours:
                with self._change:
                    self._busy.discard(person)
                    self._change.notify_all()


_turns = _Turns()
