"""What the page of one training shows. Each part reads its rows only when it is rendered."""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from jobs import command_line, timeline
from jobs.archive.logs import Which
from jobs.kinds.spec import spec_of
from jobs.kinds.training import private
from jobs.kinds.training.form import changed_options
from jobs.kinds.training.pages import shape_text
from jobs.kinds.training.spec import TrainingSpec
from jobs.models import Artifact, Bundle, Replica, Workload, WorkloadEvent
from jobs.rules.states import Desired, WorkloadState
from portal import characters
from portal.cluster.manifests import to_yaml
from tenants import policy
from tenants.models import User

MAX_EVENTS = 300
MAX_ARTIFACTS = 1000


@dataclass(frozen=True)
class ArtifactRow:
    artifact: Artifact

    @property
    def folder(self) -> str:
        folder, slash, _name = self.artifact.path.rpartition("/")
        return characters.visible(folder) + slash

    @property
    def file_name(self) -> str:
        return characters.visible(self.artifact.path.rsplit("/", 1)[-1])

    @property
    def changed_at(self) -> datetime | None:
        try:
            return datetime.fromtimestamp(self.artifact.mtime_ns / 1e9, tz=UTC)
        except (OverflowError, OSError, ValueError):
            return None  # a file may carry any time that its program gave it


class JobPage:
    """One training, for somebody who may see it."""

    def __init__(self, job: Workload, user: User, which: Which = "latest") -> None:
        """`which`: of which attempt the log is shown."""
        self.job = job
        self.user = user
        self.which = which

    @cached_property
    def spec(self) -> TrainingSpec:
        return spec_of(self.job, TrainingSpec)

    @property
    def shape(self) -> str:
        return shape_text(self.job)

    @cached_property
    def steps(self) -> list[timeline.Step]:
        return timeline.steps(self.job)

    @property
    def is_own(self) -> bool:
        return bool(self.job.owner_id == self.user.pk)

    @cached_property
    def allowed(self) -> frozenset[str]:
        """What the person may do with it, whatever its state."""
        return policy.allowed(self.user, self.job.tenant, "stop", "delete")

    def require(self, verb: str) -> None:
        """
        Raises:
            PermissionDenied: the person may not do this with it.
        """
        policy.require(self.user, verb, self.job.tenant)

    @property
    def may_stop(self) -> bool:
        return not self.job.is_final and "stop" in self.allowed

    @property
    def may_delete(self) -> bool:
        return "delete" in self.allowed

    @property
    def is_stop_asked(self) -> bool:
        """Stop was asked for, and the reconciler has not yet said `stopping`."""
        asked = self.job.desired == Desired.STOP and not self.job.is_final
        return asked and self.job.state != WorkloadState.STOPPING

    @cached_property
    def _all_replicas(self) -> list[Replica]:
        rows = list(self.job.replica_rows.all())
        order = {role: place for place, role in enumerate(self.job.asked)}
        return sorted(rows, key=lambda r: (r.attempt, order.get(r.role, 99), r.index))

    @property
    def replicas(self) -> list[Replica]:
        """Of the current attempt."""
        return [row for row in self._all_replicas if row.attempt == self.job.attempt]

    @property
    def earlier(self) -> list[Replica]:
        """Of attempts that came before."""
        return [row for row in self._all_replicas if row.attempt != self.job.attempt]

    @property
    def has_gpus(self) -> bool:
        return any(asked["gpu_count"] for asked in self.job.replicas.values())

    @property
    def replica_names(self) -> list[str]:
        """`worker-0`, ...: all that the request has, whether or not they exist yet."""
        return [
            f"{role}-{index}"
            for role, asked in self.job.asked.items()
            for index in range(asked["count"])
        ]

    @cached_property
    def _latest_events(self) -> list[WorkloadEvent]:
        return list(self.job.events.order_by("-at", "-id")[: MAX_EVENTS + 1])

    @property
    def events(self) -> list[WorkloadEvent]:
        """Newest first."""
        return self._latest_events[:MAX_EVENTS]

    @property
    def has_more_events(self) -> bool:
        return len(self._latest_events) > MAX_EVENTS

    @cached_property
    def artifacts(self) -> list[ArtifactRow]:
        return [ArtifactRow(artifact) for artifact in self.job.artifacts.all()[:MAX_ARTIFACTS]]

    @property
    def artifacts_bytes(self) -> int:
        return sum(row.artifact.size_bytes for row in self.artifacts)

    @cached_property
    def manifests(self) -> str:
        """YAML as rendered at admission; empty before."""
        return to_yaml(private.shown_plan(self.job, self.user)) if self.job.plan else ""

    @property
    def env(self) -> list[tuple[str, str]]:
        """Variables with what the reader may see of their values."""
        shown = self._shown.env.items()
        return [(name, private.HIDDEN if value is None else value) for name, value in shown]

    @property
    def source(self) -> dict[str, str] | None:
        return self._shown.source

    @cached_property
    def _shown(self) -> TrainingSpec:
        return private.shown_spec(self.spec, self.job.tenant, self.user)

    @property
    def options(self) -> list[tuple[str, str]]:
        """Label and value of what was asked for beyond the usual."""
        return changed_options(self.spec)

    @property
    def command_text(self) -> str:
        return command_line.join(self.spec.command)

    @cached_property
    def bundle(self) -> Bundle | None:
        identity = (self.spec.source or {}).get("bundle")
        return Bundle.objects.filter(pk=identity).first() if identity else None

    @property
    def asked(self) -> list[tuple[str, dict[str, Any]]]:
        return list(self.job.asked.items())
