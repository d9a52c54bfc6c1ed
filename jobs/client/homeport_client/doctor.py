"""`homeport doctor`: tries all that people do with a portal, says what works, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import secrets
import signal
import tempfile
import time
from collections.abc import Container, Sequence
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Callable

import click

from .amounts import left_s
from .answers import FINAL, Json, part, parts, reason_of
from .diagnosis import (
    ADMIN,
    COLOURS,
    FAILED,
    PASSED,
    SKIPPED,
    DoctorStep,
    cannot_try,
    check_versions,
    document,
    outcome_of,
    phase_of,
    summary,
    too_slow,
    verdict,
)
from .exits import ERROR, OK, ClientError, UnreachableError
from .follow import interrupted_later
from .options import Command, number_option, output_option
from .sanitize import one_line, sanitize
from .session import CliSession
from .sockets import LOST, open_socket
from .version import own_version

PREFIX = "homeport-doctor-"
LEFTOVER_S = 5400  # older than any doctor that still runs, even with the largest --limit
QUEUE_S, PULL_S, ARCHIVE_S, DELETE_S = 60, 600, 20, 60
UPLOAD_BYTES = 1_000_000
LINES = 20
_UP = frozenset({"running", *FINAL})
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_WRITTEN = ("tensorboards/", "jobs/", "bundles/")
# What the training does. A folder of the log volume cannot go while its training runs, so those of
# doctors before are removed.
PROGRAM = """\
import glob, os, shutil, time
log = os.environ["LOG_DIR"]
for folder in glob.glob(os.path.dirname(log.rstrip("/")) + "/homeport-doctor-*"):
    if time.time() - os.stat(folder).st_mtime > {leftover_s}:
        shutil.rmtree(folder, ignore_errors=True)
try:
    path = os.path.join(os.environ["DATA_DIR"], ".{name}")
    with open(path, "w") as file:
        file.write("{name}")
    with open(path) as file:
        print("data:", file.read(), flush=True)
    os.remove(path)
except OSError as error:
    print("data:", error, flush=True)
os.makedirs(log, exist_ok=True)
open(os.path.join(log, "events.out.tfevents.{name}"), "w").close()
with open(os.path.join(os.environ["ARTIFACTS_DIR"], "{name}.txt"), "w") as file:
    file.write("{name}")
for number in range({lines}):
    print("line", number, flush=True)
    time.sleep(1)
