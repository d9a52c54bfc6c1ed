"""Requests that are sent again are carried out once; changes may be bound to what was looked at."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.utils import timezone

from jobs.models import Bundle, IdempotentRequest, Workload
from jobs.retention import prune
from jobs.workloads import actions, idempotency
from jobs.workloads.idempotency import HEADER, KEPT, REPLAYED
from portal.storage.folder import FolderStore
from tenants.models import Tenant
from tests.browsing import client_of
from tests.factories import make_job, make_tenant, submit_body
from tests.tools.waiting import wait_for

pytestmark = pytest.mark.django_db
LATER = timedelta(minutes=2)


def post(client: Client, key: str = "k1", **changes: Any) -> Any:
    body = submit_body(**changes)
    return client.post(
        "/api/v1/jobs/", body, content_type="application/json", headers={HEADER: key}
    )


def test_the_same_request_is_answered_as_the_first(client: Client) -> None:
    first, again = post(client), post(client)
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == first.json()
    assert REPLAYED not in first.headers
    assert again.headers[REPLAYED] == "true"
    # Clients rely on it.
    assert first.headers["Homeport-Features"] == "idempotency-key, dry-run, document"
    assert Workload.objects.count() == 1
    post(client, "k2")
    assert Workload.objects.count() == 2, "another key is another request"


@pytest.mark.parametrize(
    ("key", "changes", "status", "code"),
    [
        ("k1", {"name": "another"}, 422, "key_reused"),
        ("", {}, 400, "invalid"),
        ("a b", {}, 400, "invalid"),
        ("k" * 256, {}, 400, "invalid"),
        ("\xfc", {}, 400, "invalid"),
    ],
)
def test_keys_that_are_none_and_keys_of_other_requests(
    client: Client, key: str, changes: dict[str, Any], status: int, code: str
) -> None:
    post(client)
    answer = post(client, key, **changes)
    assert answer.status_code == status
    assert answer.json()["errors"][0]["code"] == code
    assert Workload.objects.count() == 1


def test_only_what_was_created_is_kept(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is shown as it is now, and not at all when it is gone; values of variables are not kept."""
    first = post(client, env={"PASSWORD": "sesame"}).json()
    assert "sesame" not in str(IdempotentRequest.objects.values())
    path = f"/api/v1/jobs/{first['id']}/"
    client.post(f"{path}stop/", {}, "application/json")
    again = post(client, env={"PASSWORD": "sesame"})
    assert (again.status_code, again.headers[REPLAYED]) == (201, "true")
    assert again.json() == client.get(path).json() != first
    assert client.delete(path).status_code == 204
    gone = post(client, env={"PASSWORD": "sesame"})
    assert (gone.status_code, gone.json()["errors"][0]["code"]) == (404, "not_found")
    assert "has been deleted since" in gone.json()["errors"][0]["text"]
    # Of a person so many are kept, the newest.
    monkeypatch.setattr(idempotency, "MOST_KEPT", 3)
    for number in range(5):
        post(client, f"of {number}".replace(" ", "-"))
    kept = IdempotentRequest.objects.order_by("pk").values_list("key", flat=True)
    assert list(kept) == ["of-2", "of-3", "of-4"]


def test_keys_of_two_people_do_not_meet(client: Client, alice: Tenant) -> None:
    bob = client_of(make_tenant("bob", team=alice.team))
    assert post(client).json()["id"] != post(bob).json()["id"]


def test_what_was_refused_may_be_sent_again(client: Client) -> None:
    """Nothing was done, so the key is free, also for a body that was put right."""
    assert post(client, topology="none").status_code == 400
    assert post(client).status_code == 201


def test_a_key_is_kept_for_a_day(client: Client) -> None:
    post(client)
    IdempotentRequest.objects.update(created_at=timezone.now() - KEPT - LATER)
    assert REPLAYED not in post(client).headers
    IdempotentRequest.objects.update(created_at=timezone.now() - KEPT - LATER)
    prune()
    assert not IdempotentRequest.objects.exists()


