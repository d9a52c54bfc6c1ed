"""What the command line needs of REST: finding uploads and jobs, downloads that go on."""

import hashlib
import io
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.utils.timezone import now
from rest_framework import serializers

from jobs.kinds.interactive.answers import ServiceSerializer
from jobs.kinds.tensorboard import ShownTensorBoardSerializer
from jobs.kinds.training.answers import JobSerializer, ReplicaSerializer
from jobs.models import Artifact, Replica
from portal.storage import get_store
from tenants.actions import create_token
from tenants.models import ApiToken, AuditEntry, Team, Tenant
from tests.browsing import body_of, client_of
from tests.factories import make_job, make_service, make_tenant

pytestmark = pytest.mark.django_db


@pytest.fixture
def alice(settings: Any, tmp_path: Any) -> Tenant:
    settings.HOMEPORT_HOME = tmp_path
    return make_tenant("alice", team=Team.objects.create(name="vision"))


@pytest.fixture
def client(alice: Tenant) -> Client:
    return client_of(alice)


def upload(client: Client, content: bytes) -> dict[str, Any]:
    answer = client.post("/api/v1/bundles/", {"file": SimpleUploadedFile("code.py", content)})
    assert answer.status_code == 201, answer.content
    found: dict[str, Any] = answer.json()
    return found


def test_an_upload_is_found_by_its_sha256(client: Client) -> None:
    digest = hashlib.sha256(b"some code").hexdigest()
    assert client.get(f"/api/v1/bundles/?sha256={digest}").json()["count"] == 0
    made = upload(client, b"some code")
    upload(client, b"other code")
    found = client.get(f"/api/v1/bundles/?sha256={digest}").json()["results"]
    assert [row["id"] for row in found] == [made["id"]]


def test_an_upload_of_somebody_else_is_never_found(alice: Tenant, client: Client) -> None:
    mate = make_tenant("bob", team=alice.team)
    upload(client_of(mate), b"secret code")
    alice.team.leads.add(alice.owner)
    digest = hashlib.sha256(b"secret code").hexdigest()
    assert client.get(f"/api/v1/bundles/?sha256={digest}").json()["count"] == 0


def test_a_list_is_of_some_topologies(alice: Tenant, client: Client) -> None:
    jobs = {name: make_job(alice, topology=name) for name in ("single", "tf-ps", "jax")}
    for given in ("single", "tf-ps,jax"):
        found = client.get(f"/api/v1/jobs/?topology={given}").json()["results"]
        assert {row["id"] for row in found} == {str(jobs[name].pk) for name in given.split(",")}
    for given in ("tf", "single,", "%00"):
        answer = client.get(f"/api/v1/jobs/?topology={given}")
        assert answer.json()["errors"][0]["field"] == "topology"


@pytest.mark.parametrize(
    "given", ["soon", "2026-11-24T09:00:00", "9" * 12, "2026-13-01T00:00:00Z", "-%00"]
)
def test_a_time_that_is_none_is_refused(alice: Tenant, client: Client, given: str) -> None:
    answer = client.get(f"/api/v1/jobs/{make_job(alice).pk}/logs/?since={given}")
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "since")


@pytest.mark.parametrize("given", ["", "abc", "A" * 64, "g" * 64, "0" * 65, "%00" * 64])
def test_a_sha256_that_is_none_is_refused(client: Client, given: str) -> None:
    answer = client.get(f"/api/v1/bundles/?sha256={given}")
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == "sha256"


def test_a_job_is_found_by_how_its_id_begins(alice: Tenant, client: Client) -> None:
    job, other = make_job(alice), make_job(alice)
    start = str(job.pk)[:8]
    for given in (start, start.upper(), str(job.pk), job.pk.hex):
        found = client.get(f"/api/v1/jobs/?id={given}").json()["results"]
        assert [row["id"] for row in found] == [str(job.pk)]
    assert str(other.pk) not in str(found)
    for given in ("abc", "zzzz", "0" * 33, "%00%00%00%00"):
        answer = client.get(f"/api/v1/jobs/?id={given}")
        assert answer.status_code == 400
        assert answer.json()["errors"][0]["field"] == "id"


