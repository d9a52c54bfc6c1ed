"""Installing pip and a requirements file into a new environment, and saying how it goes.

By `uv` where it is at hand, otherwise by pip. Bytecode is compiled here: in a pod the environment
is read-only, and every process would pay for the compilation again.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import importlib.util
import os
import re
import shutil
import signal
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from onebox.node.interpreter import real_interpreter
from onebox.node.pythons import build_python, bundled_pip, put_pip

# The installer dies with the node half (also where that ended before this was said to the kernel),
# and everybody may read what it writes.
_LAUNCHER = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9, 0, 0, 0); "
    "os.getppid() == int(sys.argv[1]) or sys.exit(1); os.umask(0o022); "
    "os.execv(sys.argv[2], sys.argv[2:])"
)
# Variables that would change what is installed, or where, behind our back.
_DROPPED_VARIABLES = (
    *("PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV"),
    *("CONDA_PREFIX", "PIP_TARGET", "PIP_PREFIX", "PIP_USER", "UV_PROJECT_ENVIRONMENT"),
)
# Without the modules that hold its compiled parts, it has found the folders of another Python.
_CHECK_PYTHON = (
    "import sys, ctypes, ssl, zlib; sys.prefix == sys.base_prefix == "
    "sys.executable.rpartition('/bin/')[0] or sys.exit('it took ' + sys.prefix + ' for its own')"
)
_COUNT_PERIOD_S = 0.5
_KEPT_LINES = 200
_LARGEST_SCRIPT_BYTES = 256 * 1024
_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_DOWNLOADING = re.compile(r"Downloading (?P<name>\S+) \((?P<size>[\d.]+) ?(?P<unit>[KMG]?i?B)\)")
_DOWNLOADED = re.compile(r"Downloaded (?P<name>\S+)")
_RESOLVED = re.compile(r"Resolved (?P<count>\d+) package")
_INSTALLED = re.compile(r"Installed \d+ package")
_STEP = re.compile(r"(Resolved|Prepared|Installed|Bytecode compiled) ")
_PIP_STEP = re.compile(r"(Collecting|Downloading|Installing collected packages|Successfully) ?")
_CREDENTIALS = re.compile(r"//[^/@\s]+@")


class InstallError(Exception):
    """The installation failed; the text is the installer's reason."""


class Progress:
    """Makes honest progress lines of what an installer prints.

    Attributes:
        packages: how many there will be; 0 while that is not known.
        is_installed: all packages are in place; what remains is compiling them.
    """

    def __init__(self) -> None:
        self.packages = 0
        self.is_installed = False
        self._sizes: dict[str, float] = {}
        self._done: set[str] = set()

    def read(self, line: str) -> str | None:
        """Return the line to show for one line of the installer; None: nothing new to say."""
        line = line.strip()
        if match := _DOWNLOADING.match(line):
            self._sizes[match["name"]] = float(match["size"]) * _UNITS.get(match["unit"], 1)
            return self._downloads()
        if match := _DOWNLOADED.match(line):
            self._done.add(match["name"])
            return self._downloads()
        if match := _RESOLVED.match(line):
            self.packages = int(match["count"])
        if _INSTALLED.match(line):
            self.is_installed = True
            return f"{line}; compiling bytecode"
        if _STEP.match(line) or _PIP_STEP.match(line):
            return _CREDENTIALS.sub("//", line)[:300]
        return None

    def _downloads(self) -> str:
        done = sum(size for name, size in self._sizes.items() if name in self._done)
        total = sum(self._sizes.values())
        waiting = [name for name in self._sizes if name not in self._done]
        text = f"Downloaded {done / (1 << 20):.0f} of {total / (1 << 20):.0f} MiB"
        if waiting:
            largest = max(waiting, key=lambda name: self._sizes[name])
            text += f", waiting for {largest}"
        return text


def explain_failure(lines: Sequence[str]) -> str:
    """Return the installer's reason out of its last lines, in one line, without credentials."""
    stripped = [line.strip() for line in lines if line.strip()]
    starts = [i for i, line in enumerate(stripped) if line.lower().startswith("error:")]
    if not starts:
        return _CREDENTIALS.sub("//", stripped[-1])[:1000] if stripped else "no reason was given"
    report = [line for line in stripped[starts[-1] :] if not line.startswith("hint:")]
    text = report[0].partition(":")[2].strip()
    causes = [i for i, line in enumerate(report) if line.startswith("cause:")]
    if causes:
        # The last cause is the deepest; what follows it (a compiler's words) belongs to it.
        deepest, *more = report[causes[-1] :]
        text += ": " + " ".join([deepest.partition(":")[2].strip(), *more])
    return _CREDENTIALS.sub("//", text)[:1000]


def has_uv() -> bool:
    """Whether uv is installed beside the interpreter that runs this."""
    return importlib.util.find_spec("uv") is not None


