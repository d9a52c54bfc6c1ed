"""Who uses the GPUs of the nodes: the pods' trainings, notebooks and owners, as far as one may see.

Two queries for all nodes together, however many pods there are. A pod of somebody whose tenant the
viewer may not see keeps nothing but its GPUs and a word on whose it is.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from jobs.models import Node, Workload
from tenants import policy
from tenants.models import Tenant


@dataclass(frozen=True)
class GpuUser:
    """A pod that holds GPUs.

    Attributes:
        whose: `seen` (the viewer may see it), `team` (a team mate's), `other` (another team's),
            or `outside` (not made by Homeport).
        kind: `job`, `notebook`, `tensorboard` or `pod`; None when it may not be seen.
        id: of the training or service; None when it has no row or may not be seen.
        name: of the training or service as its owner typed it, else the pod's.
        gpus: their numbers on the node, such as `0,1`; empty when the node does not tell.
    """

    whose: str
    gpu_count: int
    gpus: str = ""
    since: datetime | None = None
    namespace: str | None = None
    pod: str | None = None
    kind: str | None = None
    id: UUID | None = None
    name: str | None = None
    owner: str | None = None
    owner_name: str | None = None

    @property
    def is_seen(self) -> bool:
        return self.whose == "seen"


class GpuUsers:
    """The users of the GPUs of some nodes for one viewer."""

    def __init__(self, user: Any, nodes: Iterable[Node]) -> None:
        self._user = user
        self._sees_all = policy.may(user, "administer")
        told = [one for node in nodes for one in node.holders]
        self._tenants = self._find_tenants({one["namespace"] for one in told})
        owners = {pk for one in told if (pk := _uuid(one["owner"])) is not None}
        self._rows: dict[UUID, tuple[str, str]] = {}
        if owners:
            rows = Workload.objects.visible_to(user).filter(pk__in=owners)
            for pk, kind, name in rows.values_list("pk", "kind", "name"):
                self._rows[pk] = (kind, name)

    def _find_tenants(self, namespaces: set[str]) -> dict[str, tuple[Tenant, bool]]:
        """Namespace -> its tenant, and whether the viewer may see it."""
        if not namespaces:
            return {}
        found = Tenant.objects.filter(namespace__in=namespaces).select_related("owner")
        if self._sees_all:
            return {tenant.namespace: (tenant, True) for tenant in found}
        visible = set(
            Tenant.objects.visible_to(self._user)
            .filter(namespace__in=namespaces)
            .values_list("pk", flat=True)
        )
        return {tenant.namespace: (tenant, tenant.pk in visible) for tenant in found}

    def of(self, node: Node) -> list[GpuUser]:
        """What the viewer is told of this node's pods: what may be seen first."""
        found = [self._gpu_user(told) for told in node.holders]
        order = {"seen": 0, "team": 1, "other": 2, "outside": 3}
        return sorted(found, key=lambda u: (order[u.whose], u.namespace or "", u.pod or ""))

    def _gpu_user(self, told: dict[str, Any]) -> GpuUser:
        since = datetime.fromisoformat(told["since"]) if told["since"] else None
        tenant, may_see = self._tenants.get(told["namespace"], (None, self._sees_all))
        if not may_see:
            return GpuUser(self._whose(tenant), told["gpu"], since=since)
        pk = _uuid(told["owner"])
        kind, name = self._rows.get(pk, ("pod", told["pod"])) if pk else ("pod", told["pod"])
        return GpuUser(
            "seen",
            told["gpu"],
            told["gpus"],
            since,
            namespace=told["namespace"],
            pod=told["pod"],
            kind=kind,
            id=pk if kind != "pod" else None,
            name=name,
            owner=tenant.owner.username if tenant else None,
            owner_name=tenant.owner.shown_name if tenant else None,
        )

    def _whose(self, tenant: Tenant | None) -> str:
        if tenant is None:
            return "outside"
        is_mate = tenant.team_id is not None and tenant.team_id == self._user.team_id
        return "team" if is_mate else "other"


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
