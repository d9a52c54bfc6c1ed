"""What a workload asks for by role, and what scheduler and quota count of it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

import msgspec

from jobs.rules.amounts import Amount, ReplicaRequest

_NOTHING = Amount()
_TENSORFLOW = re.compile(r"(?:.*/)?tensorflow[^/:@]*:(\d\.\d+)(?!\d).*", re.ASCII)


class RoleRequest(msgspec.Struct, frozen=True):
    """What each replica of one role asks for.

    Attributes:
        command, image: what it runs, and in what; None: as the training says for all.
        pool: where; None: as the training says for all.
    """

    count: int
    cpu_millicores: int
    memory_bytes: int
    gpu_count: int = 0
    command: tuple[str, ...] | None = None
    image: str | None = None
    min_count: int | None = None  # fewest that go on while others are lost; None: all are needed
    pool: str | None = None


def parse_indexes(text: str) -> frozenset[int]:
    """`1,3-5` as a set; what is no number is left out.

    https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/job-v1/#JobStatus
    """
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if not part.isascii():  # "²" is a digit and no number
            continue
        if first.isdigit() and (not last or last.isdigit()):
            found.update(range(int(first), min(int(last or first), int(first) + 10_000) + 1))
    return frozenset(found)


def indexes_text(indexes: Iterable[int]) -> str:
    """`1,3-5` of these."""
    found = enumerate(sorted(indexes))
    runs = [[n for _, n in run] for _, run in groupby(found, lambda pair: pair[1] - pair[0])]
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def indexes_of(asked: Mapping[str, Any]) -> Sequence[int]:
    """Of a role as the column `replicas` keeps it: the replicas that run, in order."""
    chosen = asked.get("indexes")
    return sorted(parse_indexes(chosen)) if chosen else range(asked["count"])


def at_once(asked: Mapping[str, Any]) -> int:
    """Of a role as the column `replicas` keeps it: how many replicas hold room at a time."""
    return int(asked.get("at_once", asked["count"]))


def requests_of(
    replicas: Mapping[str, Mapping[str, Any]], overhead: Amount = _NOTHING
) -> tuple[ReplicaRequest, ...]:
    """What the scheduler and the quota count: a pod needs what its main container asks for.

    The init container asks for no more, and a pod counts the larger of both.

    Args:
        replicas: role -> the fields of a `RoleRequest`, as the column `replicas` keeps them.
        overhead: what each pod holds beside its main container, see `WorkloadKind.overhead`.
    """
    return tuple(
        ReplicaRequest(
            role,
            at_once(asked),
            Amount(asked["cpu_millicores"], asked["memory_bytes"], asked["gpu_count"], 1)
            + overhead,
            asked.get("pool") or "",
        )
        for role, asked in replicas.items()
    )


def tensorflow_version(image: str) -> str:
    """`2.21` of `tensorflow/tensorflow:2.21.0-gpu`; empty: its name does not tell."""
    found = _TENSORFLOW.fullmatch(image)
    return found[1] if found else ""
