"""A reconciler that is killed (SIGKILL) at a write is followed by one that finishes the tenant."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from deploy.probe import Probe
from onebox.testing import start
from tests.tools.waiting import wait_for

ROOT = Path(__file__).resolve().parents[3]
MAKE_TENANT = (
    "from tenants.actions import ensure_tenant; from tenants.models import User;"
    "print(ensure_tenant(user=User.objects.get(username='{name}')).namespace)"
)


@dataclass
class Installation:
    """A database, a real cluster, and reconcilers that come and go."""

    home: Path
    probe: Probe

    @property
    def environ(self) -> dict[str, str]:
        return {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "portal.settings",
            "DATABASE_URL": "",  # `state` reads SQLite's file
            "HOMEPORT_HOME": str(self.home),
            "HOMEPORT_DEMO_PASSWORD": "a long demo password",
            "HOMEPORT_KUBECONFIG": str(self.home / "box" / "kubeconfig"),
        }

    def call(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return done.stdout.strip()

    def reconciler(self, **environ: str) -> subprocess.Popen[bytes]:
        with (self.home / "reconciler.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.faults.serve", "--no-web"],
                cwd=ROOT,
                env={**self.environ, **environ},
                stdout=log,
                stderr=log,
            )

    def state(self, namespace: str) -> str:
        with sqlite3.connect(self.home / "homeport.sqlite3", timeout=20) as database:
            question = "select state from tenants_tenant where namespace = ?"
            return str(database.execute(question, [namespace]).fetchone()[0])

    def names(self, namespace: str) -> list[str]:
        """Everything that a tenant is made of, as the cluster has it."""
        core, policies = "/api/v1", "/apis/networking.k8s.io/v1"
        found = []
        for path in (
            f"{core}/namespaces/{namespace}/resourcequotas",
            f"{core}/namespaces/{namespace}/limitranges",
            f"{core}/namespaces/{namespace}/persistentvolumeclaims",
            f"{policies}/namespaces/{namespace}/networkpolicies",
        ):
            listed = self.probe.get(path)
            plural = path.rpartition("/")[2]
            found += [f"{plural}/{item['metadata']['name']}" for item in listed["items"]]
        return found


@pytest.fixture(scope="module")
def installation() -> Iterator[Installation]:
    home = Path(tempfile.mkdtemp(prefix="hp-"))
    box = start(home / "box", gpus="0")
    try:
        probe = Probe.of(box.kubeconfig)
        assert probe is not None, "a cluster that is ready has a whole kubeconfig"
        made = Installation(home, probe)
        made.call("-m", "deploy.prepare", "--demo")
        yield made
    finally:
        box.stop()
        shutil.rmtree(home, ignore_errors=True)


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("ada", "create:Namespace:1:after"),
        ("lin", "create:ResourceQuota:1:before"),
        ("lee", "create:PersistentVolumeClaim:2:after"),
    ],
)
def test_killed_at_a_write_and_finished_by_the_next(
    installation: Installation, name: str, fault: str
):
    namespace = installation.call("manage.py", "shell", "-v0", "-c", MAKE_TENANT.format(name=name))
    first = installation.reconciler(HOMEPORT_FAULT=fault)
    assert first.wait(60) == -signal.SIGKILL
    assert installation.state(namespace) == "provisioning"
    second = installation.reconciler()
    try:
        wait_for("the tenant is active", lambda: installation.state(namespace) == "active")
    finally:
        second.terminate()
        assert second.wait(30) == 0
    assert installation.names(namespace) == [
        "resourcequotas/homeport",
        "limitranges/homeport",
        "persistentvolumeclaims/data",
        "persistentvolumeclaims/log",
        "networkpolicies/homeport-boundary",
    ]
