"""pip in images: which one it is, where it installs, and that what it installed is found."""

from __future__ import annotations

import asyncio
import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from onebox.node.hostprograms import HostPrograms
from onebox.node.imagefile import SHIPPED, Definition, load_definitions
from onebox.node.images import Images, lacks
from onebox.node.spec import ImageEnv, Mount

from .bench import Bench
from .wheels import define, failure, make_wheel

pytestmark = pytest.mark.usefixtures("cache")

HOME = "/home/homeport"
OF_PYTHON = "pip pip3 python python3 pydoc pydoc3 torchrun pytest 2to3 idle3 python3-config"
INSTALL = """
export PATH="$HOME/.local/bin:$PATH"
pip install --quiet --no-index --find-links /wheels hello
hello; python -c 'import hello; hello.main()'
pip uninstall --quiet --yes hello
python -m pip install --quiet --no-index --find-links /wheels -r /wheels/requirements.txt
python3 -c 'import hello; hello.main()'
pip install --quiet --user --no-index --find-links /wheels hello==2.0
python -c 'import hello; hello.main()'
"""


@pytest.fixture
def wheels(tmp_path) -> Mount:
    folder = tmp_path / "wheels"
    folder.mkdir()
    make_wheel(folder, version="1.0")
    make_wheel(folder, version="2.0")
    (folder / "requirements.txt").write_text("hello==1.0\n")
    return Mount(source=str(folder), path="/wheels", read_only=True)


async def shell(bench: Bench, pod, image: ImageEnv, script: str, *mounts: Mount) -> str:
    """Run a script as in Homeport's pods: with a home that can be written."""
    return await bench.shell(
        pod,
        script,
        image=image,
        env={**image.env, "HOME": HOME},
        mounts=(bench.mount("home", HOME), *mounts),
    )


def shipped() -> list[object]:
    """Each shipped image with a Python; those that need an index are for who asks for them."""
    definitions = load_definitions(SHIPPED).values()
    return [
        pytest.param(one, id=one.reference, marks=[pytest.mark.slow] if one.requirements else [])
        for one in definitions
        if one.programs is None
    ]


@pytest.mark.parametrize("definition", shipped())
async def test_pip_installs_where_the_images_python_finds_it(
    bench: Bench, pod, wheels, definition: Definition
):
    if missing := lacks(definition):
        pytest.skip(f"{definition.reference} {missing}")
    image = await Images(bench.home).ensure(definition.reference, lambda _line: None)
    folder = image.mounts[0].path
    found = await shell(bench, pod, image, f"which -a {OF_PYTHON} || true")
    assert {f"{folder}/bin/pip", f"{folder}/bin/python"} <= set(found.split())
    assert all(line.startswith(f"{folder}/bin/") for line in found.split()), found
    packages = f"hello from {HOME}/.local/lib/python3.11/site-packages/hello.py\n"
    assert await shell(bench, pod, image, INSTALL, wheels) == packages * 4
    # A login shell, as JupyterLab's terminals are, has the same programs.
    login = await shell(bench, pod, image, "bash -lc 'python -m pip --version; command -v python'")
    assert login.startswith("pip ")
    assert f" from {folder}/lib/" in login
    assert login.endswith(f"\n{folder}/bin/python\n")


async def test_what_an_image_has_is_replaced_below_the_home(bench: Bench, pod, wheels, home):
    define(home, f"hello @ file://{make_wheel(home)}\n")
    image = await Images(home).ensure("test/hello:1", lambda _line: None)
    before = f"hello from {image.mounts[0].path}/lib/python3.11/site-packages/hello.py\n"
    assert await shell(bench, pod, image, "python -c 'import hello; hello.main()'") == before
    script = "pip install --quiet --no-index --find-links /wheels hello==2.0; pip show hello;"
    text = await shell(bench, pod, image, script + "python -c 'import hello; hello.main()'", wheels)
    assert "Version: 2.0\n" in text
    assert text.endswith(f"hello from {HOME}/.local/lib/python3.11/site-packages/hello.py\n")


