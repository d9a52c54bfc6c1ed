"""Who stopped something is kept with it, and told when it was not the owner."""

import pytest

from jobs.models import Workload
from jobs.rules import reasons
from jobs.rules.states import WorkloadState
from jobs.workloads import actions
from tests.factories import make_job, make_service, make_tenant, make_user

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(("who", "told"), [("lee", "lee"), ("alice", "")])
def test_a_stop_is_signed(who: str, told: str):
    tenant = make_tenant("alice")
    by = tenant.owner if who == "alice" else make_user(who, role="admin")
    job = make_job(tenant, state=WorkloadState.RUNNING)
    actions.stop(by=by, workload=job, reason="it diverged")
    job = Workload.objects.get(pk=job.pk)
    assert (job.stopped_by, job.stop_reason) == (told, "it diverged")


def test_a_notebook_forgets_who_stopped_it_when_it_starts_again():
    service = make_service(make_tenant("alice"), state="running")
    actions.stop(by=make_user("lee", role="admin"), workload=service, reason="idle")
    service.refresh_from_db()
    assert (service.stopped_by, service.stop_reason) == ("lee", "idle")
    actions.start(by=service.owner, workload=service)
    service.refresh_from_db()
    assert (service.stopped_by, service.stop_reason) == ("", "")


@pytest.mark.parametrize(
    ("by", "why", "text"),
    [
        ("", "", "Stopped on request."),
        ("", "it diverged", "Stopped: it diverged"),
        ("Lee", "it diverged", "Lee stopped this: it diverged"),
        ("Lee", "", "Lee stopped this: no reason was given."),
        ("Lee\n{who}", "a{b}\nc", "Lee {who} stopped this: a{b} c"),
    ],
)
def test_the_words_of_a_stop(by: str, why: str, text: str):
    assert reasons.stopped(by=by, why=why).text == text
