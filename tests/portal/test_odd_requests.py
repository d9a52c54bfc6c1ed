"""Whatever a request says, the answer is in words, and never a failure of ours."""

import json
from typing import Any

import pytest
from django.test import Client

from jobs.kinds.training.tokens import job_token
from portal.web import openapi
from tests.factories import make_job, make_tenant, make_user

pytestmark = pytest.mark.django_db

HEADERS = [
    "HX-Current-URL",
    "HX-Target",
    "HX-History-Restore-Request",
    "Homeport-Have",
    "Host",
    "Origin",
    "Referer",
    "Cookie",
    "Authorization",
    "Content-Type",
    "Accept",
    "Accept-Language",
    "If-Modified-Since",
    "If-None-Match",
    "Range",
    "X-Forwarded-For",
    "X-CSRFToken",
]
TEXTS = ["http://[::1", "//[", "\xff\xfe", "%ed%a0%80", "a" * 9000, "bytes=9-1", "Token \xe9", "="]


def client(**more: Any) -> Client:
    return Client(raise_request_exception=False, headers={"Host": "localhost", **more})


@pytest.mark.parametrize("header", HEADERS)
def test_no_header_is_a_failure(header: str) -> None:
    person = make_tenant("ada").owner
    for text in TEXTS:
        for encoded in ("false", "true"):
            odd = {
                "HX-Request": "true",
                header: text,
                **({f"{header}-URI-AutoEncoded": encoded} if header.startswith("HX") else {}),
            }
            stranger, ada = client(**odd), client(**odd)
            ada.force_login(person)
            for one, path in ((stranger, "/"), (stranger, "/api/v1/me/"), (ada, "/trainings/")):
                answer = one.get(path)
                assert answer.status_code < 500, f"{header}: {text!r} on {path}"


# What no text of ours can hold, and what has no end.
BODIES = {
    "half a character": '{{"{field}": "\\ud800"}}',
    "half a character in a name": '{{"{field}\\udfff": "x"}}',
    "no end": '{{"{field}": ' + "[" * 5000,
    "deep": '{{"{field}": ' + "[" * 5000 + "]" * 5000 + "}}",
}
CALLS = [
    ("/api/v1/auth/token/", "username"),
    ("/api/v1/users/", "role"),
    ("/api/v1/jobs/", "name"),
    ("/api/v1/jobs/", "command"),
    ("/api/v1/notebooks/", "image"),
    ("/internal/v1/jobs/{job}/artifacts/", "files"),
]


@pytest.mark.parametrize("kind", BODIES)
def test_no_text_in_a_body_is_a_failure(kind: str) -> None:
    job = make_job(make_tenant("root"))
    root = job.tenant.owner
    root.role = "admin"
    root.save()
    for path, field in CALLS:
        one = client(Authorization=f"Bearer {job_token(job.pk)}" if "internal" in path else "")
        one.force_login(root)
        body = BODIES[kind].format(field=field)
        answer = one.post(path.format(job=job.pk), body, content_type="application/json")
        assert answer.status_code == 400, f"{path}: {answer}"
        assert json.loads(answer.content)["errors"][0]["text"]


@pytest.mark.parametrize("method", ["get", "post", "put", "patch", "delete"])
def test_an_unknown_address_of_rest_says_so_to_every_method(method: str) -> None:
    one = Client(enforce_csrf_checks=True, headers={"Host": "localhost"})
    for person in (None, make_user("ada")):
        if person:
            one.force_login(person)
        answer = getattr(one, method)("/api/v1/no-such-thing/")
        assert answer.status_code == 404
        assert answer.json()["errors"][0]["code"] == "not_found"


def test_the_openapi_document_is_for_people_and_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    openapi._document.cache_clear()
    openapi._rendered.cache_clear()
    one = client()
    assert one.get("/api/v1/schema/").status_code == 401
    one.force_login(make_user("ada"))
    first = one.get("/api/v1/schema/", headers={"Accept": "application/json"})
    assert "/api/v1/jobs/" in json.loads(first.content)["paths"]
    monkeypatch.setattr(openapi, "SchemaGenerator", None)
    second = one.get("/api/v1/schema/", headers={"Accept": "application/json"})
    assert second.content == first.content
    assert one.get("/api/v1/schema/").content.startswith(b"openapi:")