"""


class Doctor:
    """One run; `steps` are those that are over; an admin's is for the health page."""

    def __init__(self, session: CliSession, image: str, limit_s: float) -> None:
        self.steps: list[DoctorStep] = []
        self.is_for_health_page = False
        self._session = session
        self._image = image
        self._limit_s = limit_s
        self._name = PREFIX + secrets.token_hex(4)
        self._began_s = time.monotonic()
        self._waited_s = {"queue": 0.0, "pull": 0.0, "start": 0.0}
        self._bundle = self._job = self._board = self._text = ""

    def run(self) -> None:
        """All steps; what they made is deleted whatever happens.

        Raises:
            KeyboardInterrupt: after that.
        """
        plan: Sequence[tuple[str, str, Callable[[], str]]] = (
            ("sign in", "", self._sign_in),
            ("versions", "sign in", self._versions),
            ("namespace", "sign in", self._namespace),
            ("upload", "namespace", self._upload),
            ("training", "upload", self._train),
            ("log", "training", self._follow),
            ("archive", "training", self._archive),
            ("data", "archive", self._data),
            ("artifact", "training", self._artifact),
            ("TensorBoard", "training", self._show),
            ("gate", "TensorBoard", self._enter),
        )
        try:
            for name, needs, act in plan:
                done = [step for step in self.steps if step.name == needs]
                if done and done[0].outcome != PASSED:
                    self._add(DoctorStep(name, SKIPPED, f"It needs: {needs}."))
                else:
                    self._try(name, act)
        finally:
            if any(step.name == "namespace" and step.outcome == PASSED for step in self.steps):
                _on_end(signal.SIG_IGN)
                with interrupted_later():
                    self._try("delete", self._delete)

    def _try(self, name: str, act: Callable[[], str]) -> None:
        began_s, before = time.monotonic(), dict(self._waited_s)
        try:
            outcome, words, next_step = PASSED, act(), ""
        except ClientError as error:
            outcome, words = outcome_of(error), error.text
            next_step = error.next_step or ADMIN
        apart = {key: self._waited_s[key] - before[key] for key in before}
        took_s = time.monotonic() - began_s
        self._add(
            DoctorStep(name, outcome, words, next_step, took_s, apart["queue"], apart["pull"])
        )

    def _add(self, step: DoctorStep) -> None:
        self.steps.append(step)
        terminal = self._session.terminal
        if self._session.output.form in {"table", "wide"}:
            terminal.write(terminal.paint(step.line, COLOURS[step.outcome]))
            if step.next_step:
                terminal.write(f"  Next: {one_line(step.next_step)}")

    # --- waiting ---
    def _left_s(self) -> float:
        apart_s = self._waited_s["queue"] + self._waited_s["pull"]
        return self._limit_s - (time.monotonic() - self._began_s - apart_s)

    def _wait(self, path: str, states: Container[str]) -> Json:
        """What is at a path, once its state is one of these.

        Raises:
            ClientError: it ended in another one, or takes too long.
        """
        rest, began_s = self._session.rest, time.monotonic()
        most_s = {"queue": QUEUE_S, "pull": PULL_S}
        while True:
            looked_s = time.monotonic()
            row = rest.get(path)
            if row.get("state") in states:
                return dict(row)
            if row.get("state") in FINAL:
                why, step = reason_of(row)
                raise ClientError(f"It is {row.get('state')}. {why}", step)
            is_up = row.get("state") in _UP
            phase = "start" if is_up else phase_of(row, rest.page(f"{path}events/")[0])
            if self._waited_s[phase] > most_s.get(phase, 1e9) or self._left_s() <= 0:
                raise too_slow(row, phase, time.monotonic() - began_s)
            time.sleep(1)
            self._waited_s[phase] += time.monotonic() - looked_s

    def _ended(self) -> Json:
        return self._wait(f"jobs/{self._job}/", {"succeeded"})

    def _until(self, found: Callable[[], Any], text: str, next_step: str) -> Any:
        """What is found once it is something. Raises ClientError: it takes too long."""
        until_s = time.monotonic() + min(ARCHIVE_S, self._left_s())
        while not (seen := found()):
            if time.monotonic() > until_s:
                raise ClientError(text, next_step)
            time.sleep(1)
        return seen

    # --- steps: what was seen in words, or ClientError ---
    def _sign_in(self) -> str:
        me = self._session.me
        self.is_for_health_page = me.get("role") == "admin"
        return f"{me.get('username')} ({me.get('role')}) at {self._session.rest.url}"

    def _versions(self) -> str:
        return check_versions(
            own_version(), self._session.rest.version, str(self._session.me.get("command_line", ""))
        )

    def _namespace(self) -> str:
        tenant, until_s = part(self._session.me, "tenant"), time.monotonic() + QUEUE_S
        while tenant.get("state") == "provisioning" and time.monotonic() < until_s:
            time.sleep(1)  # that of a person who was made just now
            tenant = part(self._session.rest.get("me/"), "tenant")
        if not tenant:
            raise cannot_try("You have no namespace.", "Ask for one on the home page.")
        text = f"{tenant.get('namespace')} is {tenant.get('state')}."
        if tenant.get("state") != "active":
            why = f"{text} {tenant.get('reason_text') or tenant.get('why') or ''}"
            raise cannot_try(why.strip(), tenant.get("reason_next_step") or "Ask your admin.")
        old = self._find(is_old=True)
        for path, row in old:
            self._remove(path, row)
        return f"{text} Of a killed doctor deleted: {len(old)}." if old else text

    def _upload(self) -> str:
        from .upload import Code

        program = PROGRAM.format(name=self._name, lines=LINES, leftover_s=LEFTOVER_S)
        padding = secrets.token_hex((UPLOAD_BYTES - len(program)) // 2)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{self._name}.py"
            path.write_text(f"{program}# {padding}\n")
            with closing(Code(self._session, path)) as code:
                self._bundle = code.send()
        return "1 MB arrived as it was sent."

    def _train(self) -> str:
        body = {
            "name": self._name,
            "image": self._image,
            "command": ["python3", f"{self._name}.py"],
            "source": {"bundle": self._bundle},
            "replicas": {"worker": {"cpu": "100m", "memory": "128Mi"}},
            "deadline_s": LEFTOVER_S,  # the pull of the image counts
            "clean_policy": "all",
            "ttl_s": LEFTOVER_S,
        }
        self._job = str(part({"row": self._session.rest.post_once("jobs/", body)}, "row").get("id"))
        row = self._wait(f"jobs/{self._job}/", {"running", "succeeded"})
        nodes = ", ".join(str(one.get("node")) for one in parts(row, "replicas"))
        return f"It started on {nodes}."

    def _follow(self) -> str:
        lines: list[str] = []
        kind = None
        try:
            with open_socket(self._session.rest, f"jobs/{self._job}/logs/") as connection:
                while kind != "end":
                    frame = json.loads(connection.recv(timeout=max(1.0, self._left_s())))
                    kind = frame["type"]
                    lines += [str(row["text"]) for row in frame.get("lines", ())]
        except (*LOST, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ClientError(
                f"The websocket broke off after {len(lines)} lines: {error or type(error).__name__}",
                "Does a proxy between here and the portal pass websockets on? docs/cluster.md",
            ) from error
        self._ended()
        return self._all_lines(lines)

    def _all_lines(self, lines: Sequence[str]) -> str:
        if [one for one in lines if one.startswith("line ")] != [f"line {n}" for n in range(LINES)]:
            raise ClientError(f"Of {LINES} lines not each came once and in order.", ADMIN)
        return f"{LINES} lines, to the last one."

    def _archive(self) -> str:
        job = self._ended()
        rest, path = self._session.rest, f"jobs/{job['id']}/logs/"

        def whole() -> bool:
            answer = rest.open("GET", path, query={"replica": "worker-0", "download": 1})
            self._text = b"".join(rest.chunks(answer)).decode("utf-8", "replace")
            return f"line {LINES - 1}\n" in self._text

        step = "Is the object store up? The health page says so."
        self._until(whole, "The end of the log has not been archived.", step)
        return self._all_lines(self._text.splitlines())

    def _data(self) -> str:
        said = [line for line in self._text.splitlines() if line.startswith("data: ")]
        if said != [f"data: {self._name}"]:
            text = f"/data cannot be written and read: {' '.join(said)[6:] or 'it said nothing'}"
            raise ClientError(text, "Tell your admin: the volume or its server is broken or full.")
        return "/data was written and read."

    def _artifact(self) -> str:
        job = self._ended()
        rest, path = self._session.rest, f"jobs/{job['id']}/artifacts/"

        def ours() -> list[Json]:
            return [one for one in rest.every(path) if str(one.get("path")).endswith(".txt")]

        step = "Is the object store up? The health page says so."
        [found, *_] = self._until(ours, "Its file has not been archived.", step)
        answer = rest.open("GET", f"{path}{found['id']}/", headers={"Accept": "*/*"})
        if b"".join(rest.chunks(answer)) != self._name.encode():
            raise ClientError("The file that it wrote came back changed.", ADMIN)
        return "The file that it wrote came back."

    def _show(self) -> str:
        self._ended()
        rest = self._session.rest
        made = rest.post_once("tensorboards/", {"name": self._name, "job": self._job})
        path = f"tensorboards/{part({'row': made}, 'row').get('id')}/"
        row = self._wait(path, {"running"})

        def sees() -> bool:
            return bool(rest.get(path).get("event_files"))

        step = "Tell your admin: the volume is not the same on all nodes."
        self._until(sees, "It does not see what the training wrote to /log.", step)
        self._board = path
        return f"It runs on {row.get('node')} and sees what the training wrote."

    def _enter(self) -> str:
        rest = self._session.rest
        page, _, ticket = str(rest.post(f"{self._board}open/").get("url")).partition("#t=")
        base = page.rpartition("__gate")[0]
        asked, origin = f"{base}data/environment", "/".join(page.split("/")[:3])
        try:
            without, _headers = rest.ask("GET", asked)
            let_in, headers = rest.ask("POST", f"{page}/login", ticket, {"Origin": origin})
            cookie = {"Cookie": headers.get("Set-Cookie", "").partition(";")[0]}
            inside, _headers = rest.ask("GET", asked, headers=cookie)
        except UnreachableError as error:
            error.next_step = (
                "NODE_HOST must lead from here to a node, NodePorts must be open on the way, and "
                "CLIENT_CIDRS must have this machine (docs/cluster.md)."
            )
            raise
        if (without, let_in, inside) != (401, 200, 200):
            raise ClientError(
                f"HTTP {without} without a ticket, {let_in} to the ticket, {inside} after it; right "
                "are 401, 200, 200.",
                "Does NODE_HOST lead to a node of this cluster, with no proxy between?",
            )
        return f"{origin} opens with a ticket, and is closed without one."

    # --- tidying up ---
    def _find(self, *, is_old: bool) -> list[tuple[str, Json]]:
        """What this doctor made; or what others of this person have left."""
        rest, me = self._session.rest, self._session.me.get("username")
        found = []
        for path in _WRITTEN:
            query = {} if path == "bundles/" else {"name": PREFIX, "owner": me}
            for row in rest.every(path, query):
                name = str(row.get("name") or row.get("file_name"))
                is_ours = row.get("owner", me) == me and name.startswith(PREFIX)
                age_s = -(left_s(row.get("created_at") or row.get("queued_at")) or 0)
                is_meant = age_s > LEFTOVER_S if is_old else name.startswith(self._name)
                if is_ours and is_meant:
                    found.append((path, row))
        return found

    def _remove(self, path: str, row: Json) -> None:
        try:
            self._session.rest.delete(f"{path}{row.get('id')}/")
        except ClientError as error:
            if error.status not in {404, 409}:  # gone, or still in use: it is looked for again
                raise

    def _delete(self) -> str:
        until_s = time.monotonic() + DELETE_S
        while left := self._find(is_old=False):
            if time.monotonic() > until_s:
                names = ", ".join(f"{path}{row.get('id')}" for path, row in left)
                raise ClientError(f"Still there: {names}", "The next doctor deletes them.")
            for path, row in left:
                self._remove(path, row)
            time.sleep(1)
        return "Nothing is left, but its folder on /log until next time."


def _keep(session: CliSession, found: Json, *, in_cluster: bool) -> None:
    """For the health page: an admin's by REST; in the cluster a ConfigMap, by the pod's own account.

    Raises:
        ClientError: it cannot be kept.
    """
    if not in_cluster:
        session.rest.post("doctor/", found)
        return
    from .rest import Rest

    host, port = (os.environ.get(f"KUBERNETES_SERVICE_{name}", "") for name in ("HOST", "PORT"))
    address = f"https://{f'[{host}]' if ':' in host else host}:{port}"
    try:
        token, namespace = ((ACCOUNT / name).read_text() for name in ("token", "namespace"))
    except OSError as error:
        raise ClientError(f"This is no pod with an account: {error}") from error
    headers = {
        "Authorization": f"Bearer {token}",
        "Content-Type": "application/merge-patch+json",
    }
    path = f"/api/v1/namespaces/{namespace}/configmaps/doctor"
    content = json.dumps({"data": {"result.json": json.dumps(found)}})
    rest = Rest(address, ca_file=str(ACCOUNT / "ca.crt"))
    status, _headers = rest.ask("PATCH", address + path, content, headers)
    if status != 200:
        raise ClientError(f"HTTP {status} of the cluster to {path}.")


def _interrupt(number: int, frame: Any) -> None:
    raise KeyboardInterrupt


def _on_end(does: Any) -> None:
    """What SIGTERM and SIGHUP do from now on: a handler, or SIG_IGN."""
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), does)


