"""How many rows of each kind a lab has, and how they are inserted and shared out."""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any, TypeVar

GIB = 2**30
BATCH = 1000
T = TypeVar("T")


@dataclass(frozen=True)
class Size:
    """How many of each; of trainings, services and history the first tenant gets a tenth."""

    tenants: int = 4
    teams: int = 2
    finished: int = 10
    running: int = 4
    queued: int = 4
    services: int = 8  # of each kind; half of them run
    audit: int = 10
    usage: int = 10
    nodes: int = 2
    inside: int = 3  # replicas, events, artifacts, tokens, sessions of the objects that are opened

    def times(self, factor: int) -> "Size":
        return Size(**{field.name: getattr(self, field.name) * factor for field in fields(self)})


SMALL = Size()
LARGE = Size(
    tenants=500,
    teams=20,
    finished=10_000,
    running=300,
    queued=200,
    services=400,
    audit=30_000,
    usage=40_000,
    nodes=60,
    inside=40,
)


def bulk(model: Any, rows: Iterable[Any]) -> list[Any]:
    """Inserts rows of one model."""
    made: list[Any] = model.objects.bulk_create(list(rows), batch_size=BATCH)
    return made


def shares(owners: list[T], count: int) -> Iterator[T]:
    """`count` owners: a tenth is the first one, the others take turns."""
    others = itertools.cycle(owners[1:] or owners)
    for number in range(count):
        yield owners[0] if number % 10 == 0 else next(others)