def during_submit(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], None]) -> None:
    submit = actions.submit

    def submit_then(**asked: Any) -> Workload:
        made = submit(**asked)
        happens()
        return made

    monkeypatch.setattr(actions, "submit", submit_then)


def test_a_killed_process_has_done_nothing(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def die() -> None:
        raise SystemExit

    with monkeypatch.context() as patch:
        during_submit(patch, die)
        with pytest.raises(SystemExit):
            post(client)
    assert not Workload.objects.exists()
    assert post(client).status_code == 201


def test_of_two_at_once_the_second_is_undone(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = post(client)
    row = IdempotentRequest.objects.get()
    row.delete()
    # It is committed while the second has done its work already.
    with monkeypatch.context() as patch:
        during_submit(patch, row.save)
        late = post(client)
    assert (late.status_code, late.headers["Retry-After"]) == (409, "1")
    assert late.json()["errors"][0]["code"] == "in_progress"
    assert str(Workload.objects.get().pk) == first.json()["id"]


@pytest.mark.django_db(transaction=True)
def test_many_at_once_are_one(client: Client) -> None:
    client.raise_request_exception = False  # what is answered counts

    def created() -> str:
        answer = post(client)
        # SQLite in memory has no waiting for its lock: 503.
        assert answer.status_code in {201, 409, 503}, answer.content
        return str(answer.json().get("id", ""))

    def send(_number: int) -> str:
        try:
            return str(wait_for("it is carried out", created))
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(send, range(8)))
    assert found == {str(Workload.objects.get().pk)}


def test_an_upload_is_kept_once(client: Client, store: FolderStore) -> None:
    def send(content: bytes) -> Any:
        file = SimpleUploadedFile("code.py", content)
        return client.post("/api/v1/bundles/", {"file": file}, headers={HEADER: "k1"})

    first, again, other = send(b"code"), send(b"code"), send(b"other")
    assert first.status_code == 201
    assert again.json() == first.json()
    assert other.status_code == 422
    assert Bundle.objects.count() == 1


def test_an_answer_that_is_known_is_not_sent_again(client: Client, alice: Tenant) -> None:
    job = make_job(alice, state="running")
    path = f"/api/v1/jobs/{job.pk}/"
    tag = client.get(path).headers["ETag"]
    for known in (tag, f'"0", W/{tag}', "*"):
        same = client.get(path, headers={"If-None-Match": known})
        assert (same.status_code, same.content, same.headers["ETag"]) == (304, b"", tag)
    assert client.post(f"{path}stop/", {}, "application/json").status_code == 200
    assert client.get(path, headers={"If-None-Match": tag}).status_code == 200


def test_an_answer_with_other_fields_is_not_known(
    client: Client, alice: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"/api/v1/jobs/{make_job(alice).pk}/"
    old = client.get(path).headers["ETag"]
    monkeypatch.setattr("jobs.workloads.conditional.ANSWER_VERSION", 0)
    assert client.get(path, headers={"If-None-Match": old}).status_code == 200
    # What is to be deleted has not changed.
    assert client.delete(path, headers={"If-Match": old}).status_code == 204


def test_a_deletion_may_be_bound_to_what_was_looked_at(client: Client, alice: Tenant) -> None:
    job = make_job(alice, state="running")
    path = f"/api/v1/jobs/{job.pk}/"
    old = client.get(path).headers["ETag"]
    assert client.post(f"{path}stop/", {}, "application/json").status_code == 200
    for wrong in (old, f"{old}, {old}", '"x"', '"-1"', f"W/{old}", ""):
        answer = client.delete(path, headers={"If-Match": wrong})
        assert answer.status_code == 412, wrong
        assert client.get(path).status_code == 200
    now = client.get(path).headers["ETag"]
    assert client.delete(path, headers={"If-Match": now}).status_code == 204
    assert client.get(path).status_code == 404
