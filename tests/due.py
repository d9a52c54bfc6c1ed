"""Which lanes `.ci/run` leaves out: those of which nothing has changed since they last passed whole.

`lanes.lock` keeps, for each lane with `inputs`, the digest of these as they were then; `make test-all` and `.ci/run` write it. There
is no earlier commit to compare with: `.ci/run` sees a clone whose main is what was submitted. And so that nobody has to
believe the file, one lane of these runs whatever it says; which one it is depends on the tree.
"""

import hashlib
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.lanes import Lane

ROOT = Path(__file__).resolve().parents[1]
LOCK = Path(__file__).with_name("lanes.lock")


class NoTreeError(Exception):
    """The files here are no commit's: git is missing, or something was changed and not committed."""


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *words], cwd=root, capture_output=True, text=True, check=False, timeout=60
    )
    if done.returncode:
        raise NoTreeError(done.stderr.strip())
    return done.stdout.strip()


def digest_of(lane: Lane, root: Path = ROOT) -> str:
    """Of the lane's inputs in HEAD; a path that is gone is a change.

    Raises:
        NoTreeError: git does not say.
    """
    listed = _git(root, "ls-tree", "HEAD", "--", *sorted(lane.inputs))
    return hashlib.sha256(listed.encode()).hexdigest()[:16]


def read_lock(lock: Path = LOCK) -> dict[str, str]:
    """Lane -> digest of its inputs when it last passed."""
    lines = lock.read_text().splitlines() if lock.exists() else []
    return dict(line.split() for line in lines)


def left_out(lanes: Sequence[Lane], root: Path = ROOT, lock: Path = LOCK) -> list[tuple[Lane, str]]:
    """The lanes that need not run now, with their digests; none where git does not say."""
    known = read_lock(lock)
    candidates = [lane for lane in lanes if lane.inputs]
    try:
        turn = int(_git(root, "rev-parse", "HEAD^{tree}"), 16) % max(1, len(candidates))
        digests = [digest_of(lane, root) for lane in candidates]
    except (NoTreeError, OSError):
        return []
    return [
        (lane, digest)
        for number, (lane, digest) in enumerate(zip(candidates, digests, strict=True))
        if known.get(lane.name) == digest and number != turn
    ]


def keep(passed: Iterable[Lane], root: Path = ROOT, lock: Path = LOCK) -> None:
    """Writes down that these lanes passed whole, where what they tried is a commit."""
    lanes = [lane for lane in passed if lane.inputs]
    try:
        changed = _git(root, "status", "--porcelain", "--untracked-files=all")
        if any(not line.endswith(str(lock.relative_to(root))) for line in changed.splitlines()):
            return
        digests = {lane.name: digest_of(lane, root) for lane in lanes}
    except (NoTreeError, OSError):
        return
    if digests:
        kept = sorted({**read_lock(lock), **digests}.items())
        lock.write_text("".join(f"{name} {digest}\n" for name, digest in kept))
