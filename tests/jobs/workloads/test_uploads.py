"""Uploads: with the form of a new training, and before it."""

import io
import zipfile

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from jobs.models import Bundle, Workload
from tenants.models import Tenant
from tests.factories import make_tenant
from tests.jobs.workloads.typed import fields
from tests.portal.markup import Markup

pytestmark = pytest.mark.django_db


def zip_file(**files: str) -> SimpleUploadedFile:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return SimpleUploadedFile("code.zip", content.getvalue())


def test_without_javascript_the_file_comes_with_the_form(client: Client) -> None:
    file = zip_file(**{"train.py": "print(1)"})
    client.post("/trainings/new/", fields(source_kind="bundle", file=file))
    job = Workload.objects.get()
    assert job.spec["source"]["bundle"] == str(Bundle.objects.get().pk)


def test_uploads_of_others_cannot_be_used(client: Client) -> None:
    mallory = make_tenant("mallory")
    bundle = Bundle.objects.create(
        tenant=mallory, file_name="secret.zip", sha256="a" * 64, size_bytes=1
    )
    typed = fields(source_kind="bundle", **{"source.bundle": str(bundle.pk)})
    answer = client.post("/trainings/new/", typed)
    assert not Workload.objects.exists()
    assert "secret.zip" not in answer.content.decode()


def test_an_upload_says_what_is_inside(client: Client, alice: Tenant) -> None:
    file = zip_file(**{"p/train.py": "print(1)", "p/data.txt": "x" * 300})
    answer = client.post("/bundles/", {"file": file})
    body = answer.json()
    assert answer.status_code == 200
    bundle = Bundle.objects.get(pk=body["id"])
    assert (bundle.tenant, body["file_name"]) == (alice, "code.zip")
    assert body["listing"]["top_folder"] == "p"
    assert body["listing"]["files"][1] == {"path": "p/data.txt", "size_bytes": 300}


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (None, "No file arrived"),
        (("empty.py", b""), "The upload is empty."),
        (("broken.tar.gz", b"nonsense" * 200), "cannot be read as an archive"),
    ],
)
def test_a_bad_upload_is_refused_in_words(
    client: Client, file: tuple[str, bytes] | None, words: str
) -> None:
    """With and without JavaScript."""
    answer = client.post("/bundles/", {"file": SimpleUploadedFile(*file)} if file else {})
    assert answer.status_code == 400
    assert words in answer.json()["errors"][0]["text"]
    if file:
        typed = fields(source_kind="bundle", file=SimpleUploadedFile(*file))
        shown = Markup(client.post("/trainings/new/", typed).content.decode()).text
        assert words in shown
        assert "Choose an archive" not in shown
    assert not Bundle.objects.exists()
    assert not Workload.objects.exists()
