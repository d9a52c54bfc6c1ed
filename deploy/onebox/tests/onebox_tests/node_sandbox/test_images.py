"""Images: installing for real, and every way in which that fails."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from onebox.node.environments import MARK
from onebox.node.images import Images
from onebox.node.installer import Installer
from onebox.node.sandbox import StartError

from .bench import DEADLINE_S, IS_ROOT, Bench, until
from .wheels import SLIM, define, failure, left_over, make_wheel

pytestmark = pytest.mark.usefixtures("cache")

PULL = """
import asyncio, sys
from pathlib import Path
from onebox.node.images import Images

async def main():
    await Images(Path(sys.argv[1])).ensure("test/hello:1", lambda line: print(line, flush=True))

asyncio.run(main())
"""


async def test_the_bare_python_runs_in_a_pod(bench: Bench, pod):
    images = Images(bench.home)
    assert images.is_present(SLIM) is None
    lines: list[str] = []
    image = await images.ensure(SLIM, lines.append)
    assert lines == ["Making the environment", "Installed"]
    assert images.is_present(SLIM) == image
    assert images.is_present("docker.io/library/python:3.11-slim") is not None
    program = (
        "import sys, os; print(sys.version_info[:2], sys.prefix); open(sys.prefix + '/x', 'w')"
    )
    for python in ("python", "python3"):
        ended, text = await bench.run(pod, python, "-c", program, image=image, env=image.env)
        folder = image.mounts[0].path
        assert f"(3, 11) {folder}\n" in text
        assert "Read-only file system" in text
        assert ended.code == 1


async def test_an_image_has_an_environment_of_its_own(bench: Bench, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy")
    image = await Images(bench.home).ensure(SLIM, lambda _line: None)
    folder = image.mounts[0].path
    path = f"{folder}/bin:{image.mounts[1].path}"
    assert image.env == {"PATH": path, "LANG": "C.UTF-8"}
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", image.image_id)


async def test_an_image_without_python_has_none(bench: Bench, pod):
    image = await Images(bench.home).ensure("scratch:shell", lambda _line: None)
    ended, text = await bench.run(
        pod, "sh", "-c", "ls /usr >/dev/null && echo fine", image=image, env=image.env
    )
    assert (ended.code, text) == (0, "fine\n")
    for name in ("python", "python3", "perl"):
        with pytest.raises(StartError, match="executable not found in PATH") as caught:
            await bench.start(pod, name, image=image, env=image.env)
        assert caught.value.code == 127


async def test_requirements_are_installed_compiled_and_run_as_the_pods_user(
    bench: Bench, pod, home
):
    wheel = make_wheel(home)
    define(home, f"hello @ file://{wheel}\n", 'env = { GREETING = "hi" }\nworking_dir = "/tmp"\n')
    lines: list[str] = []
    image = await Images(home).ensure("test/hello:1", lines.append)
    assert "Installed" in lines[-1]
    assert any("1 package" in line for line in lines)
    folder = Path(image.mounts[0].path)
    assert list(folder.glob("lib/python*/site-packages/__pycache__/hello.*.pyc"))
    assert image.size_bytes > 1000
    assert image.env["GREETING"] == "hi"
    ended, text = await bench.run(pod, "hello", image=image, env=image.env)
    assert (ended.code, text.startswith(f"hello from {folder}/lib")) == (0, True)
    assert await bench.shell(pod, "pwd", image=image, env=image.env) == "/tmp\n"


async def test_pip_is_used_where_uv_is_missing(home, monkeypatch):
    monkeypatch.setattr("onebox.node.installer.has_uv", lambda: False)
    define(home, f"hello @ file://{make_wheel(home)}\n")
    lines: list[str] = []
    image = await Images(home).ensure("test/hello:1", lines.append)
    folder = Path(image.mounts[0].path)
    ended = await asyncio.to_thread(
        subprocess.run, [folder / "bin" / "hello"], capture_output=True, text=True, check=True
    )
    assert ended.stdout.startswith(f"hello from {folder}/lib")
    assert any(line.startswith("Successfully installed hello") for line in lines)


async def test_an_image_is_installed_once_however_many_ask(home, monkeypatch):
    define(home, f"hello @ file://{make_wheel(home)}\n")
    installations = 0
    install = Installer.install

    async def counted(self, *arguments) -> None:
        nonlocal installations
        installations += 1
        await install(self, *arguments)

    monkeypatch.setattr(Installer, "install", counted)
    images = Images(home)
    heard: list[list[str]] = [[] for _ in range(10)]
    found = await asyncio.gather(*(images.ensure("test/hello:1", h.append) for h in heard))
    assert installations == 1
    assert len({image.image_id for image in found}) == 1
    assert all(lines and lines == heard[0] for lines in heard)
    await images.ensure("test/hello:1", heard[0].append)
    assert installations == 1


async def test_who_no_longer_waits_does_not_stop_the_others(home):
    define(home, f"hello @ file://{make_wheel(home)}\n")
    images = Images(home)
    first = asyncio.create_task(images.ensure("test/hello:1", lambda _line: None))
    second = asyncio.create_task(images.ensure("test/hello:1", lambda _line: None))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).reference == "test/hello:1"
    assert first.cancelled() or first.cancelling()


async def test_changed_requirements_are_another_environment(home):
    define(home, f"hello @ file://{make_wheel(home)}\n")
    images = Images(home)
    before = await images.ensure("test/hello:1", lambda _line: None)
    define(home, f"hello @ file://{make_wheel(home, version='2.0')}\n")
    assert images.is_present("test/hello:1") is None
    after = await images.ensure("test/hello:1", lambda _line: None)
    assert after.image_id != before.image_id
    assert Path(before.mounts[0].path).exists()  # a running pod may still use it


@pytest.mark.parametrize(
    ("requirements", "words"),
    [
        ("hello @ file:///no/such/hello-1.0-py3-none-any.whl\n", "hello-1.0-py3-none-any.whl"),
        ("homeport-no-such-package==1.0\n", "homeport-no-such-package"),
        ("this is not a requirement\n", "requirement"),
        ("hello @ file://{good}\nbroken @ file://{bad}\n", "broken"),
    ],
)
async def test_a_failed_installation_says_why_and_leaves_nothing(home, requirements, words):
    good, bad = make_wheel(home), home / "broken-1.0-py3-none-any.whl"
    bad.write_bytes(good.read_bytes()[:200])
    define(home, requirements.format(good=good, bad=bad))
    images = Images(home)
    error = await failure(images, "test/hello:1")
    assert error.reason == "ErrImagePull"
    assert error.message.startswith('"test/hello:1" could not be installed: ')
    assert words in error.message
    assert str(home) not in error.message
    assert left_over(home) == []
    assert images.is_present("test/hello:1") is None
    define(home, f"hello @ file://{good}\n")  # repaired, it works without a restart
    await images.ensure("test/hello:1", lambda _line: None)


async def silent_server() -> tuple[asyncio.Server, int]:
    async def never(_reader, writer) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(1000)
        writer.close()

    server = await asyncio.start_server(never, "127.0.0.1", 0)
    return server, server.sockets[0].getsockname()[1]


def installers(home: Path) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if os.fsencode(home) in command and b"\0-r\0" in command:
            found.append(int(folder.name))
    return found


async def test_closing_stops_an_installation(home):
    server, port = await silent_server()
    define(home, f"hello @ http://127.0.0.1:{port}/hello-1.0-py3-none-any.whl\n")
    images = Images(home)
    waiting = asyncio.create_task(failure(images, "test/hello:1"))
    await until(lambda: installers(home), "the installer")
    await images.close()
    error = await asyncio.wait_for(waiting, DEADLINE_S)
    assert error.message == 'the installation of "test/hello:1" was stopped with the node'
    await until(lambda: not installers(home), "the installer's end")
    assert left_over(home) == []
    server.close()


async def test_a_node_killed_while_installing_leaves_only_what_the_next_start_removes(home):
    server, port = await silent_server()
    define(home, f"hello @ http://127.0.0.1:{port}/hello-1.0-py3-none-any.whl\n")
    node = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PULL, str(home)), stdout=subprocess.PIPE
    )
    await until(lambda: installers(home), "the installer")
    node.send_signal(signal.SIGKILL)
    await node.wait()
    await until(lambda: not installers(home), "the installer's end")
    assert [name.split(".")[1][:4] for name in left_over(home)] == ["tmp-"]
    images = Images(home)
    assert left_over(home) == []
    assert images.is_present("test/hello:1") is None
    server.close()


async def test_an_environment_without_its_mark_is_no_image(home):
    define(home, f"hello @ file://{make_wheel(home)}\n")
    images = Images(home)
    image = await images.ensure("test/hello:1", lambda _line: None)
    (Path(image.mounts[0].path) / MARK).unlink()
    assert images.is_present("test/hello:1") is None
    assert await images.ensure("test/hello:1", lambda _line: None) == image


@pytest.mark.skipif(not IS_ROOT, reason="changes the size of a file system")
async def test_a_full_disk_is_the_reason(home):
    define(home, f"hello @ file://{make_wheel(home)}\n")
    envs = home / "images" / "envs"
    envs.mkdir()
    await run("mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(envs))
    try:
        error = await failure(Images(home), "test/hello:1")
    finally:
        await run("umount", str(envs))
    assert "No space left on device" in error.message


async def run(*argv: str) -> None:
    process = await asyncio.create_subprocess_exec(*argv)
    assert await process.wait() == 0
