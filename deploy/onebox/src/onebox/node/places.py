"""Where this node keeps its own files: of no use to people, who cannot look there."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


class Places:
    """Folders that no text for people names.

    Args:
        folders: as they were given; where links lead counts as well.
    """

    def __init__(self, folders: Iterable[Path] = ()) -> None:
        found = {str(path) for folder in folders for path in (folder, folder.resolve())}
        # The longest first: one may lie in another.
        self._places = sorted(found - {"/"}, key=len, reverse=True)

    def left_out_of(self, text: str) -> str:
        """Return the text with an ellipsis in place of each of the folders."""
        for place in self._places:
            text = text.replace(place, "…")
        return text