def test_jobs_of_one_owner_are_listed(alice: Tenant) -> None:
    lead = make_tenant("lee", team=alice.team)
    alice.team.leads.add(lead.owner)
    mine, hers = make_job(lead), make_job(alice)
    client = client_of(lead)
    assert client.get("/api/v1/jobs/").json()["count"] == 2
    for owner, job in (("lee", mine), ("alice", hers)):
        found = client.get(f"/api/v1/jobs/?owner={owner}").json()["results"]
        assert [row["id"] for row in found] == [str(job.pk)]
    assert client.get("/api/v1/jobs/?owner=nobody").json()["count"] == 0
    assert client.get("/api/v1/jobs/?owner=lee%00&name=%00").json()["count"] == 0


@pytest.fixture
def artifact(alice: Tenant) -> Artifact:
    job = make_job(alice)
    key = f"{alice.pk}/jobs/x/model"
    get_store().put_file(key, io.BytesIO(b"0123456789"))
    made: Artifact = Artifact.objects.create(
        workload=job, path="model", size_bytes=10, mtime_ns=7, storage_key=key, uploaded_at=now()
    )
    return made


def get(client: Client, artifact: Artifact, **headers: str) -> Any:
    path = f"/api/v1/jobs/{artifact.workload_id}/artifacts/{artifact.pk}/"
    return client.get(path, headers=headers)


def test_a_download_goes_on_where_it_broke_off(client: Client, artifact: Artifact) -> None:
    whole = get(client, artifact)
    assert (whole.status_code, body_of(whole)) == (200, b"0123456789")
    rest = get(client, artifact, **{"Range": "bytes=4-", "If-Range": whole["ETag"]})
    assert (rest.status_code, body_of(rest)) == (206, b"456789")
    assert rest["Content-Range"] == "bytes 4-9/10"
    assert rest["Content-Length"] == "6"


def test_a_file_that_changed_meanwhile_comes_whole(client: Client, artifact: Artifact) -> None:
    tag = get(client, artifact)["ETag"]
    Artifact.objects.filter(pk=artifact.pk).update(mtime_ns=8)
    answer = get(client, artifact, **{"Range": "bytes=4-", "If-Range": tag})
    assert (answer.status_code, body_of(answer)) == (200, b"0123456789")


@pytest.mark.parametrize(
    "given", ["bytes=10-", "bytes=99999999999999999999-", "bytes=-3", "bytes=2-4", "lines=2-", "x"]
)
def test_a_range_that_is_not_served_gives_all(
    client: Client, artifact: Artifact, given: str
) -> None:
    answer = get(client, artifact, Range=given)
    assert (answer.status_code, body_of(answer)) == (200, b"0123456789")


@pytest.mark.parametrize("scope", ["read", "submit"])
def test_a_token_revokes_itself_and_nothing_else(alice: Tenant, scope: str) -> None:
    token, plain = create_token(by=alice.owner, name="laptop", scope=scope)
    other, _ = create_token(by=alice.owner, name="other")
    client = Client(headers={"Host": "localhost", "Authorization": f"Token {plain}"})
    assert client.delete("/api/v1/auth/token/").status_code == 204
    assert list(ApiToken.objects.all()) == [other]
    assert AuditEntry.objects.filter(verb="revoke", object_id=str(token.pk)).count() == 1
    assert client.get("/api/v1/me/").status_code == 401
    assert client.delete("/api/v1/auth/token/").status_code == 401


def test_signing_out_needs_a_token(client: Client) -> None:
    """A browser's session is no token."""
    answer = client.delete("/api/v1/auth/token/")
    assert answer.status_code == 401
    assert answer.json()["errors"][0]["code"] == "not_authenticated"


def test_replicas_are_written_as_their_fields_say(alice: Tenant) -> None:
    at = now()
    ended = {"exit_code": 1, "reason_text": "It failed.", "restarts": 2, "finished_at": at}
    row = Replica(workload=make_job(alice), role="ps", pod="p", node="n", gpus=[0], started_at=at)
    for number, more in enumerate(({}, ended)):
        row.pk, row.index = None, number
        for name, value in more.items():
            setattr(row, name, value)
        row.save()
    for replica in Replica.objects.all():
        shown = ReplicaSerializer(replica)
        assert shown.data == serializers.ModelSerializer.to_representation(shown, replica)


def test_workloads_have_the_fields_that_the_document_says(alice: Tenant) -> None:
    context = {"request": SimpleNamespace(user=alice.owner)}
    rows = {
        JobSerializer: make_job(alice),
        ServiceSerializer: make_service(alice),
        ShownTensorBoardSerializer: make_service(alice, kind="tensorboard"),
    }
    for serializer, row in rows.items():
        shown = serializer(row, context=context)
        assert list(shown.data) == list(shown.fields)
