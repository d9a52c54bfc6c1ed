"""The command line outside of this project: a wheel built without a network, and no Django."""

import ast
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from deploy.prepare import build_command_line
from portal.version import VERSION
from tests.e2e.portal import ROOT

PROJECT = ROOT / "jobs" / "client"
SOURCE = PROJECT / "homeport_client"
# Newer ones than ours; older ones need older packages than those that lie here.
PYTHONS = ("python3.12", "python3.13")


def run(*words: object, **environ: str) -> subprocess.CompletedProcess[str]:
    """A program without our environment: no PYTHONPATH, no package index, no home."""
    kept = {"PATH": os.environ["PATH"], "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    return subprocess.run(
        [str(word) for word in words],
        env={**kept, "HOME": "/nonexistent", **environ},
        cwd="/",
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_command_line(tmp_path_factory.mktemp("wheel"), VERSION)


def test_the_wheel_is_the_package_and_nothing_else(wheel: Path, tmp_path: Path) -> None:
    assert wheel.name == f"homeport_client-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())
    modules = {f"homeport_client/{path.name}" for path in SOURCE.glob("*.py")}
    info = f"homeport_client-{VERSION}.dist-info"
    assert {name for name in names if not name.endswith("/")} == modules | {
        f"{info}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt")
    }
    assert build_command_line(tmp_path, VERSION).read_bytes() == wheel.read_bytes(), (
        "equal sources, equal bytes"
    )


def installed_by(way: str, python: Path, wheel: Path) -> None:
    """By the line on the account page, but for the packages that it needs, which need an index."""
    words = {
        "pip": [python, "-m", "pip", "install", "-q", "--no-deps", wheel],
        "uv": [
            *(sys.executable, "-m", "uv", "pip", "install", "-q", "--python", python),
            *("--offline", "--no-cache", "--no-deps", wheel),
        ],
    }[way]
    done = run(*words)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("way", ["pip", "uv"])
def test_the_line_replaces_whatever_is_installed(way: str, wheel: Path, tmp_path: Path) -> None:
    """Older and newer ones, and one of the same release that was altered by hand."""
    venv.create(tmp_path / "own", with_pip=True)
    python = tmp_path / "own" / "bin" / "python"
    ask = "import homeport_client.version as own; print(own.own_version())"
    for number, other in enumerate(("0.1.0", "9.0.0", "0.2.0.dev1+g00000000")):
        folder = tmp_path / str(number)
        folder.mkdir()
        installed_by(way, python, build_command_line(folder, other))
        assert run(python, "-c", ask).stdout == f"{other}\n"
        (package,) = (tmp_path / "own").glob("lib/python*/site-packages/homeport_client")
        (package / "account.py").write_text("altered by hand")
        installed_by(way, python, wheel)
        assert run(python, "-c", ask).stdout == f"{VERSION}\n"
        assert (package / "account.py").read_text() == (SOURCE / "account.py").read_text()


@pytest.fixture(scope="module")
def bare(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel, and of all others only what the wheel asks for."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=True)
    done = run(folder / "bin" / "pip", "install", "-q", "--no-deps", wheel)
    assert done.returncode == 0, done.stderr
    (target,) = folder.glob("lib/python*/site-packages")
    import click
    import pathspec
    import urllib3
    import websockets
    import yaml

    # From here instead of from an index: these tests need no network.
    for package in (click, pathspec, urllib3, websockets, yaml):
        source = Path(str(package.__file__)).parent
        shutil.copytree(source, target / source.name)
    return folder


def test_it_runs_without_django(bare: Path, tmp_path: Path) -> None:
    program = bare / "bin" / "homeport"
    settings = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert run(program, "--version").stdout == f"homeport {VERSION}\n"
    assert run(program, "list", **settings).returncode == 3
    for name in ("django", "rest_framework", "portal", "jobs", "requests", "aiohttp"):
        assert run(bare / "bin" / "python", "-c", f"import {name}").returncode == 1, name
    every = "; ".join(f"import homeport_client.{path.stem}" for path in SOURCE.glob("*.py"))
    done = run(bare / "bin" / "python", "-W", "error", "-c", every)
    assert done.returncode == 0, done.stderr
    done = run(bare / "bin" / "python", "-m", "homeport_client", "submit", "--list-files", tmp_path)
    assert done.returncode == 5, done.stderr  # nothing to send


# What takes longest to load, and is of no use to help and to Tab.
SLOW = {"pathspec", "rich", "ssl", "urllib3", "websockets", "yaml"}
SAY = "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); "


@pytest.mark.parametrize(
    "words", ["--help", "submit --help", "submit tf --help", "completion bash", "homeport lo"]
)
def test_help_and_tab_load_little(bare: Path, words: str) -> None:
    is_tab = words.startswith("homeport")
    asked = {"_HOMEPORT_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": "1"}
    code = f"{SAY} from homeport_client.__main__ import main; sys.exit(main({words.split()}))"
    done = run(bare / "bin" / "python", "-c", code, **(asked if is_tab else {}))
    assert done.returncode == 0
    assert done.stdout
    assert not SLOW & set(done.stderr.split())


def test_a_shell_completes_its_words(bare: Path, tmp_path: Path) -> None:
    program = bare / "bin" / "homeport"
    script = run(program, "completion", "bash").stdout
    asked = (
        f'PATH="{bare}/bin:$PATH"; {script}\n'
        'complete_words() { COMPREPLY=(); COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
        "_homeport_completion homeport; "
        'echo "${COMPREPLY[*]}"; }\n'
        "complete_words homeport lo\n"
        "complete_words homeport artifacts ''\n"
        "complete_words homeport list --state su\n"
        "complete_words homeport submit --ps-\n"
        "complete_words homeport submit tf --sync-\n"
        "complete_words homeport get ''\n"
    )
    done = run("bash", "-c", asked, XDG_CONFIG_HOME=str(tmp_path))
    assert done.stdout.splitlines() == [
        "login logout logs",
        "download list",
        "succeeded suspended",
        "--ps-cpu --ps-memory --ps-gpu --ps-image",
        "--sync-mode --sync-source",
        "",
    ], done.stderr
    assert "compdef _homeport_completion" in run(program, "completion", "zsh").stdout
    assert "--command homeport" in run(program, "completion", "fish").stdout


def test_its_words_are_those_of_python_3_9() -> None:
    for path in SOURCE.rglob("*.py"):
        ast.parse(path.read_text(), str(path), feature_version=(3, 9))


def find_python(name: str) -> str | None:
    """An interpreter of this name on the path, or among those of pyenv."""
    kept = (Path.home() / ".pyenv" / "versions").glob(f"*/bin/{name}")
    for found in (shutil.which(name), *map(str, kept)):
        if found is not None and run(found, "-c", "").returncode == 0:
            return found
    return None


@pytest.mark.parametrize("name", PYTHONS)
def test_it_starts_on_other_pythons(name: str, wheel: Path, bare: Path, tmp_path: Path) -> None:
    python = find_python(name)
    if python is None:
        pytest.skip(f"no {name} here")
    (packages,) = bare.glob("lib/python*/site-packages")
    # PyYAML's compiled half is of another Python; its other half does.
    code = (
        f"import sys; sys.path[:0] = [{str(wheel)!r}]; sys.path.append({str(packages)!r})\n"
        "from homeport_client.__main__ import main\n"
        f"sys.exit(main(['submit', '--list-files', {str(tmp_path)!r}]))"
    )
    (tmp_path / "train.py").write_text("x")
    done = run(python, "-c", code)
    assert (done.returncode, done.stdout) == (0, "train.py\n"), done.stderr
