"""What the cluster itself would say to a request: asked through a row, for only the reconciler speaks to the cluster.

Whoever asks waits in the thread of the request, so only a few of a process may do so at once, and one of a person.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import transaction
from django.utils.translation import gettext as _
from drf_spectacular.utils import OpenApiParameter

from jobs import limits
from jobs.kinds.base import WorkloadKind
from jobs.kinds.spec import WorkloadSpec
from jobs.questions import DryRun
from jobs.rules.admission import Fit
from jobs.workloads import actions
from jobs.workloads.preview import preview_documents
from portal import live
from portal.cluster.manifests import Object
from portal.errors import FieldError, Refused
from tenants.models import Tenant, User

WAIT_S = 10.0
MOST_WAITING = 4  # a fifth of the threads that a process has (WEB_THREADS)
_LOOK_S = 0.2
_RETRY_S = 5
_places = threading.BoundedSemaphore(MOST_WAITING)

PARAMETER = OpenApiParameter(
    "dry_run",
    enum=["All"],
    description=f"All: nothing is created; the answer, within {WAIT_S:.0f} s, is what the cluster itself would say",
)


def is_asked(query: Mapping[str, str]) -> bool:
    """Whether an address asks for it.

    Raises:
        Refused: it asks for something else, which must not be taken for a submit.
    """
    asked = query.get(PARAMETER.name)
    if asked not in (None, "All"):
        raise Refused([FieldError(PARAMETER.name, "invalid_choice", "Write dry_run=All.")])
    return asked is not None


@dataclass(frozen=True)
class DryRunAnswer:
    """What would become of a request.

    Attributes:
        fit: whether it fits, as Homeport counts.
        hints: what of the command a shell would treat otherwise, in sentences.
        objects: `kind`, `name`, `state` and the cluster's own `text` of each object that would be made, and
            of a pod of each role.
    """

    fit: Fit
    hints: tuple[str, ...]
    objects: tuple[Mapping[str, str], ...]

    @property
    def state(self) -> str:
        """`refused` if one is, else `queued` if one has to wait for quota, else `accepted`."""
        found = {one["state"] for one in self.objects}
        return next(state for state in ("refused", "queued", "accepted") if state in found)

    @property
    def remarked(self) -> list[Mapping[str, str]]:
        """Those to which the cluster says something."""
        return [one for one in self.objects if one["state"] != "accepted"]


def ask(*, by: User, tenant: Tenant, kind: WorkloadKind, spec: WorkloadSpec) -> DryRunAnswer:
    """Has the cluster check what this request would create. Nothing is made or queued. Blocking.

    Raises:
        PermissionDenied, Refused: as `actions.submit`; 429, as `limits.check_dry_runs`; 503, too many wait
            already; 504, the cluster did not answer in time.
    """
    row = _begin(by)
    try:
        found = actions.check_submit(by=by, tenant=tenant, kind=kind, spec=spec)
        objects = _answer(row, preview_documents(kind, spec, tenant))
        return DryRunAnswer(found, tuple(kind.hints(spec)), tuple(objects))
    finally:
        row.end()


def _begin(by: User) -> DryRun:
    limits.check_dry_runs(by)  # most of what is too much ends here, without a lock
    with transaction.atomic():
        User.objects.select_for_update().only("pk").get(pk=by.pk)
        limits.check_dry_runs(by)
        return DryRun.objects.create(asked_by=by, documents=[], answer=[])


def _answer(row: DryRun, documents: Sequence[Object]) -> list[Mapping[str, str]]:
    if not _places.acquire(blocking=False):
        text = _("The cluster is checking other trainings. Try again in a few seconds.")
        raise Refused(text, "busy", 503, retry_after_s=_RETRY_S)
    try:
        DryRun.objects.filter(pk=row.pk).update(documents=documents, answer=None)
        live.wake_reconciler()
        return _wait(row.pk)
    finally:
        _places.release()


def _wait(pk: UUID) -> list[Mapping[str, str]]:
    until = time.monotonic() + WAIT_S
    rows = DryRun.objects.filter(pk=pk, answer__isnull=False)
    while time.monotonic() < until:
        answer: list[Mapping[str, str]] | None = rows.values_list("answer", flat=True).first()
        if answer is not None:
            return answer
        time.sleep(_LOOK_S)
    text = _("The cluster did not answer within %(wait)s s. Nothing was created.")
    step = _("Try again; the page Health says whether the cluster can be reached.")
    raise Refused(text % {"wait": int(WAIT_S)}, "cluster_slow", 504, next_step=step)
