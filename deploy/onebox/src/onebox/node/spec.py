"""What the kubelet side tells the sandbox side, and what it hears back: plain frozen records.

No I/O and no imports of other modules, so that both sides (and tests) can build them freely.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

GATEWAY_IP = "10.244.0.1"
"""The cluster network's gateway: DNS on port 53, the portal on 8000, egress on 3128."""

POD_NETWORK = "10.244.0.0/16"
SERVICE_NETWORK = "10.96.0.0/16"


@dataclass(frozen=True)
class Mount:
    """One thing mounted into a container.

    Args:
        source: for "bind" an absolute path of the host (folder or file); for "tmpfs" the name of
            the volume: containers of one pod that name the same volume share one tmpfs, which
            lives as long as the pod.
        path: absolute path inside the container; missing folders are made.
        size_bytes: of a tmpfs; None is half of the machine's memory, as the kernel has it.
        sub_path: below `source`; resolved without ever leaving it, whatever links lie there.
    """

    source: str
    path: str
    read_only: bool = False
    kind: Literal["bind", "tmpfs"] = "bind"
    size_bytes: int | None = None
    sub_path: str = ""


@dataclass(frozen=True)
class ImageEnv:
    """An image that is present: what a container needs to run from it.

    Args:
        reference: as the pod names it.
        image_id: "sha256:..." of what was installed; equal for equal content.
        env: PATH, LANG and what else the image sets; nothing of the host's environment.
        mounts: the environment itself (read-only, at its own path) and what it needs.
        size_bytes: on disk; 0 for an image that is nothing but the host's programs.
        working_dir: used where the container names none.
    """

    reference: str
    image_id: str
    env: Mapping[str, str]
    mounts: tuple[Mount, ...] = ()
    size_bytes: int = 0
    working_dir: str = "/"


@dataclass(frozen=True)
class PodSpec:
    """A pod: its identity and its place in the cluster network.

    Args:
        uid: metadata.uid; unique among all pods that ever ran here.
        hostname: at most 63 characters.
        domain: "<subdomain>.<namespace>.svc.cluster.local" where the pod has a subdomain.
        dns_search: search domains, in order.
        fs_gid: supplementary group of every container (securityContext.fsGroup).
        host_aliases: (ip, name) pairs for /etc/hosts.
    """

    uid: str
    namespace: str
    name: str
    hostname: str
    domain: str | None = None
    dns_search: tuple[str, ...] = ()
    fs_gid: int | None = None
    host_aliases: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class ContainerSpec:
    """One run of one container; a restart is a new spec with a new `log_path`.

    Args:
        argv: program and arguments; the program is looked up in PATH of `env`.
        env: complete, image's variables included (`{**image.env, **own}`); with HOME or without.
        cwd: made when missing; "" means the image's.
        run_as_uid: None is 1000; 0 is refused. As an ordinary user everything runs as that user.
        run_as_gid: None is 100 (as an ordinary user: that user's group).
        groups: supplementary groups; the pod's fs_gid is added.
        memory_bytes: limit; more than that ends the container as OOMKilled.
        cpu_millicores: limit, as a share of time per 100 ms.
        cpu_shares_millicores: request, as a weight against other containers.
        log_path: absolute; CRI format, rotated at 10 MiB to `log_path`.1 ... .4.
        termination_message_path: inside the container; what it holds at the end is Exit.message.
        devices: extra device files, such as /dev/nvidia0, that appear under the same path.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    image: ImageEnv
    log_path: str
    cwd: str = ""
    mounts: tuple[Mount, ...] = ()
    run_as_uid: int | None = None
    run_as_gid: int | None = None
    groups: tuple[int, ...] = ()
    memory_bytes: int | None = None
    cpu_millicores: int | None = None
    cpu_shares_millicores: int = 0
    termination_message_path: str = "/dev/termination-log"
    read_only_root: bool = False
    devices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Exit:
    """How a container ended.

    Args:
        code: as a shell has it: 128 + signal for a death by signal.
        message: the termination message, at most 4096 bytes.
    """

    code: int
    signal: int | None
    oom_killed: bool
    started_at: datetime
    finished_at: datetime
    message: str = ""


@dataclass(frozen=True)
class Limits:
    """What of a container's limits is really enforced here; for the Node's conditions.

    Args:
        memory: "cgroup" by the kernel; "watched": the container is measured many times a second
            and killed when over; "none".
        cpu: whether limits and requests hold.
        pids: whether the number of processes is limited.
        text: the same in a sentence for people.
    """

    memory: Literal["cgroup", "watched", "none"]
    cpu: bool
    pids: bool
    text: str = field(default="")


class StartError(Exception):
    """A container could not be started.

    Attributes:
        code: 126 (not executable), 127 (not found) or 128 (anything before that).
        reason: as in a container's state: StartError, ContainerCannotRun, CreateContainerError.
        message: a sentence.
    """

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message


class SandboxUnavailable(Exception):  # noqa: N818 - reads better where it is caught
    """This machine cannot run pods; the text says what is missing and what to do.

    Attributes:
        is_final: pods made in another way would not help.
    """

    def __init__(self, message: str, *, is_final: bool = False) -> None:
        super().__init__(message)
        self.is_final = is_final


class PodGone(Exception):  # noqa: N818 - an event rather than an error
    """The pod was removed, or its init died, while something was asked of it."""
