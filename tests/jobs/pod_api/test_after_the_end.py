"""After the end and the last pod a token is good for nothing: every route of pods, in every state."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from jobs.kinds.interactive.tokens import portal_token, usage_token
from jobs.kinds.training.tokens import job_token
from jobs.models import Artifact, Bundle, LogSegment, Replica, ReplicaArchive, Workload
from jobs.usage.models import ReplicaUsage, UsageHour
from portal.storage.store import Store
from tests.factories import make_job, make_service, make_tenant
from tests.jobs.pods_door import UID, segment
from tests.portal.routes.table import TABLE, Door

pytestmark = pytest.mark.django_db

_REPLICA = "jobs/<uuid:job_id>/replicas/<slug:role>/<int:index>/<int:attempt>"
_FILE = {"path": "artifacts/model", "size_bytes": 1, "mtime_ns": 1}


def _minutes() -> dict[str, Any]:
    at = int(time.time()) // 60 * 60 - 60
    return {"method": "cgroup2", "minutes": [{"at": at, "used": {"cpu_m": [1, 1]}}]}


# Route of a training -> a body that is taken while it runs; None: it is asked with GET.
OF_JOBS: dict[str, Callable[[], Any] | None] = {
    "jobs/<uuid:job_id>/source/": dict,
    "jobs/<uuid:job_id>/commit/": lambda: {"commit": "a" * 40},
    "jobs/<uuid:job_id>/hosts/": None,
    f"{_REPLICA}/segments/": lambda: segment(2),
    f"{_REPLICA}/segments/<int:number>/done/": lambda: segment(2),
    f"{_REPLICA}/segments/<int:number>/drop/": dict,
    f"{_REPLICA}/done/": lambda: {
        "exit_code": 9,
        "reason": "forged",
        "skipped_bytes": 7,
        "by_rescue": False,
        "pod_uid": UID,
    },
    f"{_REPLICA}/usage/": _minutes,
    "jobs/<uuid:job_id>/artifacts/": lambda: {"files": [_FILE]},
    "jobs/<uuid:job_id>/artifacts/done/": lambda: {"files": [_FILE]},
}
OF_SERVICES: dict[str, Callable[[], Any]] = {
    "services/<uuid:service_id>/gate/": lambda: {"start": 1, "subjects": []},
    "services/<uuid:service_id>/event-files/": lambda: {"start": 1, "count": 3},
    "services/<uuid:service_id>/usage/<int:start>/": _minutes,
}
# Which a call that got lost may be: said again, it is answered and changes nothing.
REPEATED = f"{_REPLICA}/done/"
FINAL = {"state": "succeeded", "finished_at": timezone.now()}
# What the row says, whether its one replica has reported its end, and whether that is all.
STATES: dict[str, tuple[dict[str, Any], bool, bool]] = {
    "it runs": ({"state": "running"}, False, False),
    "it runs, and its replica has reported": ({"state": "running"}, True, False),
    "ended, and its replica has yet to report": (FINAL, False, False),
    "ended and reported": (FINAL, True, True),
    "nothing of it is left": ({**FINAL, "cleaned_at": timezone.now()}, False, True),
    "it failed": ({**FINAL, "state": "failed"}, True, True),
    "it was stopped": ({**FINAL, "state": "stopped", "desired": "stop"}, True, True),
    "it is being deleted": ({"state": "running", "desired": "delete"}, False, True),
}


def call(route: str, workload: Workload, body: Callable[[], Any] | None, token: str) -> Any:
    path = route.replace("<uuid:job_id>", str(workload.pk))
    path = path.replace("<uuid:service_id>", str(workload.pk)).replace("<slug:role>", "worker")
    path = path.replace("<int:index>", "0").replace("<int:attempt>", "1")
    path = path.replace("<int:number>", "1" if "drop" in route else "2")
    path = "/internal/v1/" + path.replace("<int:start>", "1")
    headers = {"Authorization": f"Bearer {token}", "Host": "127.0.0.1"}
    if body is None:
        return Client().get(f"{path}?attempt=1", headers=headers)
    data = json.dumps(body())
    return Client().post(path, data, content_type="application/json", headers=headers)


def rows(workload: Workload) -> list[Any]:
    """All that pods could have changed."""
    of_it = (Workload.objects.filter(pk=workload.pk), workload.archives, workload.artifacts)
    segments = LogSegment.objects.filter(archive__workload=workload)
    used = (ReplicaUsage.objects.all(), UsageHour.objects.all())
    return [list(found.order_by("pk").values()) for found in (*of_it, segments, *used)]


def ended(
    tenant: Any, row: dict[str, Any], *, is_reported: bool, source: dict[str, Any]
) -> Workload:
    job = make_job(tenant, **row)
    job.spec["source"] = source
    job.save()
    moment = timezone.now()
    is_over = job.is_final
    Replica.objects.create(
        workload=job,
        role="worker",
        index=0,
        pod_uid=UID,
        state="succeeded" if is_over else "running",
        started_at=moment,
        finished_at=moment if is_over else None,
        exit_code=0 if is_over else None,
    )
    archive = ReplicaArchive.objects.create(
        workload=job, role="worker", index=0, attempt=1, is_complete=is_reported, pod_uid=UID
    )
    about = segment(1)
    LogSegment.objects.create(
        archive=archive,
        number=1,
        start_byte=0,
        size_bytes=about["size_bytes"],
        sha256=about["sha256"],
        storage_key=f"{tenant.pk}/jobs/{job.pk}/logs/worker-0/1/1",
    )
    return job


def test_every_route_of_pods_is_tried() -> None:
    tried = {f"internal/v1/{route}" for route in (*OF_JOBS, *OF_SERVICES)}
    assert tried == {key for key, rule in TABLE.items() if rule.door is Door.PODS}


@pytest.mark.parametrize("route", OF_JOBS)
@pytest.mark.parametrize("state", STATES)
def test_a_training(store: Store, state: str, route: str) -> None:
    tenant = make_tenant("alice")
    row, is_reported, is_closed = STATES[state]
    bundle = Bundle.objects.create(tenant=tenant, file_name="a.py", sha256="a" * 64, size_bytes=1)
    from_git = {"git": "https://git.example/a.git"}
    source = from_git if "commit" in route else {"bundle": str(bundle.pk)}
    job = ended(tenant, row, is_reported=is_reported, source=source)
    before = rows(job)
    answer = call(route, job, OF_JOBS[route], job_token(job.pk))
    if not is_closed:
        # What is wrong then is the moment: it was let in.
        assert answer.status_code in {200, 404, 409} or (answer.status_code, route) == (
            410,
            f"{_REPLICA}/segments/<int:number>/drop/",
        ), answer.content
        return
    if route == REPEATED and row.get("desired") != "delete":
        assert (answer.status_code, answer.content) == (200, b"{}")
    else:
        assert answer.status_code == 410, answer.content
    assert rows(job) == before
    assert Artifact.objects.count() == 0


SERVICES: dict[str, tuple[dict[str, Any], bool]] = {
    "it runs": ({"state": "running"}, False),
    "another start is wanted": ({"state": "stopped", "generation": 2}, True),
    "it is to stop": ({"state": "running", "desired": "stop"}, True),
    "it was stopped": ({"state": "stopped", "desired": "stop"}, True),
    "it failed": ({"state": "failed"}, True),
    "it is being deleted": ({"state": "running", "desired": "delete"}, True),
}


@pytest.mark.parametrize("route", OF_SERVICES)
@pytest.mark.parametrize("state", SERVICES)
def test_what_is_served(state: str, route: str) -> None:
    row, is_closed = SERVICES[state]
    wanted = {"generation": 1, "observed_generation": 1, **row}
    service = make_service(make_tenant("alice"), kind="tensorboard", **wanted)
    before = rows(service)
    token = usage_token if "usage" in route else portal_token
    answer = call(route, service, OF_SERVICES[route], token(service.pk))
    if not is_closed:
        assert answer.status_code == 200, answer.content
        return
    if "gate" in route and state == "another start is wanted":
        # A gate of before is told so, and that nobody may be inside.
        assert (answer.status_code, answer.json()["allowed"]) == (200, [])
    else:
        assert answer.status_code == 410, answer.content
    assert rows(service) == before
