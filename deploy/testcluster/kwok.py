"""KWOK beside an upstream control plane: plays the kubelets of nodes that are only objects.

    with ControlPlane(home) as cluster, Kwok(cluster):
        ... create Nodes; pods that are bound to them run ...

Nodes become ready, pods become Running and stay so, deleted pods go. Nothing is executed, so there
are no logs. Only nodes with the annotation `kwok.x-k8s.io/node` are played.
https://kwok.sigs.k8s.io/docs/user/stages-configuration/
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from deploy.child import Child
from deploy.testcluster import binaries
from deploy.testcluster.controlplane import ControlPlane, ControlPlaneError
from deploy.testcluster.ports import free_port

STAGES = Path(__file__).with_name("kwok") / "stages.yaml"
ANNOTATION = "kwok.x-k8s.io/node"
# A lease is renewed each quarter of this. Real kubelets say 40; a thousand of them would take two
# cores' worth of a small machine, and nothing that is measured here looks at leases.
LEASE_S = 400
# How long a node may be silent: flag of the controller manager that fits LEASE_S.
MANAGER_FLAGS = (f"--node-monitor-grace-period={3 * LEASE_S}s",)
_STOP_S = 10.0


class Kwok:
    """One KWOK for one control plane.

    Attributes:
        child: its process.

    Raises (on entering):
        binaries.NoBinariesError: the program cannot be had.
        ControlPlaneError: it ended at once.
    """

    def __init__(
        self,
        cluster: ControlPlane,
        *,
        parallel: int = 16,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        """
        Args:
            cluster: a control plane that runs.
            parallel: how many pods, and how many nodes, are worked on at once.
        """
        self._cluster = cluster
        self._parallel = parallel
        self._say = say
        self.child: Child

    def __enter__(self) -> Self:
        home = self._cluster.home
        kubeconfig = self._cluster.keys.client_kubeconfig("kwok", "kwok", "system:masters")
        configuration = home / "kwok.yaml"
        configuration.write_text(f"{self._options()}---\n{STAGES.read_text()}")
        command = [
            str(binaries.program(binaries.KWOK, "kwok", self._say)),
            f"--config={configuration}",
            f"--kubeconfig={kubeconfig}",
            f"--manage-nodes-with-annotation-selector={ANNOTATION}=fake",
            f"--node-lease-duration-seconds={LEASE_S}",
            f"--server-address=127.0.0.1:{free_port()}",
            "--node-ip=10.15.0.1",
            "--cidr=10.16.0.0/12",
        ]
        # It looks for a configuration in the user's home.
        environ = {**os.environ, "KWOK_WORKDIR": str(home / "kwok")}
        log = home / "log" / "kwok.log"
        self.child = Child("kwok", command, environ, home, log=log, grace_s=_STOP_S)
        self.child.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.child.stop(lambda: False)

    def check(self) -> None:
        """
        Raises:
            ControlPlaneError: it has ended; the text has its last words.
        """
        if not self.child.is_running:
            words = self.child.last_words()
            raise ControlPlaneError(f"kwok ended with {self.child.exit_code}:\n{words}")

    def _options(self) -> str:
        return (
            "apiVersion: config.kwok.x-k8s.io/v1alpha1\n"
            "kind: KwokConfiguration\n"
            "options:\n"
            f"  podPlayStageParallelism: {self._parallel}\n"
            f"  nodePlayStageParallelism: {self._parallel}\n"
            f"  nodeLeaseParallelism: {self._parallel}\n"
            f"  podsOnNodeSyncParallelism: {self._parallel}\n"
        )


def node(name: str, allocatable: dict[str, str], labels: dict[str, str]) -> dict[str, Any]:
    """A Node that KWOK plays.

    Args:
        name: of the node.
        allocatable: as in its status, such as {"cpu": "64", "nvidia.com/gpu": "8"}.
        labels: further labels.
    """
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {ANNOTATION: "fake"},
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "type": "kwok",
                **labels,
            },
        },
        "status": {"allocatable": allocatable, "capacity": allocatable},
    }
