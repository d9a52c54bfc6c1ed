"""What the page of a training shows: its replicas, its log, what it left, what was asked for."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

from django.db.models import Case, Count, Sum, When
from django.utils.translation import gettext as _

from jobs import command_line
from jobs.archive.logs import which_of
from jobs.kinds import notes
from jobs.kinds.manifests import kube_name
from jobs.kinds.notebook import running_notebook
from jobs.kinds.spec import spec_of
from jobs.kinds.training import private
from jobs.kinds.training.again import unfinished_indexes
from jobs.kinds.training.answers import conditions_of, replica_statuses, replica_words
from jobs.kinds.training.export import Form, find_problem, forms_of
from jobs.kinds.training.inputs import changed_options
from jobs.kinds.training.manifests import DATA_DIR, log_dir
from jobs.kinds.training.spec import PRIORITIES, TrainingSpec
from jobs.kinds.training.suspended import suspended_seconds
from jobs.models import Artifact, Attempt, Bundle, Replica, Workload
from jobs.rules.conditions import JobCondition
from jobs.rules.queue.state import HIGH
from jobs.rules.requests import indexes_of, tensorflow_version
from jobs.rules.states import HOLDING_STATES, IDLE_STATES, Desired, ReplicaState, WorkloadState
from jobs.rules.topologies import ROLES, get_topology
from jobs.workloads import timeline
from jobs.workloads.page import WorkloadPage
from portal import characters
from portal.catalog import max_duration_s
from portal.cluster.manifests import to_yaml
from portal.cluster.names import replica_address
from tenants import policy
from tenants.models import User

MAX_ARTIFACTS = 1000
MAX_REPLICAS = 100  # of an array; what one looks for among them comes first
_TOLD_FIRST = Case(
    When(state=ReplicaState.FAILED, then=0),
    When(state__in=(ReplicaState.RUNNING, ReplicaState.STARTING), then=1),
    default=2,
)


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


class TrainingPage(WorkloadPage):
    """A training: its replicas, its log, what it left, what was asked for."""

    parts = WorkloadPage.parts | {"replicas", "artifacts", "request", "manifests"}

    def __init__(self, workload: Workload, user: User, attempt: str = "") -> None:
        super().__init__(workload, user)
        self.which = which_of(workload, attempt)  # of which attempt the log is shown

    @property
    def may_suspend(self) -> bool:
        row = self.workload
        is_going = not row.is_final and row.desired == Desired.RUN and not self.is_stopping
        return is_going and policy.may(self.user, "suspend", row.tenant)

    @property
    def may_resume(self) -> bool:
        row = self.workload
        is_held = row.state in IDLE_STATES and row.desired == Desired.SUSPEND
        return is_held and policy.may(self.user, "resume", row.tenant)

    @property
    def may_prioritize(self) -> bool:
        row = self.workload
        is_going = not row.is_final and row.desired != Desired.DELETE and not self.is_stopping
        may = policy.may(self.user, "prioritize", row.tenant)
        return is_going and may and self.spec.priority in self.priorities

    @property
    def longer_deadlines(self) -> list[tuple[int, int]]:
        """Seconds more that this person may give it, and its whole time limit then."""
        row, deadline_s = self.workload, self.spec.run_policy.deadline_s
        is_going = row.state in HOLDING_STATES and row.desired == Desired.RUN
        if deadline_s is None or not is_going or not policy.may(self.user, "extend", row.tenant):
            return []
        most_s = max_duration_s("training")
        given = [(more_s, deadline_s + more_s) for more_s in (3600, 8 * 3600, 24 * 3600)]
        return [one for one in given if most_s is None or one[1] <= most_s]

    @property
    def priorities(self) -> tuple[str, ...]:
        """What this person may give it; `high` is also taken away only by who may give it."""
        may_prefer = policy.may(self.user, "prefer", self.workload.tenant)
        return PRIORITIES if may_prefer else tuple(one for one in PRIORITIES if one != HIGH)

    @property
    def may_continue(self) -> bool:
        row = self.workload
        return row.is_final and policy.may(self.user, "submit", row.tenant)

    @property
    def ran_until(self) -> datetime | None:
        """When it ended, or was suspended; None: it goes on."""
        row = self.workload
        is_suspended = row.state == WorkloadState.SUSPENDED
        until: datetime | None = row.stop_requested_at if is_suspended else row.finished_at
        return until if row.started_at else None

    @cached_property
    def spec(self) -> TrainingSpec:
        return spec_of(self.workload, TrainingSpec)

    @property
    def fails_at(self) -> datetime | None:
        since = notes.load(self.workload.notes).starting_since if self.is_in_trouble else None
        return since and since + timedelta(seconds=self.spec.run_policy.starting_deadline_s)

    @cached_property
    def stages(self) -> list[timeline.Step]:
        latest = next(iter(self.attempts), None)
        return timeline.steps(self.workload, latest.started_at if latest else None)

    @cached_property
    def is_array(self) -> bool:
        return get_topology(self.spec.topology).is_array

    @cached_property
    def failed_indexes(self) -> str:
        """Of an array that has ended, what of it has not succeeded; empty: nothing."""
        return unfinished_indexes(self.workload) if self.is_own else ""

    @cached_property
    def _all_replicas(self) -> list[Replica]:
        if self.is_array:
            found = self.workload.replica_rows.filter(attempt=self.workload.attempt)
            return list(found.order_by(_TOLD_FIRST, "index")[:MAX_REPLICAS])
        rows = list(self.workload.replica_rows.all())
        order = {role: place for place, role in enumerate(self.workload.asked)}
        return sorted(rows, key=lambda r: (r.attempt, order.get(r.role, 99), r.index))

    @property
    def replicas(self) -> list[Replica]:
        """Of the current attempt."""
        return [row for row in self._all_replicas if row.attempt == self.workload.attempt]

    @property
    def reason_replica(self) -> str:
        """The replica that the header's reason is about, so that its log is one step away; empty: none."""
        reason = self.workload.reason_text
        failed = (row for row in self.replicas if row.state == ReplicaState.FAILED)
        return next(
            (str(row) for row in failed if row.reason_text and row.reason_text in reason), ""
        )

    @property
    def earlier(self) -> list[Replica]:
        """Of attempts that came before."""
        return [row for row in self._all_replicas if row.attempt != self.workload.attempt]

    @cached_property
    def attempts(self) -> list[Attempt]:
        """The latest first, without those of before there were such rows."""
        return self.workload.latest_attempts

    @property
    def has_gpus(self) -> bool:
        return any(asked["gpu_count"] for asked in self.workload.replicas.values())

    @property
    def replica_names(self) -> list[str]:
        """`worker-0`, ...: all that the request has, whether or not they exist yet; of an array some."""
        if self.is_array:
            return [str(row) for row in self.replicas]
        return [
            f"{role}-{index}"
            for role, asked in self.workload.asked.items()
            for index in range(asked["count"])
        ]

    @cached_property
    def suspended_s(self) -> int:
        """Since it began to run; 0 while it is suspended for the first time."""
        return suspended_seconds([self.workload])[self.workload.pk]

    @cached_property
    def conditions(self) -> list[JobCondition]:
        return conditions_of(self.workload)

    @property
    def replica_statuses(self) -> dict[str, dict[str, int]]:
        """By a role's title."""
        known = None if self.is_array else self.replicas  # of an array only some are read
        return {
            _(ROLES[role].title_of(len(indexes_of(self.workload.asked[role])))): counts
            for role, counts in replica_statuses(self.workload, known).items()
        }

    def words_of(self, replica: Replica) -> str:
        """Why it is as it is, or what becomes of it."""
        return replica_words(self.workload, replica)

    @cached_property
    def _some_artifacts(self) -> list[Artifact]:
        return list(self.workload.artifacts.all()[: MAX_ARTIFACTS + 1])

    @property
    def artifacts(self) -> list[ArtifactRow]:
        """The first of them, with those that were announced and are not there."""
        return [ArtifactRow(artifact) for artifact in self._some_artifacts[:MAX_ARTIFACTS]]

    @property
    def are_all_artifacts_listed(self) -> bool:
        return len(self._some_artifacts) <= MAX_ARTIFACTS

    @cached_property
    def artifacts_kept(self) -> tuple[int, int]:
        """How many files are there, and their bytes; one query where not all are listed."""
        if self.are_all_artifacts_listed:
            sizes = [row.size_bytes for row in self._some_artifacts if row.uploaded_at]
            return len(sizes), sum(sizes)
        kept = self.workload.artifacts.filter(uploaded_at__isnull=False)
        found = kept.aggregate(count=Count("pk"), size_bytes=Sum("size_bytes", default=0))
        return found["count"], found["size_bytes"]

    @cached_property
    def manifests(self) -> str:
        """YAML as rendered at admission; empty before."""
        plan = self.workload.plan
        return to_yaml(private.shown_plan(self.workload, self.user)) if plan else ""

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
        return private.shown_spec(self.spec, self.workload.tenant, self.user)

    @property
    def command_text(self) -> str:
        return command_line.join(self.spec.command)

    @property
    def export_forms(self) -> list[Form]:
        return forms_of(self.spec)

    @property
    def export_problem(self) -> str:
        """Why it cannot be exported; empty when it can."""
        return find_problem(self.spec)

    @cached_property
    def bundle(self) -> Bundle | None:
        identity = (self.spec.source or {}).get("bundle")
        return Bundle.objects.filter(pk=identity).first() if identity else None

    @property
    def roles(self) -> list[tuple[str, dict[str, Any], str]]:
        """What each replica of a role asks for, by the role's title, and the role's own command."""
        own = {role: asked.command or () for role, asked in self.spec.replicas.items()}
        return [
            (_(ROLES[role].title_of(asked["count"])), asked, command_line.join(own[role]))
            for role, asked in self.workload.asked.items()
        ]

    @property
    def session(self) -> tuple[str, str] | None:
        """Where TensorFlow servers that a notebook drives are reached, and the path of that notebook.

        None: no notebook drives this one, or the servers do not run.
        """
        row = self.workload
        if row.state != WorkloadState.RUNNING:
            return None
        if not get_topology(self.spec.topology).deciding(self.spec.replicas).program:
            return None
        host = replica_address(kube_name(row.name, row.pk, row.attempt), "worker", 0)
        folder = log_dir(row).rsplit("/", 1)[-1]
        return f"grpc://{host}", f"{DATA_DIR}/master_client-{folder}.ipynb"

    @cached_property
    def session_notebook(self) -> Workload | None:
        """A notebook of the namespace that runs, which can drive the servers; None: there is none."""
        return running_notebook(self.workload.tenant, self.user)

    @property
    def session_versions(self) -> tuple[str, str] | None:
        """TensorFlow of that notebook and of the servers, where both are known and differ."""
        row = self.session_notebook
        images = (row.image if row else "", self.spec.image_of("worker"))
        ours, theirs = map(tensorflow_version, images)
        return (ours, theirs) if ours and theirs and ours != theirs else None

    @property
    def options(self) -> list[tuple[str, str]]:
        """Label and value of what was asked for beyond the usual."""
        return changed_options(self.spec)
