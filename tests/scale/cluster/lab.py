"""A whole Homeport on an upstream control plane whose nodes KWOK plays: started, filled, ended.

Web server and reconciler are processes of their own with an account each, on PostgreSQL and Redis.
The web server's only way to the cluster leads through a relay that counts.
"""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from deploy.child import Child
from deploy.testcluster import kwok
from deploy.testcluster.controlplane import ControlPlane, Options
from deploy.testcluster.ports import free_port
from tests.e2e.portal import PASSWORD, ROOT, Portal, Rest
from tests.scale.cluster import pods
from tests.scale.cluster.kube import Admin, Audit
from tests.scale.cluster.relay import Relay
from tests.scale.stacked import Stacked
from tests.tools import servers
from tests.tools.waiting import wait_for

CLASS = "scale"  # the StorageClass; its volumes are made beforehand
IMAGE = "python:3.11-slim"
WEB, RECONCILER = "homeport-web", "homeport-reconciler"
NODE = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"}
GIB = 2**30

_NO_JOBS = "--controllers=*,-job-controller"
_MANAGER = "kube-controller-manager"

# Upstream's own limits are for clusters with a real machine behind each node.
_OPTIONS = Options(
    is_audited=True,
    flags={
        "kube-apiserver": (
            "--max-requests-inflight=2000",
            "--max-mutating-requests-inflight=1000",
            "--audit-log-maxsize=100000",
            "--audit-log-mode=batch",
            "--audit-log-batch-max-wait=1s",
        ),
        _MANAGER: (
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
            "--concurrent-job-syncs=20",
            *kwok.MANAGER_FLAGS,
            _NO_JOBS,
        ),
        "kube-scheduler": ("--kube-api-qps=1000", "--kube-api-burst=2000"),
    },
)


@dataclass(frozen=True)
class Size:
    """How much there is; each training has `workers` and one parameter server.

    Attributes:
        gpu_tenants: of so many tenants all workers hold a GPU each.
    """

    nodes: int
    tenants: int
    trainings: int  # of each tenant
    workers: int
    gpu_tenants: int = 0

    @property
    def pods(self) -> int:
        return self.tenants * self.trainings * (self.workers + 1)

    def __str__(self) -> str:
        return f"{self.nodes} nodes, {self.tenants} tenants, {self.pods} pods"


def body(name: str, workers: int, servers: int = 1, gpu: int = 0) -> dict[str, Any]:
    """A training that runs until it is stopped."""
    each = {"cpu": "100m", "memory": "256Mi"}
    return {
        "name": name,
        "image": IMAGE,
        "command": ["python", "train.py"],
        "topology": "tf-ps",
        # Filling a large cluster takes long on a small machine, and nothing is to be withdrawn.
        "starting_deadline_s": 86_400,
        "replicas": {
            "worker": {"count": workers, "gpu": gpu, **each},
            "ps": {"count": servers, **each},
        },
    }


