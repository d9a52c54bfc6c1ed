"""What is known of the use of a tenant's volumes.

Pods report what `statvfs` says of a volume's folder. Where the storage gives each volume a size of its own that
is the volume's; where it is a folder of something else, it is the use of that, by everybody. Of a disk that happens
to have about the promised size nothing tells the two apart.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from jobs.usage.models import ReplicaUsage
from tenants.models import Tenant

_MIB = 2**20
# A file system keeps some of what was claimed for itself (ext4 of a small volume a tenth), and may be a little larger.
# A disk may also be smaller than what is promised on it: on that a folder has no size of its own either.
_LEAST_OF_CLAIM, _MOST_OF_CLAIM = 0.85, 1.05


@dataclass(frozen=True)
class VolumeUse:
    """`used_bytes` of `promised_bytes`; None: unknown on this storage."""

    name: str
    promised_bytes: int
    used_bytes: int | None


def _promised(tenant: Tenant) -> dict[str, int]:
    """By name, bytes."""
    return {"data": tenant.data_volume_bytes, "log": tenant.log_volume_bytes}


def foreign_figures(totals: Mapping[str, int], tenant: Tenant) -> frozenset[str]:
    """Names of figures that are not of this tenant's volumes, by the MiB that are said to be there."""
    return frozenset(
        f"{name}_mib"
        for name, promised_bytes in _promised(tenant).items()
        if not _LEAST_OF_CLAIM * promised_bytes
        <= totals.get(f"{name}_mib", 0) * _MIB
        <= _MOST_OF_CLAIM * promised_bytes
    )


def volumes_of(row: ReplicaUsage, tenant: Tenant) -> list[VolumeUse]:
    """As a replica reported them last; without those that it did not report."""
    foreign = foreign_figures(row.totals, tenant)
    return [
        VolumeUse(name, promised_bytes, None if figure in foreign else row.latest[figure][0] * _MIB)
        for name, promised_bytes in _promised(tenant).items()
        if (figure := f"{name}_mib") in row.latest
    ]
