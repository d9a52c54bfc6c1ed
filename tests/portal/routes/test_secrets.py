"""No page and no answer shows what a training's owner alone may read, whoever asks for it."""

import json

import pytest
from django.http import HttpResponseBase

from jobs.kinds.manifests import pod_settings
from jobs.kinds.training.manifests import completed, render_training, with_private
from jobs.kinds.training.tokens import job_token
from jobs.models import Workload
from tests.portal.routes.scene import NOT_PEOPLE, PEOPLE, Scene, undone
from tests.portal.routes.table import TABLE, Door
from tests.portal.routes.walk import routes

pytestmark = pytest.mark.django_db
VALUE, PATH, QUERY = "canary-of-a-value", "canary-of-a-path", "canary-of-a-query"
CANARIES = (VALUE, PATH, QUERY)
ENV = {"DB_PASSWORD": VALUE}
SOURCE = {"url": f"https://code.example/{PATH}/train.py?token={QUERY}"}
GIT = {"git": f"https://code.example/{PATH}/{QUERY}.git"}
PRIVATE = {"env": ENV, "source": SOURCE}
# As versions before rendered them: everything is in the ConfigMap.
OLD_PLAN = [{"kind": "ConfigMap", "data": {"job.json": json.dumps({"env": ENV, "source": SOURCE})}}]


def text_of(answer: HttpResponseBase) -> str:
    if getattr(answer, "streaming", False):
        return b"".join(answer.streaming_content).decode("utf-8", "replace")  # type: ignore[attr-defined]
    return answer.content.decode("utf-8", "replace")


def test_values_and_addresses_are_shown_to_the_owner_alone(scene: Scene) -> None:
    with undone():
        Workload.objects.filter(pk=scene.things["alice"].job.pk).update(
            spec={**scene.things["alice"].job.spec, **PRIVATE}, plan=OLD_PLAN
        )
        shown: dict[str, set[str]] = {}
        for route in routes():
            rule = TABLE[route.key]
            if rule.door is not Door.PEOPLE or rule.of("GET") is None:
                continue
            path = scene.address(route, rule, "alice")
            if path is None:
                continue
            for caller in sorted(set(PEOPLE) - set(NOT_PEOPLE)):
                for by in ("session", "token"):
                    with undone():
                        text = text_of(scene.send(caller, "GET", path, by=by))
                    if any(canary in text for canary in CANARIES):
                        shown.setdefault(caller, set()).add(route.name)
        assert shown.keys() == {"alice"}, shown
        # Where the owner does see them; without this the test could not fail.
        assert {"job", "job-again", "api-job", "api-jobs", "api-job-manifests"} <= shown["alice"]


@pytest.mark.parametrize("source", [SOURCE, GIT], ids=["url", "git"])
def test_others_see_names_and_hosts(scene: Scene, source: dict[str, str]) -> None:
    with undone():
        job = scene.things["alice"].job
        Workload.objects.filter(pk=job.pk).update(spec={**job.spec, **PRIVATE, "source": source})
        seen = json.loads(text_of(scene.send("lee", "GET", f"/api/v1/jobs/{job.pk}/", by="token")))
        assert (seen["env"], seen["source"]) == (
            {"DB_PASSWORD": None},
            dict.fromkeys(source, "https://code.example/…"),
        )
        page = text_of(scene.send("lee", "GET", f"/trainings/{job.pk}/"))
        page += text_of(scene.send("lee", "GET", f"/trainings/{job.pk}/again/"))
        assert not any(canary in page for canary in CANARIES)
        assert "DB_PASSWORD" in page
        assert "https://code.example/…" in page


@pytest.mark.parametrize("source", [SOURCE, GIT], ids=["url", "git"])
def test_the_cluster_keeps_them_in_the_secret_alone(scene: Scene, source: dict[str, str]) -> None:
    job = scene.things["alice"].job
    job.spec = {**job.spec, **PRIVATE, "source": source}
    stored = render_training(job, attempt=1, pods=pod_settings())
    assert not any(canary in json.dumps(stored) for canary in CANARIES)
    sent = [
        completed(with_private(job, document), root=None, token=job_token(job.pk))
        for document in stored
    ]
    for canary in CANARIES:
        assert [d["kind"] for d in sent if canary in json.dumps(d)] == ["Secret"]
