"""Questions to the cluster, which the web process asks and the reconciler answers: rows that live for minutes."""

import uuid

from django.conf import settings
from django.db import models
from django.utils import timezone


class DryRun(models.Model):
    """What the cluster would say to these objects: asked by jobs/workloads/dry_run.py, answered by jobs/engine/dry_runs.py."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    documents = models.JSONField()  # as rendered, the root first; no value of a secret is in them
    # [{"kind", "name", "state": "accepted" | "queued" | "refused", "text"}]; null until it has answered, and
    # empty before there are documents and after they are gone
    answer = models.JSONField(null=True)
    asked_at = models.DateTimeField(default=timezone.now)
    # By these two it is counted how often somebody asks; null: a version before asked.
    asked_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.CASCADE,
        null=True,
        related_name="+",
        db_index=False,  # the index below begins with it
    )
    # From then on the row has no documents and no answer: it only counts.
    ended_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [models.Index(fields=["asked_by", "asked_at"], name="dry_runs_of_person")]

    def __str__(self) -> str:
        return f"asked at {self.asked_at}"

    def end(self) -> None:
        """Nobody waits for it any more."""
        DryRun.objects.filter(pk=self.pk).update(documents=[], answer=[], ended_at=timezone.now())
