"""What the page of a workload behind a gate shows: how its start goes, what it is, where it runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from jobs.kinds import notes
from jobs.kinds.interactive.lifecycle import END_S, PROBLEM_S
from jobs.kinds.interactive.opening import gate_origin
from jobs.kinds.interactive.spec import TensorBoardSpec
from jobs.kinds.interactive.startup import DETAIL_MAX, PROBLEMS
from jobs.kinds.registry import ARCHIVED
from jobs.kinds.spec import spec_of
from jobs.models import Artifact, Replica, Workload, WorkloadQuerySet
from jobs.rules import patterns
from jobs.rules.reasons import clip
from jobs.rules.states import FINAL_STATES, HOLDING_STATES, WorkloadState
from jobs.workloads.page import WorkloadPage
from jobs.workloads.startup import StartStep, start_steps, usual_seconds
from jobs.workloads.usage import Holder, find_holders, totals

MAX_EARLIER_STARTS = 20
EVENT_FILES = "tfevents"  # part of the name of every file that TensorBoard reads


@dataclass(frozen=True)
class ShownFolder:
    """One log folder that a TensorBoard shows."""

    title: str
    path: str
    job: Workload | None  # None: deleted, or never was a training's
    is_empty: bool  # the training has ended and left no event file


class InteractivePage(WorkloadPage):
    """What is served behind a gate: how its start goes, what it is, where it runs."""

    parts = WorkloadPage.parts | {"startup", "content", "place", "opening"}
    unread = ("plan", "notes")

    @cached_property
    def replica(self) -> Replica | None:
        """Where it runs, or ran last; None before its first pod."""
        return self.workload.replica

    @property
    def shows_reason(self) -> bool:
        """Why it does not run yet is said at the step that is the current one."""
        return super().shows_reason and not self.is_starting

    @property
    def leaves_at(self) -> datetime | None:
        """When it is stopped at the latest; None: when somebody does it."""
        row = self.workload
        ends_by = row.room_ends_by if row.state in HOLDING_STATES else None
        return None if ends_by is None else ends_by - timedelta(seconds=END_S)

    @property
    def fails_at(self) -> datetime | None:
        row = self.workload
        is_broken = patterns.family_of(row.reason_code) in PROBLEMS
        if row.state != WorkloadState.STARTING or not is_broken:
            return None
        since = notes.load(row.notes).problem_since  # None: it is not what fails the start
        return since and since + timedelta(seconds=PROBLEM_S)

    @property
    def cause(self) -> str:
        """Why the latest start waits or ended; what is known of an earlier one is not told."""
        row = self.workload
        return str(row.reason_text) if row.observed_generation == row.generation else ""

    def tells_cause(self, step: StartStep) -> bool:
        """Whether the detail of a step is the cause, cut where a step has no more room."""
        return bool(step.detail) and step.detail == clip(self.cause, DETAIL_MAX)

    @cached_property
    def steps(self) -> list[StartStep]:
        return start_steps(self.workload)

    @cached_property
    def usual(self) -> Mapping[str, float]:
        """Seconds that each step usually takes with this image, from what the person may see."""
        earlier = (
            Workload.objects.visible_to(self.user)
            .filter(kind=self.kind.key, image=self.workload.image, started_at__isnull=False)
            .exclude(pk=self.workload.pk)
            .order_by("-started_at")
            .values_list("steps", flat=True)
        )
        return usual_seconds(earlier[:MAX_EARLIER_STARTS], self.workload.steps)

    @property
    def address(self) -> str:
        """Where the gate answers; empty before the cluster has picked a port."""
        port = self.workload.node_port
        return gate_origin(port) if port else ""

    @cached_property
    def holders(self) -> list[Holder]:
        """What of the owner's holds the quota that this one waits for."""
        if not (self.is_own and self.is_starting and self.workload.reason_code == "quota"):
            return []
        return find_holders(self.workload, self.user)

    @property
    def asked(self) -> dict[str, int]:
        """By the resources of the quota."""
        return totals(self.workload.replicas)

    @property
    def _trainings(self) -> WorkloadQuerySet:
        visible: WorkloadQuerySet = Workload.objects.visible_to(self.user)
        return visible.filter(kind__in=ARCHIVED)

    @cached_property
    def folders(self) -> list[ShownFolder]:
        """What a TensorBoard shows; empty: all of the log volume. Two queries."""
        rows = spec_of(self.workload, TensorBoardSpec).log_dirs
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
        if self.workload.event_files is not None:
            return bool(self.workload.event_files == 0)
        if self.folders:
            return all(folder.is_empty for folder in self.folders)
        jobs = self._trainings.filter(tenant=self.workload.tenant_id)
        written = Artifact.objects.filter(workload__in=jobs, path__contains=EVENT_FILES)
        return not jobs.unfinished().exists() and not written.exists()
