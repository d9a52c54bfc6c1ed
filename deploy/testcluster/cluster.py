"""A whole upstream cluster on this machine: the control plane and one node that runs pods.

with TestCluster(home) as cluster:
    ... cluster.kubeconfig, cluster.control_plane, cluster.node ...
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from deploy.testcluster.controlplane import ControlPlane, Options
from deploy.testcluster.node import JoinedNode, NodeOptions


class TestCluster:
    """Control plane, node and the StorageClass `glusterfs`, until the end of the context.

    Args:
        home: holds `cluster`, `node` and their logs.

    Raises (on entering):
        binaries.NoBinariesError, ControlPlaneError, NodeError: it does not start.
    """

    __test__ = False  # pytest takes it for tests, by its name

    def __init__(
        self,
        home: Path,
        options: Options | None = None,
        node: NodeOptions | None = None,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.control_plane = ControlPlane(home / "cluster", options, say)
        self.node = JoinedNode(self.control_plane, home / "node", node)
        self._stack = ExitStack()

    @property
    def kubeconfig(self) -> Path:
        """Of a cluster administrator."""
        return self.control_plane.kubeconfig

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self.control_plane)
            stack.enter_context(self.node)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()
