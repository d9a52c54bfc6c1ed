"""What the page of a workload of any kind shows. Each part reads its rows only when it is rendered."""

from datetime import datetime
from functools import cached_property
from typing import ClassVar

from jobs.kinds.next_steps import NextSteps
from jobs.kinds.registry import KINDS
from jobs.models import Workload, WorkloadEvent
from jobs.rules import patterns, waits
from jobs.rules.reasons import Reason
from jobs.rules.states import Desired, WorkloadState
from jobs.usage import memory_kills
from jobs.usage.measured import Utilisation, low_text
from jobs.workloads.queue_place import ShownPlace, place_of
from tenants import policy
from tenants.models import User

MAX_EVENTS = 300


class WorkloadPage:
    """One workload, for somebody who may see it.

    Attributes:
        parts: what of the page is re-read alone.
        unread: large columns that no part shows.
    """

    parts: ClassVar[frozenset[str]] = frozenset({"header", "events", "utilisation"})
    unread: ClassVar[tuple[str, ...]] = ("notes",)

    def __init__(self, workload: Workload, user: User, attempt: str = "") -> None:
        """
        Args:
            attempt: whose log is shown, as the address has it.
        """
        self.workload = workload
        self.kind = KINDS[workload.kind]
        self.user = user

    @property
    def is_own(self) -> bool:
        return bool(self.workload.owner_id == self.user.pk)

    @cached_property
    def allowed(self) -> frozenset[str]:
        """What the person may do with it, whatever its state."""
        verbs = ("start", "stop", "delete", self.kind.open_verb)
        return policy.allowed(self.user, self.workload.tenant, *filter(None, verbs))

    def require(self, verb: str) -> None:
        """
        Raises:
            PermissionDenied: the person may not do this with it.
        """
        policy.require(self.user, verb, self.workload.tenant)

    @property
    def may_open(self) -> bool:
        return self.kind.open_verb in self.allowed

    @property
    def may_stop(self) -> bool:
        return not self.workload.is_final and "stop" in self.allowed

    @property
    def may_start(self) -> bool:
        is_over = self.workload.is_final and not self.is_start_asked
        return self.kind.can_restart and is_over and "start" in self.allowed

    @property
    def may_delete(self) -> bool:
        return "delete" in self.allowed

    @property
    def is_stop_asked(self) -> bool:
        """Stop was asked for, and the reconciler has not yet said `stopping`."""
        asked = self.workload.desired == Desired.STOP and not self.workload.is_final
        return asked and self.workload.state != WorkloadState.STOPPING

    @property
    def is_stopping(self) -> bool:
        """Whether there is nothing left to be stopped by hand."""
        return self.is_stop_asked or self.workload.state == WorkloadState.STOPPING

    @property
    def is_start_asked(self) -> bool:
        """Start was asked for, and the reconciler has not yet noticed."""
        row = self.workload
        is_new = row.observed_generation != row.generation
        return bool(row.is_final and row.desired == Desired.RUN and is_new)

    @property
    def loses_work(self) -> bool:
        """Whether what is not saved would be lost if it was stopped now."""
        return self.kind.pages.loses_work and self.workload.state == WorkloadState.RUNNING

    @property
    def asks_before_stop(self) -> bool:
        """Work can be lost; a lead or an admin says why."""
        return not self.is_own or self.loses_work

    @property
    def is_starting(self) -> bool:
        return self.workload.state in {WorkloadState.QUEUED, WorkloadState.STARTING}

    @cached_property
    def place(self) -> ShownPlace | None:
        """In the queue; None: it does not wait there, or came after the last look at all of it."""
        return place_of(self.user, self.workload)

    @property
    def shows_reason(self) -> bool:
        """Whether the header tells why it is as it is."""
        return bool(self.workload.reason_text)

    @property
    def is_in_trouble(self) -> bool:
        """Whether what it waits for does not come by itself, though it has not failed yet."""
        family = patterns.family_of(self.workload.reason_code)
        fatal = waits.HOPELESS | waits.FATAL_AFTER_DEADLINE
        return self.workload.state == WorkloadState.STARTING and family in fatal

    @property
    def fails_at(self) -> datetime | None:
        """When it fails unless that is mended; None: it does not, or nothing says when."""
        return None

    @cached_property
    def next_step(self) -> str:
        """What to do about the reason, in the words of who reads it."""
        return NextSteps(self.user).of(self.workload)

    @property
    def subtitle(self) -> str:
        return self.kind.pages.subtitle(self.workload)

    @cached_property
    def low_use(self) -> str:
        """Of what it uses little; empty: of nothing, or it does not run."""
        return low_text(self.workload)

    @cached_property
    def memory_kill(self) -> tuple[Reason, WorkloadEvent] | None:
        """That the kernel has ended a process of it for want of memory, and when the last time."""
        return memory_kills.find_latest(self.workload, self._latest_events)

    @cached_property
    def utilisation(self) -> Utilisation:
        return Utilisation(self.workload)

    @cached_property
    def _latest_events(self) -> list[WorkloadEvent]:
        return list(self.workload.events.order_by("-at", "-id")[: MAX_EVENTS + 1])

    @property
    def events(self) -> list[WorkloadEvent]:
        """Newest first."""
        return self._latest_events[:MAX_EVENTS]

    @property
    def has_more_events(self) -> bool:
        return len(self._latest_events) > MAX_EVENTS
