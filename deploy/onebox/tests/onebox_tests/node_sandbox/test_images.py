"""Images: references, definitions, installing for real, and every way in which that fails."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from onebox.node.environments import MARK
from onebox.node.imagefile import (
    SHIPPED,
    DefinitionError,
    load_definitions,
    normalize_reference,
)
from onebox.node.images import ImageError, Images
from onebox.node.installer import Installer, Progress, explain_failure
from onebox.node.pulls import Puller, PullError
from onebox.node.sandbox import ImageEnv, StartError

from .bench import DEADLINE_S, IS_ROOT, Bench, until

SLIM = "python:3.11-slim"
RUNNING = ".".join(map(str, sys.version_info[:3]))
PULL = """
import asyncio, sys
from pathlib import Path
from onebox.node.images import Images

async def main():
    await Images(Path(sys.argv[1])).ensure("test/hello:1", lambda line: print(line, flush=True))

asyncio.run(main())
"""


@pytest.fixture(autouse=True, scope="session")
def cache(tmp_path_factory) -> Iterator[Path]:
    """The installer's cache of all tests here: pip is unpacked and compiled once."""
    folder = tmp_path_factory.mktemp("installer") / "uv-cache"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UV_CACHE_DIR", str(folder))
        yield folder


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """A node's home whose installer asks no package index."""
    for name in ("UV_NO_INDEX", "PIP_NO_INDEX"):
        monkeypatch.setenv(name, "1")
    (tmp_path / "home" / "images").mkdir(parents=True)
    return tmp_path / "home"


def make_wheel(folder: Path, *, version: str = "1.0") -> Path:
    """Write a wheel with a module and a command `hello`."""
    path = folder / f"hello-{version}-py3-none-any.whl"
    info = f"hello-{version}.dist-info"
    files = {
        "hello.py": "def main():\n    print('hello from', __file__)\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: hello\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\nhello = hello:main\n",
    }
    record = "".join(f"{name},,\n" for name in files) + f"{info}/RECORD,,\n"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in {**files, f"{info}/RECORD": record}.items():
            wheel.writestr(name, text)
    return path


def define(home: Path, requirements: str, more: str = "") -> None:
    folder = home / "images"
    (folder / "hello.txt").write_text(requirements)
    text = f'[[image]]\nreference = "test/hello:1"\nrequirements = "hello.txt"\n{more}'
    (folder / "own.toml").write_text(text)


async def failure(images: Images, reference: str) -> ImageError:
    with pytest.raises(ImageError) as caught:
        await images.ensure(reference, lambda _line: None)
    return caught.value


def left_over(home: Path) -> list[str]:
    return [path.name for path in (home / "images" / "envs").iterdir()]


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


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("python:3.12-slim", "not found. Did you mean python:3.11-slim?"),
        (
            "tensorflow:2.21",
            "not found. Did you mean tensorflow/tensorflow:2.21.0?",
        ),
        (
            "quay.io/0",
            "not found. There are lab/jax:0.10, lab/mpich:5.0, lab/openmpi:5.0 and 5 more.",
        ),
    ],
)
async def test_an_unknown_image_is_refused_with_what_may_have_been_meant(home, reference, words):
    error = await failure(Images(home), reference)
    assert error.reason == "ErrImagePull"
    assert error.message == words


@pytest.mark.parametrize("reference", ["", "Nginx", "a b", "x:", "/x", "x//y", "-x", "x@sha256:1"])
async def test_a_malformed_reference_is_refused(home, reference):
    error = await failure(Images(home), reference)
    assert error.reason == "InvalidImageName"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ('python = "3.99"', f"needs Python 3.99; this node runs {RUNNING}"),
        (
            'host_files = [{ path = "/no/such/torch", install = "apt-get install x" }]',
            "needs what this machine does not have; install it: apt-get install x",
        ),
        (
            'mounts = [{ source = "no/such/folder", path = "/opt/x" }]',
            "contains a folder of this machine as /opt/x, and the folder is not there",
        ),
    ],
)
@pytest.mark.parametrize("policy", ["Always", "IfNotPresent", "Never"])
async def test_what_an_image_needs_and_is_not_there_is_named(home, more, words, policy):
    images = Images(home)
    await images.ensure(SLIM, lambda _line: None)  # the same environment: both require nothing
    define(home, "", f"{more}\n")
    await assert_lacking(images, policy, words)


