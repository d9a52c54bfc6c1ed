"""Which Homeport this is: a release, or of any other build the commit and what was changed since.

`python portal/version.py` prints it, and with `--tag` prints it as the tag of an image may be. It needs nothing but
Python 3.9, since the command line of a checkout asks it too.
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

# What is released at the tag `v` and this number. Every build before that is called `.dev` and the number of commits.
# When which part of it changes: docs/operations.md, "Versions".
RELEASE = "0.2.0"
# Written by a build that leaves git's history behind, such as that of the image.
STAMP = "version.txt"

_ROOT = Path(__file__).resolve().parents[1]
# What a build is made of; a changed document is not another version.
_PARTS = (
    *("portal", "jobs", "tenants", "templates", "static", "deploy"),
    *("manage.py", "requirements.txt"),
)
_NOT_PARTS = {"__pycache__", "build", "node_modules"}


def read(root: Path = _ROOT) -> str:
    """The version of a checkout, as https://packaging.python.org/en/latest/specifications/version-specifiers/ has them.

    `0.2.0` at its tag; `0.2.0.dev734+g04e656a3` after 734 commits, of which the last is 04e656a3;
    `0.2.0.dev734+g04e656a3.d1a2b3c4d` with changes that are not committed, `0.2.0.dev0+g04e656a3` where the history is
    cut off, `0.2.0.dev0+s1a2b3c4d` without one. What stands behind `d` and `s` is of the files' contents.
    """
    stamp = root / "portal" / STAMP
    if stamp.is_file():
        return stamp.read_text().strip()
    # At the top of its own repository; a folder within another one has a history that is not ours.
    said = _git(root, "rev-parse", "--show-toplevel", "--is-shallow-repository")
    top, _, is_shallow = said.partition("\n")
    commit = _git(root, "rev-parse", "--short=8", "HEAD")
    if not commit or Path(top).resolve() != root.resolve():
        return f"{RELEASE}.dev0+s{_fingerprint(root)}"
    is_changed = bool(_git(root, "status", "--porcelain", "--untracked-files=all", "--", *_PARTS))
    if not is_changed and f"v{RELEASE}" in _git(root, "tag", "--points-at", "HEAD").split():
        return RELEASE
    count = "0" if is_shallow == "true" else _git(root, "rev-list", "--count", "HEAD")
    changes = f".d{_fingerprint(root)}" if is_changed else ""
    return f"{RELEASE}.dev{count}+g{commit}{changes}"


def tag(version: str) -> str:
    """The version in tags of images and in labels of Kubernetes, which take no `+`."""
    return version.replace("+", "-")


def _git(root: Path, *words: str) -> str:
    """What git says; empty where there is none, or no repository."""
    # A hook of another repository sets these for whatever it starts.
    environ = {key: text for key, text in os.environ.items() if not key.startswith("GIT_")}
    # Whoever owns the files: their code is running already.
    command = ["git", "-c", f"safe.directory={root}", "--no-optional-locks", "-C", str(root)]
    try:
        done = subprocess.run(
            [*command, *words], env=environ, capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _fingerprint(root: Path) -> str:
    digest = hashlib.sha256()
    for part in _PARTS:
        for path in sorted([root / part, *(root / part).rglob("*")]):
            name = path.relative_to(root)
            if path.is_file() and not _NOT_PARTS & set(name.parts):
                digest.update(f"{name} {path.stat().st_size}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:8]


VERSION = read()

if __name__ == "__main__":
    sys.stdout.write(f"{tag(VERSION) if '--tag' in sys.argv[1:] else VERSION}\n")
