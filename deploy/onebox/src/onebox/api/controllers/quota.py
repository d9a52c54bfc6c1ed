"""Keeps `status` of ResourceQuotas true: what is allowed, and what is used now.

Admission counts every create by itself; this controller corrects the number when objects go,
end or change, and fills it in for a new quota (until then it bounds nothing, as upstream).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from onebox.api.admission.quota import compute_used
from onebox.api.controllers.objects import (
    Key,
    find_time,
    key_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
)
from onebox.api.controllers.runtime import Controller
from onebox.api.resources import RESOURCES, Obj
from onebox.api.store import clone

if TYPE_CHECKING:
    from onebox.api.registry import Api

DEBOUNCE_S = 0.05  # a burst of changes in a namespace is counted once
# What no quota counts, and what changes without end.
UNCOUNTED = frozenset({"events", "leases", "endpointslices", "resourcequotas"})


class QuotaController(Controller):
    """Keys are (namespace, name) of quotas, and (namespace,) for "something changed there"."""

    name = "resourcequota-controller"
    kinds = (
        "resourcequotas",
        *(r.plural for r in RESOURCES if r.namespaced and r.plural not in UNCOUNTED),
    )

    def __init__(self, api: Api) -> None:
        super().__init__(api)
        self._dirty: set[str] = set()  # namespaces whose recount waits for the burst to end

    def keys(self, event: str, plural: str, obj: Obj) -> Iterable[Key]:
        """A quota wakes itself; anything counted wakes its namespace."""
        if plural == "resourcequotas":
            return (key_of(obj),) if event != "DELETED" else ()
        namespace = namespace_of(obj)
        if namespace in self._dirty or not self.api.list("resourcequotas", namespace):
            return ()
        return ((namespace,),)

    def sync(self, key: Key) -> float | None:
        """Recount one quota, or all of a namespace after a short wait."""
        if len(key) == 2:
            quota = self.api.find("resourcequotas", key[0], key[1])
            if quota is not None:
                self._recount(quota)
            return None
        (namespace,) = key
        if namespace not in self._dirty:
            self._dirty.add(namespace)
            return DEBOUNCE_S
        self._dirty.discard(namespace)
        for quota in list(self.api.list("resourcequotas", namespace)):
            self._recount(quota)
        return self._overdue_in_s(namespace)

    def _overdue_in_s(self, namespace: str) -> float | None:
        """Seconds until a pod that is being deleted stops counting though its node is silent."""
        now = self.api.clock()
        waits = []
        for pod in self.api.list("pods", namespace):
            until = find_time(pod["metadata"].get("deletionTimestamp"))
            if until is not None:
                grace_s = pod["metadata"].get("deletionGracePeriodSeconds") or 0
                waits.append((until - now).total_seconds() + grace_s + 1)
        return min((wait_s for wait_s in waits if wait_s > 0), default=None)

    def _recount(self, quota: Obj) -> None:
        hard = spec_of(quota).get("hard") or {}
        status = {"hard": clone(hard), "used": compute_used(self.api, quota)}
        if status_of(quota) == status:
            return
        changed = {**clone(quota), "status": status}
        self.api.update(
            "resourcequotas", namespace_of(quota), name_of(quota), changed, subresource="status"
        )