class Installer:
    """Installs one environment.

    Args:
        folder: where it is built; must not exist.
        final: where it will lie; what names `folder` inside is rewritten to it.
        cache: uv's cache, unless UV_CACHE_DIR says otherwise; on the same file system, so that
            environments share their files by hard links.
    """

    def __init__(self, folder: Path, final: Path, cache: Path) -> None:
        self._folder = folder
        self._final = final
        self._cache = cache
        self._process: asyncio.subprocess.Process | None = None

    async def install(
        self, requirements: str, package_folders: Sequence[str], say: Callable[[str], None]
    ) -> None:
        """Build the environment: a Python, pip, and what is required.

        Args:
            package_folders: of this machine; see `build_python`.

        Raises:
            InstallError: with the installer's reason; the folder may be left half-built.
        """
        say("Making the environment")
        try:
            python = str(await asyncio.to_thread(build_python, self._folder, package_folders))
        except ValueError as error:
            raise InstallError(f"the Python of this machine cannot be used: {error}") from error
        await self._run([python, "-I", "-S", "-c", _CHECK_PYTHON], Progress(), say)
        if has_uv():
            install = [sys.executable, "-m", "uv", "pip", "install", "--python", python]
            install += ["--compile-bytecode", "--no-progress"]
        else:
            install = [python, "-m", "pip", "install", "--progress-bar", "off", "--compile"]
        await self._put_pip(python, install)
        if requirements.strip():
            await self._require(requirements, install, say)
            try:
                await self._run([python, "-I", "-m", "pip", "--version"], Progress(), say)
            except InstallError as error:
                raise InstallError(f"its pip does not run: {error}") from error
        await asyncio.to_thread(_relocate_scripts, self._folder, self._final)

    async def _put_pip(self, python: str, install: Sequence[str]) -> None:
        """Put the pip in place that Python brings along; all environments share its files."""
        wheel = bundled_pip()
        if wheel is None and has_uv():
            await self._run([*install, "pip"], Progress(), lambda _line: None)
            return
        if wheel is None:
            raise InstallError("this machine has neither uv nor the pip that Python brings along")
        env = _installer_env(os.environ, self._cache)
        key = hashlib.sha256(f"{sys.version} {real_interpreter()}".encode()).hexdigest()[:16]
        kept = Path(env["UV_CACHE_DIR"]).parent / "pip" / f"{wheel.stem}-{key}"
        if not kept.is_dir():
            half_built = kept.with_name(f"{kept.name}.tmp-{os.getpid()}-{self._folder.name}")
            await asyncio.to_thread(shutil.rmtree, half_built, True)
            unpack = install if has_uv() else [python, str(wheel / "pip"), "install", "--compile"]
            where = ["--target", str(half_built), "--no-deps", "--no-index", str(wheel)]
            await self._run([*unpack, *where], Progress(), lambda _line: None)
            with contextlib.suppress(OSError):  # another one was quicker
                half_built.rename(kept)
            await asyncio.to_thread(shutil.rmtree, half_built, True)
        await asyncio.to_thread(put_pip, kept, self._folder)

    async def _require(
        self, requirements: str, install: Sequence[str], say: Callable[[str], None]
    ) -> None:
        file = self._folder / "requirements.txt"
        file.write_text(requirements)
        progress = Progress()
        counting = asyncio.create_task(self._count(progress, say))
        try:
            await self._run([*install, "-r", str(file)], progress, say)
        finally:
            counting.cancel()
            await asyncio.gather(counting, return_exceptions=True)

    def kill(self) -> None:
        """End the installer and all it started."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def _run(
        self, argv: Sequence[str], progress: Progress, say: Callable[[str], None]
    ) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", "-c", _LAUNCHER, str(os.getpid()), *argv),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=_installer_env(os.environ, self._cache),
            start_new_session=True,
        )
        lines: deque[str] = deque(maxlen=_KEPT_LINES)
        assert self._process.stdout is not None
        try:
            async for raw in self._process.stdout:
                line = raw.decode(errors="replace").rstrip()
                lines.append(line)
                text = progress.read(line)
                if text:
                    say(text)
            code = await self._process.wait()
        except BaseException:
            self.kill()
            await self._process.wait()
            raise
        if code < 0:
            raise InstallError(f"the installer was ended by signal {-code}")
        if code:
            raise InstallError(explain_failure(lines))

    async def _count(self, progress: Progress, say: Callable[[str], None]) -> None:
        """Say how many packages are in place while that number grows."""
        last = 0
        while not progress.is_installed:
            await asyncio.sleep(_COUNT_PERIOD_S)
            count = await asyncio.to_thread(_count_installed, self._folder)
            if count > last and progress.packages and not progress.is_installed:
                last = count
                say(f"Installing {count}/{progress.packages} packages")


def _installer_env(base: Mapping[str, str], cache: Path) -> dict[str, str]:
    """Return the environment of the installer: the host's, for its index and proxy settings."""
    env = {name: value for name, value in base.items() if name not in _DROPPED_VARIABLES}
    env.setdefault("UV_CACHE_DIR", str(cache))
    env.update(NO_COLOR="1", UV_PYTHON_DOWNLOADS="never", PIP_DISABLE_PIP_VERSION_CHECK="1")
    return env


def _count_installed(folder: Path) -> int:
    """Return how many packages are in place besides pip."""
    return sum(1 for _ in folder.glob("lib/python*/*-packages/*.dist-info")) - 1


def _relocate_scripts(folder: Path, final: Path) -> None:
    """Make the scripts in bin name the place where the environment will lie."""
    old, new = os.fsencode(folder), os.fsencode(final)
    for path in (folder / "bin").iterdir():
        if path.is_symlink() or path.stat().st_size > _LARGEST_SCRIPT_BYTES:
            continue
        data = path.read_bytes()
        if old in data and b"\0" not in data:
            # A new file: this one may be a hard link into the installer's cache.
            fresh = path.with_name(path.name + ".new")
            fresh.write_bytes(data.replace(old, new))
            shutil.copymode(path, fresh)
            fresh.replace(path)
