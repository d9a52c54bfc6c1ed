"""The GPUs of this machine and which pod holds which: whole GPUs, exclusively.

Real ones are what `nvidia-smi -L` lists; without any, a number of clearly labelled simulated
ones lets jobs that ask for GPUs be tried out (their programs see no device).
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from onebox.node.client import Json
from onebox.node.record import Role, roles
from onebox.quantity import parse_quantity

RESOURCE = "nvidia.com/gpu"
ANNOTATION = "homeport.dev/gpu-indices"
SIMULATED_COUNT = 4
SMI_TIMEOUT_S = 20.0
_SHARED_DEVICES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
_LISTED = re.compile(r"^GPU (\d+): (.+?) \(UUID: ([^)]+)\)")


class GpuShortageError(Exception):
    """Fewer GPUs are free than a pod asks for."""

    def __init__(self, requested: int, available: int) -> None:
        super().__init__(
            f"Allocate failed due to requested number of devices unavailable for {RESOURCE}. "
            f"Requested: {requested}, Available: {available}, which is unexpected"
        )


@dataclass(frozen=True)
class Gpu:
    """One GPU; `index` is the machine's."""

    index: int
    model: str
    uuid: str


@dataclass(frozen=True)
class Inventory:
    """What this node offers."""

    gpus: tuple[Gpu, ...]
    simulated: bool


def discover(wanted: str) -> Inventory:
    """Find the GPUs; blocking.

    Args:
        wanted: "auto" (real ones, else 4 simulated) or a number: at most so many real ones,
            or exactly so many simulated ones where there is no real one.
    """
    limit = None if wanted == "auto" else int(wanted)
    if limit == 0:
        return Inventory((), simulated=False)
    real = parse_listing(_nvidia_smi())
    if real:
        return Inventory(tuple(real[:limit]), simulated=False)
    count = SIMULATED_COUNT if limit is None else limit
    made = (Gpu(index, "simulated", f"simulated-{index}") for index in range(count))
    return Inventory(tuple(made), simulated=True)


def _nvidia_smi() -> str:
    program = shutil.which("nvidia-smi")
    if program is None:
        return ""
    try:
        answer = subprocess.run(
            [program, "-L"], capture_output=True, text=True, timeout=SMI_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout if answer.returncode == 0 else ""


def parse_listing(text: str) -> list[Gpu]:
    """Read the output of `nvidia-smi -L`."""
    found = (_LISTED.match(line) for line in text.splitlines())
    return [Gpu(int(match[1]), match[2], match[3]) for match in found if match]


def requested(container: Json) -> int:
    """Count the GPUs that a container asks for."""
    limits = (container.get("resources") or {}).get("limits") or {}
    return parse_quantity(str(limits.get(RESOURCE, "0"))).units()


def needed(pod: Json) -> int:
    """Count the GPUs that a pod occupies: init containers lend theirs to the ones after them."""
    sidecars = mains = most = 0
    for role, container in roles(pod):
        count = requested(container)
        if role is Role.SIDECAR:
            sidecars += count
        elif role is Role.INIT:
            most = max(most, sidecars + count)
        else:
            mains += count
    return max(most, sidecars + mains)


def share_out(pod: Json, indices: Iterable[int]) -> dict[str, list[int]]:
    """Give each container of a pod its part of the pod's GPUs."""
    pool = list(indices)
    taken = 0
    shares: dict[str, list[int]] = {}
    for role, container in roles(pod):
        count = requested(container)
        if not count:
            continue
        shares[container["name"]] = pool[taken : taken + count]
        if role is not Role.INIT:
            taken += count
    return shares


class Allocator:
    """Who holds which GPU. Not persistent: restored from the pods' annotations at start."""

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self._holders: dict[int, str] = {}

    def allocate(self, pod: Json) -> dict[str, list[int]]:
        """Take the GPUs of a pod (the same again for a pod that holds some).

        Returns:
            container name -> indices, only containers that asked.

        Raises:
            GpuShortageError: not enough are free.
        """
        uid, count = pod["metadata"]["uid"], needed(pod)
        if count == 0:
            return {}
        held = [index for index, holder in self._holders.items() if holder == uid]
        if len(held) != count:
            self.release(uid)
            free = [gpu.index for gpu in self.inventory.gpus if gpu.index not in self._holders]
            if len(free) < count:
                raise GpuShortageError(count, len(free))
            held = self._prefer_annotated(pod, free)[:count]
            self._holders.update(dict.fromkeys(held, uid))
        return share_out(pod, sorted(held))

    def release(self, uid: str) -> None:
        """Free the GPUs of a pod."""
        for index in [index for index, holder in self._holders.items() if holder == uid]:
            del self._holders[index]

    @staticmethod
    def _prefer_annotated(pod: Json, free: list[int]) -> list[int]:
        """Order the free GPUs so that a pod that comes back gets its own ones again."""
        before = annotated(pod)
        mine = {index for indices in before.values() for index in indices}
        return sorted(free, key=lambda index: (index not in mine, index))


def annotated(pod: Json) -> dict[str, list[int]]:
    """Read the allocation from a pod's annotation; {} when absent or unreadable."""
    text = (pod["metadata"].get("annotations") or {}).get(ANNOTATION)
    try:
        value = json.loads(text) if text else {}
    except ValueError:
        return {}
    if not isinstance(value, dict):
        return {}
    return {name: [int(i) for i in indices] for name, indices in value.items()}


def variables(inventory: Inventory, indices: Iterable[int] | None) -> dict[str, str]:
    """Make the environment variables that show a container its GPUs.

    By their UUIDs: with the device files of some GPUs alone, CUDA counts these from 0, and where pods
    are not isolated it counts all of the machine.
    (https://docs.nvidia.com/cuda/cuda-c-programming-guide/#cuda-environment-variables)

    Args:
        indices: None when the container asked for none; it then sees none.
    """
    if indices is None:
        return {"CUDA_VISIBLE_DEVICES": "", "NVIDIA_VISIBLE_DEVICES": "void"}
    uuids = {gpu.index: gpu.uuid for gpu in inventory.gpus}
    text = ",".join(str(index) if inventory.simulated else uuids[index] for index in indices)
    shown = {"CUDA_VISIBLE_DEVICES": text, "NVIDIA_VISIBLE_DEVICES": text}
    return {**shown, "HOMEPORT_SIMULATED_GPU": "true"} if inventory.simulated else shown


def device_files(inventory: Inventory, indices: Iterable[int]) -> tuple[str, ...]:
    """Name the device files that a container with these GPUs needs and that exist."""
    if inventory.simulated:
        return ()
    names = [*(f"nvidia{index}" for index in indices), *_SHARED_DEVICES]
    paths = [Path("/dev") / name for name in names]
    return tuple(str(path) for path in paths if path.exists())


def summary(inventory: Inventory) -> Mapping[str, str]:
    """Describe the GPUs in Node annotations."""
    if not inventory.gpus:
        return {}
    if inventory.simulated:
        note = (
            f"This machine has no GPU: {len(inventory.gpus)} simulated ones are offered so that "
            "GPU jobs can be tried out. Programs see CUDA_VISIBLE_DEVICES but no device."
        )
        return {"homeport.dev/gpu-note": note}
    models = "; ".join(f"{gpu.index}: {gpu.model}" for gpu in inventory.gpus)
    return {"homeport.dev/gpu-models": models}
