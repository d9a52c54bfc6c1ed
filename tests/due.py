"""Which lanes are proven: those of which nothing has changed since they last passed whole, wherever that was.

`lanes.lock` keeps, for each lane with `inputs`, the digest of these as they were then; `make test-all` and `.ci/run` write
it. `.ci/run` runs lanes with inputs last, of these the proven ones at the end: docs/adr/0023-the-time-of-ci.md. There is no
earlier commit to compare with instead, for it sees a clone whose main is what was submitted.
"""

import hashlib
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.lane import Lane

ROOT = Path(__file__).resolve().parents[1]
LOCK = Path(__file__).with_name("lanes.lock")


class NoTreeError(Exception):
    """Git does not say which commit the files here are."""


def _git(root: Path, *words: str) -> str:
    try:
        done = subprocess.run(
            ["git", *words], cwd=root, capture_output=True, text=True, check=False, timeout=60
        )
    except OSError as error:
        raise NoTreeError(str(error)) from error
    if done.returncode:
        raise NoTreeError(done.stderr.strip())
    return done.stdout.strip()


def digest_of(lane: Lane, root: Path = ROOT) -> str:
    """Of the lane's words and of its inputs in HEAD; a path that is gone is a change.

    Raises:
        NoTreeError: git does not say.
    """
    listed = _git(root, "ls-tree", "HEAD", "--", *sorted(lane.inputs))
    return hashlib.sha256("\n".join([*lane.arguments, listed]).encode()).hexdigest()[:16]


def read_lock(lock: Path = LOCK) -> dict[str, str]:
    """Lane -> digest of its inputs when it last passed."""
    lines = lock.read_text().splitlines() if lock.exists() else []
    return dict(line.split() for line in lines)


def proven(lanes: Sequence[Lane], root: Path = ROOT, lock: Path = LOCK) -> set[str]:
    """The names of these lanes that have passed with what is here; none where git does not say."""
    known = read_lock(lock)
    try:
        return {
            lane.name
            for lane in lanes
            if lane.inputs and known.get(lane.name) == digest_of(lane, root)
        }
    except NoTreeError:
        return set()


def keep(passed: Iterable[Lane], root: Path = ROOT, lock: Path = LOCK) -> None:
    """Writes down that these lanes passed whole, where what they tried is a commit."""
    lanes = [lane for lane in passed if lane.inputs]
    try:
        changed = _git(root, "status", "--porcelain", "--untracked-files=all").splitlines()
        if any(not line.endswith(str(lock.relative_to(root))) for line in changed):
            return
        digests = {lane.name: digest_of(lane, root) for lane in lanes}
    except NoTreeError:
        return
    if digests:
        kept = sorted({**read_lock(lock), **digests}.items())
        lock.write_text("".join(f"{name} {digest}\n" for name, digest in kept))
