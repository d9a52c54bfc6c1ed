"""The kind of trainings."""

from collections.abc import Collection
from uuid import UUID

from django.utils.translation import gettext_lazy as _

from jobs.kinds.answers import EventSerializer
from jobs.kinds.base import RestResource, StopTexts, WorkloadKind
from jobs.kinds.manifests import Grant, pod_settings
from jobs.kinds.plan import Rescue
from jobs.kinds.spec import spec_of
from jobs.kinds.state import WorkloadRow
from jobs.kinds.training import manifests
from jobs.kinds.training.answers import JobSerializer, OneJobSerializer
from jobs.kinds.training.commands import command_hints
from jobs.kinds.training.form import TrainingForm
from jobs.kinds.training.lifecycle import TrainingLifecycle
from jobs.kinds.training.observe import observe, read_pod
from jobs.kinds.training.pages import PAGES
from jobs.kinds.training.serializer import TrainingSerializer
from jobs.kinds.training.spec import KEY, TrainingSpec, lasts_s, longest_grace_s
from jobs.kinds.training.submit import check_submit
from jobs.kinds.training.tokens import job_token
from jobs.models import Workload
from jobs.rules.topologies import get_topology
from portal.cluster import names
from portal.cluster.manifests import Object


def _root_name(kube_name: str, topology: str, roles: Collection[str]) -> str:
    return names.role_name(kube_name, get_topology(topology).deciding(roles).name)


def _together(row: WorkloadRow) -> int | None:
    if get_topology(row.topology).is_array or sum(row.counts.values()) == 1:
        return None
    return sum(row.least.get(role, count) for role, count in row.counts.items())


def _render(workload: Workload, attempt: int, grant: Grant) -> list[Object]:
    spec = spec_of(workload, TrainingSpec)
    pods = pod_settings(workload.tenant, spec.secrets, spec.git_secret, grant=grant)
    return manifests.render_training(workload, attempt=attempt, pods=pods, grant=grant)


def _complete(row: WorkloadRow, document: Object, root: Object | None) -> Object:
    return manifests.completed(document, root=root, token=job_token(UUID(row.id)))


def _render_rescue(workload: Workload, attempt: int, step: Rescue) -> Object:
    pods = pod_settings(workload.tenant)
    return manifests.render_rescue(workload, step, attempt=attempt, pods=pods)


_STOP = _(
    "Every replica gets SIGTERM and has {grace} to save before it is killed. Logs and files are kept."
)
TRAINING = WorkloadKind(
    key=KEY,
    noun="training",
    title=_("Training"),
    icon="layers",
    record_kind="job",
    stop=StopTexts(button=_("Stop training"), own=_STOP, of_other=_STOP),
    grace_s=lambda workload: spec_of(workload, TrainingSpec).run_policy.pod_grace_s,
    rest=RestResource(
        one="job",
        ask="submits",
        stop="Stops a job with its grace; harmless when it has ended.",
        answer=OneJobSerializer,
        list_answer=JobSerializer,
        event_answer=EventSerializer,
    ),
    pages=PAGES,
    has_roles=True,
    takes_code=True,
    spec=TrainingSpec,
    serializer=TrainingSerializer,
    form=TrainingForm,
    submit_verb="submit",
    can_restart=False,
    hints=command_hints,
    check_submit=check_submit,
    lifecycle=TrainingLifecycle,
    read_pod=read_pod,
    observe=observe,
    root_name=_root_name,
    together=_together,
    lasts_s=lasts_s,
    longest_grace_s=longest_grace_s,
    render=_render,
    with_private=manifests.with_private,
    complete=_complete,
    render_rescue=_render_rescue,
)
