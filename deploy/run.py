"""Starts a whole Homeport on this machine and stops it again: `python -m deploy.run`.

In order: database and static files, the embedded cluster (unless HOMEPORT_KUBECONFIG names
another), then the portal with that cluster's kubeconfig. The portal itself knows no embedded
cluster, and a portal that answers nobody for a minute is started again. Ctrl-C stops them in reverse; nothing is left, and state survives. When the cluster dies it
is started again while the portal stays up. One thread; it sleeps until a signal comes, but for a
look at the portal now and then.
"""

import sys

from portal.errors import ConfigurationError

if sys.version_info < (3, 11):  # noqa: UP036 (says so before an import below fails obscurely)
    sys.exit(f"Homeport needs Python 3.11 or newer, this is {sys.version.split()[0]}.")

import fcntl
import os
import shlex
import shutil
import signal
import socket
import subprocess
import textwrap
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from deploy.child import Child, tied_to
from deploy.image import offer_image
from deploy.probe import Probe
from portal import environment, public_address

ROOT = Path(__file__).resolve().parent.parent
_STOP_SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
_CLUSTER_READY_S = 120.0
_PORTAL_READY_S = 90.0
_HEALTHY_S = 60.0  # a program that ran so long is started again at once
_SILENCE_S = 60.0  # a portal that has not answered for so long stands still
_LOOK_S = 5.0
_FIRST_WAIT_S, _MOST_WAIT_S = 1.0, 60.0
_LOG_BYTES = 16 * 1024**2  # a longer log of the cluster is put aside at the next start
# Addresses that the cluster's forwarding to this machine's loopback reaches.
_REACHED_BY_PODS = {"127.0.0.1", "0.0.0.0", "localhost", ""}
# Where the embedded cluster's forwarding leads pods to this machine.
_POD_PORTAL_URL = "http://10.244.0.1:8000"


class LaunchError(Exception):
    """Homeport cannot start; the text says why and what to do."""


class Stopped(Exception):  # noqa: N818 (not an error: somebody asked for it)
    """A signal came while something was waited for."""


def say(text: str) -> None:
    with suppress(OSError):  # nobody may be reading any more
        print(text, flush=True)


@dataclass(frozen=True)
class Plan:
    """What to start, from the environment."""

    home: Path
    port: int
    address: str
    pod_port: int
    pod_address: str
    url: str  # for browsers
    kubeconfig: str  # of another cluster; empty: the embedded one

    @classmethod
    def from_environment(cls) -> "Plan":
        """Raises ConfigurationError or LaunchError: a setting cannot be used."""
        address, kubeconfig = environment.read("LISTEN"), environment.read("HOMEPORT_KUBECONFIG")
        # Pods of the embedded cluster come by loopback, whoever may reach the pages.
        pods_at = address if kubeconfig else "127.0.0.1"
        plan = cls(
            home=environment.home(),
            port=environment.read("PORT"),
            address=address,
            pod_port=environment.pod_port(),
            pod_address=environment.read("POD_LISTEN") or pods_at,
            url=public_address.read().url,
            kubeconfig=kubeconfig,
        )
        for name, port in (("PORT", plan.port), ("POD_PORT", plan.pod_port)):
            if not 0 < port < 65536:
                raise LaunchError(f"{name}={port} is no port; use one of 1024 to 65535")
        if kubeconfig and not environment.read("POD_PORTAL_URL"):
            raise LaunchError(
                "POD_PORTAL_URL is empty; set it to the URL that leads this cluster's pods to POD_PORT"
            )
        if plan.is_embedded and plan.pod_address not in _REACHED_BY_PODS:
            raise LaunchError(
                f"POD_LISTEN={plan.pod_address} cannot be reached by pods of the embedded cluster; "
                "use 127.0.0.1 or 0.0.0.0"
            )
        return plan

    @property
    def is_embedded(self) -> bool:
        return not self.kubeconfig

    def environ(self) -> dict[str, str]:
        """Of all children."""
        return {
            **os.environ,
            "HOMEPORT_HOME": str(self.home),
            # What a shell has exported for other work must not lead to another database.
            "DJANGO_SETTINGS_MODULE": "portal.settings",
            "PYTHONUNBUFFERED": "1",
        }

    def cluster(self) -> Child:
        argv = [sys.executable, "-m", "onebox", "--home", str(self.home / "onebox")]
        argv += ["--forward", str(self.pod_port)]
        argv += ["--egress", os.environ.get("ONEBOX_EGRESS", "on")]
        argv += shlex.split(os.environ.get("ONEBOX_ARGS", ""))
        log = self.home / "onebox.log"
        return Child("embedded cluster", argv, self.environ(), ROOT, log=log, grace_s=30.0)

    def portal(self) -> Child:
        environ = self.environ() | {"POD_LISTEN": self.pod_address}
        if self.is_embedded:
            environ["HOMEPORT_KUBECONFIG"] = str(self.home / "onebox" / "kubeconfig")
            environ["POD_PORTAL_URL"] = environment.read("POD_PORTAL_URL") or _POD_PORTAL_URL
            for name in ("WEB_KUBECONFIG", "PURGE_KUBECONFIG"):
                environ.pop(name, None)  # accounts of another cluster
        argv = [sys.executable, str(ROOT / "manage.py"), "serve"]
        # It drains first, and then has a pass of the reconciler and what is open to end.
        grace_s = environment.read("DRAIN_S") + 20.0
        return Child("portal", argv, environ, ROOT, grace_s=grace_s)


