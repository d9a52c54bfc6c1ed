"""An installation on an upstream control plane: a database, nodes that are played, reconcilers that
come and go. No web server: what people ask for is written into the database.
"""

import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import urllib3

from deploy.testcluster.controlplane import ControlPlane, Options
from deploy.testcluster.kwok import Kwok, node
from portal.cluster import labels
from portal.cluster.kinds import get_kind
from tests.contract.kube import Json, Kube
from tests.tools.waiting import wait_for
from tests.upstream.journal import Journal
from tests.upstream.power import folder_of, install_on
from tests.upstream.wire import Wire

ROOT = Path(__file__).resolve().parents[2]
CLASS = "glusterfs"
PROVISIONER = "homeport.dev/folder"
OWNED = ("Job", "Deployment", "Service", "Secret", "ConfigMap", "Pod")
# Of a training of one worker and one parameter server that runs.
WHOLE = {"Job": 1, "Deployment": 1, "Service": 1, "Secret": 1, "ConfigMap": 1, "Pod": 2}
START_S = 60.0

_PEOPLE = """
from tests.factories import make_tenant
from tenants.models import Tenant
tenant = make_tenant({name!r}, active=False)
Tenant.objects.filter(pk=tenant.pk).update(
    quota_pods=2000, quota_cpu_millicores=10**6, quota_memory_bytes=2**43, quota_gpu_count=1000)
print(tenant.namespace)
"""
_JOBS = """
from tests.factories import make_job
from tests.jobs.engine.world import ROLE
from tenants.models import Tenant
tenant = Tenant.objects.get(owner__username="ada")
role = {{**ROLE, "cpu_millicores": 100, "memory_bytes": 2**26}}
for number in range({count}):
    make_job(tenant, name="{name}", topology="tf-ps", replicas={{"worker": role, "ps": role}})
"""


