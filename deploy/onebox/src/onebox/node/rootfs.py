"""A container's root file system: an allow-list of the host, and the container's own mounts.

A container sees: the host's programs and libraries (/usr, /bin, /sbin, /lib*) read-only, a few files
of /etc, its image's environment, a small /dev, its own /proc with the kernel's tell-tale files
masked, the processor's description in /sys, a private /tmp, and what its pod mounts. Nothing else
of the host exists there. What it writes elsewhere goes to its own tmpfs and ends with it.

Everything from the host is taken hold of before the root is changed and attached afterwards, so
that a link in a volume can lead a mount point only to places inside the container.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from onebox.node import syscalls
from onebox.node.program import Failure
from onebox.node.syscalls import ATTR_NODEV, ATTR_NOEXEC, ATTR_NOSUID, ATTR_RDONLY

PROGRAM_FOLDERS = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32")
# No secrets: what the C library, the dynamic linker, TLS and common tools look up. passwd, group,
# hosts, resolv.conf and nsswitch.conf are written for each container. Not `profile`: a login shell,
# such as a terminal of JupyterLab, would get the machine's PATH by it and lose the image's Python.
ETC_ENTRIES = (
    *("alternatives", "bash.bashrc", "ca-certificates", "ca-certificates.conf", "debian_version"),
    *("fonts", "gai.conf", "host.conf", "inputrc", "ld.so.cache", "ld.so.conf", "ld.so.conf.d"),
    *("localtime", "locale.alias", "magic", "mime.types", "networks", "OpenCL", "os-release"),
    *("pki/ca-trust", "pki/tls/certs", "protocols", "rpc", "services", "shells"),
    *("skel", "ssl/certs", "ssl/openssl.cnf", "terminfo", "timezone", "vulkan"),
)
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_DEVICE_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}
# As in a pod of a real cluster; more is a volume of medium Memory mounted there.
_SHM_BYTES = 64 * 1024 * 1024
# Masked and read-only places of /proc: the defaults of container runtimes
# (https://github.com/containerd/containerd/blob/main/pkg/oci/spec.go, MaskedPaths).
_PROC_MASKED = (
    *("acpi", "asound", "interrupts", "kallsyms", "kcore", "keys", "latency_stats", "sched_debug"),
    *("scsi", "sysrq-trigger", "timer_list", "timer_stats"),
)
_PROC_READ_ONLY = ("bus", "fs", "irq", "sys")
_SYS_ENTRIES = ("devices/system/cpu", "devices/system/node")
# Empty: programs look here for network devices, and some print an error where there is no such
# folder, not even an empty one (UCX, uct/tcp/tcp_iface.c). How the pod is reached, they learn from its sockets.
SYS_FOLDERS = ("/sys/class/net",)
_SYS_ENTRIES_FOR_GPUS = ("bus/pci", "module/nvidia", "module/nvidia_uvm")
EMPTY_FOLDERS = ("home", "media", "mnt", "opt", "run", "srv", "var/cache", "var/lib", "var/log")

_HOST_ATTRIBUTES = ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV
_TEMPORARY_FLAGS = syscalls.MS_NOSUID | syscalls.MS_NODEV


class RootPlan(NamedTuple):
    """What a container's root is made of.

    Args:
        mounts: image's and pod's, each {source, path, read_only, kind, size_bytes, sub_path}.
        tmpfs_folder: where the pod's shared tmpfs volumes are mounted, by name.
        etc: file name -> text, written into /etc.
        oom_events: the file in which the kernel counts whom it ended for want of memory, and where it is seen;
            None: no control group counts it.
        owned_folders: made when they do not exist, and given to the user (HOME, working directory).
    """

    stage: str
    tmpfs_folder: str
    mounts: Sequence[Mapping[str, Any]]
    devices: Sequence[str]
    etc: Mapping[str, str]
    uid: int
    gid: int
    root_bytes: int
    tmp_bytes: int
    read_only: bool
    owned_folders: Sequence[str]
    oom_events: Sequence[str] | None = None


class _Tree(NamedTuple):
    """A detached mount, waiting to be attached at `path`."""

    path: str
    fd: int
    is_folder: bool


def build_root(plan: RootPlan) -> None:
    """Build the root and move into it; the caller is alone in new mount and pid namespaces.

    Raises:
        Failure: a mount of the pod cannot be made; the text names it.
        OSError: the machinery itself failed.
    """
    host_trees = [*_take_host(plan.devices), *_take_oom_events(plan)]
    pod_trees = [_take_mount(mount, plan.tmpfs_folder) for mount in plan.mounts]
    pod_trees.sort(key=lambda tree: tree.path.count("/"))
    options = f"mode=755,size={plan.root_bytes}"
    syscalls.mount("tmpfs", plan.stage, "tmpfs", _TEMPORARY_FLAGS, options)
    proc_is_own = _mount_proc(plan.stage + "/proc")
    links = {
        name: os.readlink(f"/{name}") for name in PROGRAM_FOLDERS if os.path.islink(f"/{name}")
    }
    syscalls.pivot_root(plan.stage)
    for name, target in links.items():
        os.symlink(target, f"/{name}")
    _make_folders(plan)
    _make_devices(plan)
    for tree in host_trees:
        _attach(tree)
    _write_etc(plan.etc)
    _close_sys()
    if proc_is_own:
        _mask_proc()
    for tree in pod_trees:
        _attach_of_pod(tree)
    _give_folders(plan)
    if plan.read_only:
        _restrict_path("/", ATTR_RDONLY)
        _restrict_path("/tmp", ATTR_RDONLY)


def mount_shared_tmpfs(folder: str, name: str, size_bytes: int | None, gid: int | None) -> None:
    """Mount a pod's tmpfs volume where its containers find it; does nothing the second time."""
    target = os.path.join(folder, name)
    if os.path.ismount(target):
        return
    os.makedirs(target, exist_ok=True)
    options = ["mode=777" if gid is None else f"mode=2777,gid={gid}"]
    if size_bytes is not None:
        options.append(f"size={size_bytes}")
    syscalls.mount("tmpfs", target, "tmpfs", _TEMPORARY_FLAGS, ",".join(options))


