"""What pods and the portal say to each other: derived secrets, tickets, bodies of `/internal/v1/`."""

import json
import re
import time
from datetime import datetime
from typing import Any
from unittest import mock
from uuid import UUID

import yaml
from django.test import Client, override_settings

from jobs.engine.network import namespaces
from jobs.kinds.interactive.tokens import gate_secrets, new_ticket
from jobs.kinds.training.tokens import job_token
from jobs.models import Artifact, Bundle, LogSegment, ReplicaArchive, Workload
from jobs.pod.gatekeeper.tickets import Signer
from jobs.rules.states import Desired
from portal.storage import get_store
from tenants.people.passwords import link_for
from tests.factories import make_job, make_service, make_tenant, make_user
from tests.jobs.pods_door import DATA, UID, keep, segment
from tests.portal.routes.scene import undone
from tests.recorded import GIVEN
from tests.recorded.bodies import each, shown
from tests.recorded.browsers import as_json

KEY = "recorded"
ID = UUID("3f2b8f0e-8a6e-4b43-9f5a-1d2c3b4a5968")
NOW_S = 1_800_000_000.0
START = 3
USED = {"method": "cgroup2", "minutes": [{"at": 0, "used": {"cpu_m": [1, 2]}}]}


def derived() -> dict[str, Any]:
    """Secrets of one id under one secret key at one moment: what runs has them, and keeps them."""
    person = make_user("ann")
    person.pk = ID
    with (
        override_settings(SECRET_KEY=KEY),
        mock.patch("time.time", return_value=NOW_S),
        mock.patch("secrets.token_urlsafe", return_value="once"),
        mock.patch("django.contrib.auth.hashers.get_random_string", return_value="x" * 40),
        mock.patch(
            "django.contrib.auth.tokens.PasswordResetTokenGenerator._now",
            return_value=datetime(2027, 1, 15),  # noqa: DTZ001  as Django has it there
        ),
    ):
        person.set_unusable_password()
        found: dict[str, Any] = gate_secrets(ID, START)
        signer = Signer(str(ID), START, found["ticket_key"].encode(), "notebook")
        store = get_store()
        return {
            "a training": job_token(ID),
            "a gate": found,
            "a ticket": new_ticket(ID, START, ID).text,
            "a gate's cookie": signer.write_cookie(str(ID), NOW_S),
            "a link to read": store.link_get("a/b").url.partition("?")[2],
            "a link to write": store.link_put("a/b", 7, sha256="0" * 64).url.partition("?")[2],
            "a link to join": link_for(person).key,
            "namespaces of the network check": namespaces(),
        }


def _said(status: int, body: Any) -> Any:
    """A status and a body, without what is of this moment; of a refusal its code."""
    if "errors" in body:
        return [status, *(row["code"] for row in body["errors"])]
    text = re.sub(r"https?://[^\"]*", "<link>", json.dumps(body))
    return [status, json.loads(text)]


