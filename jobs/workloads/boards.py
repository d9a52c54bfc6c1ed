"""The TensorBoard for some trainings: the one that shows exactly these, or a new one."""

from collections.abc import Iterable
from uuid import UUID

from jobs.kinds.interactive.spec import TensorBoardSpec
from jobs.kinds.spec import spec_of
from jobs.kinds.tensorboard import TENSORBOARD
from jobs.models import Workload
from jobs.rules.states import Desired
from jobs.workloads import actions
from tenants.models import Tenant, User

_NAME_LENGTH = 80  # the most that a name may have


def board_name(jobs: list[Workload]) -> str:
    """What a TensorBoard of these trainings is called."""
    if len(jobs) == 1:
        return jobs[0].name
    more = f" and {len(jobs) - 1} more"
    return jobs[0].name[: _NAME_LENGTH - len(more)] + more


def find_board(tenant: Tenant, job_ids: Iterable[UUID]) -> Workload | None:
    """The tenant's TensorBoard of exactly these trainings; one that runs before one that does not."""
    wanted = {str(pk) for pk in job_ids}
    boards = Workload.objects.visible_to(tenant.owner).filter(tenant=tenant, kind=TENSORBOARD.key)
    same = [
        b
        for b in boards
        if {row.get("job") for row in spec_of(b, TensorBoardSpec).log_dirs} == wanted
    ]
    return min(same, key=lambda b: (b.desired != Desired.RUN, b.is_final), default=None)


def board_for(*, by: User, tenant: Tenant, jobs: list[Workload]) -> Workload:
    """The TensorBoard of these trainings, running or asked to run.

    Raises:
        Refused: the request is refused: too many of them, or it could never start.
    """
    board = find_board(tenant, [job.pk for job in jobs])
    if board is None:
        body = {"name": board_name(jobs), "jobs": [str(job.pk) for job in jobs]}
        spec = TENSORBOARD.read(body, tenant=tenant, user=by)
        return actions.submit(by=by, tenant=tenant, kind=TENSORBOARD, spec=spec)
    # Harmless for one that runs.
    return actions.start(by=by, workload=board)
