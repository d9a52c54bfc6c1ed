"""Homeport in pods of two nodes, with people's volumes on GlusterFS: the page's installation for one node, two of each process.

PostgreSQL and Redis, of which there is one each, are kept off the first node, which may be lost.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from deploy.testcluster.nodes import network
from deploy.testcluster.nodes.cluster import NodeCluster
from deploy.testcluster.nodes.node import Node
from tests.e2e.portal import Rest
from tests.nodes.installed import (
    INVITATION,
    OVERLAY,
    Installed,
    commands,
    invitation,
    join,
    prepare,
    run,
    values,
)
from tests.nodes.pods import Pods
from tests.tools.manifests import checkout

SITE = values(network.address(2))
EARLIER = "registry.example/homeport:0.0.9"


@dataclass
class Site:
    """The installation, and a person of it."""

    cluster: NodeCluster
    pods: Pods
    portal: Installed
    folder: Path
    ada: Rest

    @property
    def namespace(self) -> str:
        return str(self.ada.tenant()["namespace"])

    def uids(self, component: str) -> set[str]:
        label = f"app.kubernetes.io/component={component}"
        found = self.pods.get("-n", "homeport", "pods", "-l", label)["items"]
        return {pod["metadata"]["uid"] for pod in found}

    def rolled_out(self, *names: str) -> None:
        for name in names:
            words = ("rollout", "status", f"deployment/{name}", "--timeout=180s")
            self.pods.must("-n", "homeport", *words, timeout_s=200)

    def double(self) -> None:
        """Two of each process, of which the page's manifests have one."""
        names = ("deployment/web", "deployment/reconciler")
        self.pods.must("-n", "homeport", "scale", "--replicas=2", *names)
        self.rolled_out("web", "reconciler")

    def run(self, command: str) -> str:
        """A block of a page, in the checkout of the site."""
        return run(self.folder, command, self.cluster.kubeconfig)

    def use_image(self, reference: str) -> None:
        """What the page says of another image: its name, and all of it again."""
        file = self.folder / OVERLAY / "site.env"
        text = re.sub("(?m)^PORTAL_IMAGE=.*$", f"PORTAL_IMAGE={reference}", file.read_text())
        file.write_text(text)
        self.run(f"kubectl apply -k {OVERLAY}")
        self.rolled_out("web", "reconciler")

    def pods_of(self, *ids: str) -> list[dict[str, Any]]:
        """Of these trainings and notebooks."""
        label = f"homeport.dev/owner in ({','.join(ids)})"
        found: list[dict[str, Any]] = self.pods.get("-n", self.namespace, "pods", "-l", label)[
            "items"
        ]
        return found

    def touch(self, job: dict[str, Any], file: str) -> None:
        """Make this file in the pod of a training of one replica, which ends by it: so may the command, with it."""
        [pod] = self.pods_of(job["id"])
        words = ("exec", pod["metadata"]["name"], "-c", "main", "--", "touch", file)
        self.pods.ask("-n", self.namespace, *words)

    def secrets(self, overlay: str = OVERLAY) -> dict[str, str]:
        """What the page's commands wrote to `secret.env`, by name."""
        lines = (self.folder / overlay / "secret.env").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines if not line.startswith("#"))

    def other(self, name: str) -> tuple[Node, Node]:
        """The node of this name, and the other one."""
        own, other = sorted(self.cluster.nodes, key=lambda node: node.name != name)
        return own, other


def lives(pods: Iterable[dict[str, Any]]) -> dict[str, int]:
    """uid -> how often its containers came again."""
    kinds = ("initContainerStatuses", "containerStatuses")
    return {
        pod["metadata"]["uid"]: sum(
            one["restartCount"] for kind in kinds for one in pod["status"].get(kind, ())
        )
        for pod in pods
    }


def of_two_nodes(folder: Path) -> None:
    """The overlay with GlusterFS in place of a folder of the node, and a port that answers on both nodes."""
    changes = {
        "kustomization.yaml": [
            ("components/storage-folder", "components/storage-gluster"),
            ("STORAGE_CLASS=homeport", "STORAGE_CLASS=glusterfs"),
            ("/storageClassName, value: homeport", "/storageClassName, value: glusterfs"),
        ],
        "home.yaml": [("storageClassName: homeport", "storageClassName: glusterfs")],
        "patches/door.yaml": [("externalTrafficPolicy: Local", "externalTrafficPolicy: Cluster")],
    }
    for name, pairs in changes.items():
        file = folder / OVERLAY / name
        text = file.read_text()
        for old, new in pairs:
            assert text.count(old) == 1, (name, old)
            text = text.replace(old, new)
        file.write_text(text)


@contextmanager
def two_nodes(cluster: NodeCluster, folder: Path, image: Path | None = None) -> Iterator[Site]:
    """Installed, with the person ada; it stays installed.

    Args:
        image: begin with this archive's `EARLIER` in place of today's.
    """
    pods = Pods(cluster.kubeconfig)
    prepare(cluster, folder, *([image] if image else []))
    checkout(folder)
    of_two_nodes(folder)
    first = cluster.nodes[0].name
    pods.must("cordon", first)
    page = commands(SITE | ({"PORTAL_IMAGE": EARLIER} if image else {}))
    invite = page[INVITATION]
    for command in page[:INVITATION]:
        run(folder, command, cluster.kubeconfig)
    pods.must("uncordon", first)
    certificate = str(folder / OVERLAY / "tls.crt")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"):
            patch.setenv(name, certificate)
        join(invitation(run(folder, invite, cluster.kubeconfig)))
        portal = Installed(
            folder / "nothing", address=SITE["PUBLIC_URL"], admin_kubeconfig=cluster.kubeconfig
        )
        made = Site(cluster, pods, portal, folder, portal.invite("ada"))
        made.ada.tenant(timeout_s=120)
        made.double()
        yield made
