"""What the page of one notebook or TensorBoard shows. Each part reads its rows only when rendered."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from jobs.kinds.interactive.opening import gate_origin
from jobs.kinds.interactive.spec import TensorBoardSpec
from jobs.kinds.notebook import NOTEBOOK
from jobs.kinds.registry import KINDS
from jobs.kinds.spec import spec_of
from jobs.kinds.training.kind import TRAINING
from jobs.models import Artifact, Replica, Workload, WorkloadEvent, WorkloadQuerySet
from jobs.rules.states import FINAL_STATES, Desired, WorkloadState
from jobs.services.startup import StartStep, start_steps, usual_seconds
from jobs.workloads.usage import Holder, find_holders, totals
from tenants import policy
from tenants.models import User

MAX_EVENTS = 300
MAX_EARLIER_STARTS = 20
EVENT_FILES = "tfevents"  # part of the name of every file that TensorBoard reads


@dataclass(frozen=True)
class ShownFolder:
    """One log folder that a TensorBoard shows."""

    title: str
    path: str
    job: Workload | None  # None: deleted, or never was a training's
    is_empty: bool  # the training has ended and left no event file


class ServicePage:
    """One notebook or TensorBoard, for somebody who may see it."""

    def __init__(self, service: Workload, user: User) -> None:
        self.service = service
        self.user = user

    @property
    def is_notebook(self) -> bool:
        return bool(self.service.kind == NOTEBOOK.key)

    @property
    def is_own(self) -> bool:
        return bool(self.service.owner_id == self.user.pk)

    @property
    def open_verb(self) -> str:
        return KINDS[self.service.kind].open_verb

    @cached_property
    def replica(self) -> Replica | None:
        """Where it runs, or ran last; None before its first pod."""
        return self.service.replica

    @cached_property
    def allowed(self) -> frozenset[str]:
        """What the person may do with it, whatever its state."""
        verbs = (self.open_verb, "start", "stop", "delete")
        return policy.allowed(self.user, self.service.tenant, *verbs)

    def require(self, verb: str) -> None:
        """
        Raises:
            PermissionDenied: the person may not do this with it.
        """
        policy.require(self.user, verb, self.service.tenant)

    @property
    def may_open(self) -> bool:
        return self.open_verb in self.allowed

    @property
    def may_stop(self) -> bool:
        return not self.service.is_final and "stop" in self.allowed

    @property
    def may_start(self) -> bool:
        is_over = self.service.is_final and not self.is_start_asked
        return is_over and "start" in self.allowed

    @property
    def may_delete(self) -> bool:
        return "delete" in self.allowed

    @property
    def is_stop_asked(self) -> bool:
        """Stop was asked for, and the reconciler has not yet said `stopping`."""
        return (
            self.service.desired == Desired.STOP
            and not self.service.is_final
            and self.service.state != WorkloadState.STOPPING
        )

    @property
    def is_start_asked(self) -> bool:
        """Start was asked for, and the reconciler has not yet noticed."""
        row = self.service
        is_new = row.observed_generation != row.generation
        return bool(row.is_final and row.desired == Desired.RUN and is_new)

    @property
    def cause(self) -> str:
        """Why the latest start waits or ended; what is known of an earlier one is not told."""
        row = self.service
        return str(row.reason_text) if row.observed_generation == row.generation else ""

    @property
    def asks_before_stop(self) -> bool:
        """Work in a running notebook can be lost; a lead or an admin says why."""
        return not self.is_own or (self.is_notebook and self.service.state == WorkloadState.RUNNING)

    @property
    def is_starting(self) -> bool:
        return self.service.state in {WorkloadState.QUEUED, WorkloadState.STARTING}

    @cached_property
    def steps(self) -> list[StartStep]:
        return start_steps(self.service)

    @cached_property
    def usual(self) -> Mapping[str, float]:
        """Seconds that each step usually takes with this image, from what the person may see."""
        earlier = (
            Workload.objects.visible_to(self.user)
            .filter(kind=self.service.kind, image=self.service.image, started_at__isnull=False)
            .exclude(pk=self.service.pk)
            .order_by("-started_at")
            .values_list("steps", flat=True)
        )
        return usual_seconds(earlier[:MAX_EARLIER_STARTS])

    @property
    def address(self) -> str:
        """Where the gate answers; empty before the cluster has picked a port."""
        port = self.service.node_port
        return gate_origin(port) if port else ""

    @cached_property
    def holders(self) -> list[Holder]:
        """What of the owner's holds the quota that this one waits for."""
        if not (self.is_own and self.is_starting and self.service.reason_code == "quota"):
            return []
        return find_holders(self.service.tenant, self.user)

    @property
    def image_title(self) -> str:
        return KINDS[self.service.kind].pages.subtitle(self.service)

    @property
    def asked(self) -> dict[str, int]:
        return totals(self.service.replicas)

    @property
    def _trainings(self) -> WorkloadQuerySet:
        visible: WorkloadQuerySet = Workload.objects.visible_to(self.user)
        return visible.filter(kind=TRAINING.key)

    @cached_property
    def folders(self) -> list[ShownFolder]:
        """What a TensorBoard shows; empty: all of the log volume. Two queries."""
        rows = spec_of(self.service, TensorBoardSpec).log_dirs
        ids = [row["job"] for row in rows if row.get("job")]
        jobs = {str(job.pk): job for job in self._trainings.filter(pk__in=ids).for_lists()}
        written = Artifact.objects.filter(workload__in=list(jobs), path__contains=EVENT_FILES)
        with_events = {str(pk) for pk in written.values_list("workload_id", flat=True).distinct()}
        return [
            ShownFolder(
                title=str(row["title"]),
                path=str(row["path"]),
                job=(job := jobs.get(str(row.get("job")))),
                is_empty=bool(job and job.state in FINAL_STATES and str(job.pk) not in with_events),
            )
            for row in rows
        ]

    @cached_property
    def has_no_event_files(self) -> bool:
        """Nothing to show, as far as is known: its pod found none, or the trainings left none."""
        if self.service.event_files is not None:
            return bool(self.service.event_files == 0)
        if self.folders:
            return all(folder.is_empty for folder in self.folders)
        jobs = self._trainings.filter(tenant=self.service.tenant_id)
        written = Artifact.objects.filter(workload__in=jobs, path__contains=EVENT_FILES)
        return not jobs.unfinished().exists() and not written.exists()

    @cached_property
    def _latest_events(self) -> list[WorkloadEvent]:
        return list(self.service.events.order_by("-at", "-id")[: MAX_EVENTS + 1])

    @property
    def events(self) -> list[WorkloadEvent]:
        """Newest first."""
        return self._latest_events[:MAX_EVENTS]

    @property
    def has_more_events(self) -> bool:
        return len(self._latest_events) > MAX_EVENTS