@contextmanager
def only_one(home: Path) -> Iterator[None]:
    """Holds the lock of an installation.

    Raises:
        LaunchError: another launcher has it.
    """
    with (home / "run.lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.seek(0)
            raise LaunchError(
                f"Homeport already runs on {home} (process {file.read().strip() or 'unknown'}); "
                "stop it, or set HOMEPORT_HOME and PORT for a second one"
            ) from error
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield


def warn_of_a_full_disk(home: Path) -> None:
    """Says so where the portal will refuse whatever makes the disk fuller (portal/room.py)."""
    free, reserve = shutil.disk_usage(home).free, environment.read("DISK_RESERVE_BYTES")
    if free < reserve:
        text = (
            f"Warning: {free // 1024**2:,} MiB are free in {home}, less than the reserve of "
            f"{reserve // 1024**2:,} MiB (DISK_RESERVE_BYTES): uploads, archives and new trainings "
            "are refused until there is more."
        )
        say(textwrap.fill(text, 100, break_on_hyphens=False))


def check_ports(plan: Plan) -> None:
    """Raises LaunchError when the web server could not listen."""
    check_port("PORT", plan.address, plan.port)
    check_port("POD_PORT", plan.pod_address, plan.pod_port)


def check_port(setting: str, address: str, port: int) -> None:
    """Raises LaunchError, which names another value of the setting."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
            probe.listen(1)
        except OSError as error:
            raise LaunchError(
                f"port {port} of {address or 'this machine'} cannot be used "
                f"({error.strerror}); choose another one, for example: "
                f"make run {setting}={port + 2}"
            ) from error


@dataclass
class Launcher:
    """The children and the signals that came."""

    plan: Plan
    cluster: Child | None = None
    portal: Child | None = None
    signals: int = 0
    waits_s: dict[str, float] = field(default_factory=dict)
    restart_at: dict[str, float] = field(default_factory=dict)
    heard_at: float = 0.0  # when the portal answered last, monotonic seconds

    def run(self) -> int:
        """Everything from start to stop; the exit code."""
        # Blocked, so that they wait to be taken by `pause`; children unblock them again.
        signal.pthread_sigmask(signal.SIG_BLOCK, {*_STOP_SIGNALS, signal.SIGCHLD})
        with only_one(self.plan.home):
            check_ports(self.plan)
            warn_of_a_full_disk(self.plan.home)
            try:
                accounts = self.prepare()
                if self.plan.is_embedded:
                    self.start_cluster()
                self.start_portal()
                say(f"\nHomeport is ready: {self.plan.url}")
                say(f"{accounts.rstrip()}\n  Ctrl-C stops it." if accounts else "Ctrl-C stops it.")
                self.keep_running()
            except Stopped:
                pass
            finally:
                self.stop()
        return 0

    # --- signals ---
    def pause(self, timeout_s: float | None = None) -> None:
        """Sleeps until a child ended or time is up.

        Raises:
            Stopped: somebody wants everything to end.
        """
        awaited = {*_STOP_SIGNALS, signal.SIGCHLD}
        if timeout_s is None:
            number = signal.sigwaitinfo(awaited).si_signo
        else:
            info = signal.sigtimedwait(awaited, max(0.0, timeout_s))
            number = info.si_signo if info else 0
        if number in _STOP_SIGNALS:
            self.signals += 1
            raise Stopped

    def is_hurried(self) -> bool:
        """Whether a second signal came."""
        while signal.sigtimedwait(_STOP_SIGNALS, 0) is not None:
            self.signals += 1
        return self.signals > 1

    def wait_until(self, what: Callable[[], bool], child: Child, timeout_s: float) -> None:
        """Raises LaunchError: the child ended, or time is up."""
        deadline = time.monotonic() + timeout_s
        while not what():
            if not child.is_running:
                raise LaunchError(self._obituary(child))
            if time.monotonic() > deadline:
                raise LaunchError(
                    f"the {child.name} is not ready after {timeout_s:g} s\n{child.last_words()}"
                )
            self.pause(0.1)

    # --- start ---
    def prepare(self) -> str:
        """Database, static files, demo accounts; what it says of the accounts."""
        say("Preparing the database and the static files ...")
        argv = [sys.executable, "-m", "deploy.prepare", *(["--demo"] * self.plan.is_embedded)]
        done = subprocess.run(
            argv,
            cwd=ROOT,
            env=self.plan.environ(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            preexec_fn=tied_to(os.getpid()),
            check=False,
        )
        self.pause(0)  # Ctrl-C reached it too
        if done.returncode != 0:
            raise LaunchError("it could not be prepared; the reason is above")
        return done.stdout.decode(errors="replace")

    def start_cluster(self) -> None:
        self.cluster = self.plan.cluster()
        log = self.cluster.log
        if log is not None and log.exists() and log.stat().st_size > _LOG_BYTES:
            log.replace(log.with_suffix(".log.1"))
        say(f"Starting the embedded cluster (its log: {log}) ...")
        offer_image(self.plan.home / "onebox" / "node")
        kubeconfig = self.plan.home / "onebox" / "kubeconfig"

        def asks(question: Callable[[Probe], bool]) -> Callable[[], bool]:
            def answered() -> bool:
                probe = Probe.of(kubeconfig)
                return probe is not None and question(probe)

            return answered

        self.cluster.start()
        self.wait_until(asks(Probe.answers), self.cluster, _CLUSTER_READY_S)
        say("  its API answers")
        self.wait_until(asks(Probe.has_ready_node), self.cluster, _CLUSTER_READY_S)
        say("  its node takes pods")
        probe = Probe.of(kubeconfig)
        lost = probe.lost_isolation() if probe is not None else ""
        if lost:
            say(textwrap.fill(lost, 100, initial_indent="  ", subsequent_indent="  "))

    def start_portal(self) -> None:
        say("Starting the portal ...")
        self.portal = self.plan.portal()
        self.portal.start()
        self.wait_until(self._portal_answers, self.portal, _PORTAL_READY_S)

    def _portal_answers(self) -> bool:
        host = self.plan.address if self.plan.address not in {"", "0.0.0.0"} else "127.0.0.1"
        shown = f"[{host}]" if ":" in host else host
        request = urllib.request.Request(
            f"http://{shown}:{self.plan.port}/healthz",
            headers={"Host": f"localhost:{self.plan.port}"},
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=2):
                return True
        except urllib.error.HTTPError as error:
            return error.code == 503  # it is up and says what is not well
        except OSError:
            return False

    # --- life ---
    def keep_running(self) -> None:
        """Starts again what dies, until a signal comes (Stopped)."""
        while True:
            now = time.monotonic()
            for child in (self.cluster, self.portal):
                if child is not None and not child.is_running:
                    self._revive(child, now)
            self._end_a_silent_portal()
            self.pause(min([_LOOK_S, *(at - now for at in self.restart_at.values())]))

    def _end_a_silent_portal(self) -> None:
        """One that runs and answers nobody is killed; `_revive` then starts it again."""
        portal = self.portal
        if portal is None or not portal.is_running:
            return
        if self._portal_answers():
            self.heard_at = time.monotonic()
        elif time.monotonic() - max(self.heard_at, portal.started_at) > _SILENCE_S:
            say(f"The portal has not answered for {_SILENCE_S:g} s: it is ended.")
            portal.kill()

    def _revive(self, child: Child, now: float) -> None:
        due = self.restart_at.get(child.name)
        if due is None:
            if now - child.started_at > _HEALTHY_S:
                self.waits_s.pop(child.name, None)
            wait_s = self.waits_s.get(child.name, _FIRST_WAIT_S)
            self.waits_s[child.name] = min(wait_s * 2, _MOST_WAIT_S)
            self.restart_at[child.name] = now + wait_s
            say(f"{self._obituary(child)}\nIt is started again in {wait_s:g} s.")
        elif due <= now:
            del self.restart_at[child.name]
            child.start()
            say(f"The {child.name} was started again.")

    @staticmethod
    def _obituary(child: Child) -> str:
        words = child.last_words()
        said = f" Its last words:\n{words}" if words else ""
        return f"The {child.name} ended with code {child.exit_code}.{said}"

    def stop(self) -> None:
        """The portal first, so that it can put its work down while the cluster answers."""
        running = [child for child in (self.portal, self.cluster) if child is not None]
        if any(child.is_running for child in running):
            say("Stopping ...")
        for child in running:
            child.stop(self.is_hurried)


def main() -> int:
    os.umask(0o077)  # what is made here is nobody else's: databases, keys, logs of people
    try:
        return Launcher(Plan.from_environment()).run()
    except (LaunchError, ConfigurationError) as error:
        print(f"Homeport did not start: {error}", file=sys.stderr, flush=True)
        return 1


if __name__ == "__main__":
    sys.exit(main())