def _take_host(devices: Sequence[str]) -> list[_Tree]:
    wanted = [(f"/{name}", _HOST_ATTRIBUTES) for name in PROGRAM_FOLDERS]
    wanted = [(path, attributes) for path, attributes in wanted if not os.path.islink(path)]
    wanted += [(f"/etc/{name}", _HOST_ATTRIBUTES | ATTR_NOEXEC) for name in ETC_ENTRIES]
    wanted += [(f"/sys/{name}", _HOST_ATTRIBUTES) for name in _sys_entries(devices)]
    wanted += [(f"/dev/{name}", ATTR_NOSUID | ATTR_NOEXEC) for name in _DEVICES]
    wanted += [(path, ATTR_NOSUID | ATTR_NOEXEC) for path in devices]
    return [_take(path, path, attributes) for path, attributes in wanted if os.path.exists(path)]


def _sys_entries(devices: Sequence[str]) -> list[str]:
    if not devices:
        return list(_SYS_ENTRIES)
    roots = [name for name in os.listdir("/sys/devices") if name.startswith("pci")]
    return [*_SYS_ENTRIES, *_SYS_ENTRIES_FOR_GPUS, *(f"devices/{name}" for name in roots)]


def _take_oom_events(plan: RootPlan) -> list[_Tree]:
    """Without it the program is started all the same: it only counts."""
    if plan.oom_events is None:
        return []
    source, path = plan.oom_events
    with contextlib.suppress(OSError):
        return [_take(source, path, _HOST_ATTRIBUTES | ATTR_NOEXEC)]
    return []


def _take(source: str, path: str, attributes: int) -> _Tree:
    fd = syscalls.open_tree(source)
    syscalls.restrict_tree(fd, attributes)
    return _Tree(path, fd, os.path.isdir(source))


