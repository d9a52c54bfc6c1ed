"""The switches of the queue: how they are changed, and that a look follows them."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from jobs.engine.admission import whose
from jobs.engine.queue_rows import read_queue, read_shares
from jobs.scheduling.models import Scheduling
from tenants.models import AuditEntry, Team, Tenant
from tests.factories import make_job, make_tenant, make_user
from tests.jobs.usage.rows import make_interval

pytestmark = pytest.mark.django_db

PAGE = "/admin/scheduling/"
HOUR = timedelta(hours=1)


@pytest.fixture
def alice() -> Tenant:
    return make_tenant("alice")


def test_an_admin_changes_the_switches(
    alice: Tenant,
    settings: Any,
    tmp_path: Path,
    told: list[Any],
    django_capture_on_commit_callbacks: Any,
) -> None:
    admin = Client(HTTP_HOST="localhost")
    admin.force_login(make_user("root", role="admin"))
    make_job(alice, state="queued", queued_at=timezone.now() - 4 * HOUR)
    good, settings.CATALOG = settings.CATALOG, str(tmp_path / "wrong.yaml")
    Path(settings.CATALOG).write_text("pools: 3")
    assert admin.get(PAGE).status_code == 200
    settings.CATALOG = good
    page = admin.get(PAGE).content.decode()
    assert "What was submitted first goes first" in page
    assert "No queued workloads have waited that long" in page
    assert "No image failed to be pulled three times" in page
    text = 'Failed to pull image "x:1": not found'
    event = {"at": timezone.now(), "reason": "Failed", "message": text, "count": 3}
    helper = 'Failed to pull image "homeport:2": not found'
    make_job(alice, state="starting").events.create(uid="h", **{**event, "message": helper})
    make_job(alice, state="starting", image="x:1").events.create(uid="e", **event)
    page = admin.get(PAGE).content.decode()
    assert "x:1 could not be pulled three times" in page
    assert "homeport:2" not in page, "nobody asks for it"
    for fair, aging, text in (
        ("maybe", "3h", "is none of on, off"),
        ("on", "soon", "Enter a time"),
        ("on", "10min", "from 1h to 90d"),
    ):
        answer = admin.post(PAGE, {"fair_share": fair, "aging_s": aging})
        assert answer.status_code == 400, (fair, aging)
        assert text in answer.content.decode()
    assert not Scheduling.objects.exists()
    with django_capture_on_commit_callbacks(execute=True):
        assert admin.post(PAGE, {"fair_share": "on", "aging_s": "3h"}).status_code == 302
    assert told == ["wake"]
    chosen = Scheduling.load()
    assert (chosen.fair_share, chosen.aging_s) == (True, 3 * 3600)
    assert "1 queued workload has waited that long" in admin.get(PAGE).content.decode()
    assert AuditEntry.objects.get(kind="scheduling").detail["after"]["fair_share"] is True


def test_a_look_is_told_of_all_members_of_a_team(alice: Tenant) -> None:
    team = Team.objects.create(name="speech", weight=3)
    Tenant.objects.filter(pk=alice.pk).update(team=team, weight=2)
    bob, carol = make_tenant("bob", team=team), make_tenant("carol", team=None)
    now = timezone.now()
    make_job(alice, state="queued")
    assert [one.tenant_id for one in read_queue(now).tenants] == [str(alice.pk)]
    Scheduling.objects.create(fair_share=True)
    make_interval(bob, now - 24 * HOUR, gpu_count=4, team=team)
    make_interval(carol, now - 24 * HOUR, gpu_count=4)
    queue = read_queue(now)
    assert {one.tenant_id for one in queue.tenants} == {str(alice.pk), str(bob.pk)}
    namespaces, teams = whose(queue.tenants, read_shares(now, (8, 8000, 2**40, 100, 100)), {})
    mine = namespaces[str(alice.pk)]
    assert (mine.team, mine.weight, mine.usage) == (str(team.pk), 2, 0)
    assert namespaces[str(bob.pk)].usage == teams[str(team.pk)].usage > 0
    assert teams[str(team.pk)].weight == 3
