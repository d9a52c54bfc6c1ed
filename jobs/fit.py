"""Whether a submission would fit now, later or never, from what the database knows.

An estimate for people: the reconciler alone admits, and it counts anew.
"""

from dataclasses import replace

from jobs.manifests import needs_of
from jobs.models import Job, Node
from jobs.rules.admission import Amount, Fit, NodeRoom
from jobs.rules.admission import fit as fit_amounts
from jobs.rules.states import JobState
from jobs.submission import Submission
from tenants.models import Tenant


def amount(counted: dict[str, int]) -> Amount:
    """An Amount of a JSON column with cpu, memory, gpu and pods."""
    return Amount(
        counted.get("cpu", 0),
        counted.get("memory", 0),
        counted.get("gpu", 0),
        counted.get("pods", 0),
    )


def quota_left(tenant: Tenant) -> tuple[Amount | None, Amount | None]:
    """The whole quota and what of it nobody holds; None while the cluster has not counted it."""
    if not tenant.observed_hard:
        return None, None
    hard = amount(tenant.observed_hard)
    return hard, hard - amount(tenant.observed_used)


def node_rooms() -> tuple[NodeRoom, ...]:
    """All nodes with what is free on them, as last seen."""
    return tuple(
        NodeRoom(
            node.name,
            amount(node.allocatable),
            amount(node.allocatable) - amount(node.requested),
            node.is_ready and node.is_schedulable,
        )
        for node in Node.objects.all()
    )


def fit(submission: Submission, tenant: Tenant) -> Fit:
    """The answer for one submission of this tenant."""
    hard, left = quota_left(tenant)
    if hard is None:
        # What is asked of the cluster is known before the cluster has counted it.
        hard = amount(tenant.quota)
    needs = needs_of({role: asked.as_json() for role, asked in submission.replicas.items()})
    answer = fit_amounts(needs, hard, left, node_rooms())
    ahead = Job.objects.filter(tenant=tenant, state=JobState.QUEUED).count()
    if answer.kind == "now" and ahead:
        return replace(
            answer,
            kind="later",
            code="queue",
            text=f"Fits, but {ahead} of your trainings {'waits' if ahead == 1 else 'wait'} before it.",
        )
    return answer if answer.text else replace(answer, text="Fits now.")
