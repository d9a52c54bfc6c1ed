"""Runs an upstream control plane on loopback: etcd, API server, controller manager, scheduler.

    with ControlPlane(home) as cluster:
        ... cluster.kubeconfig ...      # of a cluster administrator

Everything lies in `home` and ends with the process that started it. There are no nodes in it until
one joins. For tests of faults each program can be stopped, paused and started again.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml

from deploy.child import Child
from deploy.testcluster import binaries, pki
from deploy.testcluster.ports import free_port

LOOPBACK = "127.0.0.1"
SERVICE_RANGE = "10.96.0.0/16"
READY_S = 120.0
_STOP_S = 15.0
_ANSWER_S = 5.0
_ADMIN_GROUP = "system:masters"

# What each request was, without bodies: enough to say which verbs an account uses. Which role is
# bound is in the body alone.
_AUDIT_RULES = (
    {
        "level": "Request",
        "verbs": ["create", "patch", "update"],
        "resources": [{"group": "rbac.authorization.k8s.io", "resources": ["rolebindings"]}],
    },
    {"level": "Metadata"},
)


class ControlPlaneError(RuntimeError):
    """A program ended or did not become ready; the text has its last words."""


PORT = 6443  # of an API server that pods come to, as kubeadm and k3s have it


@dataclass(frozen=True)
class Options:
    """What a test may want otherwise.

    Args:
        node_ports: first and last NodePort; few of them make their end reachable.
        address: where the API server listens; one that is not loopback's is an endpoint for pods.
        compaction_s: how often the API server compacts etcd; 0: never by itself.
        is_audited: each request leaves a line in `audit.log`.
        audit_rules: of requests whose bodies are to be in it, too.
        flags: program -> further flags, such as {"kube-apiserver": ["--v=4"]}.
    """

    node_ports: tuple[int, int] = (30000, 32767)
    address: str = LOOPBACK
    compaction_s: int = 300
    is_audited: bool = False
    audit_rules: Sequence[Mapping[str, object]] = ()
    flags: Mapping[str, Sequence[str]] = field(default_factory=dict)


class ControlPlane:
    """One control plane with its own keys and ports, in a folder of its own.

    Attributes:
        server: "https://ADDRESS:PORT".
        keys: makes further users.
        children: program name -> its process.

    Raises (on entering):
        binaries.NoBinariesError: the programs cannot be had.
        ControlPlaneError: one of them does not start.
    """

    def __init__(
        self,
        home: Path,
        options: Options | None = None,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.home = home.absolute()
        self.options = options or Options()
        self._say = say
        # An address of its own has the port that policies know.
        self._port = free_port() if self.options.address == LOOPBACK else PORT
        self._etcd_port, self._peer_port = free_port(), free_port()
        self._side_ports = {name: free_port() for name in ("manager", "scheduler")}
        self.server = f"https://{self.options.address}:{self._port}"
        self.children: dict[str, Child] = {}
        self.keys: pki.ClusterKeys
        self.kubeconfig = self.home / "keys" / "admin.kubeconfig"

    @property
    def version(self) -> str:
        return binaries.KUBERNETES.version

    @property
    def audit_log(self) -> Path:
        """One JSON event a line, when audited. https://kubernetes.io/docs/tasks/debug/debug-cluster/audit/"""
        return self.home / "audit.log"

    @property
    def ca_file(self) -> Path:
        return self.keys.cluster.certificate_file

    @property
    def etcd_endpoint(self) -> str:
        return f"http://127.0.0.1:{self._etcd_port}"

    def __enter__(self) -> Self:
        (self.home / "log").mkdir(parents=True, exist_ok=True)
        self.keys = pki.make_keys(self.home / "keys", self.server)
        self.keys.client_kubeconfig("admin", "admin", _ADMIN_GROUP)
        self._prepare()
        try:
            self.start("etcd")
            self._wait("etcd", self._etcd_answers)
            self._leave_first_version_behind()
            self.start("kube-apiserver")
            self.wait_until_ready()
            self.start("kube-controller-manager")
            self.start("kube-scheduler")
            self._wait("kube-controller-manager", self._has_default_account)
        except BaseException:
            self.stop_all()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop_all()

    def stop_all(self) -> None:
        """End every program, what others depend on last."""
        for name in reversed(list(self.children)):
            self.resume(name)
            self.stop(name)

    def start(self, name: str) -> None:
        """Start a program (again), with the state that it left."""
        child = self.children.get(name)
        if child is None:
            child = self.children[name] = self._child(name)
        child.start()

    def stop(self, name: str) -> None:
        """End a program in order."""
        self.children[name].stop(lambda: False)

    def kill(self, name: str) -> None:
        """Kill a program."""
        child = self.children[name]
        child.kill()
        if child.process is not None:
            child.process.wait()

    def pause(self, name: str) -> None:
        """Stop a program's clock: it keeps its connections and answers nothing."""
        self._signal(name, signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """Let a paused program go on."""
        self._signal(name, signal.SIGCONT)

    def wait_until_ready(self) -> None:
        """Wait until the API server answers that it is ready."""
        self._wait("kube-apiserver", lambda: self.get("/readyz") is not None)

    def get(self, path: str) -> bytes | None:
        """An answer of the API server to its administrator; None when it gives none."""
        try:
            return self._ask(urllib.request.Request(self.server + path))
        except OSError:
            return None

    def create(self, path: str, body: Mapping[str, object]) -> None:
        """Make an object as the administrator; one of that name may be there already.

        Raises:
            ControlPlaneError: it is refused; the text has the API server's words.
        """
        headers = {"Content-Type": "application/json"}
        asked = urllib.request.Request(self.server + path, json.dumps(body).encode(), headers)
        try:
            self._ask(asked)
        except urllib.error.HTTPError as refused:
            if refused.code != HTTPStatus.CONFLICT:
                words = refused.read().decode(errors="replace")
                raise ControlPlaneError(f"POST {path}: {words}") from refused
        except OSError as error:
            raise ControlPlaneError(f"POST {path}: {error}") from error

    def _ask(self, request: urllib.request.Request) -> bytes:
        keys = self.home / "keys"
        context = ssl.create_default_context(cafile=str(keys / "ca.crt"))
        context.load_cert_chain(keys / "admin.crt", keys / "admin.key")
        with urllib.request.urlopen(request, timeout=_ANSWER_S, context=context) as reply:
            return bytes(reply.read())

    def _signal(self, name: str, number: signal.Signals) -> None:
        child = self.children[name]
        if child.is_running and child.process is not None:
            child.process.send_signal(number)

    def _child(self, name: str) -> Child:
        product = binaries.ETCD if name == "etcd" else binaries.KUBERNETES
        program = binaries.program(product, name, self._say)
        flags = {
            "etcd": self._etcd_flags,
            "kube-apiserver": self._apiserver_flags,
            "kube-controller-manager": self._manager_flags,
            "kube-scheduler": self._scheduler_flags,
        }[name]()
        command = [str(program), *(f"--{key}={value}" for key, value in flags.items())]
        return Child(
            name,
            [*command, *self.options.flags.get(name, ())],
            os.environ,
            self.home,
            log=self.home / "log" / f"{name}.log",
            grace_s=_STOP_S,
        )

    def _prepare(self) -> None:
        policy = {
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived", "ResponseStarted"],
            "rules": [*self.options.audit_rules, *_AUDIT_RULES],
        }
        (self.home / "audit-policy.yaml").write_text(yaml.safe_dump(policy))
        for name in ("kube-controller-manager", "kube-scheduler"):
            self.keys.client_kubeconfig(name, f"system:{name}")
        # etcd keeps what it has; the keys are new with each start, so tokens of old ones are not.
        shutil.rmtree(self.home / "etcd", ignore_errors=True)

    def _etcd_flags(self) -> dict[str, object]:
        peer = f"http://127.0.0.1:{self._peer_port}"
        return {
            "name": "one",
            "data-dir": self.home / "etcd",
            "listen-client-urls": self.etcd_endpoint,
            "advertise-client-urls": self.etcd_endpoint,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"one={peer}",
            "unsafe-no-fsync": "true",  # a cluster that is thrown away
            "log-level": "warn",
        }

    def _apiserver_flags(self) -> dict[str, object]:
        keys = self.home / "keys"
        first, last = self.options.node_ports
        flags: dict[str, object] = {
            "advertise-address": self.options.address,
            "bind-address": self.options.address,
            "secure-port": self._port,
            "etcd-servers": self.etcd_endpoint,
            "etcd-compaction-interval": f"{self.options.compaction_s}s",
            "service-cluster-ip-range": SERVICE_RANGE,
            "service-node-port-range": f"{first}-{last}",
            # As kubeadm has it: what pods may be is for Pod Security to say.
            "allow-privileged": "true",
            "authorization-mode": "Node,RBAC",
            "enable-admission-plugins": "NodeRestriction",
            "client-ca-file": keys / "ca.crt",
            "tls-cert-file": keys / "apiserver.crt",
            "tls-private-key-file": keys / "apiserver.key",
            "kubelet-certificate-authority": keys / "ca.crt",
            "kubelet-client-certificate": keys / "apiserver-kubelet-client.crt",
            "kubelet-client-key": keys / "apiserver-kubelet-client.key",
            "kubelet-preferred-address-types": "InternalIP,Hostname",
            "service-account-issuer": "https://kubernetes.default.svc.cluster.local",
            "service-account-key-file": keys / "sa.pub",
            "service-account-signing-key-file": keys / "sa.key",
            "requestheader-client-ca-file": keys / "front-proxy-ca.crt",
            "requestheader-allowed-names": "front-proxy-client",
            "requestheader-username-headers": "X-Remote-User",
            "requestheader-group-headers": "X-Remote-Group",
            "requestheader-extra-headers-prefix": "X-Remote-Extra-",
            "proxy-client-cert-file": keys / "front-proxy-client.crt",
            "proxy-client-key-file": keys / "front-proxy-client.key",
        }
        if self.options.address == LOOPBACK:  # which cannot be an endpoint of `kubernetes`
            flags["endpoint-reconciler-type"] = "none"
        if self.options.is_audited:
            flags["audit-policy-file"] = self.home / "audit-policy.yaml"
            flags["audit-log-path"] = self.audit_log
            flags["audit-log-maxsize"] = 100_000  # MB: one file, whatever happens
        return flags

    def _manager_flags(self) -> dict[str, object]:
        keys = self.home / "keys"
        return {
            **self._helper_flags("kube-controller-manager", "manager"),
            "service-account-private-key-file": keys / "sa.key",
            "root-ca-file": keys / "ca.crt",
            "use-service-account-credentials": "true",
            # Ending a namespace takes a hundred calls; tests end many at once.
            "kube-api-qps": 300,
            "kube-api-burst": 600,
            "service-cluster-ip-range": SERVICE_RANGE,
            # Else it makes one below /usr/libexec, where nobody would look for it.
            "flex-volume-plugin-dir": self.home / "flexvolume",
        }

    def _scheduler_flags(self) -> dict[str, object]:
        return self._helper_flags("kube-scheduler", "scheduler")

    def _helper_flags(self, name: str, side: str) -> dict[str, object]:
        own = self.home / "keys" / f"{name}.kubeconfig"
        return {
            "kubeconfig": own,
            "authentication-kubeconfig": own,
            "authorization-kubeconfig": own,
            "bind-address": "127.0.0.1",
            "secure-port": self._side_ports[side],
            "leader-elect": "false",
        }

    def _leave_first_version_behind(self) -> None:
        """Make version 1 one that the API server's caches have never seen, as in any cluster that is
        older than a moment; else it is chance whether a watch from it is refused."""
        put = json.dumps({"key": base64.b64encode(b"homeport/first").decode()}).encode()
        with urllib.request.urlopen(f"{self.etcd_endpoint}/v3/kv/put", put, timeout=10) as reply:
            reply.read()

    def _etcd_answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.etcd_endpoint}/health", timeout=2) as reply:
                return bool(reply.status == 200)
        except OSError:
            return False

    def _has_default_account(self) -> bool:
        """Pods are admitted only when the controller manager has made the namespace's account."""
        return self.get("/api/v1/namespaces/default/serviceaccounts/default") is not None

    def _wait(self, name: str, is_ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + READY_S
        while not is_ready():
            child = self.children[name]
            if not child.is_running:
                raise ControlPlaneError(
                    f"{name} ended with {child.exit_code}:\n{child.last_words()}"
                )
            if time.monotonic() > deadline:
                raise ControlPlaneError(f"{name} is not ready:\n{child.last_words()}")
            time.sleep(0.1)
