"""Works out what one start of a container is: reads what it refers to and builds its spec."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from onebox.node import gpus
from onebox.node.client import Json
from onebox.node.context import NodeContext
from onebox.node.downward import PodView
from onebox.node.environment import (
    EnvironmentSources,
    Reference,
    container_environment,
    referenced_objects,
)
from onebox.node.podspec import Prepared, container_spec, hostname
from onebox.node.servicelinks import service_links
from onebox.node.spec import ContainerSpec, ImageEnv
from onebox.node.subpath import make_sub_paths
from onebox.node.volumes import Volume, container_mounts

HOST_IP = "127.0.0.1"


@dataclass(frozen=True)
class StartRequest:
    """One start of one container.

    Args:
        pod_ip: address of the pod's sandbox.
        gpu_indices: None when the container asked for none.
    """

    pod: Json
    container: Json
    image: ImageEnv
    pod_ip: str
    volumes: Mapping[str, Volume]
    gpu_indices: Sequence[int] | None
    log_path: Path


async def resolve(context: NodeContext, request: StartRequest) -> ContainerSpec:
    """Build the spec of a start.

    Raises:
        ConfigError, CreateError: the container's configuration cannot be resolved.
        ApiError, aiohttp.ClientError, TimeoutError: what it refers to cannot be read.
        OSError: a subPath folder cannot be made.
    """
    objects = await _read_objects(context, request)
    environment = container_environment(request.container, _sources(context, request, objects))
    mounts = container_mounts(request.container, request.volumes, environment)
    await asyncio.to_thread(make_sub_paths, mounts)
    devices = gpus.device_files(context.gpus.inventory, request.gpu_indices or ())
    prepared = Prepared(
        image=request.image,
        environment=environment,
        mounts=mounts,
        log_path=str(request.log_path),
        devices=devices if request.gpu_indices else (),
    )
    return container_spec(request.pod, request.container, prepared)


async def _read_objects(context: NodeContext, request: StartRequest) -> dict[Reference, Json]:
    namespace = request.pod["metadata"]["namespace"]
    found = {}
    for kind, name in sorted(referenced_objects(request.container)):
        obj = await context.find(kind, namespace, name)
        if obj is not None:
            found[kind, name] = obj
    return found


def _sources(
    context: NodeContext, request: StartRequest, objects: Mapping[Reference, Json]
) -> EnvironmentSources:
    pod = request.pod
    namespace = pod["metadata"]["namespace"]
    return EnvironmentSources(
        view=PodView(pod, request.pod_ip, HOST_IP, context.allocatable),
        objects=objects,
        service_variables=service_links(
            namespace,
            context.services(),
            own_namespace=pod["spec"].get("enableServiceLinks", True),
        ),
        defaults={
            **request.image.env,
            **context.pod_environment(namespace),
            "HOSTNAME": hostname(pod),
        },
        overrides=gpus.variables(context.gpus.inventory, request.gpu_indices),
    )
