"""Who stopped something is kept with it, and told when it was not the owner."""

import pytest

from jobs import actions
from jobs.models import Job
from jobs.rules import reasons
from jobs.rules.states import JobState
from jobs.services import actions as service_actions
from tests.factories import make_job, make_service, make_tenant, make_user

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(("who", "told"), [("lee", "lee"), ("alice", "")])
def test_a_stop_is_signed(who: str, told: str):
    tenant = make_tenant("alice")
    by = tenant.owner if who == "alice" else make_user(who, role="admin")
    job = make_job(tenant, state=JobState.RUNNING)
    actions.stop(by=by, job=job, reason="it diverged")
    job = Job.objects.get(pk=job.pk)
    assert (job.stopped_by, job.stop_reason) == (told, "it diverged")


def test_a_notebook_forgets_who_stopped_it_when_it_starts_again():
    service = make_service(make_tenant("alice"), state="running")
    service_actions.stop(by=make_user("lee", role="admin"), service=service, reason="idle")
    service.refresh_from_db()
    assert (service.stopped_by, service.stop_reason) == ("lee", "idle")
    service_actions.start(by=service.owner, service=service)
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
