"""What pods hold of a node: the sum that the scheduler makes, in whole numbers.

https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers
https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers
"""

import logging
from collections.abc import Mapping, Sequence
from functools import lru_cache

import msgspec

from portal import quantity
from portal.cluster.objects import ContainerSpec, PodSpec

log = logging.getLogger(__name__)

GPU = "nvidia.com/gpu"


class Resources(msgspec.Struct, frozen=True, gc=False):
    """CPU in millicores, memory in bytes, whole GPUs, number of pods."""

    cpu_millicores: int = 0
    memory_bytes: int = 0
    gpu_count: int = 0
    pods: int = 0

    def __add__(self, other: "Resources") -> "Resources":
        return Resources(
            self.cpu_millicores + other.cpu_millicores,
            self.memory_bytes + other.memory_bytes,
            self.gpu_count + other.gpu_count,
            self.pods + other.pods,
        )

    def __sub__(self, other: "Resources") -> "Resources":
        return Resources(
            self.cpu_millicores - other.cpu_millicores,
            self.memory_bytes - other.memory_bytes,
            self.gpu_count - other.gpu_count,
            self.pods - other.pods,
        )

    def most(self, other: "Resources") -> "Resources":
        """The larger of both, field by field."""
        return Resources(
            max(self.cpu_millicores, other.cpu_millicores),
            max(self.memory_bytes, other.memory_bytes),
            max(self.gpu_count, other.gpu_count),
            max(self.pods, other.pods),
        )


NOTHING = Resources()
_ONE_POD = Resources(pods=1)


@lru_cache(maxsize=4096)
def _of_texts(cpu: str, memory: str, gpu: str, pods: str) -> Resources:
    try:
        return Resources(
            quantity.cpu_millicores(cpu),
            quantity.memory_bytes(memory),
            quantity.count(gpu),
            quantity.count(pods),
        )
    except ValueError as error:
        # One foreign object with an odd number must not stop the accounts of all others.
        log.warning("resources are counted as nothing: %s", error)
        return NOTHING


def of_resources(resources: Mapping[str, str]) -> Resources:
    """A mapping of resource names to quantities, as in `requests` or a node's `allocatable`."""
    return _of_texts(
        resources.get("cpu", "0"),
        resources.get("memory", "0"),
        resources.get(GPU, "0"),
        resources.get("pods", "0"),
    )


def _of_container(container: ContainerSpec) -> Resources:
    # What has only a limit requests as much: the API server fills it in for all but foreign tools.
    return of_resources({**container.resources.limits, **container.resources.requests})


def of_pod(spec: PodSpec) -> Resources:
    """What the scheduler reserves for one pod."""
    total = _ONE_POD
    for container in spec.containers:
        total += _of_container(container)
    # Most pods have neither of these, and there are many pods.
    if spec.init_containers:
        total = _with_init(total, spec.init_containers)
    return total + of_resources(spec.overhead) if spec.overhead else total


def _with_init(running: Resources, containers: Sequence[ContainerSpec]) -> Resources:
    sidecars = peak = NOTHING
    for container in containers:
        if container.restart_policy == "Always":
            sidecars += _of_container(container)
            peak = peak.most(sidecars)
        else:
            peak = peak.most(sidecars + _of_container(container))
    return (running + sidecars).most(peak)
