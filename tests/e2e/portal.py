"""A whole Homeport for tests: the launcher as a person starts it, and a REST client."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests

from deploy.child import tied_to
from deploy.testcluster.ports import free_port
from onebox.testing.processes import naming
from tests.tools.kubectls import current_kubectl
from tests.tools.waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]
PASSWORD = "a long demo password"
FINAL = {"succeeded", "failed", "stopped"}


@dataclass
class Portal:
    """One running installation; `home` survives `stop` and `start`.

    Attributes:
        pod_port: of the pods' door; `port` is where people come in.
        wrapper: words in front of the launcher's command line, such as `env NAME=VALUE`.
        admin_kubeconfig: what the tests themselves look with, where Homeport's own may do less.
        checkout: whose launcher is started, by `python`.
        launcher: the module of it.
    """

    home: Path
    port: int = field(default_factory=free_port)
    environment: dict[str, str] = field(default_factory=dict)
    wrapper: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = None
    admin_kubeconfig: Path | None = None
    pod_port: int = field(default_factory=free_port)
    checkout: Path = ROOT
    python: str = sys.executable
    launcher: str = "deploy.run"
    log: Path = field(init=False)

    def __post_init__(self) -> None:
        self.log = self.home.with_name(self.home.name + ".log")

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}"

    def start(self, *, timeout_s: float = 90) -> float:
        """Starts the launcher and waits until it answers; the seconds that it took."""
        started = time.monotonic()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*self.wrapper, self.python, "-m", self.launcher],
                cwd=self.checkout,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=tied_to(os.getpid()),  # noqa: PLW1509 (a test that was killed stops nothing)
                env={
                    # pytest's own settings are not those of the installation.
                    **{k: v for k, v in os.environ.items() if k != "DJANGO_SETTINGS_MODULE"},
                    "HOMEPORT_HOME": str(self.home),
                    "PORT": str(self.port),
                    "POD_PORT": str(self.pod_port),
                    "HOMEPORT_DEMO_PASSWORD": PASSWORD,
                    **self.environment,
                },
            )
        try:
            wait_for("the portal answers", self._answers, timeout_s=timeout_s)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.tail()}") from error
        return time.monotonic() - started

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"the launcher ended:\n{self.tail()}"
        try:
            return requests.get(f"{self.url}/readyz", timeout=2).status_code == 200
        except requests.RequestException:
            return False

    def tail(self, lines: int = 60) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def stop(self, signal_number: int = signal.SIGINT, *, timeout_s: float = 60) -> int:
        """Ctrl-C and the exit code; everything that it started must be gone."""
        assert self.process is not None
        self.process.send_signal(signal_number)
        code = self.process.wait(timeout_s)
        self.process = None
        wait_for("no process is left", lambda: not self.processes(), timeout_s=15)
        return code

    def processes(self) -> list[int]:
        """Processes that name this installation's home in command line or environment."""
        return naming(str(self.home))

    def kill_everything(self) -> None:
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if self.process is not None:
            self.process.wait(10)
            self.process = None

    @property
    def kubeconfig(self) -> Path:
        given = self.admin_kubeconfig or self.environment.get("HOMEPORT_KUBECONFIG")
        return Path(given) if given else self.home / "onebox" / "kubeconfig"

    def sign_in(self, name: str) -> "Rest":
        answer = requests.post(
            f"{self.url}/api/v1/auth/token/",
            json={"username": name, "password": PASSWORD},
            timeout=30,
        )
        answer.raise_for_status()
        return Rest(self, answer.json()["token"])

    def session(self, name: str) -> requests.Session:
        """What a browser keeps after signing in."""
        session = requests.Session()
        page = session.get(f"{self.url}/sign-in/", timeout=30).text
        found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
        assert found is not None, page
        answer = session.post(
            f"{self.url}/sign-in/",
            data={"username": name, "password": PASSWORD, "csrfmiddlewaretoken": found.group(1)},
            timeout=30,
        )
        assert answer.ok, answer.text
        assert "homeport_session" in session.cookies, answer.text
        return session


def new_home(name: str) -> Path:
    """Where an installation of tests may live: in a folder of its own that pods can reach into."""
    folder = Path(tempfile.mkdtemp(prefix=f"homeport-{name}-"))
    folder.chmod(0o755)
    return folder / "home"


