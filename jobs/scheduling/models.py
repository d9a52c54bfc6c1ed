"""The switches of the queue; there is at most one row, and none means that nobody changed anything."""

from django.db import models

HOUR_S = 3600


class Scheduling(models.Model):
    """What admins chose.

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
