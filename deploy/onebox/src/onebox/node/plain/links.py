"""Follows links inside a container's files: an absolute one means a path of the container."""

from __future__ import annotations

import errno
import os.path

from onebox.node import syscalls
from onebox.node.plain.view import Place, View

_MOST_LINKS = 40


def follow(view: View, path: bytes, place: Place, *, stays: bool) -> Place:
    """Return where a path leads once the links on its way are followed.

    Args:
        place: what the view says of the path.
        stays: a link at its end is itself what is meant.

    Raises:
        OSError: ELOOP.
    """
    for _ in range(_MOST_LINKS):
        if not syscalls.has_links(place.real):
            return place
        found = _first_link(path, place, stays=stays)
        if found is None:
            return place
        path = found
        next_place = view.find(path)
        if next_place is None or next_place.real == path:
            # The machine's own: the kernel follows the rest.
            is_read_only = next_place is not None and next_place.is_read_only
            return Place(path, is_read_only, 0)
        place = next_place
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def _first_link(path: bytes, place: Place, *, stays: bool) -> bytes | None:
    """Return the path with its first link replaced by what it says; None: there is none."""
    below = place.real[place.depth :].strip(b"/")
    parts = below.split(b"/") if below else []
    real = place.real[: place.depth].rstrip(b"/")
    plain = b"/" + os.path.normpath(path).strip(b"/")
    shown = plain[: len(plain) - len(below)].rstrip(b"/") if below else plain
    for index, part in enumerate(parts):
        real += b"/" + part
        is_last = index == len(parts) - 1
        if (not is_last or not stays or place.real.endswith(b"/")) and os.path.islink(real):
            target = os.path.join(shown or b"/", os.readlink(real))
            rest = b"/".join(parts[index + 1 :])
            whole = os.path.join(target, rest) if rest else target
            return b"/" + os.path.normpath(whole).strip(b"/")
        shown += b"/" + part
    return None
