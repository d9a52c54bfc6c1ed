"""The way of a job in four steps, with times: what the line on its page shows. Pure."""

from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext_lazy as _

from jobs.models import Workload
from jobs.rules.states import WorkloadState


@dataclass(frozen=True)
class Step:
    """One step: not come yet (`at` None), going on (`ended_at` None and `is_now`), or over."""

    key: str
    title: object  # a lazy text
    at: datetime | None
    ended_at: datetime | None
    is_now: bool


_RESTARTING = WorkloadState.RESTARTING
_RUN_TITLES = {
    _RESTARTING: _("Restarting"),
    WorkloadState.STOPPING: _("Stopping"),
    WorkloadState.SUSPENDED: _("Suspended"),
}
END_TITLES = {
    WorkloadState.SUCCEEDED: _("Succeeded"),
    WorkloadState.FAILED: _("Failed"),
    WorkloadState.STOPPED: _("Stopped"),
}


def steps(job: Workload, attempt_started_at: datetime | None = None) -> list[Step]:
    """Queued, starting, running, finished; steps that a job skipped are left out once it ended.

    Args:
        attempt_started_at: when the latest attempt began to run; None: it has not, or is not known.
    """
    end = job.finished_at
    # A job that went back to the queue has earlier times of the later steps, which are not shown.
    is_waiting = job.state == WorkloadState.QUEUED
    admitted_at = None if is_waiting else job.admitted_at
    started_at = None if is_waiting else job.started_at
    if started_at and admitted_at and started_at < admitted_at:  # it was queued once more since
        started_at = attempt_started_at
    state = WorkloadState(job.state)
    is_running = state in {WorkloadState.RUNNING, *_RUN_TITLES} and started_at is not None
    run_at = started_at
    if state is WorkloadState.SUSPENDED:  # whether or not it has run
        run_at, is_running = job.stop_requested_at, True
    found = [
        Step("queued", _("Queued"), job.queued_at, admitted_at or end, is_waiting),
        Step(
            "starting",
            _("Starting"),
            admitted_at,
            started_at or end,
            state == WorkloadState.STARTING or (state == _RESTARTING and not started_at),
        ),
        Step("running", _RUN_TITLES.get(state, _("Running")), run_at, end, is_running),
        Step(
            "finished",
            END_TITLES.get(state, _("Finished")),
            end,
            None,
            False,
        ),
    ]
    if job.is_final:
        return [step for step in found if step.at is not None]
    return found
