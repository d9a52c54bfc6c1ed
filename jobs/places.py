"""Where each workload stands in the queue, when it starts, and by which rules: for pages and REST, a table of its own."""

from typing import ClassVar

from django.db import models


class QueuePlace(models.Model):
    """As of the last look that the reconciler took at all of it, once a minute at most.

    One without a row was queued after that look. What has left the queue may keep its row as long.
    """

    # Without a constraint in the database: the version before this table may delete workloads.
    workload = models.OneToOneField(
        "jobs.Workload",
        on_delete=models.CASCADE,
        primary_key=True,
        related_name="place",
        db_constraint=False,
    )
    position = models.IntegerField()  # within its namespace, from 1
    position_all = models.IntegerField()  # in the whole queue
    starts_at = models.DateTimeField(null=True)  # about then; null: it cannot be told
    basis = models.CharField(max_length=16)  # what that follows from: jobs/rules/queue/estimate.py
    # The workload whose end that is; it may belong to anybody, and may be gone.
    cause = models.UUIDField(null=True)
    rules = models.JSONField()  # sentences, in order

    WRITTEN: ClassVar = ("position", "position_all", "starts_at", "basis", "cause", "rules")

    def __str__(self) -> str:
        return f"{self.position_all} in the queue"
