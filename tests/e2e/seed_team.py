"""A team at work for the lead's page, for the database that `seed.py` fills. Rows only."""

from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from tests.e2e.seed_services import make_service

GIB = 1024**3
# user name, full name, used cpu (millicores), memory, gpu; quota of GPUs; hours a week
PEOPLE = (
    ("grace", ("Grace", "Okafor"), 7500, 14 * GIB, 4, 4, (60, 80, 20, 95, 110, 120, 80, 66)),
    ("otto", ("Otto", "Lindqvist"), 3000, 6 * GIB, 3, 2, (30, 42, 55, 40, 61, 12, 48, 30)),
    ("mei", ("Mei", "Tanaka-Fernández"), 8000, 16 * GIB, 1, 2, (0, 0, 0, 12, 38, 44, 51, 20)),
    ("noor", ("Noor", "Haddad"), 1000, 2 * GIB, 0, 2, (22, 18, 25, 21, 19, 24, 20, 9)),
    ("paul", ("Paul", "Iversen"), 0, 0, 0, 2, (5, 0, 8, 0, 6, 0, 0, 0)),
    ("sofia", ("Sofia", "Marek"), 2000, 3 * GIB, 1, 1, (12, 14, 9, 0, 11, 10, 13, 6)),
    ("ravi", ("Ravi", "Deshpande"), 500, GIB, 0, 1, (0, 3, 4, 2, 0, 0, 1, 0.4)),
)


def make_team(lead: Any, at: datetime) -> dict[str, Any]:
    """Team `acoustics` with people near their limits, over them and idle; and what they run."""
    from tenants.models import Team, User

    team = Team.objects.create(
        name="acoustics",
        budget_cpu_millicores=64_000,
        budget_memory_bytes=128 * GIB,
        budget_gpu_count=13,
    )
    team.leads.add(lead)
    tenants = {}
    for name, (first, last), *amounts in PEOPLE:
        user = User.objects.create_user(name, first_name=first, last_name=last, team=team)
        tenants[name] = _tenant(user, *amounts[:4])
        _hours(tenants[name], amounts[4], at)
    return {"lead-team": team, "lead-tenant": tenants["otto"], **_work(tenants, at)}


def _tenant(owner: Any, cpu: int, memory: int, gpu: int, gpu_quota: int) -> Any:
    from tenants.actions import ensure_tenant

    tenant = ensure_tenant(user=owner)
    tenant.state = "suspended" if owner.username == "paul" else "active"
    tenant.quota_gpu_count = gpu_quota
    tenant.observed_hard = {**tenant.quota, "storage": 20 * GIB}
    tenant.observed_used = {"cpu": cpu, "memory": memory, "gpu": gpu, "storage": 20 * GIB}
    tenant.save()
    return tenant


def _hours(tenant: Any, weeks: tuple[float, ...], at: datetime) -> None:
    """Two GPUs for half the hours of each of the last weeks, the oldest first."""
    from jobs.usage.models import UsageInterval

    monday = (at - timedelta(days=at.weekday())).replace(hour=0, minute=0, second=0)
    for back, hours in enumerate(reversed(weeks)):
        begin = min(monday - timedelta(weeks=back), at - timedelta(hours=hours / 2))
        if not hours:
            continue
        UsageInterval.objects.create(
            tenant=tenant,
            owner=tenant.owner,
            team=tenant.team,
            kind="job",
            object_id=uuid4(),
            object_name="sweep",
            pod_uid=str(uuid4()),
            node="gpu-01",
            gpu_count=2,
            cpu_millicores=4000,
            memory_bytes=8 * GIB,
            started_at=begin,
            ended_at=begin + timedelta(hours=hours / 2),
        )


def _job(tenant: Any, name: str, *, gpus: int, count: int = 1, **changes: Any) -> Any:
    from tests.factories import make_job

    asked = {"cpu_millicores": 2000, "memory_bytes": 4 * GIB, "gpu_count": gpus}
    return make_job(
        tenant,
        name=name,
        topology="single" if count == 1 else "tf-ps",
        image="tensorflow/tensorflow:2.21.0",
        replicas={"worker": {"count": count, **asked}},
        **changes,
    )


def _run(job: Any, *places: tuple[str, str]) -> None:
    from jobs.models import Replica

    for index, (node, gpus) in enumerate(places):
        Replica.objects.create(
            workload=job, role="worker", index=index, node=node, gpus=gpus, state="running"
        )


def _work(tenants: dict[str, Any], at: datetime) -> dict[str, Any]:
    begun = {"state": "running", "started_at": at - timedelta(hours=5, minutes=12)}
    wav = _job(tenants["grace"], "wav2vec large, 960 h", gpus=1, count=4, **begun)
    _run(wav, ("gpu-01", "0"), ("gpu-01", "1"), ("gpu-02", "0"), ("gpu-02", "1"))
    whisper = _job(
        tenants["otto"],
        "whisper distil",
        gpus=3,
        state="running",
        queued_at=at - timedelta(days=1, hours=2),
        started_at=at - timedelta(days=1, hours=2),
    )
    _run(whisper, ("gpu-03", "0,1,2"))
    _job(
        tenants["mei"],
        "tts vocoder ablation without the adversarial loss, second half of the grid",
        gpus=2,
        queued_at=at - timedelta(minutes=41),
        reason_code="quota",
        reason_text="Waiting for quota: needs 2 GPUs, 1 of 2 free",
    )
    _job(
        tenants["otto"],
        "whisper distil, more layers",
        gpus=1,
        queued_at=at - timedelta(minutes=5),
        reason_code="over_quota",
        reason_text="Waiting for quota: needs 1 GPU, 0 of 2 free",
    )
    _job(
        tenants["sofia"],
        "keyword spotting",
        gpus=1,
        state="stopping",
        desired="stop",
        queued_at=at - timedelta(hours=1),
        started_at=at - timedelta(hours=1),
        reason_text="Lee stopped this: the demo needs the GPU",
    )
    asked = at - timedelta(hours=2)
    book = make_service(
        tenants["mei"],
        asked,
        name="listen",
        state="running",
        node="gpu-02",
        gpus="3",
        gpu_count=1,
        started_at=asked,
    )
    make_service(
        tenants["noor"], at, name="all runs", kind="tensorboard", state="starting", admitted_at=at
    )
    return {"lead-job": whisper, "lead-book": book}
