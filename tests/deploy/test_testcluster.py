"""Where there can be no upstream cluster, `make test-cluster` says what to do."""

from pathlib import Path

import pytest

from deploy.testcluster import binaries
from tests.upstream import run


@pytest.fixture(autouse=True)
def _bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing is built, and no cluster is given."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(run.GIVEN, raising=False)


def test_without_go_and_without_a_cluster_it_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(binaries, "find_go", lambda: None)
    assert run.main() == run.EXIT_NO_CLUSTER
    said = capsys.readouterr().err
    assert "Go 1.26" in said
    assert "CONTRACT_KUBECONFIG" in said


def test_an_old_go_builds_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho go1.19.8\n")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert binaries.find_go() is None
    with pytest.raises(binaries.NoBinariesError, match=r"Go 1\.26"):
        binaries.program(binaries.ETCD, "etcd", lambda _text: None)