class Lab(Stacked):
    """See the module. Django must not have been set up yet: its settings are made here.

    Attributes:
        portal: the web server, for sessions and tokens.
        relay: what the web server asks of the cluster goes through it.
        metrics_ports: of each role, for Prometheus.
    """

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        super().__init__()
        self.folder = folder
        self.home = folder / "home"
        self.portal = Portal(self.home)
        self.relay: Relay
        self.cluster: ControlPlane
        self.admin: Admin
        self.audit: Audit
        self._say = say
        self.metrics_ports = {role: free_port() for role in (WEB, RECONCILER)}
        self._roles: dict[str, Child] = {}
        self._environ: dict[str, str] = {}

    def _enter(self) -> None:
        enter = self._stack.enter_context
        self.cluster = enter(ControlPlane(self.folder / "cluster", _OPTIONS, self._say))
        self.kwok = enter(kwok.Kwok(self.cluster, say=self._say))
        self.admin = Admin(self.cluster)
        self.audit = Audit(self.cluster.audit_log)
        port = int(self.cluster.server.rpartition(":")[2])
        self.relay = enter(Relay(port))
        self._environ = {
            "HOMEPORT_HOME": str(self.home),
            "PORT": str(self.portal.port),
            "POD_PORT": str(self.portal.pod_port),
            "DATABASE_URL": enter(servers.postgres(self.folder / "postgresql")),
            "REDIS_URL": enter(servers.redis(self.folder / "redis")),
            "STORAGE_CLASS": CLASS,
            "POD_PORTAL_URL": "http://10.244.0.1:8000",  # no pod comes
            "NETWORK_CHECK": "no",
            "WRITES_PER_MINUTE": "1000000",
            "SUBMITS_PER_MINUTE": "1000000",
            "MAX_QUEUED": "1000000",
            "DJANGO_SETTINGS_MODULE": "portal.settings",
        }
        self.home.mkdir()
        os.environ.update(self._environ)
        import django

        django.setup()
        from django.core.management import call_command

        call_command("migrate", verbosity=0)
        call_command("collectstatic", interactive=False, verbosity=0)
        self._stack.callback(self._stop_roles)

    # --- Homeport's processes ---
    def start(self, role: str) -> Child:
        """Starts `WEB` or `RECONCILER`."""
        kubeconfig = self.cluster.keys.client_kubeconfig(role, role, "system:masters")
        argument = "--no-web"
        if role == WEB:
            argument = "--no-reconciler"
            through = f"https://127.0.0.1:{self.relay.own_port}"
            kubeconfig.write_text(kubeconfig.read_text().replace(self.cluster.server, through))
        child = Child(
            role,
            [sys.executable, "manage.py", "serve", argument],
            {
                **os.environ,
                **self._environ,
                "HOMEPORT_KUBECONFIG": str(kubeconfig),
                "METRICS_PORT": str(self.metrics_ports[role]),
            },
            ROOT,
            log=self.folder / f"{role}.log",
        )
        child.start()
        self._roles[role] = child
        if role == WEB:
            self.portal.process, self.portal.log = child.process, self.folder / f"{role}.log"
            wait_for("the portal listens", lambda: servers.answers(self.portal.port))
        return child

    def stop(self, role: str) -> None:
        self._roles.pop(role).stop(lambda: False)

    def pid(self, role: str) -> int:
        """Of a role that runs.

        Raises:
            AssertionError: it has ended; the text has its last words.
        """
        child = self._roles[role]
        assert child.is_running, child.last_words(40)
        assert child.process is not None
        return child.process.pid

    def _stop_roles(self) -> None:
        from django.db import connections

        connections.close_all()
        for role in list(self._roles):
            self.stop(role)

    # --- what there is ---
    def make_nodes(self, count: int) -> None:
        """Nodes of `NODE`, and a StorageClass for the tenants' volumes."""
        labels = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
        documents = [kwok.node(pods.node_name(n), NODE, labels) for n in range(count)]
        self.admin.create("/api/v1/nodes", documents)
        storage = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": CLASS},
            "provisioner": "kubernetes.io/no-provisioner",
            "reclaimPolicy": "Retain",
        }
        self.admin.create("/apis/storage.k8s.io/v1/storageclasses", [storage])

    def make_people(self, size: Size) -> None:
        """`ada` and others with a tenant each, in teams of ten, and `root`; only the two have passwords."""
        from tenants.actions import ensure_tenant
        from tenants.models import Team, Tenant, User

        User.objects.create_user("root", password=PASSWORD, first_name="Root", role="admin")
        teams = [Team.objects.create(name=f"team {n}") for n in range((size.tenants + 9) // 10)]
        for number in range(size.tenants):
            name = "ada" if number == 0 else f"person-{number}"
            password = PASSWORD if number == 0 else None
            user = User.objects.create_user(name, password=password, team=teams[number // 10])
            ensure_tenant(user=user)
        # One more training of the full width fits beside what runs, for the measures.
        trainings = size.trainings + 1
        # One row at a time: the reconciler is at work on several of them already.
        for pk in Tenant.objects.values_list("pk", flat=True):
            Tenant.objects.filter(pk=pk).update(
                quota_cpu_millicores=100 * trainings * (size.workers + 10),
                quota_memory_bytes=GIB * trainings * (size.workers + 10),
                quota_gpu_count=trainings * size.workers,
                quota_pods=trainings * (size.workers + 10),
            )
        self.admin.create("/api/v1/persistentvolumes", list(self._volumes()))

    @staticmethod
    def _volumes() -> Any:
        from tenants.models import Tenant

        for namespace in Tenant.objects.values_list("namespace", flat=True):
            for claim in ("data", "log"):
                yield {
                    "apiVersion": "v1",
                    "kind": "PersistentVolume",
                    "metadata": {"name": f"{namespace}-{claim}"},
                    "spec": {
                        "capacity": {"storage": "1Ti"},
                        "accessModes": ["ReadWriteMany"],
                        "storageClassName": CLASS,
                        "persistentVolumeReclaimPolicy": "Retain",
                        "claimRef": {"namespace": namespace, "name": claim},
                        "hostPath": {"path": f"/volumes/{namespace}/{claim}"},
                    },
                }

    def wait_tenants(self, timeout_s: float) -> None:
        """Until every tenant can be used."""
        from tenants.models import Tenant

        def all_active() -> bool:
            self.pid(RECONCILER)
            return not Tenant.objects.exclude(state="active").exists()

        wait_for("all tenants are active", all_active, timeout_s=timeout_s, interval_s=0.5)

    def rest_of(self, name: str) -> Rest:
        """REST as this person."""
        from tenants.models import ApiToken, User

        user = User.objects.get(username=name)
        scope = ApiToken.Scope.ADMIN if user.may("administer") else ApiToken.Scope.SUBMIT
        _token, plain = ApiToken.issue(user=user, name="scale", scope=scope)
        return Rest(self.portal, plain)

    def submit_all(self, size: Size) -> None:
        """Everybody's trainings, over REST."""
        from tenants.models import User

        people = User.objects.filter(role="researcher").order_by("date_joined")
        for place, user in enumerate(people):
            rest, gpu = self.rest_of(user.username), int(place < size.gpu_tenants)
            for number in range(size.trainings):
                rest.submit(**body(f"run {number}", size.workers, gpu=gpu))

    def make_pods(self, size: Size) -> None:
        """The workers' pods, without the Workload controller (see pods.py); then it is started."""
        expected = size.tenants * size.trainings

        def all_may_run() -> bool:
            self.pid(RECONCILER)
            jobs = self.admin.get("/apis/batch/v1/jobs")["items"]
            return sum(not job["spec"]["suspend"] for job in jobs) == expected

        wait_for("all Jobs may run", all_may_run, timeout_s=3600, interval_s=5)
        self._say("all Jobs may run")
        pods.make(self.admin, pods.Nodes(size.nodes, int(NODE["nvidia.com/gpu"])))
        self._say("their pods are made")
        self.start_job_controller()

    def start_job_controller(self) -> None:
        """It is left out at first."""
        manager = self.cluster.children[_MANAGER]
        self.cluster.stop(_MANAGER)
        manager.argv = [word for word in manager.argv if word != _NO_JOBS]
        self.cluster.start(_MANAGER)

    def wait_running(self, pods: int, timeout_s: float) -> None:
        """Until this many replicas run, as Homeport's pages say."""
        from jobs.models import Replica

        def running() -> bool:
            self.pid(RECONCILER)
            self.kwok.check()
            return Replica.objects.filter(state="running").count() >= pods

        wait_for(f"{pods} replicas run", running, timeout_s=timeout_s, interval_s=0.5)

    @staticmethod
    def wait_state(job_id: UUID | str, state: str, timeout_s: float = 60) -> None:
        """Until a training is in this state, with all its replicas when it is to run."""
        from jobs.models import Replica, Workload

        def is_there() -> bool:
            job = Workload.objects.get(pk=job_id)
            count = sum(asked["count"] for asked in job.replicas.values())
            rows = Replica.objects.filter(workload=job, state=state).count()
            return job.state == state and (state != "running" or rows == count)

        wait_for(f"the training is {state}", is_there, timeout_s=timeout_s)