@dataclass
class Lab:
    """See the module.

    Attributes:
        home: HOMEPORT_HOME.
        kubeconfig: of the reconcilers; it goes through `wire`.
    """

    home: Path
    plane: ControlPlane
    wire: Wire
    kube: Kube
    kubeconfig: Path
    namespace: str = ""
    processes: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    @property
    def journal(self) -> Journal:
        return Journal(self.plane.audit_log)

    # --- set-up ---
    def prepare(self) -> None:
        """The database, a storage class, nodes, and ada's namespace, made by a reconciler."""
        self._manage("migrate", "--verbosity", "0")
        storage = {"metadata": {"name": CLASS}, "provisioner": PROVISIONER}
        self.kube.must("POST", get_kind("StorageClass").path(), storage)
        room = {"cpu": "64", "memory": "256Gi", "pods": "250", "ephemeral-storage": "1Ti"}
        for number in range(4):
            self.kube.must("POST", get_kind("Node").path(), node(f"node-{number}", room, {}))
        self.namespace = self.python(_PEOPLE.format(name="ada")).split()[-1]
        with self.reconciler():
            self.wait("ada's namespace is made", lambda: self.state_of_tenant() == "active", 120)

    @property
    def environ(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if k not in {"DATABASE_URL", "REDIS_URL"}}
        return {
            **kept,
            "DJANGO_SETTINGS_MODULE": "portal.settings",
            "HOMEPORT_HOME": str(self.home),
            "HOMEPORT_KUBECONFIG": str(self.kubeconfig),
            "STORAGE_CLASS": CLASS,
            "POD_PORTAL_URL": "http://10.15.0.1:8000",
        }

    def _manage(self, *arguments: str) -> str:
        return self._call("manage.py", *arguments)

    def python(self, code: str) -> str:
        """Runs code with the models of this installation."""
        return self._call("-c", f"import django; django.setup()\n{code}")

    def _call(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    # --- the reconciler's process ---
    def start(self, *odd: str) -> "subprocess.Popen[bytes]":
        """Starts one; with arguments, an odd one (tests/upstream/odd_reconciler.py)."""
        usual = ["manage.py", "serve", "--no-web"]
        command = ["-m", "tests.upstream.odd_reconciler", *odd] if odd else usual
        with (self.home / "reconciler.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, *command], cwd=ROOT, env=self.environ, stdout=log, stderr=log
            )
        self.processes.append(process)
        return process

    @contextlib.contextmanager
    def reconciler(self, *odd: str) -> Iterator["subprocess.Popen[bytes]"]:
        """One that works from now on and ends with the context."""
        epoch = self.epoch()
        process = self.start(*odd)
        try:
            if "--no-lease" not in odd:
                self.wait("it has the lease", lambda: self.epoch() > epoch, START_S)
            yield process
        finally:
            self.end(process)

    @contextlib.contextmanager
    def many(self) -> Iterator[Callable[[], int]]:
        """What starts one more reconciler each time it is called, and gives its process id."""
        command = [sys.executable, "-m", "tests.upstream.odd_reconciler", "--many"]
        with (self.home / "reconciler.log").open("ab") as log:
            parent = subprocess.Popen(
                command,
                cwd=ROOT,
                env=self.environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                bufsize=1,
            )
        assert parent.stdin is not None
        assert parent.stdout is not None
        to, fro = parent.stdin, parent.stdout

        def start() -> int:
            to.write("one more\n")
            return int(fro.readline())

        try:
            yield start
        finally:
            parent.kill()  # its children end with it
            parent.wait(30)
            to.close()
            fro.close()

    def end(self, process: "subprocess.Popen[bytes]", number: int = signal.SIGTERM) -> None:
        if process.poll() is None:
            process.send_signal(number)
        process.wait(30)
        self.processes.remove(process)

    def close(self) -> None:
        for process in list(self.processes):
            self.end(process, signal.SIGKILL)
        self.wire.close()

    # --- the database ---
    def rows(self, question: str, *values: Any) -> list[Any]:
        with sqlite3.connect(self.home / "homeport.sqlite3", timeout=60) as database:
            return database.execute(question, values).fetchall()

    def epoch(self) -> int:
        found = self.rows("select epoch from jobs_reconcilerlease")
        return int(found[0][0]) if found else 0

    def watches(self, number: str) -> dict[str, int]:
        """Kind -> how often its watch has listed ("lists") or connected ("connects"), as told last."""
        health = json.loads(self.rows("select health from jobs_reconcilerlease")[0][0])
        return {watch["kind"]: int(watch[number]) for watch in health["watches"]}

    def state_of_tenant(self) -> str:
        question = "select state from tenants_tenant where namespace = ?"
        return str(self.rows(question, self.namespace)[0][0])

    def submit(self, name: str, count: int) -> list[str]:
        """So many trainings of this name; their ids."""
        self.python(_JOBS.format(name=name, count=count))
        return self.ids(name)

    def ids(self, name: str) -> list[str]:
        """Of those that nobody has deleted, as labels have them."""
        found = self.rows("select id from jobs_workload where name = ? order by id", name)
        return [_dashed(row[0]) for row in found]

    def intend(self, ids: list[str], desired: str) -> None:
        for one in ids:
            change = "update jobs_workload set desired = ?, revision = revision + 1 where id = ?"
            self.rows(change, desired, one.replace("-", ""))

    def states(self, ids: list[str]) -> Counter[str]:
        wanted = {one.replace("-", "") for one in ids}
        found = self.rows("select id, state, attempt, reason_text from jobs_workload")
        return Counter(
            state if attempt == 1 else f"{state} in attempt {attempt}: {why}"
            for pk, state, attempt, why in found
            if pk in wanted
        )

    # --- the cluster ---
    def objects(self, kind: str) -> list[Json]:
        path = get_kind(kind).path(self.namespace)
        items: list[Json] = self.kube.must("GET", path)["items"]
        return items

    def owned(self) -> dict[str, Counter[str]]:
        """Owner's id -> kind -> how many objects; what is on its way out does not count."""
        found: dict[str, Counter[str]] = {}
        for kind in OWNED:
            for obj in self.objects(kind):
                meta = obj["metadata"]
                owner = (meta.get("labels") or {}).get(labels.OWNER, "")
                if "deletionTimestamp" not in meta:
                    found.setdefault(owner, Counter())[kind] += 1
        return found

    def claims(self) -> dict[str, str]:
        """Name -> uid of ada's volumes."""
        found = self.objects("PersistentVolumeClaim")
        return {claim["metadata"]["name"]: claim["metadata"]["uid"] for claim in found}

    def provision(self) -> None:
        """Makes the volumes that claims wait for."""
        for claim in self.kube.must("GET", get_kind("PersistentVolumeClaim").path())["items"]:
            meta, spec = claim["metadata"], claim["spec"]
            if spec.get("volumeName"):
                continue
            body = {
                "metadata": {"name": f"pvc-{meta['uid']}"},
                "spec": {
                    "capacity": spec["resources"]["requests"],
                    "accessModes": spec["accessModes"],
                    "persistentVolumeReclaimPolicy": "Retain",
                    "storageClassName": spec["storageClassName"],
                    "claimRef": {key: meta[key] for key in ("namespace", "name", "uid")},
                    "hostPath": {"path": f"/volumes/{meta['uid']}"},
                },
            }
            self.kube.send("POST", get_kind("PersistentVolume").path(), body)

    # --- what must hold ---
    def all_run(self, ids: list[str]) -> bool:
        """Each is there once and whole, and runs in its first attempt."""
        return self.states(ids) == {"running": len(ids)} and self.are_whole(ids)

    def are_made(self, ids: list[str]) -> bool:
        """Our part is done: each is there once and set going; its pods are the cluster's work."""
        made = {kind: count for kind, count in WHOLE.items() if kind != "Pod"}
        owned = self.owned()
        counts = [{k: n for k, n in owned.get(one, {}).items() if k != "Pod"} for one in ids]
        going = [job for job in self.objects("Job") if not job["spec"].get("suspend")]
        owners = {job["metadata"]["labels"][labels.OWNER] for job in going}
        return all(count == made for count in counts) and owners >= set(ids)

    def are_whole(self, ids: list[str]) -> bool:
        owned = self.owned()
        return all(owned.get(one) == WHOLE for one in ids)

    def replicas_of(self, ids: list[str]) -> list[str]:
        """Names of pods that nobody has begun to remove; who rescues logs has no owner."""
        metas = [pod["metadata"] for pod in self.objects("Pod")]
        return [
            meta["name"]
            for meta in metas
            if meta.get("labels", {}).get(labels.OWNER) in ids
            and meta.get("ownerReferences")
            and "deletionTimestamp" not in meta
        ]

    def are_gone(self, ids: list[str]) -> bool:
        return not self.states(ids) and not set(ids) & self.owned().keys()

    def wait(
        self, what: str, look: Callable[[], Any], timeout_s: float, why_not: Callable[[], Any] = str
    ) -> float:
        """Waits, and gives the seconds that it took.

        Raises:
            AssertionError: not in time; the text tells how things are, first what `why_not` says.
        """
        began = time.monotonic()

        def asked() -> bool:
            self.provision()
            return bool(look())

        try:
            wait_for(what, asked, timeout_s=timeout_s, interval_s=0.2)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{why_not()}\n{self.tell()}") from None
        return time.monotonic() - began

    def _waiting_pods(self) -> list[str]:
        """Pods that do not run, as the cluster has them."""
        return [
            f"{pod['metadata']['name']}: {pod['spec'].get('nodeName')} {pod['status']}"
            for pod in self.objects("Pod")
            if pod["status"].get("phase") != "Running"
        ]

    def tell(self) -> str:
        states = self.rows("select state, reason_text, count(*) from jobs_workload group by 1, 2")
        log = (self.home / "reconciler.log").read_text(errors="replace").splitlines()[-15:]
        tenants = self.rows("select state, reason_text from tenants_tenant")
        try:
            waiting = self._waiting_pods()
        except (AssertionError, urllib3.exceptions.HTTPError) as error:  # it is not there
            waiting = [repr(error)]
        return "\n".join([str(states), str(tenants), *waiting, *log])

    def clear(self, ids: list[str]) -> None:
        """Removes trainings; a reconciler must be running."""
        self.intend(ids, "delete")
        self.wait("they are deleted", lambda: self.are_gone(ids), 120)


@contextlib.contextmanager
def opened(name: str, options: Options) -> Iterator[Lab]:
    """A prepared one; it ends with the context, and its folder goes unless KEEP_UPSTREAM is set."""
    with (
        folder_of(name) as folder,
        ControlPlane(folder / "plane", options) as plane,
        Kwok(plane),
    ):
        wire = Wire(int(plane.server.rpartition(":")[2]))
        home = folder / "home"
        home.mkdir()
        # An account as in an installation. (An administrator is never told to come later.)
        own = install_on(plane).kubeconfigs["reconciler"]
        through = wire.kubeconfig(own, own.with_name("wire.kubeconfig"))
        made = Lab(home, plane, wire, Kube(plane.kubeconfig), through)
        with contextlib.closing(made):
            made.prepare()
            yield made


def _dashed(text: str) -> str:
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def spread(seed: int) -> random.Random:
    """Moments that are the same in each run."""
    return random.Random(seed)
