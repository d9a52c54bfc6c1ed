"""What pages say of trainings."""

from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from jobs.kinds.pages import KindPages
from jobs.rules.requests import indexes_of
from jobs.rules.states import HOLDING_STATES, WorkloadState
from jobs.rules.topologies import ROLES, in_role_order


def shape_text(job: Any) -> str:
    """`2 workers, 1 parameter server`, of those that run; `single` where one replica is all."""
    asked = in_role_order(job.replicas)
    counts = {role: len(indexes_of(each)) for role, each in asked.items()}
    if sum(each["count"] for each in asked.values()) == 1:
        return _("single")
    return ", ".join(_counted(role, count) for role, count in counts.items())


def _counted(role: str, n: int) -> str:
    called = ROLES[role]
    return f"{n} {ngettext(called.one, called.many, n)}"


PAGES = KindPages(
    slug="training",
    title=gettext_lazy("Trainings"),
    new=gettext_lazy("New training"),
    none_named=gettext_lazy("No training has “%(words)s” in its name."),
    none_in_state=gettext_lazy("No trainings in this state"),
    tabs={
        "": (gettext_lazy("All"), frozenset(WorkloadState)),
        "queued": (gettext_lazy("Queued"), frozenset({WorkloadState.QUEUED})),
        "running": (gettext_lazy("Running"), HOLDING_STATES),
        "suspended": (gettext_lazy("Suspended"), frozenset({WorkloadState.SUSPENDED})),
        "succeeded": (gettext_lazy("Succeeded"), frozenset({WorkloadState.SUCCEEDED})),
        "failed": (gettext_lazy("Failed"), frozenset({WorkloadState.FAILED})),
        "stopped": (gettext_lazy("Stopped"), frozenset({WorkloadState.STOPPED})),
    },
    by_namespace=True,
    per_page=25,
    summary=shape_text,
    summary_title=gettext_lazy("Replicas"),
    summary_columns=("replicas",),
    subtitle=shape_text,
    asks_reason=True,
    delete_going=gettext_lazy(
        "It is stopped at once, and its page, log and files are deleted permanently. What it wrote to "
        "your data and log volumes stays there."
    ),
    delete_ended=gettext_lazy(
        "Its page, archived log and files are deleted permanently. What it wrote to your data and log "
        "volumes stays there."
    ),
)
