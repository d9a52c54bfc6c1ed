"""What pages and probes tell of the reconciler: its silence, and what it last knew of the cluster.

The app that keeps the reconciler's lease says at start how it is read (`read_leases_by`), so that
pages need not know that app.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from django.utils.translation import gettext

# The reconciler renews its lease every few seconds; a silence this long is worth a banner.
SILENCE = timedelta(seconds=45)


class LeaseRow(Protocol):
    """What the reconciler writes of itself while it works."""

    @property
    def renewed_at(self) -> datetime | None: ...

    @property
    def cluster_ok_at(self) -> datetime | None: ...

    @property
    def cluster_error(self) -> str: ...

    @property
    def health(self) -> Any: ...


class _Source:
    read: Callable[[], LeaseRow | None]


def read_leases_by(read: Callable[[], LeaseRow | None]) -> None:
    """Called once, when apps are ready; `read` asks the database."""
    _Source.read = staticmethod(read)


def find_lease() -> LeaseRow | None:
    """The reconciler's lease; None when none has ever run. Asks the database."""
    return _Source.read()


@dataclass(frozen=True)
class Banner:
    """Something wrong with the cluster or the reconciler, told on every page."""

    since: datetime | None
    text: str
    detail: str


def find_banner(lease: LeaseRow | None, at: datetime) -> Banner | None:
    """What to tell about the cluster, or None when all is well."""
    if lease is None or lease.renewed_at is None:
        return Banner(None, gettext("Homeport has not reached a cluster yet."), "")
    if at - lease.renewed_at > SILENCE:
        return Banner(
            lease.renewed_at,
            gettext("Homeport's link to the cluster is down, so what you see here may be old."),
            "",
        )
    if lease.cluster_error:
        return Banner(
            lease.cluster_ok_at,
            gettext("The cluster does not answer, so what you see here may be old."),
            lease.cluster_error,
        )
    return None


def is_isolated(lease: LeaseRow | None) -> bool:
    """False where it was tried, and pods of different namespaces reached each other."""
    told = (lease.health if lease else {}).get("network") or {}
    return bool(told.get("state") != "no")
