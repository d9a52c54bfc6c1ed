"""Advice beside the form of a new training: what works, but may work better otherwise. It refuses nothing."""

from statistics import median

from django.utils.translation import gettext as _

from jobs.kinds.training.spec import KEY, TrainingSpec
from jobs.models import Node, Workload
from jobs.rules.states import WorkloadState
from jobs.rules.topologies import TOPOLOGIES, AskedRoles, advice
from portal.web.format import duration_text
from tenants.models import Tenant

_RUNS = 20  # of late, that tell how long such a training takes


def advice_for(spec: TrainingSpec, tenant: Tenant) -> list[str]:
    """Sentences for the person who asks for it."""
    deciding = TOPOLOGIES[spec.topology].deciding(spec.replicas).name
    sizes = Node.objects.values_list("allocatable", flat=True)
    asked = AskedRoles(
        counts={role: one.count for role, one in spec.replicas.items()},
        gpus={role: one.gpu_count for role, one in spec.replicas.items()},
        least=spec.least,
        command=spec.command_of(deciding),
        node_gpus=max((size.get("gpu", 0) for size in sizes), default=0),
    )
    said = [_(text) for text in advice(TOPOLOGIES[spec.topology], asked)]
    return [*said, *_deadline_advice(spec, tenant)]


def _deadline_advice(spec: TrainingSpec, tenant: Tenant) -> list[str]:
    """Whether trainings of this name usually ran for longer than this one may."""
    if not spec.run_policy.deadline_s:
        return []
    rows = Workload.objects.filter(
        tenant=tenant,
        kind=KEY,
        name=spec.name,
        state=WorkloadState.SUCCEEDED,
    ).order_by("-queued_at")
    times = rows.values_list("started_at", "deciders_ended_at")[:_RUNS]
    took = [(ended - started).total_seconds() for started, ended in times if started and ended]
    usual_s = median(took) if took else 0
    if usual_s <= spec.run_policy.deadline_s:
        return []
    return [
        _(
            "Trainings named “%(name)s” usually ran for %(usual)s, which is longer than the deadline of %(deadline)s."
        )
        % {
            "name": spec.name,
            "usual": duration_text(usual_s),
            "deadline": duration_text(spec.run_policy.deadline_s),
        }
    ]
