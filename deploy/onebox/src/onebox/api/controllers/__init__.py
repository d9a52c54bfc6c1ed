"""The controllers of onebox: what kube-controller-manager and kube-scheduler are elsewhere.

They run in the API half's event loop and use nothing but `Api`. `start` sets them going; killed
at any instant, they go on from what is in the store at the next start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from onebox.api.controllers.deployment import DeploymentController
from onebox.api.controllers.endpointslice import EndpointSliceController
from onebox.api.controllers.gc import GarbageCollector
from onebox.api.controllers.job import JobController, JobFinalizers
from onebox.api.controllers.namespace import NamespaceController
from onebox.api.controllers.nodelife import NodeLifecycle
from onebox.api.controllers.quota import QuotaController
from onebox.api.controllers.replicaset import ReplicaSetController
from onebox.api.controllers.runtime import Controller, Runtime
from onebox.api.controllers.scheduler import Scheduler
from onebox.api.controllers.ttl import EventTtl, JobTtl
from onebox.api.controllers.volumebinder import VolumeBinder

if TYPE_CHECKING:
    from onebox.api.registry import Api

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
