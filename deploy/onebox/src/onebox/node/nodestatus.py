"""What the Node object says of this machine: resources, labels, conditions."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from onebox.node import gpus
from onebox.node.client import Json
from onebox.node.gpus import Inventory
from onebox.node.record import format_time
from onebox.node.spec import Limits

# What the machine itself needs is not offered to pods.
RESERVED_MEMORY_SHARE = 0.05
PODS = 110
KUBELET_VERSION = "v1.33.0"


@dataclass(frozen=True)
class Offer:
    """What the node registers.

    Args:
        cpu_cores: offered; more than the machine has unless the user said otherwise.
        memory_bytes: of the machine.
        limits: what the sandbox enforces.
        notes: further sentences of the sandbox about isolation.
        is_joined: the control plane is another than onebox's own.
    """

    name: str
    cpu_cores: int
    real_cores: int
    memory_bytes: int
    disk_bytes: int
    inventory: Inventory
    mode: str
    limits: Limits
    notes: tuple[str, ...]
    is_joined: bool = False


def default_cpu_cores(real_cores: int) -> int:
    """Offer more CPU than there is, so that a small machine runs a whole training."""
    return max(8, 4 * real_cores)


def machine_memory_bytes() -> int:
    """Memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def machine_disk_bytes(home: Path) -> int:
    """Size of the file system that holds the node's home."""
    return shutil.disk_usage(home).total


def resources(offer: Offer) -> tuple[dict[str, str], dict[str, str]]:
    """Compute capacity and allocatable."""
    reserved = int(offer.memory_bytes * RESERVED_MEMORY_SHARE)
    capacity = {
        "cpu": str(offer.cpu_cores),
        "memory": f"{offer.memory_bytes // 1024}Ki",
        "ephemeral-storage": f"{offer.disk_bytes // 1024}Ki",
        "pods": str(PODS),
    }
    if offer.inventory.gpus:
        capacity[gpus.RESOURCE] = str(len(offer.inventory.gpus))
    allocatable = {**capacity, "memory": f"{(offer.memory_bytes - reserved) // 1024}Ki"}
    return capacity, allocatable


def labels(offer: Offer) -> dict[str, str]:
    """Compute the node's labels."""
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    found = {
        "kubernetes.io/hostname": offer.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": machine,
        "homeport.dev/onebox": "true",
    }
    if offer.inventory.simulated:
        found["homeport.dev/simulated-gpu"] = "true"
    return found


def conditions(offer: Offer, now: datetime, *, is_ready: bool) -> list[Json]:
    """Compute the node's conditions: the usual ones and what is not as on a real cluster."""
    healthy = [
        ("MemoryPressure", "KubeletHasSufficientMemory", "memory pressure is not watched here"),
        ("DiskPressure", "KubeletHasNoDiskPressure", "disk pressure is not watched here"),
        ("PIDPressure", "KubeletHasSufficientPID", "process pressure is not watched here"),
    ]
    found = [_condition(type_, False, reason, text) for type_, reason, text in healthy]
    found.extend(_honest(offer))
    if is_ready:
        found.append(
            _condition("Ready", True, "KubeletReady", "onebox node is posting ready status")
        )
    else:
        found.append(_condition("Ready", False, "KubeletNotReady", "onebox node is shutting down"))
    beat = format_time(now)
    return [{**condition, "lastHeartbeatTime": beat} for condition in found]


def _honest(offer: Offer) -> list[Json]:
    over = offer.cpu_cores > offer.real_cores
    text = f"{offer.cpu_cores} CPUs are offered on a machine with {offer.real_cores}"
    pods_as = "uid 1000 unless they name another" if offer.mode == "root" else "the user of onebox"
    is_plain = offer.mode == "plain"
    own = "" if is_plain else " with their own network, names and files"
    apart = (
        "Pods of different namespaces are not isolated from each other."
        if is_plain
        else "Pods of different namespaces do not reach each other, whatever NetworkPolicies say."
    )
    isolation = (
        f"Pods are processes of this machine{own}, as {pods_as}. {apart} "
        f"Not enforced: NetworkPolicy, {'' if offer.is_joined else 'RBAC, '}seccomp and AppArmor "
        "profiles of pods."
    )
    enforced = offer.limits.memory != "none" and offer.limits.cpu
    return [
        _condition(
            "homeport.dev/CPUOvercommitted", over, "Overcommitted" if over else "Real", text
        ),
        _condition(
            "homeport.dev/Isolation",
            False,
            "PlainProcesses" if is_plain else "ProcessesOfOneMachine",
            " ".join([isolation, *offer.notes]),
        ),
        _condition(
            "homeport.dev/Limits",
            enforced,
            "Enforced" if enforced else "NotEnforced",
            offer.limits.text,
        ),
    ]


def folders_condition(strays: Sequence[str], now: datetime) -> Json:
    """The condition that names folders of volumes which are given to nobody, the first ten."""
    more = f"; and {len(strays) - 10} more" if len(strays) > 10 else ""
    text = "; ".join(strays[:10]) + more
    found = _condition("homeport.dev/FoldersOfNobody", True, "FoldersFound", text)
    return {**found, "lastHeartbeatTime": format_time(now)}


def _condition(type_: str, is_true: bool, reason: str, message: str) -> Json:
    status = "True" if is_true else "False"
    return {"type": type_, "status": status, "reason": reason, "message": message}


def node_status(offer: Offer, log_port: int, now: datetime, *, is_ready: bool) -> Json:
    """Compute the whole status, without transition times."""
    capacity, allocatable = resources(offer)
    return {
        "capacity": capacity,
        "allocatable": allocatable,
        "conditions": conditions(offer, now, is_ready=is_ready),
        "addresses": [
            {"type": "InternalIP", "address": "127.0.0.1"},
            {"type": "Hostname", "address": offer.name},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": log_port}},
        "nodeInfo": _node_info(),
    }


def _node_info() -> dict[str, str]:
    return {
        "machineID": _read_line("/etc/machine-id"),
        "systemUUID": "",
        "bootID": _read_line("/proc/sys/kernel/random/boot_id"),
        "kernelVersion": platform.release(),
        "osImage": _os_image(),
        "containerRuntimeVersion": "onebox://1",
        "kubeletVersion": KUBELET_VERSION,
        "kubeProxyVersion": KUBELET_VERSION,
        "operatingSystem": "linux",
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(
            platform.machine(), platform.machine()
        ),
    }


def _os_image() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    except OSError:
        return "Linux"


def _read_line(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
