"""One tab above a list: what it is called, how many rows it would show, whether it is open."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Tab:
    """`key` stands in the address; the empty one is the tab that is open at first."""

    key: str
    title: Any  # a lazy text
    count: int
    is_here: bool
