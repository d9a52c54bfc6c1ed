"""A whole portal of its own in a process of its own, for what only a real one can show.

SQLite, a folder store, no cluster and no reconciler. `alice` has a namespace, a session and a token.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests

from deploy.testcluster.ports import free_port
from tests.portal.programs import ROOT, environ_of
from tests.tools.authority import Authority
from tests.tools.waiting import wait_for

TRAINING = {"name": "once", "image": "python:3.11-slim", "command": ["true"]}
# For tests in which one person does what many would.
UNLIMITED = dict.fromkeys(
    ("WRITES_PER_MINUTE", "SUBMITS_PER_MINUTE", "MAX_QUEUED", "MAX_UNFINISHED_TRAININGS"), "1000000"
)
LINE = b"%08d of what is kept " + b"x" * 130 + b"\n"
_CSRF = "c" * 32


@dataclass
class Whole:
    """A running one.

    Attributes:
        session: a badge of alice, as is `token`.
        admin_tokens: of one admin each; `admin_session` of the first of them.
        job_id: of alice's training that has a log and the file `artifact_id`, if it was asked for.
        ca: who signed its certificate; empty: it speaks plain HTTP.
    """

    home: Path
    port: int
    pod_port: int
    pid: int
    session: str
    token: str
    admin_tokens: list[str]
    admin_session: str = ""
    job_id: str = ""
    artifact_id: str = ""
    ca: str = ""

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}" if self.ca else f"http://localhost:{self.port}"

    @property
    def log(self) -> str:
        return (self.home / "log").read_text(errors="replace")

    @property
    def page_headers(self) -> dict[str, str]:
        """Of a request that a page of alice sends."""
        return page_headers(self.session)

    @property
    def rest_headers(self) -> dict[str, str]:
        return {"Authorization": f"Token {self.token}"}

    def rest(self, method: str, path: str, **more: Any) -> requests.Response:
        """A call of alice; `path` is below /api/v1/."""
        address = f"{self.url}/api/v1/{path}"
        return requests.request(method, address, headers=self.rest_headers, timeout=30, **more)

    def submit(self) -> requests.Response:
        return self.rest("POST", "jobs/", json=TRAINING)


def page_headers(session: str) -> dict[str, str]:
    """Of a request that a page sends."""
    cookie = f"homeport_session={session}; homeport_csrf={_CSRF}"
    return {"Cookie": cookie, "X-CSRFToken": _CSRF}


@contextmanager
def whole_portal(
    home: Path,
    *,
    wrapper: tuple[str, ...] = (),
    module: str = "manage",
    admins: int = 0,
    authority: Authority | None = None,
    kept_bytes: int = 0,
    **environ: str,
) -> Iterator[Whole]:
    """A portal while the block runs.

    Args:
        wrapper: stands in front of its command line.
        module: stands for manage.py.
        admins: how many there are.
        authority: signs its certificate; None: it speaks plain HTTP.
        kept_bytes: of the log and of the file of a training of alice, and more than so many of audit
            trail; 0: there is no such training.
    """
    port, pod_port = free_port(), free_port()
    home.mkdir(parents=True, exist_ok=True)
    ca = ""
    if authority is not None:
        ca = str(authority.folder / "ca.crt")
        certificate, key = authority.pair("portal")
        environ |= {"TLS_CERT_FILE": str(certificate), "TLS_KEY_FILE": str(key)}
        environ |= {"PUBLIC_URL": f"https://127.0.0.1:{port}", "NODE_HOST": "nodes.test"}
    given = environ_of(home, PORT=str(port), POD_PORT=str(pod_port), **environ)
    made = subprocess.run(
        [sys.executable, "-m", "tests.portal.whole", str(admins), str(kept_bytes)],
        cwd=ROOT,
        env=given,
        stdout=subprocess.PIPE,
        check=True,
    )
    badges = json.loads(made.stdout.splitlines()[-1])
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(
            [*wrapper, sys.executable, "-m", module, "serve", "--no-reconciler"],
            cwd=ROOT,
            env=given,
            stdout=log,
            stderr=log,
        )
    whole = Whole(home, port, pod_port, process.pid, **badges, ca=ca)

    def answers() -> bool:
        assert process.poll() is None, whole.log
        try:
            return requests.get(f"{whole.url}/healthz", timeout=2, verify=ca or True).ok
        except requests.RequestException:
            return False

    try:
        wait_for("the portal answers", answers, timeout_s=60)
        yield whole
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def tree_memory_bytes(pid: int) -> int:
    """Resident memory of a process and its children."""
    command = _file(f"/proc/{pid}/cmdline")
    pages = _file(f"/proc/{pid}/statm").split()
    total = int(pages[1]) * os.sysconf("SC_PAGE_SIZE") if pages else 0
    for thread in _names(f"/proc/{pid}/task"):
        for child in _file(f"/proc/{pid}/task/{thread}/children").split():
            # One that has not become its program yet has its parent's memory, not the same again.
            if _file(f"/proc/{child}/cmdline") != command:
                total += tree_memory_bytes(int(child))
    return total


def _file(path: str) -> str:
    """Of a process; empty: that has ended."""
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def _names(folder: str) -> list[str]:
    """Of a process; empty: that has ended."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


