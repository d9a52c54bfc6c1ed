"""Keeps a reserve of free disk below HOMEPORT_HOME, so that a full disk is told before it is full.

Whatever makes the disk fuller asks here first. Signing in, stopping and deleting do not: they need
little, and they are how room is made.
"""

import errno
import shutil

from django.conf import settings

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})


class NoRoomError(OSError):
    """The disk has less free than DISK_RESERVE_BYTES; answered as any full disk is (507)."""


def is_short(more_bytes: int = 0) -> bool:
    """Whether less than the reserve is free, or would be with so many bytes more."""
    free: int = shutil.disk_usage(settings.HOMEPORT_HOME).free
    reserve: int = settings.DISK_RESERVE_BYTES
    return free - more_bytes < reserve


def check(more_bytes: int = 0) -> None:
    """Raises NoRoomError: nothing more may be kept, or not so much."""
    if is_short(more_bytes):
        text = "less than DISK_RESERVE_BYTES would be free below HOMEPORT_HOME"
        raise NoRoomError(errno.ENOSPC, text)
