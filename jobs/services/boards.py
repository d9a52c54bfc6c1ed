"""The TensorBoard for some trainings: the one that shows exactly these, or a new one."""

from collections.abc import Iterable
from uuid import UUID

from jobs.models import Job, Service
from jobs.services import actions
from jobs.services.fit import fit
from jobs.services.submission import parse_tensorboard
from portal.errors import FieldError, Refused
from tenants.models import Tenant, User

_NAME_LENGTH = 80  # the most that a name may have


def board_name(jobs: list[Job]) -> str:
    """What a TensorBoard of these trainings is called."""
    if len(jobs) == 1:
        return jobs[0].name
    more = f" and {len(jobs) - 1} more"
    return jobs[0].name[: _NAME_LENGTH - len(more)] + more


def find_board(tenant: Tenant, job_ids: Iterable[UUID]) -> Service | None:
    """The tenant's TensorBoard of exactly these trainings; one that runs before one that does not."""
    wanted = {str(pk) for pk in job_ids}
    boards = Service.objects.visible_to(tenant.owner).filter(
        tenant=tenant, kind=Service.Kind.TENSORBOARD
    )
    same = [b for b in boards if {str(row.get("job")) for row in b.log_dirs} == wanted]
    return min(same, key=lambda b: (b.desired != Service.Desired.RUN, b.is_ended), default=None)


def board_for(*, by: User, tenant: Tenant, jobs: list[Job], source_address: str = "") -> Service:
    """The TensorBoard of these trainings, running or asked to run.

    Raises:
        Refused: the request is refused: too many of them, or it could never start.
    """
    board = find_board(tenant, [job.pk for job in jobs])
    if board is None:
        body = {"name": board_name(jobs), "jobs": [str(job.pk) for job in jobs]}
        request = parse_tensorboard(body, tenant=tenant, user=by)
        room = fit(request, tenant)
        if room.kind == "never":
            raise Refused([FieldError("", "never_fits", room.text)])
        return actions.create(by=by, tenant=tenant, request=request, source_address=source_address)
    # Harmless for one that runs.
    return actions.start(by=by, service=board, source_address=source_address)
