"""Any two builds that differ have different versions, wherever a checkout comes from."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.version import Version

from portal.version import RELEASE, STAMP, VERSION, read, tag

COMMITS = re.escape(f"{RELEASE}.dev") + r"(\d+)\+g([0-9a-f]{8})"
OURS = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a"}


def git(folder: Path, *words: str) -> str:
    environ = {**os.environ, **OURS, "GIT_COMMITTER_EMAIL": "a@b"}
    done = subprocess.run(
        ["git", "-C", folder, *words], env=environ, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository of two commits with one file of the product's."""
    root = tmp_path / "homeport"
    (root / "portal").mkdir(parents=True)
    git(root, "init", "-q")
    for number in range(2):
        (root / "portal" / "rules.py").write_text(f"NUMBER = {number}\n")
        git(root, "add", ".")
        git(root, "commit", "-qm", str(number))
    return root


def change(root: Path) -> None:
    (root / "portal" / "rules.py").write_text("NUMBER = 7\n")


def add(root: Path) -> None:
    (root / "portal" / "new.py").write_text("NEW = 1\n")


def change_after(first: Callable[[Path], None]) -> Callable[[Path], None]:
    def both(root: Path) -> None:
        first(root)
        change(root)

    return both


def release(root: Path) -> None:
    git(root, "tag", f"v{RELEASE}")


def commit_after_release(root: Path) -> None:
    release(root)
    change(root)
    git(root, "commit", "-qam", "3")


def write_document(root: Path) -> None:
    (root / "README.md").write_text("Other words.\n")


def lose_git(root: Path) -> None:
    shutil.rmtree(root / ".git")


def lie_in_another_repository(root: Path) -> None:
    lose_git(root)
    git(root.parent, "init", "-q")
    git(root.parent, "add", ".")
    git(root.parent, "commit", "-qm", "all of it")


@pytest.mark.parametrize(
    ("make", "pattern"),
    [
        (lambda _root: None, COMMITS),
        (write_document, COMMITS),
        (change, COMMITS + r"\.d[0-9a-f]{8}"),
        (add, COMMITS + r"\.d[0-9a-f]{8}"),
        (release, re.escape(RELEASE)),
        (change_after(release), COMMITS + r"\.d[0-9a-f]{8}"),
        (commit_after_release, COMMITS),
        (lose_git, re.escape(f"{RELEASE}.dev0+s") + "[0-9a-f]{8}"),
        (lie_in_another_repository, re.escape(f"{RELEASE}.dev0+s") + "[0-9a-f]{8}"),
    ],
)
def test_a_build_is_called_by_what_it_is_made_of(
    make: Callable[[Path], None], pattern: str, checkout: Path
) -> None:
    make(checkout)
    version = read(checkout)
    assert re.fullmatch(pattern, version), version
    # pip and uv would write another name of a package than we look for.
    assert str(Version(version)) == version
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", tag(version))


def test_what_differs_is_called_otherwise(checkout: Path) -> None:
    seen = [read(checkout)]
    for number in range(2):  # one change after the other, of one file
        (checkout / "portal" / "rules.py").write_text(f"NUMBER = {number + 7}\n")
        seen.append(read(checkout))
    git(checkout, "commit", "-qam", "more")
    seen.append(read(checkout))
    lose_git(checkout)
    seen.append(read(checkout))
    change(checkout)
    seen.append(read(checkout))
    assert len(set(seen)) == len(seen), seen


def test_a_clone_without_history_knows_its_commit(checkout: Path, tmp_path: Path) -> None:
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{checkout}", str(shallow))
    assert read(shallow) == f"{RELEASE}.dev0+g{git(checkout, 'rev-parse', '--short=8', 'HEAD')}"


def test_a_build_without_git_is_called_as_it_was_told(checkout: Path) -> None:
    (checkout / "portal" / STAMP).write_text("0.3.0\n")
    assert read(checkout) == "0.3.0"


def test_a_hook_of_another_repository_changes_nothing(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = read(checkout)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert read(checkout) == version


def test_no_git_at_all(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert read(checkout).startswith(f"{RELEASE}.dev0+s")


def test_it_is_told_to_whoever_builds_an_image() -> None:
    file = Path(sys.modules["portal.version"].__file__ or "")
    command = [sys.executable, file, "--tag"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said == f"{tag(VERSION)}\n"
