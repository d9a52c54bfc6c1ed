"""A folder of image environments: finished ones by their key, half-built ones beside them.

Several nodes may share one. Who builds an environment holds a lock that the kernel frees with its
process: two nodes never build the same one, and what a killed one left is known to be nobody's.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

logger = logging.getLogger(__name__)

# Written last, inside the environment; what has none is not an image.
MARK = "homeport-image.json"
_ASK_AGAIN_S = 0.2


class Environments:
    """The environments below one folder.

    Args:
        folder: made where it is missing; environments lie in `folder/envs`.

    Attributes:
        folder: as given.
        cache: the installer's, on the same file system.

    Raises:
        OSError: the folder cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cache = folder / "uv-cache"
        self._envs = folder / "envs"
        self._locks = folder / "locks"
        for path in (self._envs, self._locks):
            path.mkdir(parents=True, exist_ok=True)
        for key in {left.name.partition(".")[0] for left in self._envs.glob("*.tmp-*")}:
            with self._held(key) as is_mine:
                if is_mine:
                    self._remove_half_built(key)

    def final(self, key: str) -> Path:
        """Where an environment lies when it is finished."""
        return self._envs / key

    def half_built(self, key: str) -> Path:
        """Where this process builds it."""
        return self._envs / f"{key}.tmp-{os.getpid()}"

    def has(self, key: str) -> bool:
        """Whether an environment is finished."""
        return (self.final(key) / MARK).exists()

    @contextlib.asynccontextmanager
    async def building(self, key: str) -> AsyncIterator[None]:
        """Be the only one who builds an environment; it may be finished when this begins."""
        while True:
            with self._held(key) as is_mine:
                if is_mine:
                    await asyncio.to_thread(self._remove_half_built, key)
                    yield
                    return
            await asyncio.sleep(_ASK_AGAIN_S)

    def _remove_half_built(self, key: str) -> None:
        """Remove what is left by others that built this, none of which lives: the lock is held."""
        for left in self._envs.glob(f"{key}.tmp-*"):
            shutil.rmtree(left, ignore_errors=True)

    @contextlib.contextmanager
    def _held(self, key: str) -> Iterator[bool]:
        """Hold the lock of an environment meanwhile; False: somebody else holds it."""
        with (self._locks / key).open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True


def open_shared(folder: Path | None) -> Environments | None:
    """Return the environments that nodes share; None: there are none that this process may use.

    Programs of pods come from there, so the folder has to be this user's own.
    """
    if folder is None:
        return None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if folder.stat().st_uid == os.geteuid():
            return Environments(folder.resolve())
        reason = "it belongs to somebody else"
    except OSError as error:
        reason = str(error.strerror)
    logger.warning("images are not shared, %s cannot be used: %s", folder, reason)
    return None