@contextmanager
def thrown_away(portal: Portal) -> Iterator[Portal]:
    """The installation while the context is open; it has to end well, and its folder goes with it
    (kept with KEEP_E2E)."""
    try:
        portal.start()
        yield portal
        assert portal.stop() == 0
    finally:
        portal.kill_everything()
        if not os.environ.get("KEEP_E2E"):
            shutil.rmtree(portal.home.parent, ignore_errors=True)


@dataclass
class Rest:
    """What a person does with REST, with one token."""

    portal: Portal
    token: str

    def call(self, method: str, path: str, **arguments: Any) -> requests.Response:
        return requests.request(
            method,
            f"{self.portal.url}/api/v1/{path}",
            headers={"Authorization": f"Token {self.token}"},
            timeout=60,
            **arguments,
        )

    def get(self, path: str) -> Any:
        answer = self.call("GET", path)
        assert answer.ok, f"GET {path}: {answer.status_code} {answer.text[:500]}"
        return answer.json()

    def text(self, path: str) -> str:
        answer = self.call("GET", path)
        assert answer.ok, f"GET {path}: {answer.status_code} {answer.text[:500]}"
        return answer.content.decode(errors="replace")

    def tenant(self, *, timeout_s: float = 60) -> dict[str, Any]:
        """The own tenant, once it is active."""

        def look() -> Any:
            tenant = self.get("me/")["tenant"]
            return tenant if tenant and tenant["state"] == "active" else None

        found: dict[str, Any] = wait_for("the tenant is active", look, timeout_s=timeout_s)
        return found

    def upload(self, path: Path) -> str:
        with path.open("rb") as file:
            answer = self.call("POST", "bundles/", files={"file": (path.name, file)})
        assert answer.status_code == 201, answer.text
        identity: str = answer.json()["id"]
        return identity

    def submit(self, **body: Any) -> dict[str, Any]:
        given = {"name": "a training", "image": "python:3.11-slim", **body}
        answer = self.call("POST", "jobs/", json=given)
        assert answer.status_code == 201, answer.text
        job: dict[str, Any] = answer.json()
        return job

    def wait(self, job: dict[str, Any], *states: str, timeout_s: float = 120) -> dict[str, Any]:
        """The job once it is in one of the states (default: any final one)."""
        wanted = set(states) or FINAL

        def look() -> Any:
            seen = self.get(f"jobs/{job['id']}/")
            assert seen["state"] in wanted or seen["state"] not in FINAL, (
                f"{seen['state']}: {seen['reason']}\n{self.describe(job)}"
            )
            return seen if seen["state"] in wanted else None

        try:
            found: dict[str, Any] = wait_for(f"{sorted(wanted)}", look, timeout_s=timeout_s)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.describe(job)}") from error
        return found

    def exit_codes(self, job: dict[str, Any], role: str = "worker") -> list[int]:
        """Of all replicas of a role, in order, once they are known.

        A Job says by another watch that it is complete than its pods say how they ended.
        """

        def look() -> Any:
            replicas = self.get(f"jobs/{job['id']}/")["replicas"]
            codes = [one["exit_code"] for one in replicas if one["role"] == role]
            return codes if None not in codes else None

        found: list[int] = wait_for(f"the exit codes of {role}", look, timeout_s=30)
        return found

    def describe(self, job: dict[str, Any]) -> str:
        """All that one wants to read when a test fails."""
        events = self.get(f"jobs/{job['id']}/events/")["results"]
        shown = "\n".join(
            f"{e['source']} {e['subject']} {e['reason']}: {e['message']}" for e in events
        )
        logs = self.text(f"jobs/{job['id']}/logs/?tail=50")
        return f"{self.get('jobs/' + job['id'] + '/')}\n{shown}\n{logs}\n{self.portal.tail()}"


def kubectl(portal: Portal, *arguments: str) -> str:
    """Output of kubectl as the admin of the embedded cluster."""
    return subprocess.run(
        [current_kubectl(), f"--kubeconfig={portal.kubeconfig}", *arguments],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout


def global_steps(log: str) -> list[int]:
    """The global steps that the parameter server example reports at its end."""
    return [int(number) for number in re.findall(r"done task \d+ .* global (\d+)", log)]
