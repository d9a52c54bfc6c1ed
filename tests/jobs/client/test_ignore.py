"""What ignore files leave out, with git itself as the judge."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from homeport_client.ignore import Ignored, Scope, parse_rules, rules_above
from homeport_client.pack import select

GIT = {
    **os.environ,
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_CEILING_DIRECTORIES": "/",
}


def git(folder: Path, *words: str) -> bytes:
    return subprocess.run(
        ["git", *words], cwd=folder, env=GIT, check=True, capture_output=True
    ).stdout


def sent_by_git(folder: Path) -> set[bytes]:
    """What git would add: all that no ignore file names."""
    out = git(folder, "ls-files", "-z", "--others", "--cached", "--exclude-standard")
    return {path for path in out.split(b"\0") if path}


def sent_by_us(folder: Path) -> set[bytes]:
    """The same by our rules, without what we leave out of our own."""

    def walk(here: Path, path: str, ignored: Ignored) -> Iterator[bytes]:
        ignored = ignored.inside(here, path)
        for row in os.scandir(here):
            inner = path + row.name
            is_folder = row.is_dir(follow_symlinks=False)
            if ignored.leaves_out(inner, is_folder=is_folder):
                continue
            if is_folder:
                yield from walk(Path(row.path), f"{inner}/", ignored)
            else:
                yield os.fsencode(inner)

    return set(walk(folder, "", Ignored()))


def make(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        except OSError:
            continue  # a name that is file and folder at once


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    git(folder, "init", "-q")
    return folder


def empty(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), key=lambda p: -len(p.parts)):
        if ".git" in path.relative_to(folder).parts:
            continue
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


# Few letters, so that patterns and names meet often.
NAME = st.text("ab.c é", min_size=1, max_size=4).filter(
    lambda name: name.strip(" .") == name and not name.startswith(".git")
)
PATH = st.lists(NAME, min_size=1, max_size=4).map("/".join)
# What people write: names with wildcards, at the top or anywhere, folders, exceptions, comments.
GLOB = st.builds(
    lambda before, name, after: before + name + after,
    st.sampled_from(["", "", "*", "?", "[ab]", "[!a]", "[a-c]"]),
    NAME,
    st.sampled_from(["", "", "*", "?", ".*", "[ab]"]),
)
PATTERN = st.builds(
    lambda start, parts, end: start + "/".join(parts) + end,
    st.sampled_from(["", "", "", "/", "**/", "!", "!/", "# "]),
    st.lists(GLOB, min_size=1, max_size=3),
    st.sampled_from(["", "", "/", "/*", "/**", " ", "\r"]),
)
LINE = st.one_of(PATTERN, PATTERN, st.sampled_from(["", "*", "!*/", "/*", "**", "*.c"]))
FILE = st.lists(LINE, min_size=1, max_size=4).map("\n".join)


@settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    paths=st.lists(PATH, min_size=1, max_size=8),
    top=FILE,
    nested=st.dictionaries(PATH, FILE, max_size=2),
)
@example(paths=["foo/x/b", "foob", "a/foox/b", "a/foob"], top="a/foo**/b\nfoo**", nested={})
@example(paths=["build/a", "build/b", "c"], top="build/*\n!build/b", nested={})
@example(paths=["build/a", "build/b"], top="build/\n!build/b", nested={"build": "!a"})
@example(paths=["a b", "a ", "a"], top="a\\ \na b ", nested={})
@example(paths=["x/y/z", "y/z", "z"], top="*\n!*/\n!z", nested={})
@example(paths=["a/b/c", "a/c"], top="a/**/c\n", nested={"a": "!c"})
@example(paths=["\ufeffa", "a"], top="\ufeffa", nested={})
@example(paths=["a", "b"], top="a\r\nb\r", nested={})
@example(paths=["cé", "à", "è"], top="c?\nà\n[è]", nested={})
def test_our_rules_are_gits(
    repository: Path, paths: list[str], top: str, nested: dict[str, str]
) -> None:
    empty(repository)
    make(repository, dict.fromkeys(paths, b""))
    make(repository, {".gitignore": top.encode()})
    make(repository, {f"{path}/.gitignore": text.encode() for path, text in nested.items()})
    assert sent_by_us(repository) == sent_by_git(repository)


def test_an_ignore_file_that_is_a_link_is_not_read(repository: Path) -> None:
    empty(repository)
    make(repository, {"rules": b"a\n", "a": b"", "b/.gitignore/c": b""})
    (repository / ".gitignore").symlink_to("rules")
    assert sent_by_us(repository) == sent_by_git(repository)
    assert b"a" in sent_by_us(repository)


def test_rules_of_the_folders_above_hold_below(repository: Path) -> None:
    empty(repository)
    make(
        repository,
        {
            ".gitignore": b"*.ckpt\n/deep/src/local\n",
            "deep/.gitignore": b"*.log\n",
            "deep/src/a.ckpt": b"",
            "deep/src/a.log": b"",
            "deep/src/local": b"",
            "deep/src/in/local": b"",
            "deep/src/train.py": b"",
        },
    )
    below = {path for path in sent_by_git(repository) if path.startswith(b"deep/src/")}
    ours = {f"deep/src/{e.path}".encode() for e in select(repository / "deep" / "src").entries}
    assert ours == below == {b"deep/src/train.py", b"deep/src/in/local"}


def test_the_repositorys_own_exclude_file_holds(repository: Path) -> None:
    empty(repository)
    exclude = repository / ".git" / "info" / "exclude"
    exclude.write_text("secret\n")
    make(repository, {"secret": b"", "open": b""})
    try:
        assert [entry.path for entry in select(repository).entries] == ["open"]
    finally:
        exclude.unlink()


def names(folder: Path) -> set[str]:
    return {entry.path for entry in select(folder).entries}


def test_our_own_file_counts_more_than_gits(tmp_path: Path) -> None:
    make(
        tmp_path,
        {
            ".gitignore": b"build/\n*.bin\n",
            "sub/.gitignore": b"*\n",
            ".homeportignore": b"!build/\n!model.bin\nnotes.md\n!sub/keep\n",
            "build/a": b"",
            "model.bin": b"",
            "other.bin": b"",
            "notes.md": b"",
            "sub/keep": b"",
            "sub/drop": b"",
        },
    )
    assert names(tmp_path) == {
        ".gitignore",
        ".homeportignore",
        "build/a",
        "model.bin",
        "sub/keep",
    }


def test_histories_are_never_sent_and_litter_only_on_request(tmp_path: Path) -> None:
    files = {".git/config": b"", ".hg/x": b"", "a/__pycache__/x.pyc": b"", ".venv/y": b"", "t": b""}
    make(tmp_path, files)
    assert names(tmp_path) == {"t"}
    make(tmp_path, {".homeportignore": b"!.git\n!.hg/\n!.venv\n"})
    assert names(tmp_path) == {"t", ".homeportignore", ".venv/y"}


@pytest.mark.parametrize("pattern", ["a*" * 60 + "b", "**/" * 60 + "b", "[a-a]*" * 40 + "b"])
def test_a_pattern_of_many_stars_is_still_a_pattern(pattern: str) -> None:
    """Whoever writes it waits for itself only; it must not fail."""
    scope = Scope("", parse_rules(pattern, "", []))
    assert scope.leaves_out("a" * 12, is_folder=False) is None


def test_a_broken_line_is_skipped_and_said(tmp_path: Path) -> None:
    make(tmp_path, {".gitignore": b"a\n!\n/\nb\n", "a": b"", "b": b"", "c": b""})
    chosen = select(tmp_path)
    assert [entry.path for entry in chosen.entries] == [".gitignore", "c"]
    (warning,) = chosen.warnings
    assert warning == f"{tmp_path}/.gitignore, line 2, is no pattern: '!'"


def test_a_folder_of_no_repository_has_no_rules_but_its_own(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    make(tmp_path, {".gitignore": b"*\n"})
    _rules, path = rules_above(inner)
    assert path == ""
    make(inner, {"x": b""})
    assert names(inner) == {"x"}
