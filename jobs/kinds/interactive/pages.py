"""What pages say alike of all that is served behind a gate."""

from typing import Any

from django.utils.translation import gettext_lazy as _

from jobs.kinds.interactive.spec import STATES
from jobs.kinds.pages import KindPages
from jobs.rules.states import FINAL_STATES, WorkloadState


def served_pages(**own: Any) -> KindPages:
    """
    Args:
        own: what is its own of `KindPages`.
    """
    return KindPages(
        none_named=_("None has “%(words)s” in its name."),
        tabs={
            "": (_("All"), frozenset(STATES)),
            "running": (_("Running"), frozenset(STATES) - FINAL_STATES),
            "stopped": (_("Stopped"), frozenset({WorkloadState.STOPPED})),
            "failed": (_("Failed"), frozenset({WorkloadState.FAILED})),
        },
        per_page=50,
        delete_ended=_(
            "Its page and events are deleted permanently. The data and log volumes stay as they are."
        ),
        **own,
    )
