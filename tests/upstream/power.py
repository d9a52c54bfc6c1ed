"""A cluster with Homeport's accounts installed as an admin does it, and a portal that has no others."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from deploy.cluster import rights
from deploy.testcluster import binaries
from deploy.testcluster.cluster import TestCluster
from deploy.testcluster.controlplane import ControlPlane, Options
from deploy.testcluster.node import NodeOptions
from deploy.testcluster.ports import free_port
from tests.e2e.portal import PASSWORD, ROOT, Portal
from tests.tools.kubectls import Said, ask, current_kubectl
from tests.tools.waiting import wait_for


@dataclass
class Accounts:
    """A cluster with the accounts, roles and policies of `deploy/cluster`.

    Attributes:
        admin_kubeconfig: of a cluster administrator.
        kubeconfigs: account -> its kubeconfig, with a token of its own.
    """

    admin_kubeconfig: Path
    kubeconfigs: dict[str, Path] = field(default_factory=dict)

    def ask(self, account: str, *arguments: str, body: Any = None) -> Said:
        """kubectl as one of the accounts, or as "admin"; `body` is what it reads with `-f -`."""
        kubeconfig = self.kubeconfigs.get(account, self.admin_kubeconfig)
        command = [current_kubectl(), f"--kubeconfig={kubeconfig}", *arguments]
        stdin = json.dumps(body) if body is not None else None
        return ask(command, stdin=stdin, timeout_s=90)

    def admin(self, *arguments: str, body: Any = None) -> str:
        """Output of an admin's kubectl, which has to succeed."""
        answer = self.ask("admin", *arguments, body=body)
        assert answer.is_done, f"kubectl {' '.join(arguments)}: {answer}"
        return answer.out.strip()

    def get(self, *arguments: str) -> Any:
        return json.loads(self.admin("get", *arguments, "-o", "json"))


def install(admin_kubeconfig: Path, folder: Path) -> Accounts:
    """What docs/cluster.md tells an admin to do; the kubeconfig of each account lies in `folder`."""
    accounts = Accounts(admin_kubeconfig)
    accounts.admin("apply", "-f", str(rights.FOLDER))
    view = ("config", "view", "--minify", "--flatten", "--raw", "-o", "json")
    content = json.loads(accounts.admin(*view))
    for account in rights.ACCOUNTS:
        token = accounts.admin("-n", rights.NAMESPACE, "create", "token", account, "--duration=24h")
        content["users"][0]["user"] = {"token": token}
        file = accounts.kubeconfigs[account] = folder / f"{account}.kubeconfig"
        file.touch(mode=0o600)
        file.write_text(json.dumps(content))

    def is_enforced() -> bool:
        # A policy holds when every API server has read it, a moment after it was made. The log of
        # what the account did is not to show this try.
        as_ours = "--as=system:serviceaccount:homeport:reconciler"
        tried = accounts.ask("admin", as_ours, "create", "namespace", "x", "--dry-run=server")
        return "homeport-accounts" in tried.errors

    wait_for("the policy is enforced", is_enforced, timeout_s=30, interval_s=0.3)
    return accounts


@contextmanager
def installed(admin_kubeconfig: Path, folder: Path) -> Iterator[Accounts]:
    """Installs, and takes it away afterwards where it was not there before."""
    admin = Accounts(admin_kubeconfig)
    was_there = admin.ask("admin", "get", "namespace", rights.NAMESPACE).is_done
    try:
        yield install(admin_kubeconfig, folder)
    finally:
        if not was_there:
            admin.ask("admin", "delete", "--ignore-not-found", "-f", str(rights.FOLDER))


def need_built(*products: binaries.Product) -> None:
    """Skips where programs of upstream cannot be had; in CI that is a failure."""
    if why_not := binaries.why_not(*products):
        if os.environ.get("CI"):
            pytest.fail(why_not)
        pytest.skip(why_not)


@contextmanager
def folder_of(name: str) -> Iterator[Path]:
    """A folder that pods' users can enter; removed in the end, unless KEEP_UPSTREAM is set."""
    folder = Path(tempfile.mkdtemp(prefix=f"homeport-{name}-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        if not os.environ.get("KEEP_UPSTREAM"):
            shutil.rmtree(folder, ignore_errors=True)


def install_on(plane: ControlPlane) -> Accounts:
    return install(plane.kubeconfig, plane.home)


@contextmanager
def audited_cluster(port: int) -> Iterator[tuple[Accounts, Path]]:
    """Control plane and node, and the audit log; pods reach a portal's door on `port`."""
    need_built(binaries.KUBERNETES, binaries.ETCD)
    with folder_of("power") as folder:
        node = NodeOptions(forwards=[str(port)], has_egress=True)
        with TestCluster(folder, Options(is_audited=True), node) as cluster:
            yield install_on(cluster.control_plane), cluster.control_plane.audit_log


def portal_of(accounts: Accounts, home: Path, pod_port: int, **environment: str) -> Portal:
    """A portal whose parts have the three accounts and nothing else; not started.

    Args:
        pod_port: where the cluster's pods find its door for them.
    """
    given = accounts.kubeconfigs
    return Portal(
        home,
        environment={
            "HOMEPORT_KUBECONFIG": str(given["reconciler"]),
            "WEB_KUBECONFIG": str(given["web"]),
            "PURGE_KUBECONFIG": str(given["purge"]),
            "POD_PORTAL_URL": "http://10.244.0.1:8000",
            **environment,
        },
        admin_kubeconfig=accounts.admin_kubeconfig,
        pod_port=pod_port,
        launcher="tests.faults.launch" if "HOMEPORT_FAULT" in environment else "deploy.run",
    )


def make_people(portal: Portal) -> None:
    """The demo accounts, which the launcher makes on its own cluster only."""
    of_portal(portal, "-m", "deploy.prepare", "--demo")


def of_portal(portal: Portal, *arguments: str) -> None:
    """Runs Python with the portal's database, while the portal itself does not run."""
    environment = {k: v for k, v in os.environ.items() if k != "DJANGO_SETTINGS_MODULE"}
    environment |= {"HOMEPORT_HOME": str(portal.home), "HOMEPORT_DEMO_PASSWORD": PASSWORD}
    command = [sys.executable, *arguments]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, timeout=120)


__all__ = ["Accounts", "audited_cluster", "free_port", "install_on", "installed", "portal_of"]
