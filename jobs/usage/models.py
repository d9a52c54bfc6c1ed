"""How long each pod held what it held: the rows from which GPU-hours are counted.

Written by the reconciler only, from what it sees of pods (`jobs/usage/intervals.py`). Rows are kept
when the workload or the person is long gone: they are what a budget is argued with.
"""

from django.db import models

from tenants.models import Team, Tenant, User


class UsageInterval(models.Model):
    """One pod, from when its program first ran until it ended. A pod that never ran has none."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="usage")
    owner = models.ForeignKey(User, on_delete=models.PROTECT, related_name="usage")
    # The tenant's team when the pod began: who moves to another team takes no history along.
    team = models.ForeignKey(Team, null=True, on_delete=models.SET_NULL, related_name="usage")
    kind = models.CharField(max_length=16)  # a key of jobs/kinds/registry.py
    object_id = models.UUIDField()  # of the workload, which may be deleted by now
    object_name = models.CharField(max_length=80)
    pod_uid = models.CharField(max_length=36, unique=True)
    node = models.CharField(max_length=253)
    gpu_count = models.IntegerField()
    cpu_millicores = models.BigIntegerField()
    memory_bytes = models.BigIntegerField()
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)  # null: it runs

    class Meta:
        db_table = "jobs_usageinterval"
        indexes = [
            models.Index(fields=["team", "ended_at"]),
            models.Index(
                fields=["pod_uid"], name="usage_open", condition=models.Q(ended_at__isnull=True)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.object_name} {self.pod_uid}"