async def test_packages_of_this_machine_come_after_all_others(bench: Bench, pod, wheels, home):
    machine = home / "machine"
    machine.mkdir()
    (machine / "hello.py").write_text("def main():\n    print('of the machine')\n")
    (machine / "pip.py").write_text("raise SystemExit('the pip of the machine')\n")
    define(
        home, "", f'packages = ["{machine}"]\nmounts = [{{source="{machine}", path="{machine}"}}]'
    )
    image = await Images(home).ensure("test/hello:1", lambda _line: None)
    run = "python -c 'import hello; hello.main()';"
    install = (
        "pip install --quiet --no-warn-script-location --no-index --find-links /wheels hello==2.0;"
    )
    text = await shell(bench, pod, image, run + install + run, wheels)
    assert text == (
        f"of the machine\nhello from {HOME}/.local/lib/python3.11/site-packages/hello.py\n"
    )


async def test_a_virtual_environment_in_a_container_is_whole(bench: Bench, pod, wheels):
    image = await Images(bench.home).ensure("python:3.11-slim", lambda _line: None)
    script = """
    python -m venv $HOME/own
    $HOME/own/bin/pip install --quiet --no-index --find-links /wheels hello==2.0
    $HOME/own/bin/hello
    """
    text = await shell(bench, pod, image, script, wheels)
    assert text == f"hello from {HOME}/own/lib/python3.11/site-packages/hello.py\n"


async def test_programs_of_the_machine_work_by_their_links(bench: Bench, pod):
    image = await Images(bench.home).ensure("python:3.11-slim", lambda _line: None)
    script = 'git --version; perl -e "print 6 * 7"; printf "b\\na\\n" | sort | awk "{print NR}"'
    text = await shell(bench, pod, image, script)
    assert text.startswith("git version ")
    assert text.endswith("\n421\n2\n")


def broken_pip(folder: Path) -> Path:
    """Write a wheel of a pip that cannot be imported."""
    path, info = folder / "pip-99.0-py3-none-any.whl", "pip-99.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("pip/__init__.py", "import no_such_module\n")
        wheel.writestr("pip/__main__.py", "")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: pip\nVersion: 99.0\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    return path


async def test_an_image_whose_pip_is_broken_is_refused_in_words(home):
    define(home, f"pip @ file://{broken_pip(home)}\n")
    images = Images(home)
    error = await failure(images, "test/hello:1")
    assert error.message == (
        '"test/hello:1" could not be installed: its pip does not run: '
        "ModuleNotFoundError: No module named 'no_such_module'"
    )
    define(
        home, f"hello @ file://{make_wheel(home)}\n"
    )  # others, and the repaired one, have theirs
    image = await images.ensure("test/hello:1", lambda _line: None)
    pip = Path(image.mounts[0].path, "bin", "pip")
    ended = await asyncio.to_thread(
        subprocess.run, [pip, "--version"], capture_output=True, text=True, check=True
    )
    assert ended.stdout.startswith("pip ")


def test_programs_that_come_and_go_are_linked_anew(tmp_path, monkeypatch):
    machine = tmp_path / "bin"
    machine.mkdir()
    monkeypatch.setattr("onebox.node.hostprograms.FOLDERS", (str(machine),))

    def put(name: str, text: str = "#!/bin/sh\n", mode: int = 0o755) -> None:
        (machine / name).write_text(text)
        (machine / name).chmod(mode)
        os.utime(machine, ns=(0, machine.stat().st_mtime_ns + 1))

    put("tool")
    put("tool-python3")
    put("x86_64-linux-gnu-python3.12-config")
    put("pip3.12")
    put("script", "#!/usr/bin/env python3\n")
    put("long", f"#!/bin/sh\n'''exec' '/{'x' * 100}/python' \"$0\" \"$@\"\n")
    put("data", mode=0o644)
    (machine / "alias").symlink_to("pip3.12")
    (machine / "gone").symlink_to("nowhere")
    programs = HostPrograms(tmp_path / "programs")
    before = programs.links()
    assert sorted(os.listdir(before)) == ["tool"]
    put("pipe-viewer")
    assert sorted(os.listdir(programs.links())) == ["pipe-viewer", "tool"]
    assert before.is_dir()  # containers that run have it
    assert HostPrograms(tmp_path / "programs").links() == programs.links()
    assert len(os.listdir(tmp_path / "programs")) == 1
