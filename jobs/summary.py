"""What a list shows of a job: its shape in words, and how many of its replicas are in which state."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Count, F
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobs.models import Job, Replica
from jobs.quota_usage import totals
from jobs.rules.states import ReplicaState

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
    """One job in a list."""

    job: Job
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
    def lamps(self) -> list[str]:
        """A state for each replica, or nothing where there are too many to look at."""
        if self.replica_count > MAX_LAMPS:
            return []
        known = [state for state in _LAMP_ORDER for _index in range(self.counts.get(state, 0))]
        missing = self.replica_count - len(known)
        return [str(state) for state in known] + [str(ReplicaState.PENDING)] * missing

    @property
    def running_count(self) -> int:
        return self.counts.get(ReplicaState.RUNNING, 0)


def shape_text(job: Job) -> str:
    """`2 workers, 1 parameter server`."""
    words = {
        "worker": lambda n: ngettext("%(n)s worker", "%(n)s workers", n) % {"n": n},
        "ps": lambda n: ngettext("%(n)s parameter server", "%(n)s parameter servers", n) % {"n": n},
    }
    if job.topology == "single":
        return _("single")
    return ", ".join(words[role](asked["count"]) for role, asked in job.asked.items())


def job_rows(jobs: Iterable[Job]) -> list[JobRow]:
    """Rows of a list, in its order. One query for the replicas, however many jobs."""
    listed = list(jobs)
    counts: dict[object, dict[str, int]] = defaultdict(dict)
    seen = (
        Replica.objects.filter(job__in=[job.pk for job in listed], attempt=F("job__attempt"))
        .order_by()
        .values_list("job_id", "state")
        .annotate(n=Count("id"))
    )
    for job_id, state, n in seen:
        counts[job_id][state] = n
    return [JobRow(job, counts[job.pk]) for job in listed]
