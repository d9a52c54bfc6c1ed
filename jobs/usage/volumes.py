"""What is known of the use of a tenant's volumes.

Pods report what `statvfs` says of a volume's folder. Where the storage gives each volume a size of its own that
is the volume's; where it is a folder of something larger, it is the use of that, by everybody.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from jobs.usage.models import ReplicaUsage
from tenants.models import Tenant

_MIB = 2**20
_MOST_OF_CLAIM = 1.05  # a file system may be a little larger than what was claimed


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
        if not 0 < totals.get(f"{name}_mib", 0) * _MIB <= promised_bytes * _MOST_OF_CLAIM
    )


def volumes_of(row: ReplicaUsage, tenant: Tenant) -> list[VolumeUse]:
    """As a replica reported them last; without those that it did not report."""
    foreign = foreign_figures(row.totals, tenant)
    return [
        VolumeUse(name, promised_bytes, None if figure in foreign else row.latest[figure][0] * _MIB)
        for name, promised_bytes in _promised(tenant).items()
        if (figure := f"{name}_mib") in row.latest
    ]