@click.command(cls=Command)
@click.option(
    "--image", default="python:3.11-slim", metavar="IMAGE", help="has Python (%(default)s)"
)
@number_option(
    "--limit", low=30, high=3600, default=90, text="seconds, without queue and images (90)"
)
@click.option("--in-cluster", is_flag=True, help="in a pod of Homeport's: keep the result there")
@output_option
@click.pass_obj
def doctor(session: CliSession, *, image: str, limit: int, in_cluster: bool) -> int:
    """Try whether all of it works from here, and delete what that made.

    Uploads 1 MB, runs a training of 20 seconds, reads its log, archive and file, uses /data, and opens a
    TensorBoard on it. Exit code 0 if all of it works.
    """
    _on_end(_interrupt)
    session.terminal.is_quiet = True
    checked = Doctor(session, image, limit)
    try:
        checked.run()
    except BaseException:
        # Else the health page would go on showing an older result.
        checked.steps.append(DoctorStep("end", FAILED, "It was broken off.", "Start it again."))
        raise
    finally:
        found = document(checked.steps, own_version(), datetime.now(timezone.utc))
        try:
            if in_cluster or checked.is_for_health_page:
                _keep(session, found, in_cluster=in_cluster)
        except ClientError as error:
            said = f"{error.text} {error.next_step}"
            session.terminal.warn(f"the health page does not have this: {said}")
    if not session.output.row(found, key="verdict"):
        session.terminal.write(sanitize(summary(checked.steps)))
    return OK if verdict(checked.steps) == PASSED else ERROR
