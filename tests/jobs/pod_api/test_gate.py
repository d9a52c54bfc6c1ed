"""The gate's question to the portal: by whom it may be asked, and who is named in the answer."""

import json
import time
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client

from jobs.kinds.interactive.tokens import app_token, portal_token, ticket_key
from jobs.kinds.training.tokens import job_token
from jobs.models import Workload
from jobs.pod.gatekeeper import portal
from jobs.pod.gatekeeper.refusals import GONE, GateRefusal
from jobs.rules.states import Desired
from tenants.models import Team, Tenant, User
from tests.factories import make_job, make_service, make_tenant, make_user

pytestmark = pytest.mark.django_db

MANY = json.dumps({"start": 2, "subjects": [str(uuid4())] * 1001})


@pytest.fixture
def notebook() -> Workload:
    return make_service(make_tenant("alice"), generation=2)


def ask(service: Workload, *people: Any, start: int = 2, **changes: Any) -> tuple[int, Any]:
    """The question as the gate asks it, with changes."""
    body = changes.pop("body", {"start": start, "subjects": [str(p.pk) for p in people]})
    token = changes.pop("token", portal_token(service.pk))
    answer = Client().generic(
        changes.pop("method", "POST"),
        f"/internal/v1/services/{changes.pop('pk', service.pk)}/gate/",
        body if isinstance(body, str | bytes) else json.dumps(body),
        content_type="application/json",
        headers={"Authorization": f"Bearer {token}", "Host": "127.0.0.1"},
    )
    assert not changes
    return answer.status_code, json.loads(answer.content)


def refusal(status: int, answer: Any) -> GateRefusal:
    """What the gate makes of an answer that lets nobody in."""
    body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    with pytest.raises(GateRefusal) as refused:
        portal.understand(status, body, "notebook")
    return refused.value


def allowed(service: Workload, *people: User, start: int = 2) -> set[str]:
    status, answer = ask(service, *people, start=start)
    assert status == 200, answer
    return {User.objects.get(pk=pk).username for pk in answer["allowed"]}


def test_the_answer_is_what_the_gate_understands(notebook: Workload) -> None:
    status, answer = ask(notebook, notebook.owner)
    found = portal.understand(status, json.dumps(answer).encode(), "notebook")
    assert found.start == 2
    assert found.allowed == {str(notebook.owner_id)}
    assert found.now == pytest.approx(time.time(), abs=5)


def test_a_notebook_is_for_its_owner_alone(notebook: Workload) -> None:
    people = [notebook.owner, make_user("mallory"), make_user("root", role="admin")]
    assert allowed(notebook, *people) == {"alice"}


def test_a_tensorboard_is_for_leads_and_admins_too() -> None:
    team = Team.objects.create(name="vision")
    service = make_service(make_tenant("alice", team=team), kind="tensorboard", generation=2)
    lee = make_user("lee", team=team)
    team.leads.add(lee)
    people = [service.owner, lee, make_user("root", role="admin"), make_user("bob")]
    assert allowed(service, *people) == {"alice", "lee", "root"}
    team.leads.remove(lee)
    assert allowed(service, *people) == {"alice", "root"}


def test_whoever_is_disabled_or_unknown_is_not_named(notebook: Workload) -> None:
    assert ask(notebook, body={"start": 2, "subjects": [str(uuid4())]})[1]["allowed"] == []
    notebook.owner.is_active = False
    notebook.owner.save()
    assert allowed(notebook, notebook.owner) == set()


@pytest.mark.parametrize("start", [1, 3])
def test_the_gate_of_another_start_is_told_that_nobody_may(notebook: Workload, start: int) -> None:
    status, answer = ask(notebook, notebook.owner, start=start)
    assert status == 200
    assert (answer["start"], answer["allowed"]) == (2, [])


@pytest.mark.parametrize(
    ("desired", "code"), [(Desired.STOP, "stopped"), (Desired.DELETE, "deleted")]
)
def test_nobody_may_stay_in_what_is_to_end(notebook: Workload, desired: str, code: str) -> None:
    notebook.desired = desired
    notebook.save()
    status, answer = ask(notebook, notebook.owner)
    assert (status, answer["errors"][0]["code"]) == (410, code)
    assert refusal(status, answer).status == GONE


def test_nobody_may_stay_in_a_suspended_namespace(notebook: Workload) -> None:
    Tenant.objects.update(desired=Tenant.Desired.SUSPENDED)
    assert allowed(notebook, notebook.owner) == set()


def test_only_the_services_own_token_opens_the_door(notebook: Workload) -> None:
    other = make_service(notebook.tenant)
    tokens = [
        "",
        "x",
        portal_token(other.pk),
        ticket_key(notebook.pk, 2),
        app_token(notebook.pk, 2),
        job_token(notebook.pk),
        job_token(make_job(notebook.tenant).pk),
    ]
    for token in tokens:
        status, answer = ask(notebook, notebook.owner, token=token)
        assert (status, answer["errors"][0]["code"]) == (404, "not_found")
    assert ask(notebook, pk=uuid4())[0] == 404
    assert refusal(404, answer).status == GONE


@pytest.mark.parametrize("body", ["", b"\xff\x00", MANY], ids=["empty", "no text", "too many"])
def test_a_malformed_question_is_refused_in_words(notebook: Workload, body: Any) -> None:
    status, answer = ask(notebook, body=body)
    assert (status, answer["errors"][0]["code"]) == (400, "invalid")
    assert answer["errors"][0]["text"]


def test_the_question_of_many_is_one_of_few_queries(
    notebook: Workload, django_assert_max_num_queries: Any
) -> None:
    people = [make_user(f"person-{n}") for n in range(20)]
    with django_assert_max_num_queries(3):
        ask(notebook, notebook.owner, *people)


def test_a_wrong_answer_of_something_between_is_no_word_of_the_portal() -> None:
    for status, body in [
        (404, b"<html>404 Not Found</html>"),
        (410, b'{"error": "gone"}'),
        (200, b"{}"),
        (200, b'{"start": 1, "allowed": [], "now": NaN}'),
        (200, b"\xff"),
        (500, b""),
        (302, b""),
        (403, b'{"errors": [{"code": "not_found"}]}'),
    ]:
        assert refusal(status, body).code == "portal_unreachable"
