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


class ReplicaUsage(models.Model):
    """What a replica has really used, over all its attempts: as its pods tell `/internal/`, and kept for good.

    What is summed up is so over minutes, each with its mean.
    """

    # Without a constraint in the database: it outlives the workload.
    workload = models.ForeignKey(
        "jobs.Workload",
        models.DO_NOTHING,
        related_name="measured",
        db_constraint=False,
        db_index=False,  # the constraint's index begins with it
    )
    role = models.CharField(max_length=16)
    index = models.IntegerField()
    method = models.CharField(max_length=16)  # where it was read: cgroup1, cgroup2 or processes
    attempt = models.IntegerField(default=0)  # that told last; of a notebook the start
    gpu_note = models.CharField(max_length=32, blank=True, default="")  # why no GPU is measured
    # Why minutes were left out of what was told last.
    problem = models.CharField(max_length=200, blank=True, default="")
    told_at = models.DateTimeField(db_index=True)
    last_at = models.BigIntegerField(default=0)  # its latest minute, seconds since 1970
    latest = models.JSONField(default=dict)  # figure -> [mean, peak] of that minute
    totals = models.JSONField(default=dict)  # figure -> MiB that there are of it
    low = models.JSONField(default=dict)  # cpu, memory, gpu -> since when it is little used
    low_since = models.BigIntegerField(null=True)  # the earliest of these
    minutes = models.IntegerField(default=0)
    cpu_m_sum = models.BigIntegerField(default=0)
    cpu_m_peak = models.BigIntegerField(default=0)
    memory_mib_sum = models.BigIntegerField(default=0)
    memory_mib_peak = models.BigIntegerField(default=0)
    gpu_minutes = models.IntegerField(default=0)  # in which GPUs were measured
    gpu_percent_sum = models.BigIntegerField(default=0)
    gpu_percent_peak = models.IntegerField(default=0)
    gpu_memory_mib_sum = models.BigIntegerField(default=0)  # both of the fullest one
    gpu_memory_mib_peak = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint("workload", "role", "index", name="one_use_per_replica")
        ]
        indexes = [
            models.Index(
                fields=["low_since"], name="usage_low", condition=models.Q(low_since__isnull=False)
            )
        ]

    def __str__(self) -> str:
        return f"{self.role}-{self.index}"


class UsageHour(models.Model):
    """The minutes of one replica in one hour, packed (`jobs/usage/minutes.py`); kept for seven days."""

    workload = models.ForeignKey(
        "jobs.Workload", models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False
    )
    role = models.CharField(max_length=16)
    index = models.IntegerField()
    hour = models.DateTimeField(db_index=True)
    packed = models.BinaryField()

    class Meta:
        constraints = [
            models.UniqueConstraint("workload", "role", "index", "hour", name="one_row_per_hour")
        ]

    def __str__(self) -> str:
        return f"{self.role}-{self.index} {self.hour}"
