"""REST of notebooks and TensorBoards: who may do what, and what the answers say."""

import json
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from jobs.kinds.interactive.tokens import portal_token
from jobs.models import Workload, WorkloadEvent
from jobs.workloads import actions
from tenants.models import AuditEntry, Team, Tenant, User
from tests.browsing import client_of
from tests.factories import make_job, make_service, make_tenant, make_user

pytestmark = pytest.mark.django_db


def send(user: User, method: str, path: str, body: Any = None) -> Any:
    return client_of(user).generic(
        method,
        f"/api/v1/{path}",
        "" if body is None else json.dumps(body),
        content_type="application/json",
    )


@pytest.fixture
def alice() -> Tenant:
    team = Team.objects.create(name="vision")
    tenant = make_tenant("alice", team=team)
    team.leads.add(make_user("lee", team=team))
    make_tenant("bob", team=team)
    make_user("root", role="admin")
    return tenant


def person(name: str) -> User:
    return User.objects.get(username=name)


def stopped(tenant: Tenant, **changes: Any) -> Workload:
    return make_service(
        tenant, state="stopped", observed_generation=1, cleaned_at=timezone.now(), **changes
    )


# --- asking for one ---
def test_a_notebook_is_queued_and_told_whole(alice: Tenant) -> None:
    answer = send(alice.owner, "POST", "notebooks/", {"name": "notes", "size": "medium", "gpu": 1})
    assert answer.status_code == 201, answer.content
    told = answer.json()
    assert (told["state"], told["name"], told["owner"]) == ("queued", "notes", "alice")
    assert (told["cpu"], told["memory"], told["gpu"]) == ("2", "4Gi", 1)
    assert told["reason"] == {"code": "", "text": "", "next_step": ""}
    service = Workload.objects.get()
    assert (service.desired, service.generation, str(service.pk)) == ("run", 1, told["id"])
    entry = AuditEntry.objects.get(verb="create", kind="service")
    assert (entry.actor_name, entry.object_id) == ("alice", told["id"])


def test_a_tensorboard_of_a_training(alice: Tenant) -> None:
    job = make_job(alice, name="run")
    answer = send(alice.owner, "POST", "tensorboards/", {"name": "b", "job": str(job.pk)})
    assert answer.status_code == 201, answer.content
    assert [row["job"] for row in answer.json()["log_dirs"]] == [str(job.pk)]
    assert answer.json()["event_files"] is None


def test_somebody_without_a_namespace_is_told(alice: Tenant) -> None:
    answer = send(person("root"), "POST", "notebooks/", {"name": "n"})
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (409, "no_tenant")


# --- looking ---
def test_lists_hold_one_kind_and_can_be_narrowed(alice: Tenant) -> None:
    make_service(alice, name="one")
    stopped(alice, name="two")
    make_service(alice, kind="tensorboard", name="board")
    listed = send(alice.owner, "GET", "notebooks/").json()
    assert {row["name"] for row in listed["results"]} == {"one", "two"}
    assert send(alice.owner, "GET", "tensorboards/").json()["count"] == 1
    assert send(alice.owner, "GET", "notebooks/?state=stopped").json()["count"] == 1
    assert send(alice.owner, "GET", "notebooks/?name=on%00").status_code == 200
    assert send(alice.owner, "GET", "notebooks/?name=on").json()["count"] == 1
    assert send(alice.owner, "GET", "notebooks/?state=new").status_code == 400


def test_events_are_told_oldest_first(alice: Tenant) -> None:
    notebook = make_service(alice)
    for number in (2, 1):
        at = timezone.now().replace(microsecond=number)
        WorkloadEvent.objects.create(
            workload=notebook, uid=f"u{number}", at=at, source="kubelet", reason="R", message="m"
        )
    told = send(alice.owner, "GET", f"notebooks/{notebook.pk}/events/").json()["results"]
    assert [row["start_count"] for row in told] == [1, 1]
    assert told[0]["at"] < told[1]["at"]


