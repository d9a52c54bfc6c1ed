"""What a list shows of a training: its shape in words, and how many of its replicas are in which state."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Count, F
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobs.models import Replica, Workload
from jobs.rules.states import ReplicaState
from jobs.workloads.usage import totals

MAX_LAMPS = 16
_LAMP_ORDER = (
    ReplicaState.FAILED,
    ReplicaState.RUNNING,
    ReplicaState.SUCCEEDED,
    ReplicaState.STARTING,
    ReplicaState.PENDING,
    ReplicaState.STOPPED,
)


@dataclass(frozen=True)
class JobRow:
    """One training in a list."""

    job: Workload
    counts: dict[str, int]  # replica state -> how many, of the current attempt

    @property
    def shape(self) -> str:
        return shape_text(self.job)

    @property
    def asked(self) -> dict[str, int]:
        return totals(self.job.replicas)

    @property
    def replica_count(self) -> int:
        return sum(asked["count"] for asked in self.job.replicas.values())

    @property
    def lamps(self) -> tuple[str, ...]:
        """A state for each replica, or nothing where there are too many to look at."""
        if self.replica_count > MAX_LAMPS:
            return ()
        known = [state for state in _LAMP_ORDER for _index in range(self.counts.get(state, 0))]
        missing = self.replica_count - len(known)
        return (*map(str, known), *[str(ReplicaState.PENDING)] * missing)

    @property
    def running_count(self) -> int:
        return self.counts.get(ReplicaState.RUNNING, 0)


def shape_text(job: Workload) -> str:
    """`2 workers, 1 parameter server`; `single` where one replica is all."""
    words = {
        "worker": lambda n: ngettext("%(n)s worker", "%(n)s workers", n) % {"n": n},
        "ps": lambda n: ngettext("%(n)s parameter server", "%(n)s parameter servers", n) % {"n": n},
    }
    counts = {role: asked["count"] for role, asked in job.asked.items()}
    if sum(counts.values()) == 1:
        return _("single")
    return ", ".join(words[role](count) for role, count in counts.items())


def job_rows(jobs: Iterable[Workload]) -> list[JobRow]:
    """Rows of a list, in its order. One query for the replicas, however many trainings."""
    listed = list(jobs)
    counts: dict[object, dict[str, int]] = defaultdict(dict)
    seen = (
        Replica.objects.filter(
            workload__in=[job.pk for job in listed], attempt=F("workload__attempt")
        )
        .order_by()
        .values_list("workload_id", "state")
        .annotate(n=Count("id"))
    )
    for job_id, state, n in seen:
        counts[job_id][state] = n
    return [JobRow(job, counts[job.pk]) for job in listed]