@pytest.mark.parametrize(
    ("field", "words"),
    [
        (
            'host_files = [{{ path = "{path}", install = "apt-get install x" }}]',
            "apt-get install x",
        ),
        (
            'mounts = [{{ source = "{path}", path = "/opt/x" }}]',
            "contains a folder of this machine",
        ),
    ],
)
@pytest.mark.parametrize("policy", ["Always", "IfNotPresent", "Never"])
async def test_what_was_removed_after_the_pull_is_missed_at_the_next_start(
    home, field, words, policy
):
    needed = home / "needed"
    needed.mkdir()
    define(home, "", field.format(path=needed))
    images = Images(home)
    image = await images.ensure("test/hello:1", lambda _line: None)
    assert image.image_id != (await images.ensure(SLIM, lambda _line: None)).image_id
    assert (await pull(images, policy)).image_id == image.image_id
    needed.rmdir()
    await assert_lacking(images, policy, words)
    assert words in images.all_lacks()["docker.io/test/hello:1"]
    needed.mkdir()  # installed again, it works without a restart
    assert images.all_lacks()["docker.io/test/hello:1"] == ""
    assert (await pull(images, policy)).image_id == image.image_id


async def pull(images: Images, policy: str) -> ImageEnv:
    """Have the image for a container, with its events told to nobody."""
    container = {"image": "test/hello:1", "imagePullPolicy": policy}
    return await Puller(images, lambda *_: None, lambda _line: None).obtain(container)


async def assert_lacking(images: Images, policy: str, words: str) -> None:
    with pytest.raises(PullError) as caught:
        await pull(images, policy)
    assert caught.value.reason == ("ErrImageNeverPull" if policy == "Never" else "ErrImagePull")
    assert words in caught.value.message


async def test_an_operators_definition_wins(home):
    (home / "images" / "own.toml").write_text(
        '[[image]]\nreference = "python:3.11-slim"\nprograms = ["sh"]\n'
    )
    image = await Images(home).ensure(SLIM, lambda _line: None)
    assert image.env["PATH"].endswith("/bin")
    assert "/usr/bin" not in image.env["PATH"]


async def test_a_wrong_definition_file_costs_only_itself(home):
    (home / "images" / "bad.toml").write_text("[[image]\n")
    images = Images(home)
    assert SLIM in images.references()
    error = await failure(images, "own:1")
    assert error.message.endswith(" Definitions that are wrong are left out: bad.toml.")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1\n", "nothing else"),
        ("[[image]]\n", "has no reference"),
        ('[[image]]\nreference = "A"\n', '"A" is not an image reference'),
        ('[[image]]\nreference = "a"\nfoo = 1\n', 'unknown field "foo"'),
        ('[[image]]\nreference = "a"\nrequirements = "none.txt"\n', "none.txt"),
        ('[[image]]\nreference = "a"\nmounts = [{ source = "x" }]\n', "path"),
    ],
)
def test_a_wrong_definition_says_what_is_wrong(tmp_path, text, words):
    path = tmp_path / "own.toml"
    path.write_text(text)
    with pytest.raises(DefinitionError, match=r"own\.toml") as caught:
        load_definitions(path)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("reference", "full"),
    [
        ("python", "docker.io/library/python:latest"),
        ("python:3.11-slim", "docker.io/library/python:3.11-slim"),
        ("docker.io/library/python:3.11-slim", "docker.io/library/python:3.11-slim"),
        ("tensorflow/tensorflow:2.21.0", "docker.io/tensorflow/tensorflow:2.21.0"),
        ("quay.io/jupyter/x:2026-11-01", "quay.io/jupyter/x:2026-11-01"),
        ("localhost/x", "localhost/x:latest"),
        ("registry.lab:5000/a/b_c:1", "registry.lab:5000/a/b_c:1"),
        ("registry:5000/a", "registry:5000/a:latest"),
        ("a@sha256:" + "0" * 64, "docker.io/library/a@sha256:" + "0" * 64),
        ("UPPER/x", None),
        ("x:y/z", None),
    ],
)
def test_references_have_a_full_form(reference, full):
    assert normalize_reference(reference) == full