@dataclass
class Watch:
    """What was seen of a portal while something went on.

    Attributes:
        asked: how many answers came, or errors.
        peak_bytes: of its process and those below it, at their most.
    """

    asked: int = 0
    slowest_s: float = 0.0
    peak_bytes: int = 0
    base_bytes: int = 0
    errors: list[str] = field(default_factory=list)

    @property
    def growth_bytes(self) -> int:
        return self.peak_bytes - self.base_bytes


@contextmanager
def watching(url: str, pid: int, *, path: str = "/healthz", ca: str = "") -> Iterator[Watch]:
    """Asks for one path over and over, by a new connection each time, and looks at the memory.

    Args:
        pid: of the `serve` process.
        ca: who signed its certificate, if it has one.
    """
    seen = Watch(base_bytes=tree_memory_bytes(pid))
    over = threading.Event()

    def ask() -> None:
        while not over.wait(0.05):
            began = time.monotonic()
            try:
                answer = requests.get(f"{url}{path}", timeout=20, verify=ca or True)
                if not answer.ok:
                    seen.errors.append(f"{answer.status_code} {answer.text[:200]}")
            except requests.RequestException as error:
                seen.errors.append(str(error))
            seen.slowest_s = max(seen.slowest_s, time.monotonic() - began)
            seen.asked += 1

    def look() -> None:
        while not over.wait(0.02):
            seen.peak_bytes = max(seen.peak_bytes, tree_memory_bytes(pid))

    threads = [threading.Thread(target=work) for work in (ask, look)]
    for thread in threads:
        thread.start()
    try:
        yield seen
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _prepare(admins: int, kept_bytes: int) -> None:
    import django

    django.setup()
    from django.conf import settings
    from django.core.management import call_command
    from django.test import Client

    call_command("migrate", verbosity=0)
    call_command("collectstatic", verbosity=0, interactive=False)
    from tenants.actions import create_token
    from tenants.models import User
    from tests.factories import make_tenant

    alice = make_tenant("alice").owner
    client = Client()
    client.force_login(alice)
    token = create_token(by=alice, name="tests")[1]
    # Without passwords, which cost time.
    people = [User(username=f"admin-{n}", role="admin") for n in range(admins)]
    User.objects.bulk_create(people)
    badges = {
        "session": client.cookies[settings.SESSION_COOKIE_NAME].value,
        "token": token,
        "admin_tokens": [create_token(by=person, name="tests")[1] for person in people],
    }
    if people:
        client = Client()  # a session of its own: the other one would end
        client.force_login(people[0])
        badges["admin_session"] = client.cookies[settings.SESSION_COOKIE_NAME].value
    if kept_bytes:
        badges |= _keep(alice, kept_bytes)
    print(json.dumps(badges))


def _keep(person: Any, size: int) -> dict[str, str]:
    """Makes what can be downloaded: numbered lines, `LINE` each."""
    import io

    from django.utils.timezone import now

    from jobs.models import Artifact, LogSegment, ReplicaArchive
    from portal.storage import get_store
    from tenants.models import AuditEntry, Tenant
    from tests.factories import make_job

    job = make_job(Tenant.objects.get(owner=person), state="succeeded", finished_at=now())
    text = b"".join(LINE % number for number in range(size // len(LINE % 0)))
    get_store().put_file(f"kept/{job.pk}", io.BytesIO(text))
    kept = {"storage_key": f"kept/{job.pk}", "size_bytes": len(text)}
    archive = ReplicaArchive.objects.create(
        workload=job, role="worker", index=0, attempt=1, is_complete=True
    )
    LogSegment.objects.create(archive=archive, number=0, start_byte=0, sha256="0" * 64, **kept)
    file = Artifact.objects.create(
        workload=job, path="kept.txt", mtime_ns=1, uploaded_at=now(), **kept
    )
    rows = [
        AuditEntry(actor_name="alice", verb="submit", kind="job", detail={"text": "x" * 1000})
        for _ in range(size // 1000)
    ]
    AuditEntry.objects.bulk_create(rows, batch_size=1000)
    return {"job_id": str(job.pk), "artifact_id": str(file.pk)}


if __name__ == "__main__":
    _prepare(*map(int, sys.argv[1:]))