# --- doing ---
def test_a_stop_says_why_and_by_whom(alice: Tenant) -> None:
    notebook = make_service(alice, state="running", observed_generation=1)
    path = f"notebooks/{notebook.pk}/stop/"
    assert send(person("lee"), "POST", path, {"reason": "GPUs are short"}).status_code == 200
    notebook.refresh_from_db()
    assert (notebook.desired, notebook.stop_reason) == ("stop", "GPUs are short")
    assert notebook.stopped_by == "lee"
    assert send(alice.owner, "POST", path, {}).status_code == 200  # harmless
    notebook.refresh_from_db()
    assert notebook.stop_reason == "GPUs are short"
    assert AuditEntry.objects.filter(verb="stop").count() == 1
    assert send(alice.owner, "POST", path, {"reason": "x" * 501}).status_code == 400


def test_another_start_counts_up_and_is_queued_at_once(alice: Tenant) -> None:
    told = {"stop_reason": "over", "stop_requested_by": person("lee"), "reason_text": "It stopped."}
    notebook = stopped(alice, desired="stop", **told)
    assert notebook.stopped_by == "lee"
    seen_before = Workload.objects.get()
    told = send(alice.owner, "POST", f"notebooks/{notebook.pk}/start/").json()
    assert (told["state"], told["start_count"], told["reason"]["text"]) == ("queued", 2, "")
    again = send(alice.owner, "POST", f"notebooks/{notebook.pk}/start/").json()
    assert again["start_count"] == 2  # it is on its way already
    actions.start(by=alice.owner, workload=seen_before)  # read before the other start was written
    assert AuditEntry.objects.filter(verb="start").count() == 1
    notebook.refresh_from_db()
    assert notebook.generation == 2
    assert (notebook.desired, notebook.stop_reason, notebook.stopped_by) == ("run", "", "")


# --- opening ---
def test_opening_gives_a_link_or_says_why_not(alice: Tenant, settings: Any) -> None:
    settings.NODE_HOST = "node.example"
    waits = make_service(alice)
    answer = send(alice.owner, "POST", f"notebooks/{waits.pk}/open/")
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (409, "not_running")
    runs = make_service(alice, state="running", observed_generation=1, node_port=31234)
    answer = send(alice.owner, "POST", f"notebooks/{runs.pk}/open/")
    assert answer.status_code == 200, answer.content
    begin = f"http://node.example:31234{runs.path_prefix}__gate#t="
    assert answer.json()["url"].startswith(begin)
    assert answer.json()["expires_at"]
    refused = send(person("root"), "POST", f"notebooks/{runs.pk}/open/")
    assert (refused.status_code, refused.json()["errors"][0]["code"]) == (403, "not_allowed")


# --- what a TensorBoard tells of its event files ---
def tell(service: Workload, body: Any) -> int:
    answer = Client().post(
        f"/internal/v1/services/{service.pk}/event-files/",
        body,
        content_type="application/json",
        headers={"Authorization": f"Bearer {portal_token(service.pk)}", "Host": "127.0.0.1"},
    )
    return int(answer.status_code)


def test_the_number_of_event_files_is_kept(alice: Tenant) -> None:
    board = make_service(alice, kind="tensorboard", state="running", observed_generation=1)
    assert tell(board, {"start": 1, "count": 0}) == 200
    board.refresh_from_db()
    assert (board.event_files, board.revision) == (0, 2)
    assert tell(board, {"start": 1, "count": 0}) == 200
    board.refresh_from_db()
    assert board.revision == 2  # nothing new, nothing to tell
    assert tell(board, {"start": 1, "count": 7}) == 200
    shown = send(alice.owner, "GET", f"tensorboards/{board.pk}/").json()
    assert shown["event_files"] == 7
    # Of another start.
    assert tell(board, {"start": 9, "count": 3}) == 410
    board.refresh_from_db()
    assert board.event_files == 7
