"""onebox as its wheel brings it: in an environment that has nothing of this checkout."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

from onebox.testing import launch
from tests.tools import kubectls
from tests.tools.kubectls import CURRENT, Kubectl

PACKAGE = Path(__file__).resolve().parents[3]


def uv(*words: object) -> None:
    """Runs uv, which has everything that this environment was made of in its cache."""
    command = [sys.executable, "-m", "uv", *map(str, words), "--offline", "--quiet"]
    subprocess.run(command, check=True, timeout=120)


def test_a_wheel_in_an_empty_environment_runs_a_pod(tmp_path: Path):
    uv("build", "--wheel", PACKAGE, "--out-dir", tmp_path)
    [wheel] = tmp_path.glob("*.whl")
    uv("venv", "--python", sys.executable, tmp_path / "env")
    python = tmp_path / "env" / "bin" / "python"
    pins = PACKAGE.parents[1] / "requirements.txt"
    uv("pip", "install", "--python", python, "--constraint", pins, wheel)
    home = tmp_path / "home"
    command = [str(python.with_name("onebox")), "--home", str(home)]
    with contextlib.closing(launch(command, home, tmp_path / "log", tmp_path)) as box:
        kubectl = Kubectl(kubectls.kubectl(CURRENT), box.kubeconfig, "default", tmp_path)
        kubectl(
            *("run", "hello", "--image=python:3.11-slim", "--restart=Never", "--command", "--"),
            *("python", "-c", "print('it runs')"),
        )
        kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/hello", "--timeout=60s")
        assert kubectl("logs", "hello") == "it runs\n"
    assert box.process.returncode == 0, box.tail()