def test_the_shipped_images_are_there_and_pinned():
    definitions = load_definitions(SHIPPED)
    assert {definition.reference for definition in definitions.values()} == {
        "python:3.11-slim",
        "tensorflow/tensorflow:2.21.0",
        "quay.io/jupyter/tensorflow-notebook:2026-11-01",
        "lab/jax:0.10",
        "lab/mpich:5.0",
        "lab/openmpi:5.0",
        "lab/torch:1.13-cpu",
        "scratch:shell",
    }
    for definition in definitions.values():
        for line in definition.requirements.splitlines():
            assert re.match(r"[a-z0-9._-]+==[0-9][^ ;]*( ; .*)?$", line), line
    tensorflow = definitions["docker.io/tensorflow/tensorflow:2.21.0"].requirements
    notebook = definitions["quay.io/jupyter/tensorflow-notebook:2026-11-01"].requirements
    assert "tensorflow-cpu==2.21.0" in tensorflow
    assert set(tensorflow.splitlines()) <= set(notebook.splitlines())
    assert "jupyterlab==4.6.6" in notebook


def test_progress_is_told_in_bytes_and_packages():
    progress = Progress()
    lines = [
        "Using Python 3.11.7 environment at: x",
        "Resolved 38 packages in 265ms",
        "Downloading numpy (16.0MiB)",
        "Downloading tensorflow-cpu (260.0MiB)",
        " Downloaded numpy",
        " Downloaded tensorflow-cpu",
        "Prepared 38 packages in 9.70s",
        "Installed 38 packages in 408ms",
        "Bytecode compiled 4861 files in 7.46s",
        " + numpy==2.4.6",
    ]
    assert [text for text in map(progress.read, lines) if text] == [
        "Resolved 38 packages in 265ms",
        "Downloaded 0 of 16 MiB, waiting for numpy",
        "Downloaded 0 of 276 MiB, waiting for tensorflow-cpu",
        "Downloaded 16 of 276 MiB, waiting for tensorflow-cpu",
        "Downloaded 276 of 276 MiB",
        "Prepared 38 packages in 9.70s",
        "Installed 38 packages in 408ms; compiling bytecode",
        "Bytecode compiled 4861 files in 7.46s",
    ]
    assert (progress.packages, progress.is_installed) == (38, True)


UNSATISFIABLE = """\
Using Python 3.11.7 environment at: envt
error: No solution found when resolving dependencies
  cause: Because there is no version of x==99.9 and you require x==99.9, we can conclude that it is so.
"""
UNREACHABLE = """\
error: Failed to fetch: http://user:secret@mirror/simple/six/
  cause: client error (Connect)
  cause: Connection refused (os error 111)

hint: x
"""
NOT_BUILT = """\
error: The build backend returned an error
  cause: Call to `x` failed

         [stderr]
         boom: compiler missing
"""
PIP = """\
Collecting x
ERROR: Could not find a version
ERROR: No matching distribution found
"""


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (
            UNSATISFIABLE,
            (
                "No solution found when resolving dependencies: Because there is no version of "
                "x==99.9 and you require x==99.9, we can conclude that it is so."
            ),
        ),
        (
            UNREACHABLE,
            "Failed to fetch: http://mirror/simple/six/: Connection refused (os error 111)",
        ),
        (
            NOT_BUILT,
            "The build backend returned an error: Call to `x` failed [stderr] boom: compiler missing",
        ),
        (PIP, "No matching distribution found"),
        ("Segmentation fault\n", "Segmentation fault"),
        ("", "no reason was given"),
    ],
)
def test_the_installers_reason_is_found(output, reason):
    assert explain_failure(output.splitlines()) == reason


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
