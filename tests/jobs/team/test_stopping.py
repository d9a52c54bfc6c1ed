"""Who stopped something is kept with it, and told when it was not the owner."""

import pytest

from jobs.rules import reasons
from jobs.workloads import actions
from tests.factories import make_service, make_tenant, make_user

pytestmark = pytest.mark.django_db


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
