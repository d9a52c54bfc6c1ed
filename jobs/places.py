"""What the reconciler last decided of the queue: places and times for pages and REST, and room that is kept on nodes."""

from typing import ClassVar

from django.db import models

# After so long what was expected may be over, although nothing has changed, and times are worked out anew.
ESTIMATED_EVERY_S = 600.0


class QueuePlace(models.Model):
    """As of the last look that the reconciler took at all of it.

    One without a row was queued after that look. What has left the queue keeps its row until the next one.
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


class NodeReservation(models.Model):
    """Room on nodes that is kept for a workload in the queue, the first of those that lack only nodes."""

    # Without a constraint in the database: the version before this table may delete workloads.
    workload = models.OneToOneField(
        "jobs.Workload",
        on_delete=models.CASCADE,
        primary_key=True,
        related_name="reservation",
        db_constraint=False,
    )
    # [[node, [GPUs, CPU in millicores, memory in bytes, pods, NodePorts]]]: what it needs of each.
    room = models.JSONField()
    # It starts then at the latest; null: what runs there has no deadline.
    starts_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{len(self.room)} nodes"


class NodeClaim(models.Model):
    """Nodes on which work of low priority is being stopped for a workload in the queue, its alone until then."""

    workload = models.OneToOneField(
        "jobs.Workload",
        on_delete=models.CASCADE,
        primary_key=True,
        related_name="claim",
        db_constraint=False,
    )
    room = models.JSONField()  # as that of a reservation
    until = models.DateTimeField()

    def __str__(self) -> str:
        return f"{len(self.room)} nodes"
