"""The files of a training: the card on its page, and the downloads."""

import io

import pytest
from django.test import Client
from django.utils.timezone import now

from jobs.models import Artifact, Workload
from jobs.workloads import training_page
from tenants.models import Tenant
from tests.browsing import HTMX, body_of
from tests.factories import make_job
from tests.jobs.workloads.trainings import full_job
from tests.portal.markup import Markup

pytestmark = pytest.mark.django_db


def files_of(client: Client, job: Workload) -> str:
    """What the card of files says."""
    answer = client.get(f"/trainings/{job.pk}/part/artifacts/", headers=HTMX)
    return " ".join(Markup(answer.content.decode()).text.split())


def test_files_are_counted_whole_and_only_those_that_are_there(
    alice: Tenant, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_page, "MAX_ARTIFACTS", 3)
    job = make_job(alice, state="running")
    about = {"size_bytes": 2**20, "mtime_ns": 1}
    job.artifacts.create(path="a-announced.bin", storage_key="a", **about)
    for number in range(2):
        job.artifacts.create(path=f"b{number}", storage_key="b", uploaded_at=now(), **about)
    said = files_of(client, job)
    assert said.startswith("Files 2 files, 2 MiB ")
    assert "a-announced.bin 1 MiB uploading" in said
    assert "first" not in said
    for number in range(2, 5):
        job.artifacts.create(path=f"b{number}", storage_key="b", uploaded_at=now(), **about)
    said = files_of(client, job)
    assert said.startswith("Files 5 files, 5 MiB ")
    assert "b1" in said
    assert "b2" not in said
    assert said.endswith(
        f"The first 3 are listed. For all of them: homeport artifacts list {job.pk}"
    )
    Workload.objects.filter(pk=job.pk).update(state="failed", finished_at=now(), cleaned_at=now())
    said = files_of(client, job)
    assert said.startswith("Files 5 files, 5 MiB ")
    assert "uploading" not in said
    assert "a-announced.bin 1 MiB was not kept" in said
    job.artifacts.filter(uploaded_at__isnull=False).delete()
    assert files_of(client, job) == "Files a-announced.bin 1 MiB was not kept"


def test_an_artifact_is_a_download_and_never_a_page(alice: Tenant, client: Client) -> None:
    from portal.storage import get_store

    job = make_job(alice)
    key = f"{alice.pk}/jobs/x/evil"
    get_store().put_file(key, io.BytesIO(b"<script>alert(1)</script>"))
    artifact = Artifact.objects.create(
        workload=job,
        path="re\u202esults/evil na\u202eme.html",
        size_bytes=25,
        mtime_ns=1,
        storage_key=key,
        uploaded_at=now(),
    )
    answer = client.get(f"/trainings/{job.pk}/artifacts/{artifact.pk}/")
    assert body_of(answer) == b"<script>alert(1)</script>"
    assert answer["Content-Type"] == "application/octet-stream"
    assert answer["Content-Disposition"] == 'attachment; filename="evil na-me.html"'
    page = client.get(f"/trainings/{job.pk}/").content.decode()
    assert "\u202e" not in page
    assert r"re\u202esults/" in page
    assert r"evil na\u202eme.html" in page
    assert answer["X-Content-Type-Options"] == "nosniff"


def test_an_artifact_that_has_not_arrived_is_not_there(alice: Tenant, client: Client) -> None:
    job = full_job(alice)
    missing = job.artifacts.get(path="later.bin")
    assert client.get(f"/trainings/{job.pk}/artifacts/{missing.pk}/").status_code == 404


def test_an_artifact_that_the_store_has_lost_is_not_there(alice: Tenant, client: Client) -> None:
    artifact = full_job(alice).artifacts.get(uploaded_at__isnull=False)
    Artifact.objects.filter(pk=artifact.pk).update(storage_key="nothing/under/this/key")
    for start in ("/trainings", "/api/v1/jobs"):
        path = f"{start}/{artifact.workload_id}/artifacts/{artifact.pk}/"
        answer = client.get(path)
        assert answer.status_code == 404
        assert "is no longer in the object store" in answer.content.decode()
