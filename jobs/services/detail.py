"""What the page of one notebook or TensorBoard shows. Each part reads its rows only when rendered."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from jobs.models import Artifact, Job, Service, ServiceEvent, ServiceState
from jobs.rules.states import FINAL_STATES
from jobs.services.holders import Holder, find_holders
from jobs.services.listing import image_titles
from jobs.services.opening import gate_origin
from jobs.services.startup import StartStep, start_steps, usual_seconds
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
    job: Job | None  # None: deleted, or never was a training's
    is_empty: bool  # the training has ended and left no event file


class ServicePage:
    """One notebook or TensorBoard, for somebody who may see it."""

    def __init__(self, service: Service, user: User) -> None:
        self.service = service
        self.user = user

    @property
    def is_notebook(self) -> bool:
        return bool(self.service.kind == Service.Kind.NOTEBOOK)

    @property
    def is_own(self) -> bool:
        return bool(self.service.owner_id == self.user.pk)

    @cached_property
    def allowed(self) -> frozenset[str]:
        """What the person may do with it, whatever its state."""
        verbs = (self.service.open_verb, "start", "stop", "delete")
        return policy.allowed(self.user, self.service.tenant, *verbs)

    def require(self, verb: str) -> None:
        """
        Raises:
            PermissionDenied: the person may not do this with it.
        """
        policy.require(self.user, verb, self.service.tenant)

    @property
    def may_open(self) -> bool:
        return self.service.open_verb in self.allowed

    @property
    def may_stop(self) -> bool:
        return not self.service.is_ended and "stop" in self.allowed

    @property
    def may_start(self) -> bool:
        is_over = self.service.is_ended and not self.is_start_asked
        return is_over and "start" in self.allowed

    @property
    def may_delete(self) -> bool:
        return "delete" in self.allowed

    @property
    def is_stop_asked(self) -> bool:
        """Stop was asked for, and the reconciler has not yet said `stopping`."""
        return (
            self.service.desired == Service.Desired.STOP
            and not self.service.is_ended
            and self.service.state != ServiceState.STOPPING
        )

    @property
    def is_start_asked(self) -> bool:
        """Start was asked for, and the reconciler has not yet noticed."""
        row = self.service
        is_new = row.seen_start != row.start_count
        return bool(row.is_ended and row.desired == Service.Desired.RUN and is_new)

    @property
    def cause(self) -> str:
        """Why the latest start waits or ended; what is known of an earlier one is not told."""
        row = self.service
        return str(row.reason_text) if row.seen_start == row.start_count else ""

    @property
    def asks_before_stop(self) -> bool:
        """Work in a running notebook can be lost; a lead or an admin says why."""
        return not self.is_own or (self.is_notebook and self.service.state == ServiceState.RUNNING)

    @property
    def is_starting(self) -> bool:
        return self.service.state in {ServiceState.QUEUED, ServiceState.STARTING}

    @cached_property
    def steps(self) -> list[StartStep]:
        return start_steps(self.service)

    @cached_property
    def usual(self) -> Mapping[str, float]:
        """Seconds that each step usually takes with this image, from what the person may see."""
        earlier = (
            Service.objects.visible_to(self.user)
            .filter(kind=self.service.kind, image=self.service.image, ready_at__isnull=False)
            .exclude(pk=self.service.pk)
            .order_by("-ready_at")
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
        return image_titles().get(self.service.image, "")

    @property
    def asked(self) -> dict[str, int]:
        row = self.service
        return {"cpu": row.cpu_millicores, "memory": row.memory_bytes, "gpu": row.gpu_count}

    @cached_property
    def folders(self) -> list[ShownFolder]:
        """What a TensorBoard shows; empty: all of the log volume. Two queries."""
        rows = self.service.log_dirs
        ids = [row["job"] for row in rows if row.get("job")]
        jobs = {str(job.pk): job for job in Job.objects.visible_to(self.user).filter(pk__in=ids)}
        written = Artifact.objects.filter(job__in=jobs.values(), path__contains=EVENT_FILES)
        with_events = {str(pk) for pk in written.values_list("job_id", flat=True).distinct()}
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
        if self.service.log_dirs:
            return all(folder.is_empty for folder in self.folders)
        jobs = Job.objects.visible_to(self.user).filter(tenant=self.service.tenant_id)
        written = Artifact.objects.filter(job__in=jobs, path__contains=EVENT_FILES)
        return not jobs.unfinished().exists() and not written.exists()

    @cached_property
    def _latest_events(self) -> list[ServiceEvent]:
        return list(self.service.events.order_by("-at", "-id")[: MAX_EVENTS + 1])

    @property
    def events(self) -> list[ServiceEvent]:
        """Newest first."""
        return self._latest_events[:MAX_EVENTS]

    @property
    def has_more_events(self) -> bool:
        return len(self._latest_events) > MAX_EVENTS
