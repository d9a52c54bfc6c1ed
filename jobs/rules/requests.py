"""What a workload asks for by role, and what scheduler and quota count of it."""

from collections.abc import Mapping
from typing import Any

import msgspec

from jobs.rules.admission import Amount, ReplicaRequest

_NOTHING = Amount()


class RoleRequest(msgspec.Struct, frozen=True):
    """What each replica of one role asks for.

    Attributes:
        command, image: what it runs, and in what; None: as the training says for all.
    """

    count: int
    cpu_millicores: int
    memory_bytes: int
    gpu_count: int = 0
    command: tuple[str, ...] | None = None
    image: str | None = None
    min_count: int | None = None  # fewest that go on while others are lost; None: all are needed


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
            asked["count"],
            Amount(asked["cpu_millicores"], asked["memory_bytes"], asked["gpu_count"], 1)
            + overhead,
        )
        for role, asked in replicas.items()
    )
