"""What scheduler and quota count of a training, and of a notebook or TensorBoard with its gate."""

from collections.abc import Mapping

from jobs.rules.admission import Amount, ReplicaRequest

# The gate's part: counted by quota and scheduler beside the program's own.
GATE_CPU_MILLICORES = 50
GATE_MEMORY_BYTES = 128 * 1024**2


def requests_of(replicas: Mapping[str, Mapping[str, int]]) -> tuple[ReplicaRequest, ...]:
    """What the scheduler and the quota count: a pod needs what its main container asks for.

    The init container asks for no more, and a pod counts the larger of both.
    """
    return tuple(
        ReplicaRequest(
            role,
            asked["count"],
            Amount(asked["cpu_millicores"], asked["memory_bytes"], asked["gpu_count"], 1),
        )
        for role, asked in replicas.items()
    )


def request_of(kind: str, cpu_millicores: int, memory_bytes: int, gpu_count: int) -> ReplicaRequest:
    """What scheduler and quota count: the program and the gate beside it, one pod, one NodePort."""
    each = Amount(
        cpu_millicores + GATE_CPU_MILLICORES,
        memory_bytes + GATE_MEMORY_BYTES,
        gpu_count,
        pods=1,
        nodeports=1,
    )
    return ReplicaRequest(kind, 1, each)
