"""The pods' door for tests: calls as pods make them, and the store behind it."""

import hashlib
import io
import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.test import Client

from jobs.kinds.training.tokens import job_token
from jobs.models import Workload
from portal.storage.folder import STORE_PATH
from portal.storage.store import Store
from tests.jobs.pod.pods import Pod

UID = "abcdef01-0000-4000-8000-000000000000"
DATA = b"step 1\nstep 2\n"


class Door:
    """Calls as a pod of one job makes them."""

    def __init__(self, job: Workload, token: str | None = None) -> None:
        self.job = job
        self.token = job_token(job.pk) if token is None else token
        self.client = Client()

    def post(self, path: str, body: Any = None, job_id: Any = None) -> tuple[int, Any]:
        data = body if isinstance(body, str | bytes) else json.dumps(body or {})
        answer = self.client.post(
            f"/internal/v1/jobs/{job_id or self.job.pk}/{path}",
            data,
            content_type="application/json",
            headers={"Authorization": f"Bearer {self.token}", "Host": "127.0.0.1"},
        )
        return answer.status_code, json.loads(answer.content)

    def get(self, path: str) -> tuple[int, Any]:
        answer = self.client.get(
            f"/internal/v1/jobs/{self.job.pk}/{path}",
            headers={"Authorization": f"Bearer {self.token}", "Host": "127.0.0.1"},
        )
        return answer.status_code, json.loads(answer.content)


def segment(number: int = 1, data: bytes = DATA, start: int = 0, uid: str = UID) -> dict[str, Any]:
    return {
        "number": number,
        "start_byte": start,
        "size_bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "pod_uid": uid,
    }


def keep(store: Store, link: dict[str, Any], data: bytes) -> None:
    """Writes over a link, as the store's door does."""
    key = link["url"].split(STORE_PATH)[1].split("?")[0]
    store.put_file(key, io.BytesIO(data))


def ship(door: Door, store: Store, body: dict[str, Any], data: bytes = DATA) -> None:
    path = "replicas/worker/0/1/segments/"
    status, link = door.post(path, body)
    assert status == 200
    keep(store, link, data)
    assert door.post(f"{path}{body['number']}/done/", body) == (200, {})


@contextmanager
def real_pod() -> Iterator[Pod]:
    """A pod whose runner is a process of its own, and which `aim` gives a portal."""
    root = Path(tempfile.mkdtemp(prefix="homeport-pod-"))

    class NoDoor:
        url = ""

    made = Pod(root, NoDoor())  # type: ignore[arg-type]
    try:
        yield made
    finally:
        made.close()
        shutil.rmtree(root)


def aim(pod: Pod, job: Workload, url: str) -> None:
    """It is a pod of this training from now on, and brings what it has to this portal."""
    pod.environ["HOMEPORT_URL"] = url
    pod.config["id"] = str(job.pk)
    (pod.root / "run/homeport/token").write_text(job_token(job.pk))
