"""A container's files without mounts: which path means which file of the machine. Pure.

The counterpart of `rootfs`: programs and libraries of the machine are seen as they are, mounts of
the pod lie where their volumes lie, and everything else is the container's own root, a folder.
"""

from __future__ import annotations

import os.path
from collections.abc import Mapping
from typing import NamedTuple

_MOST_REMEMBERED = 8192


class Place(NamedTuple):
    """Where a path leads.

    Args:
        real: the path on the machine.
        depth: bytes of `real` at which what lies below a mount begins.
    """

    real: bytes
    is_read_only: bool
    depth: int

    @property
    def is_mount(self) -> bool:
        """Whether the path is itself a mount point."""
        return self.depth >= len(self.real)


class View:
    """The translation of absolute paths.

    Args:
        seen: paths that are what they are on the machine, and whether they are read-only.
        places: path in the container -> (path on the machine, read-only).
        root: the folder that is the container's own root.
    """

    def __init__(
        self,
        seen: Mapping[str, bool],
        places: Mapping[str, tuple[str, bool]],
        root: str,
        *,
        read_only_root: bool,
    ) -> None:
        self._root = os.fsencode(root)
        self._read_only_root = read_only_root
        self._places: dict[bytes, tuple[bytes, bool] | None] = {}
        # A program may have the real path of a file from /proc or from a script's first line.
        for real, read_only in [*places.values(), (root, read_only_root)]:
            self._places[os.fsencode(real)] = (os.fsencode(real), read_only)
        for path, read_only in seen.items():
            name = os.fsencode(path)
            self._places[name] = (name, True) if read_only else None
        for path, (real, read_only) in places.items():
            self._places[os.fsencode(path)] = (os.fsencode(real), read_only)
        self._back = {
            os.fsencode(real): os.fsencode(path)
            for path, (real, _) in sorted(places.items(), reverse=True)
            if path != real
        }
        self._back[self._root] = b""
        self._known: dict[bytes, Place | None] = {}

    def find(self, path: bytes) -> Place | None:
        """Return where an absolute path leads; None: it is a path of the machine."""
        try:
            return self._known[path]
        except KeyError:
            pass
        if len(self._known) >= _MOST_REMEMBERED:
            self._known.clear()
        place = self._known[path] = self._find(path)
        return place

    def real(self, path: str) -> str:
        """Return the path on the machine."""
        place = self.find(os.fsencode(path))
        return path if place is None else os.fsdecode(place.real)

    def virtual(self, real: bytes) -> bytes | None:
        """Return the container's name of a path of the machine; None where it has no other."""
        rest = b""
        head = real
        while head not in (b"", b"/"):
            if head in self._back:
                return self._back[head] + rest or b"/"
            head, _, last = head.rpartition(b"/")
            rest = b"/" + last + rest
        return None

    def _find(self, path: bytes) -> Place | None:
        plain = path
        if b"/." in path or b"//" in path:
            plain = b"/" + os.path.normpath(path).lstrip(b"/")
        elif len(path) > 1:
            plain = path.rstrip(b"/")
        if plain in (b"/", b""):
            return Place(self._root, self._read_only_root, len(self._root))
        head = plain
        while head:
            if head in self._places:
                return self._place(head, plain, path)
            head = head.rpartition(b"/")[0]
        real = self._root + plain + _tail(path)
        return Place(real, self._read_only_root, len(self._root))

    def _place(self, head: bytes, plain: bytes, path: bytes) -> Place | None:
        found = self._places[head]
        if found is None:
            return None
        real, read_only = found
        return Place(real + plain[len(head) :] + _tail(path), read_only, len(real))


def _tail(path: bytes) -> bytes:
    """A slash at the end says that a folder is meant."""
    return b"/" if path.endswith((b"/", b"/.")) else b""
