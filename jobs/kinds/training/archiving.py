"""The part of a training's life that sees to it that its logs are kept before its pods' objects go. Pure."""

from collections.abc import Collection
from datetime import datetime

import msgspec

from jobs.kinds.lifecycle import Lifecycle
from jobs.kinds.plan import Erase, Rescue
from jobs.kinds.state import Observed, ReplicaKey, WorkloadRow
from jobs.kinds.training import rescue
from jobs.kinds.training.replicas import Situation
from jobs.kinds.training.spec import GRACE_S, RunPolicy
from jobs.rules.topologies import get_topology


class ArchivedLifecycle(Lifecycle):
    """The life of what leaves logs: they are marked as kept by its pods, rescued, or given up.

    Attributes:
        run_policy: the request's.
    """

    def __init__(self, row: WorkloadRow, observed: Observed, now: datetime) -> None:
        super().__init__(row, observed, now)
        self.topology = get_topology(row.topology)
        self.run_policy = msgspec.convert(row.run_policy, RunPolicy)
        self.confirm_s = max(GRACE_S, self.run_policy.pod_grace_s) + 60

    @property
    def situation(self) -> Situation:
        """What it has come to."""
        return Situation(self.row, self.run_policy, self.observed, self.now, self.replicas)

    def archive(self) -> bool:
        """Sees to the archive; True when it is complete or nothing more can be done for it."""
        if not self.notes.archive:
            if not self.complete_archive(rescue.with_archive(self.situation)):
                return False
            self.note(archive="complete" if not self.notes.lost else "partial")
        self.delete(*self.observed.rescues)
        return True

    def complete_archive(self, keys: Collection[ReplicaKey]) -> bool:
        """The same for some replicas, whose pods have ended."""
        self.begin("pods_ended_at")
        missing = rescue.incomplete(self.situation, keys)
        if not missing:
            return True
        if self.observed.namespace != "active" and self.observed.is_current:
            self._give_up(missing, "the namespace was deleted")
            return True
        if not self.wait(self.notes.pods_ended_at, rescue.MARK_S):
            return False
        if self.wait_from("rescue_at", rescue.ALL_TRIES_S):
            self._give_up(missing, "no rescue pod could do it within an hour")
            return True
        for key in missing:
            self._rescue(key)
        return not rescue.incomplete(self.situation, missing)

    def _rescue(self, key: ReplicaKey) -> None:
        """The current try of one replica's rescue: start it, wait for it, or count it as failed."""
        number = rescue.try_of(self.situation, key)
        pod = rescue.pod_of_try(self.situation, key)
        if pod is None:
            self._note_try(key, number)
            # What its pod mounts is made anew, and nobody removes a Secret but the sweep.
            self.note(swept=False)
            self.call(Rescue(key, rescue.pod_uid(self.situation, key), number))
        elif pod.phase == "Succeeded":
            self.note(rescued=(*self.notes.rescued, key.text))
        # Judged by our own clock: since the rescue of this training began, per try.
        elif pod.phase == "Failed" or self.wait(self.notes.rescue_at, rescue.STUCK_S * pod.number):
            self.delete(pod)
            if number >= rescue.TRIES:
                self._give_up([key], f"{rescue.TRIES} rescue pods have failed")
            else:
                self._note_try(key, number + 1)
                self.due(self.now)

    def _note_try(self, key: ReplicaKey, number: int) -> None:
        if self.notes.rescues.get(key.text) != number:
            self.note(rescues={**self.notes.rescues, key.text: number})
            text = f"Its log is being recovered from the log volume (attempt {number})."
            self.say("rescue", text, subject=key.who)

    def _give_up(self, keys: Collection[ReplicaKey], why: str) -> None:
        for key in keys:
            self.note(lost=(*self.notes.lost, key.text))
            text = f"The end of its log is only on the log volume: {why}."
            self.say("archive_incomplete", text, subject=key.who, warning=True)

    def purge(self) -> bool:
        """The folder on the log volume is the user's own and stays."""
        if not self.notes.purged:
            self.call(Erase())
        return self.notes.purged