def _take_mount(mount: Mapping[str, Any], tmpfs_folder: str) -> _Tree:
    path = checked_path(mount["path"])
    source = mount["source"]
    if mount["kind"] == "tmpfs":
        source = os.path.join(tmpfs_folder, source)
    attributes = ATTR_NOSUID | ATTR_NODEV | (ATTR_RDONLY if mount["read_only"] else 0)
    sub_path = mount["sub_path"]
    try:
        if not sub_path:
            return _take(source, path, attributes)
        folder = os.open(source, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        found = syscalls.open_beneath(folder, sub_path)
        fd = syscalls.open_tree("", found)
        syscalls.restrict_tree(fd, attributes)
        return _Tree(path, fd, os.path.isdir(f"/proc/self/fd/{found}"))
    except OSError as error:
        what = f'"{sub_path}" of a volume' if sub_path else "a volume"
        text = f'{what} cannot be mounted at "{path}": {os.strerror(error.errno or 0)}'
        raise Failure(128, "CreateContainerError", text) from error


def checked_path(path: str) -> str:
    """Return a mount path in its plain form, or refuse it."""
    plain = os.path.normpath(path)
    parts = path.split("/")
    if not path.startswith("/") or ".." in parts:
        text = f'the mount path "{path}" is not absolute or contains ".."'
        raise Failure(128, "CreateContainerError", text)
    if plain.strip("/") == "" or plain.split("/")[1] in ("proc", "sys") or plain == "/dev":
        text = f'nothing can be mounted at "{path}"; choose another mount path'
        raise Failure(128, "CreateContainerError", text)
    return "/" + plain.strip("/")


def _mount_proc(target: str) -> bool:
    """Mount a /proc of this pid namespace; False where only the host's own could be had."""
    os.mkdir(target)
    flags = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC
    try:
        syscalls.mount("proc", target, "proc", flags)
    except PermissionError:
        # Inside an engine that masks parts of /proc the kernel grants no whole one.
        syscalls.move_mount(syscalls.open_tree("/proc"), target)
        return False
    return True


def _make_folders(plan: RootPlan) -> None:
    os.chown("/", plan.uid, plan.gid)
    for name in (*EMPTY_FOLDERS, "dev", "etc", "sys"):
        os.makedirs(f"/{name}", exist_ok=True)
    os.symlink("/run", "/var/run")
    for path in ("/tmp", "/var/tmp"):
        os.mkdir(path)
        os.chmod(path, 0o1777)
    options = f"mode=1777,size={plan.tmp_bytes}"
    syscalls.mount("tmpfs", "/tmp", "tmpfs", _TEMPORARY_FLAGS, options)


def _make_devices(plan: RootPlan) -> None:
    flags = syscalls.MS_NOSUID | syscalls.MS_NOEXEC
    syscalls.mount("tmpfs", "/dev", "tmpfs", flags, "mode=755,size=1m")
    for name, target in _DEVICE_LINKS.items():
        os.symlink(target, f"/dev/{name}")
    os.mkdir("/dev/pts")
    syscalls.mount("devpts", "/dev/pts", "devpts", flags, "newinstance,ptmxmode=0666,mode=0620")
    os.mkdir("/dev/shm")
    options = f"mode=1777,size={_SHM_BYTES}"
    shm_flags = _TEMPORARY_FLAGS | syscalls.MS_NOEXEC
    syscalls.mount("tmpfs", "/dev/shm", "tmpfs", shm_flags, options)
    syscalls.mount("tmpfs", "/sys", "tmpfs", shm_flags, "mode=755,size=1m")


def _write_etc(texts: Mapping[str, str]) -> None:
    os.symlink("/proc/mounts", "/etc/mtab")
    for name, text in texts.items():
        with open(f"/etc/{name}", "w") as file:
            file.write(text)


def _close_sys() -> None:
    for path in SYS_FOLDERS:
        os.makedirs(path, exist_ok=True)
    _restrict_path("/sys", ATTR_RDONLY)


def _restrict_path(path: str, attributes: int) -> None:
    fd = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    syscalls.restrict_tree(fd, attributes, recursive=False)
    os.close(fd)


def _mask_proc() -> None:
    for name in _PROC_READ_ONLY:
        path = f"/proc/{name}"
        if os.path.exists(path):
            fd = syscalls.open_tree(path)
            syscalls.restrict_tree(fd, ATTR_RDONLY)
            syscalls.move_mount(fd, path)
            os.close(fd)
    for name in _PROC_MASKED:
        path = f"/proc/{name}"
        if os.path.isdir(path):
            syscalls.mount("tmpfs", path, "tmpfs", _TEMPORARY_FLAGS, "mode=555,size=4k")
            _restrict_path(path, ATTR_RDONLY)
        elif os.path.exists(path):
            fd = syscalls.open_tree("/dev/null")
            syscalls.move_mount(fd, path)
            os.close(fd)


def _attach(tree: _Tree) -> None:
    """Attach at `tree.path`, making the folder or the empty file that a mount needs there."""
    if not os.path.lexists(tree.path):
        os.makedirs(tree.path if tree.is_folder else os.path.dirname(tree.path), exist_ok=True)
        if not tree.is_folder:
            os.close(os.open(tree.path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
    syscalls.move_mount(tree.fd, tree.path)
    os.close(tree.fd)


def _attach_of_pod(tree: _Tree) -> None:
    try:
        _attach(tree)
    except OSError as error:
        why = os.strerror(error.errno or 0)
        if error.errno == errno.EROFS:
            why = "it lies inside a folder that is mounted read-only"
        elif error.errno == errno.ENOTDIR:
            why = "one of the two is a folder and the other a file"
        text = f'nothing can be mounted at "{tree.path}": {why}'
        raise Failure(128, "CreateContainerError", text) from error


def _give_folders(plan: RootPlan) -> None:
    """Make HOME and the working directory where they are missing; what exists stays as it is."""
    for path in plan.owned_folders:
        if os.path.isdir(path):
            continue
        # A place that cannot be written is the program's affair; a missing working directory
        # is reported when it is entered.
        with contextlib.suppress(OSError):
            os.makedirs(path)
            os.chown(path, plan.uid, plan.gid)
