"""A run of `make test-cluster` says what it left behind."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.upstream import left


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(left, "_ENDING_S", 0.0)
    return tmp_path / "run"


def start(*command: str, folder: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "TMPDIR": str(folder)}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def test_a_folder_that_nobody_uses_is_removed(folder: Path) -> None:
    (folder / "in" / "it").mkdir(parents=True)
    assert left.remove(folder) == []
    assert not folder.exists()


def test_a_folder_that_a_program_made_where_it_makes_it_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, theirs = tmp_path / "libexec", tmp_path / "lib"
    monkeypatch.setattr(left, "DEFAULTS", (own, theirs))
    theirs.mkdir()
    before = left.by_default()
    assert left.made_by_default(before) == []
    own.mkdir()
    assert left.made_by_default(before) == [f"the folder {own}"]


def test_a_process_that_knows_the_folder(folder: Path) -> None:
    with start("sleep", "1000", folder=folder) as child:
        try:
            assert left.remove(folder) == [f"process {child.pid} (sleep 1000)"]
        finally:
            child.kill()


@pytest.mark.skipif(os.getuid() != 0, reason="mounting needs root")
def test_mounts_and_who_has_them_in_a_namespace_of_its_own(folder: Path) -> None:
    folder.mkdir()
    script = f"mount -t tmpfs none {folder} && echo ready && exec sleep 1000"
    with start("unshare", "--mount", "sh", "-c", script, folder=Path("/")) as child:
        assert child.stdout is not None
        try:
            if child.stdout.readline() != "ready\n":
                pytest.skip("nothing can be mounted here")
            subprocess.run(["mount", "-t", "tmpfs", "none", str(folder)], check=True)
            try:
                found = left.remove(folder)
            finally:
                subprocess.run(["umount", str(folder)], check=True)
        finally:
            child.kill()
    assert found == [
        f"process {child.pid} (sleep 1000)",
        f"the mount {folder}",
        f"the folder {folder}",
    ]
