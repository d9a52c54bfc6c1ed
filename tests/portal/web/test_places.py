"""A place that the garbage collector gives back, at whatever moment, stops nobody."""

import threading
from collections import Counter
from collections.abc import Hashable
from typing import Any

from portal.web.downloads import MAX_PER_PERSON, Places


class _Collecting(Counter[Hashable]):
    """Gives a place back whenever it is asked for one's own: what a collection may do within each step."""

    def __init__(self) -> None:
        super().__init__()
        self.at_look: Any = lambda: None

    def __getitem__(self, person: Hashable) -> int:
        self.at_look()
        return super().__getitem__(person)


def test_a_collection_while_a_place_is_taken_or_given_back_or_counted() -> None:
    places = Places()
    used = places._used = _Collecting()
    lost = [places.take(f"lost {n}") for n in range(3)]

    def collect() -> None:
        used.at_look = lambda: None
        lost.pop()()

    def work() -> None:
        used.at_look = collect
        give_back = places.take("a")
        used.at_look = collect
        give_back()
        used.at_look = collect
        places.count("a")

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive(), "it waits for itself"
    assert not lost
    assert not dict(used)


def test_a_place_is_given_back_once() -> None:
    places = Places()
    given = [places.take("a") for _n in range(MAX_PER_PERSON)]
    given[0]()
    given[0]()
    assert places.count("a") == MAX_PER_PERSON - 1
    for give_back in given:
        give_back()
    assert not places._used
