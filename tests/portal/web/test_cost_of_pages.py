"""What pages cost: a part is sent again only when something changed, and many rows are asked for as
often as one."""

from typing import Any

import pytest
from django.db.models import F
from django.utils.timezone import now

from jobs.models import Artifact, Node, ReconcilerLease, Replica, Workload, WorkloadEvent
from tenants.models import Team, Tenant, User
from tests.browsing import HTMX, client_of, count_queries, read, tenant_with_a_node
from tests.factories import make_job, make_service, make_user

pytestmark = pytest.mark.django_db

SERVED = ("notebook", "tensorboard")
OF_TRAININGS = ("header", "replicas", "events", "artifacts", "request", "manifests")
OF_SERVED = ("header", "startup", "content", "place", "events", "opening")
PARTS = [
    *(("root", f"/{name}/") for name in ("nodes", "queue", "admin/health", "admin/people")),
    ("root", "/admin/namespaces/{tenant}/"),
    *(("lee", f"/team/part/{part}/?team={{team}}") for part in ("work", "holdings")),
    *(("alice", f"/{kind}s/?q=my") for kind in ("training", *SERVED)),
    *(("alice", f"/trainings/{{job}}/part/{part}/") for part in OF_TRAININGS),
    *(("alice", f"/{k}s/{{{k}}}/part/{part}/") for k in SERVED for part in OF_SERVED),
]


def add_rows(tenant: Tenant, job: Workload) -> None:
    """One more of everything in the lists, and on the page of the training."""
    number = job.replica_rows.count()
    Replica.objects.create(workload=job, role="worker", index=number, attempt=job.attempt)
    WorkloadEvent.objects.create(workload=job, uid=number, at=now(), reason="R", message="m")
    about = {"size_bytes": 1, "mtime_ns": 1, "storage_key": "k"}
    Artifact.objects.create(workload=job, path=f"f{number}", **about)
    for state in ("running", "queued", "failed"):
        row = make_job(tenant, state=state, started_at=now())
        Replica.objects.create(workload=row, role="worker", index=0, state="running")
    for kind in SERVED:
        for state in ("running", "queued", "stopped"):
            make_service(tenant, kind=kind, state=state, started_at=now())


@pytest.fixture
def ids() -> dict[str, Any]:
    """Of rows of Alice, whose team Lee leads."""
    team = Team.objects.create(name="vision")
    tenant = tenant_with_a_node("alice", team=team)
    team.leads.add(make_user("lee", team=team))
    make_user("root", role="admin")
    ReconcilerLease.objects.create(pk=1, renewed_at=now(), cluster_ok_at=now())
    job = make_job(tenant, state="failed", plan=[{"kind": "Job"}])
    served = {kind: make_service(tenant, kind=kind, state="running").pk for kind in SERVED}
    add_rows(tenant, job)
    return {"team": team.pk, "tenant": tenant.pk, "job": job.pk, **served}


def change_all() -> None:
    asked = {"worker": {"count": 3, "cpu_millicores": 1, "memory_bytes": 1, "gpu_count": 2}}
    Workload.objects.filter(kind="job").update(replicas=asked)
    for model in (Workload, Tenant):
        model.objects.update(revision=F("revision") + 90)
    Node.objects.create(name="another")
    ReconcilerLease.objects.update(renewed_at=now(), epoch=F("epoch") + 1)
    User.objects.filter(username="lee").update(first_name="Leonie")


@pytest.mark.parametrize(("who", "path"), PARTS, ids=lambda value: value)
def test_a_part_is_sent_again_only_when_something_changed(
    ids: dict[str, Any], who: str, path: str
) -> None:
    client, path = client_of(who), path.format(**ids)
    part = read(client, path, headers=HTMX)
    assert not part.all("html")
    (root,) = (element for element in part.elements if element.get("data-revision"))
    assert (root.get("hx-get") or "").removesuffix("?") == path
    live = root.get("data-live") or ""
    assert live or "people" in path
    for key in ("job", *SERVED):
        if str(ids[key]) in path:
            assert live == f"{'job' if key == 'job' else 'service'}:{ids[key]}"
    have = {**HTMX, "Homeport-Have": root.get("data-revision") or ""}
    # Pods report artifacts without a new revision.
    unchanged = 200 if "/artifacts/" in path else 204
    assert client.get(path, headers=have).status_code == unchanged
    change_all()
    assert client.get(path, headers=have).status_code == 200


@pytest.mark.parametrize("path", ["/team", *(f"/{kind}s/{{{kind}}}" for kind in SERVED)])
def test_there_are_no_other_parts(ids: dict[str, Any], path: str) -> None:
    who = "lee" if path == "/team" else "alice"
    assert client_of(who).get(f"{path.format(**ids)}/part/secrets/").status_code == 404


@pytest.mark.parametrize(
    ("path", "most"),
    [
        ("/", 14),
        *((f"/{kind}s/", 9) for kind in ("training", *SERVED)),
        ("/trainings/{job}/", 11),  # one is of its conditions, one of what it used
        ("/api/v1/notebooks/", 6),
    ],
)
def test_many_rows_are_asked_for_as_often_as_one(ids: dict[str, Any], path: str, most: int) -> None:
    client, path = client_of("alice"), path.format(**ids)
    few = count_queries(client, path)
    for _ in range(8):
        add_rows(Tenant.objects.get(), Workload.objects.get(pk=ids["job"]))
    assert count_queries(client, path) == few <= most
