"""Borrowing: how much larger the cluster's quota is, and that pages tell the quota itself."""

from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from tenants.manifests import observed, quota_hard
from tenants.models import Team
from tests.factories import make_tenant, submit_body
from tests.pools import set_catalog

pytestmark = pytest.mark.django_db

# Borrowing, whether it has a team, and by how many GPUs and pods the cluster's quota is larger.
CASES = [
    ("none", True, (0, 0)),
    ("team", False, (0, 0)),
    ("team", True, (16, 10**6)),
    ("cluster", False, (10**6, 10**6)),
]


@pytest.mark.parametrize(("borrowing", "has_team", "beyond"), CASES)
def test_the_quota_of_the_cluster_is_larger(
    settings: Any, tmp_path: Path, borrowing: str, has_team: bool, beyond: tuple[int, int]
) -> None:
    set_catalog(settings, tmp_path, borrowing=borrowing)
    team = Team.objects.create(name="vision", budget_gpu_count=16) if has_team else None
    tenant = make_tenant("alice", team=team)
    tenant.quota_gpu_count, tenant.quota_pods = 4, 20
    hard = observed(quota_hard(tenant))
    assert (hard["gpu"] - 4, hard["pods"] - 20) == beyond
    tenant.observed_hard = hard
    assert tenant.counted_hard.items() >= tenant.quota.items()
    tenant.observed_hard = {**hard, "gpu": 2}  # the cluster has not heard of a larger one yet
    assert tenant.counted_hard["gpu"] == 2
    tenant.save()
    rest = Client(HTTP_HOST="localhost")
    rest.force_login(tenant.owner)
    asked = {"worker": {"count": 1, "cpu": "1", "memory": "1Gi", "gpu": 6}}
    for priority in ("normal", "low"):
        body = submit_body(replicas=asked, priority=priority)
        answer = rest.post("/api/v1/jobs/", body, "application/json")
        may = priority == "low" and beyond != (0, 0)
        assert answer.status_code == (201 if may else 400), answer.content
