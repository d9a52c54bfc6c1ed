"""What a kind of workload is to everything that works on all kinds."""

from dataclasses import dataclass

from jobs.kinds.lifecycle import Lifecycle


@dataclass(frozen=True)
class WorkloadKind:
    """A kind; `key` is as stored, and as REST and browsers know it."""

    key: str
    lifecycle: type[Lifecycle]
