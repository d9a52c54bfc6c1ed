"""What admins decide about the queue: its switches, and the nodes that they hold."""

from django.db import models

HOUR_S = 3600


class Scheduling(models.Model):
    """The switches; there is at most one row, and none means that nobody changed anything.

    Attributes:
        fair_share: teams and namespaces with the least share of late go first; else the oldest.
        aging_s: what has waited so long goes before all others.
    """

    fair_share = models.BooleanField(default=False)
    aging_s = models.IntegerField(default=6 * HOUR_S)

    def __str__(self) -> str:
        return "scheduling"

    @classmethod
    def load(cls) -> "Scheduling":
        """The row, or one that is not saved and has the defaults."""
        found: Scheduling | None = cls.objects.first()
        return found or cls()


class NodeHold(models.Model):
    """A node that an admin holds: from a time on nothing is to run there, so only what ends before still starts.

    A node may be gone from the cluster, and come back held.

    Attributes:
        reason: one line, which everybody may read; may be empty.
        held_by: the account name of who did it last.
    """

    node = models.CharField(max_length=253, primary_key=True)
    from_at = models.DateTimeField()
    reason = models.CharField(max_length=200, blank=True, default="")
    held_by = models.CharField(max_length=150)

    class Meta:
        ordering = ["from_at", "node"]

    def __str__(self) -> str:
        return self.node

    @property
    def why(self) -> str:
        """Why something is stopped for it, as a part of a sentence."""
        at = f"{self.from_at:%H:%M UTC on %d %B}"
        told = f"an admin holds node {self.node} from {at}"
        return f"{told} ({self.reason})" if self.reason else told
