"""No next step sends people to themselves: neither a lead to the lead, nor an admin to the admin."""

import json
import re

import pytest

from jobs.kinds.next_steps import NextSteps
from jobs.models import Workload
from jobs.rules import patterns, waits
from jobs.rules.reasons import ROWS
from tenants.models import Team
from tests.browsing import client_of, page_of, tenant_with_a_node
from tests.factories import make_job, make_tenant, make_user, submit_body

pytestmark = pytest.mark.django_db

ASKS = [code for code, (_, step) in ROWS.items() if re.search(r"\b(lead|admin)\b", step)]


@pytest.fixture
def row() -> Workload:
    return make_job(make_tenant("alice", team=Team.objects.create(name="vision")))


@pytest.mark.parametrize("code", ASKS)
def test_whom_a_researcher_asks_reads_what_to_do(row: Workload, code: str) -> None:
    lee, root = make_user("lee"), make_user("root", role="admin")
    row.tenant.team.leads.add(lee)
    row.reason_code, row.reason_next_step = code, ROWS[code][1]
    assert NextSteps(row.owner).of(row) == ROWS[code][1]
    assert "lead" not in NextSteps(lee).of(row)
    of_admin = NextSteps(root).of(row)
    assert of_admin
    assert not re.search(r"\b(lead|admin)\b", of_admin)


def test_who_asks_for_too_much_reads_what_they_can_do_themselves() -> None:
    """By form, preview and refusal; a lead has a namespace of the team's own."""
    team = Team.objects.create(name="vision")
    tenant_with_a_node("alice", team=team)
    team.leads.add(make_tenant("lee", team=team).owner)
    typed = {
        "name": "a",
        "source_kind": "none",
        "command": "x",
        "image": "python:3.11-slim",
        "topology": "single",
        "replicas.worker.cpu": "32",
    }
    body = submit_body(replicas={"worker": {"cpu": "32"}})
    for name, step in [
        ("alice", "Request less, or ask your lead for more quota."),
        ("lee", "Request less, or give the namespace more quota."),
    ]:
        client = client_of(name)
        panel = page_of(client.post("/trainings/new/fit/", typed)).text
        given = {"data": json.dumps(body), "content_type": "application/json"}
        preview = client.post("/api/v1/jobs/preview/", **given).json()["fit"]
        [refused] = client.post("/api/v1/jobs/", **given).json()["errors"]
        for told in (panel, preview["text"], refused["text"]):
            assert re.search(r"the whole quota is [\d.]+\. " + re.escape(step), told)
            assert ("ask your lead" in told) == (name == "alice")


def test_what_has_facts_in_it_or_is_of_another_version_stays(row: Workload) -> None:
    row.reason_code, row.reason_next_step = "quota", "Ask somebody."
    assert NextSteps(make_user("root", role="admin")).of(row) == "Ask somebody."


def test_a_lead_of_another_team_is_no_lead_here(row: Workload, django_assert_num_queries) -> None:
    lee = make_user("lee")
    Team.objects.create(name="speech").leads.add(lee)
    row.reason_code, row.reason_next_step = "quota", ROWS["quota"][1]
    steps = NextSteps(lee)
    with django_assert_num_queries(1):
        assert {steps.of(row), steps.of(row)} == {ROWS["quota"][1]}


WAITS = waits.HOPELESS | waits.FATAL_AFTER_DEADLINE | waits.WITHDRAW_AFTER_DEADLINE
# Those in which a training ends: what is not placed goes back to the queue.
FATAL = [code for code in ROWS if patterns.family_of(code) in WAITS - {"placing"}]


@pytest.mark.parametrize("code", FATAL)
@pytest.mark.parametrize("reader", ["owner", "admin"])
def test_a_next_step_after_the_end_does_not_speak_of_the_wait(
    row: Workload, code: str, reader: str
) -> None:
    person = row.owner if reader == "owner" else make_user("root", role="admin")
    row.reason_code, row.reason_next_step = code, ROWS[code][1]
    row.state = "starting"
    while_it_waits = NextSteps(person).of(row)
    row.state = "failed"
    step = NextSteps(person).of(row)
    assert step
    assert not re.search(r"retried|automatically|until|released within|wait", step, re.IGNORECASE)
    if not re.search(r"retried|automatically|until|released within", while_it_waits, re.IGNORECASE):
        assert step == while_it_waits
