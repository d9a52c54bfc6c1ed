"""The controllers of onebox: what kube-controller-manager and kube-scheduler are elsewhere.

They run in the API half's event loop and use nothing but `Api`. `start` sets them going; killed
at any instant, they go on from what is in the store at the next start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from deploy.onebox.api.controllers.deployment import DeploymentController
from deploy.onebox.api.controllers.endpointslice import EndpointSliceController
from deploy.onebox.api.controllers.gc import GarbageCollector
from deploy.onebox.api.controllers.job import JobController, JobFinalizers
from deploy.onebox.api.controllers.namespace import NamespaceController
from deploy.onebox.api.controllers.nodelife import NodeLifecycle
from deploy.onebox.api.controllers.quota import QuotaController
from deploy.onebox.api.controllers.replicaset import ReplicaSetController
from deploy.onebox.api.controllers.runtime import Controller, Runtime
from deploy.onebox.api.controllers.scheduler import Scheduler
from deploy.onebox.api.controllers.ttl import EventTtl, JobTtl
from deploy.onebox.api.controllers.volumebinder import VolumeBinder

if TYPE_CHECKING:
    from deploy.onebox.api.registry import Api

Stop = Callable[[], Awaitable[None]]


def all_controllers(api: Api, *, ca_pem: str = "") -> list[Controller]:
    """Make all controllers; `ca_pem` goes into each namespace's `kube-root-ca.crt`."""
    return [
        NamespaceController(api, ca_pem),
        QuotaController(api),
        VolumeBinder(api),
        NodeLifecycle(api),
        JobController(api),
        JobFinalizers(api),
        DeploymentController(api),
        ReplicaSetController(api),
        Scheduler(api),
        EndpointSliceController(api),
        GarbageCollector(api),
        JobTtl(api),
        EventTtl(api),
    ]


def start(api: Api, *, ca_pem: str = "") -> Stop:
    """Start all controllers in the running event loop.

    Returns:
        the coroutine function that stops them.

    Raises:
        RuntimeError: there is no running event loop.
    """
    runtime = Runtime(api, all_controllers(api, ca_pem=ca_pem))
    runtime.start(asyncio.get_running_loop())

    async def stop() -> None:
        runtime.stop()

    return stop


__all__ = ["Controller", "Runtime", "all_controllers", "start"]
