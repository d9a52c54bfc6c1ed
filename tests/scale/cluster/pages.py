"""Opens the pages of a large installation over HTTP and times them."""

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass

import requests

from tests.bench.processes import cpu_s
from tests.scale.cluster.lab import WEB, Lab


@dataclass(frozen=True)
class Visit:
    """One page for one person; times of whole requests, `cpu_ms` of the web server for each."""

    person: str
    title: str
    median_ms: float
    worst_ms: float
    cpu_ms: float
    size_bytes: int


def addresses(lab: Lab) -> dict[str, list[tuple[str, str]]]:
    """Person -> titles and paths of the pages that show what the cluster holds."""
    from django.urls import reverse

    from jobs.models import Workload
    from tenants.models import Tenant, User

    ada = User.objects.get(username="ada")
    tenant = Tenant.objects.get(owner=ada)
    job = Workload.objects.filter(tenant=tenant).order_by("queued_at").first()
    assert job is not None
    everybody = [
        ("home", "/"),
        ("trainings", reverse("jobs")),
        ("a training", reverse("job", args=[job.pk])),
        ("form of a training", reverse("job-new")),
        ("nodes", reverse("nodes")),
        ("queue", reverse("queue")),
        ("trainings as JSON", reverse("api-jobs") + "?page_size=200"),
        ("nodes as JSON", reverse("api-nodes")),
        ("queue as JSON", reverse("api-queue")),
    ]
    admins = [
        ("health", reverse("health")),
        ("namespaces", reverse("namespaces")),
        ("a namespace", reverse("namespace", args=[tenant.pk])),
        ("people", reverse("people")),
        ("teams", reverse("teams")),
        ("audit trail", reverse("audit")),
    ]
    return {"ada": everybody, "root": [*everybody, *admins]}


def visits(lab: Lab, rounds: int) -> Iterator[Visit]:
    """Every page, once to warm up and then `rounds` times.

    Raises:
        AssertionError: a page did not answer 200.
    """
    for person, pages in addresses(lab).items():
        session = lab.portal.session(person)
        for title, path in pages:
            size_bytes = len(_open(session, lab.portal.url + path))
            times, before = [], cpu_s(lab.pid(WEB))
            for _ in range(rounds):
                began_s = time.monotonic()
                _open(session, lab.portal.url + path)
                times.append((time.monotonic() - began_s) * 1000)
            used_ms = (cpu_s(lab.pid(WEB)) - before) / rounds * 1000
            yield Visit(person, title, statistics.median(times), max(times), used_ms, size_bytes)


def _open(session: requests.Session, url: str) -> bytes:
    answer = session.get(url, timeout=120)
    assert answer.status_code == 200, f"{url}: {answer.status_code} {answer.text[:300]}"
    return answer.content
