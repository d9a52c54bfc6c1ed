"""A small disk of one test, that it may fill: a tmpfs, for which one has to be let mount.

Root is; anybody else may be in namespaces of their own, so there the test runs once more, by itself.
"""

import ctypes
import errno
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.tools.missing import is_missing
from tests.tools.waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]
_CAP_SYS_ADMIN = 21
_MNT_DETACH = 2
_MS_RDONLY, _MS_REMOUNT = 1, 32
_IN_NAMESPACES = ("unshare", "--mount", "--map-current-user", "--keep-caps")
_WHY = "a small disk cannot be mounted here: be root, or allow user namespaces (unshare -c --mount)"


@dataclass
class SmallDisk:
    """Attributes: `folder` is where it is mounted."""

    folder: Path

    @property
    def free_bytes(self) -> int:
        return shutil.disk_usage(self.folder).free

    @property
    def _filler(self) -> Path:
        return self.folder / "filler"

    def fill(self, leave_bytes: int = 0) -> None:
        """Takes all but so much; nothing has to be there to be taken any more."""
        with self._filler.open("ab") as file:
            while (more := self.free_bytes - leave_bytes) > 0:
                with suppress(OSError):  # somebody else took some meanwhile
                    os.posix_fallocate(file.fileno(), file.tell(), more)
                file.seek(0, os.SEEK_END)

    def make_room(self) -> None:
        self._filler.unlink()

    def let_write(self, allowed: bool) -> None:
        """Mounts it anew, for reading alone or as before, as soon as nobody has a file open for writing."""

        def is_mounted() -> bool:
            try:
                _mount_tmpfs(self.folder, "", _MS_REMOUNT | (0 if allowed else _MS_RDONLY))
            except OSError as error:
                if error.errno != errno.EBUSY:
                    raise
                return False
            return True

        wait_for("nobody writes on it", is_mounted)


@contextmanager
def small_disk(folder: Path, size_bytes: int) -> Iterator[SmallDisk]:
    """Mounted there, and empty, while the block runs."""
    folder.mkdir(exist_ok=True)
    try:
        _mount_tmpfs(folder, f"size={size_bytes},mode=755")
    except PermissionError:
        is_missing(_WHY)
    try:
        yield SmallDisk(folder)
    finally:
        # Not by umount(8), which asks who one is and not what one may.
        assert ctypes.CDLL(None).umount2(os.fsencode(folder), _MNT_DETACH) == 0


def _mount_tmpfs(folder: Path, options: str, flags: int = 0) -> None:
    """Not by mount(8), as below; raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", ctypes.c_ulong(flags), options.encode()):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(folder))


def mounts_a_small_disk(test: Callable[..., None]) -> Callable[..., None]:
    """Decorates a test that uses `small_disk`."""
    if _may_mount():
        return test

    def once_more(request: pytest.FixtureRequest) -> None:
        try:
            subprocess.run(
                [*_IN_NAMESPACES, sys.executable, "-m", __name__],
                cwd=ROOT,
                check=True,
                capture_output=True,
            )
        except (OSError, subprocess.CalledProcessError):
            is_missing(_WHY)
        words = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"]
        done = subprocess.run(
            [*_IN_NAMESPACES, *words, request.node.nodeid],
            cwd=ROOT,
            env={k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        if "SKIPPED" in done.stdout:
            pytest.skip(done.stdout)

    once_more.__name__, once_more.__doc__ = test.__name__, test.__doc__
    return once_more


def _may_mount() -> bool:
    status = Path("/proc/self/status").read_text()
    (found,) = [line.split()[1] for line in status.splitlines() if line.startswith("CapEff:")]
    return bool(int(found, 16) >> _CAP_SYS_ADMIN & 1)


if __name__ == "__main__":
    with (
        tempfile.TemporaryDirectory() as name,
        small_disk(Path(name), 65536) as disk,
    ):
        disk.fill()
