"""Namespaces of a Homeport in this cluster that no row knows: of another installation, or of a lost database."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from portal.cluster.objects import KubeNamespace
from tenants.models import Tenant
from tenants.namespaces.adopting import OF_CHECKS
from tenants.record import read_record

_NAMED = 3


def find_unknown_namespaces(seen: Sequence[KubeNamespace]) -> list[dict[str, Any]]:
    """`{"portal", "count", "names"}` of each installation; `portal` is its POD_PORTAL_URL, or empty. Blocking.

    Raises:
        DatabaseError: the rows cannot be read.
    """
    rows = {str(pk) for pk in Tenant.objects.values_list("pk", flat=True)}
    found = defaultdict(list)
    for namespace in seen:
        meta = namespace.metadata
        is_going = meta.deletion_timestamp is not None or meta.name.startswith(OF_CHECKS)
        if meta.owner and meta.owner not in rows and not is_going:
            found[_portal(meta.annotations.record)].append(meta.name)
    return [
        {"portal": portal, "count": len(names), "names": names[:_NAMED]}
        for portal, names in sorted(found.items())
    ]


def _portal(text: str) -> str:
    try:
        return read_record(text).portal
    except ValueError:
        return ""
