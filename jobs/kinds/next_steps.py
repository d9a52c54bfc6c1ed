"""Next steps in the words of who reads them.

The table of reasons speaks to researchers, who ask a lead or an admin. Whoever is that lead or admin reads
what to do instead. Rows keep the researchers' words, so each step is looked up by them.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any
from uuid import UUID

from jobs.models import Workload
from jobs.rules.admission import Fit
from jobs.rules.reasons import AFTER_THE_END, ROWS
from tenants import policy
from tenants.models import Tenant

_LOOK = "Look at its events and at the page Health."
_REPEATS = "look at its events and at the page Health if it repeats."
_LASTS = "look at its events and at the page Health if it lasts."

# Code -> what those read who may change the namespace's quota.
_FOR_LEADS: Mapping[str, str] = {
    "quota": (
        "Starts when enough of its namespace's work has ended; stop some, or give the namespace more quota."
    ),
    "over_quota": "It starts once the namespace has that much quota; else a smaller one has to be submitted.",
}
# Code -> what admins read; where a code is in both, as leads.
_FOR_ADMINS: Mapping[str, str] = {
    "no_pool": "Add the pool to the catalog or its team to the pool, or it has to be submitted with another.",
    "withdrawn": "If this repeats, look at its events: they have the scheduler's words.",
    "node_reserved": "Their taints reserve them; the page Nodes shows these.",
    "nodes_closed": "Starts when a node comes back or is released on the page Nodes.",
    "volume_unbound": "Look at the storage class: it may be unable to create volumes.",
    "volume_missing": "It is created again automatically; look at the page Health if it does not return.",
    "volume_elsewhere": "Wait, or give the namespace a storage class that every node can mount.",
    "image_rate_limit": "It is retried automatically; a mirror of the registry helps if it repeats.",
    "volume_attached": f"It is released within minutes; {_LASTS}",
    "gpu_device": "The GPU driver or its device plugin on that node is broken: repair or hold the node.",
    "never_ready": f"It can be started again; {_REPEATS}",
    "owner_disabled": "Enable the account on the page People to let it start again.",
    "cuda_driver": "An image with another CUDA version is needed; the node's driver says which.",
    "gpu_fault": "CUDA_LAUNCH_BLOCKING=1 shows where; if only one node has it, hold that node.",
    "peer_unresolved": f"It can be submitted again; {_REPEATS}",
    "volume_lost": "The node's page says whether it is mounted again.",
    "no_git": "The image that fetches code needs the program git.",
    "tenant_suspended": "Resume the namespace; queued work then starts automatically.",
    "tenant_deleting": "Restore the namespace if it is to be used again.",
    "internal": "It is retried automatically; Homeport's own log says more if it lasts.",
}
_OF_ALL = {"Tell your admin.": _LOOK}


class NextSteps:
    """For one person, however many workloads; one query, and none where nobody is to be asked."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader

    def of(self, workload: Workload) -> str:
        """Of a row with its reason; empty: there is nothing to do."""
        code, step = workload.reason_code, workload.reason_next_step
        if workload.is_final and code in AFTER_THE_END:
            return AFTER_THE_END[code]
        if step != ROWS.get(code, ("", ""))[1]:
            return step  # of an earlier version, or with facts in it
        if code in _FOR_LEADS and self._may_change_quota(workload.tenant_id):
            return _FOR_LEADS[code]
        is_for_admins = code in _FOR_ADMINS or step in _OF_ALL
        if is_for_admins and policy.may(self._reader, "administer"):
            return _FOR_ADMINS.get(code) or _OF_ALL[step]
        return step

    def before_submit(self, answer: Fit, tenant: Tenant) -> str:
        """Of what never fits; empty: there is nothing to do."""
        if answer.code == "over_quota" and self._may_change_quota(tenant.pk):
            return "Request less, or give the namespace more quota."
        return answer.next_step

    def _may_change_quota(self, tenant_id: UUID) -> bool:
        return policy.may(self._reader, "administer") or tenant_id in self._led

    @cached_property
    def _led(self) -> frozenset[UUID]:
        found = Tenant.objects.filter(policy.tenants(self._reader, "change_quota"))
        return frozenset(found.values_list("pk", flat=True))
