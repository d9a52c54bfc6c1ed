"""Questions to the cluster, which the web process asks and the reconciler answers: rows that live for seconds."""

import uuid

from django.db import models
from django.utils import timezone


class DryRun(models.Model):
    """What the cluster would say to these objects: asked by jobs/workloads/dry_run.py, answered by jobs/engine/dry_runs.py."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    documents = models.JSONField()  # as rendered, the root first; no value of a secret is in them
    # [{"kind", "name", "state": "accepted" | "queued" | "refused", "text"}]; null until it has answered
    answer = models.JSONField(null=True)
    asked_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return f"asked at {self.asked_at}"
