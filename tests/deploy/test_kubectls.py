"""Which kubectl the tests use: the one beside their Python, and besides a new one that is in PATH."""

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools import kubectls


@pytest.fixture(autouse=True)
def _asked_anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(kubectls.GIVEN, raising=False)
    for found in (kubectls.current_kubectl, kubectls.kubectl_in_path):
        found.cache_clear()
    yield
    for found in (kubectls.current_kubectl, kubectls.kubectl_in_path):
        found.cache_clear()


def program(folder: Path, script: str) -> Path:
    folder.mkdir(exist_ok=True)
    made = folder / "kubectl"
    made.write_text(f"#!/bin/sh\n{script}\n")
    made.chmod(0o755)
    return made


def of_version(minor: str) -> str:
    version = f'{{"clientVersion": {{"major": "1", "minor": "{minor}"}}}}'
    return f"echo 'a warning of the client' >&2; echo '{version}'"


@pytest.mark.parametrize("minor", ["31", "32+", "37"])
def test_a_new_one_in_path_is_tried_besides(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, minor: str
) -> None:
    theirs = program(tmp_path, of_version(minor))
    ours = Path(kubectls.current_kubectl())
    monkeypatch.setenv("PATH", os.pathsep.join([str(ours.parent), str(tmp_path)]))
    assert kubectls.kubectl_in_path() == str(theirs)
    assert ours.parent == Path(sys.executable).parent


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (of_version("20"), "1.20 is older than 1.31"),
        (of_version("30+"), "1.30 is older than 1.31"),
        ("exit 1", "does not say its version"),
        ("echo []", "does not say its version"),
    ],
)
def test_another_one_is_named_and_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, why: str
) -> None:
    theirs = program(tmp_path, script)
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path), os.environ["PATH"]]))
    with pytest.raises(kubectls.NoKubectlError) as told:
        kubectls.kubectl_in_path()
    assert str(told.value).startswith(f"{theirs} is left out: ")
    assert why in str(told.value)


def test_none_in_path_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert os.access(kubectls.current_kubectl(), os.X_OK)
    with pytest.raises(kubectls.NoKubectlError, match="no other kubectl in PATH"):
        kubectls.kubectl_in_path()


def test_a_named_one_is_used_in_place_of_ours(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    theirs = program(tmp_path, of_version("37"))
    monkeypatch.setenv(kubectls.GIVEN, str(theirs))
    assert kubectls.current_kubectl() == str(theirs)
    theirs.chmod(stat.S_IRUSR)
    kubectls.current_kubectl.cache_clear()
    with pytest.raises(kubectls.NoKubectlError, match=kubectls.GIVEN):
        kubectls.current_kubectl()