def doors() -> dict[str, Any]:
    """What pods send, one call after the other, and what each is answered."""
    tenant = make_tenant("alice")
    bundle = Bundle.objects.create(
        tenant=tenant, file_name="code.zip", sha256="a" * 64, size_bytes=7
    )
    job = make_job(tenant, source={"bundle": str(bundle.pk)})
    notebook = make_service(
        tenant, state="running", desired="run", generation=1, observed_generation=1
    )
    client = Client()
    found: dict[str, Any] = {}

    def post(what: str, path: str, body: Any, token: str) -> Any:
        answer = client.post(
            f"/internal/v1/{path}",
            json.dumps(body),
            content_type="application/json",
            headers={"Authorization": f"Bearer {token}", "Host": "127.0.0.1"},
        )
        kind = path.replace(str(job.pk), "<id>").replace(str(notebook.pk), "<id>")
        key = f"{kind}: {what}"
        assert key not in found, key
        found[key] = {"body": body, "said": _said(answer.status_code, as_json(answer))}
        return json.loads(answer.content)

    def of_job(what: str, path: str, body: Any) -> Any:
        return post(what, f"jobs/{job.pk}/{path}", body, job_token(job.pk))

    replica = "replicas/worker/0/1/"
    file = {"path": "model/a.ckpt", "size_bytes": len(DATA), "mtime_ns": 1_800_000_000_000_000_000}
    end = {
        "exit_code": 0,
        "reason": "completed",
        "skipped_bytes": 0,
        "by_rescue": False,
        "pod_uid": UID,
    }
    of_job("the code", "source/", {})
    of_job("used long ago", f"{replica}usage/", USED)
    of_job("not from git", "commit/", {"commit": ""})
    from_git = {**job.spec, "source": {"git": "https://x/y.git"}}
    Workload.objects.filter(pk=job.pk).update(spec=from_git)
    told = {"none yet": "", "no commit": "main", "the first": "ab" * 20, "a later one": "cd" * 20}
    for what, commit in told.items():
        of_job(what, "commit/", {"commit": commit})
    link = of_job("new", f"{replica}segments/", segment())
    of_job("too early", f"{replica}segments/1/done/", segment())
    keep(get_store(), link, DATA)
    of_job("sent", f"{replica}segments/1/done/", segment())
    of_job("again", f"{replica}segments/", segment())
    of_job("another", f"{replica}segments/", segment(data=b"other"))
    of_job("not known", f"{replica}segments/2/drop/", {})
    of_job("known", f"{replica}segments/1/drop/", {})
    of_job("of no such replica", "replicas/ps/0/1/segments/", segment())
    for name, value in (
        ("number", 0),
        ("start_byte", -1),
        ("size_bytes", 2**23 + 1),
        ("sha256", ""),
        ("pod_uid", "/"),
    ):
        of_job(f"wrong {name}", f"{replica}segments/", {**segment(2), name: value})
    links = of_job("new", "artifacts/", {"files": [file]})
    of_job("too early", "artifacts/done/", {"files": [file]})
    keep(get_store(), links["links"][file["path"]], DATA)
    of_job("sent", "artifacts/done/", {"files": [file]})
    of_job("again", "artifacts/", {"files": [file]})
    huge = {**file, "path": "huge", "size_bytes": 2**60}
    of_job("too large", "artifacts/", {"files": [huge]})
    of_job("not ours", "artifacts/", {"files": [{**file, "path": ".homeport/x"}]})
    of_job("of a rescuer", f"{replica}done/", {**end, "exit_code": None, "by_rescue": True})
    of_job("the end", f"{replica}done/", end)
    of_job("no end", f"{replica}done/", {**end, "exit_code": 256})
    post("with another's token", f"jobs/{job.pk}/source/", {}, job_token(ID))
    Workload.objects.filter(pk=job.pk).update(desired=Desired.DELETE)
    of_job("in deletion", "source/", {})

    def of_gate(what: str, path: str, body: Any) -> Any:
        token = gate_secrets(notebook.pk, 1)["portal_token"]
        return post(what, f"services/{notebook.pk}/{path}", body, token)

    with mock.patch.object(time, "time", return_value=NOW_S):
        of_gate("of this start", "gate/", {"start": 1, "subjects": [str(tenant.owner.pk)]})
        of_gate("of another start", "gate/", {"start": 2, "subjects": [str(tenant.owner.pk)]})
    of_gate("no people", "gate/", {"start": 1, "subjects": ["ann"]})
    of_gate("some", "event-files/", {"start": 1, "count": 3})
    of_gate("none", "event-files/", {"start": 1, "count": -1})
    type(notebook).objects.filter(pk=notebook.pk).update(desired="stop")
    of_gate("that is to stop", "gate/", {"start": 1, "subjects": []})
    for row in found.values():
        row["body"] = json.loads(json.dumps(row["body"]).replace(str(tenant.owner.pk), "<id>"))
    return found


def bodies() -> dict[str, str]:
    """What becomes of each body of `given/doors.yaml`: a status, and the code of what is refused."""
    tenant = make_tenant("alice")
    job, notebook = make_job(tenant), make_service(tenant, generation=1)
    jobs, services = f"jobs/{job.pk}", f"services/{notebook.pk}"
    gate = gate_secrets(notebook.pk, 1)["portal_token"]
    end = {"exit_code": 0, "reason": "completed", "skipped_bytes": 0, "by_rescue": False}
    file = {"path": "a", "size_bytes": 1, "mtime_ns": 1}
    calls: dict[str, tuple[str, str, dict[str, Any]]] = {
        "segments": (f"{jobs}/replicas/worker/0/1/segments/", job_token(job.pk), segment()),
        "end": (f"{jobs}/replicas/worker/0/1/done/", job_token(job.pk), {**end, "pod_uid": UID}),
        "artifacts": (f"{jobs}/artifacts/", job_token(job.pk), file),
        "artifacts done": (f"{jobs}/artifacts/done/", job_token(job.pk), file),
        "gate": (f"{services}/gate/", gate, {"start": 1, "subjects": []}),
        "event-files": (f"{services}/event-files/", gate, {"start": 1, "count": 3}),
    }
    found = {}
    for call, fields in yaml.safe_load((GIVEN / "doors.yaml").read_text()).items():
        path, token, good = calls[call]
        for name, value in each(fields):
            body = {**good, name: value} if name else value
            with undone():
                answer = Client().post(
                    f"/internal/v1/{path}",
                    json.dumps({"files": [body]} if call.startswith("artifacts") else body),
                    content_type="application/json",
                    headers={"Authorization": f"Bearer {token}", "Host": "127.0.0.1"},
                )
                kept = (ReplicaArchive, LogSegment, Artifact)
                is_kept = any(model.objects.exists() for model in kept)
            assert answer.status_code < 400 or not is_kept, (call, body)
            said = [row["code"] for row in answer.json().get("errors", ())]
            found[f"{call} {name}={shown(value)}"] = " ".join([str(answer.status_code), *said])
    return found
