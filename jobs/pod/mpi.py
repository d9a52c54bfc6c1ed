# ruff: noqa: UP006, UP035, UP045 (the syntax of Python 3.6: images bring their own Python)
"""What the runner does for MPI before a launcher's program begins: see `mpi_launch` for the rest."""

import fcntl
import os
import pwd
import socket
import struct
from typing import Any, Dict, Optional

from jobs.pod.files import write_whole
from jobs.pod.protocol.placeholders import ReplicaContext

SIOCGIFADDR = 0x8915  # netdevice(7)


def find_missing_user() -> Optional[str]:
    """A sentence when the user that runs here has no name: mpirun then ends without saying why."""
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return f"mpirun needs a line for user {os.getuid()} in /etc/passwd, and the image has none"
    return None


def prepare(config: Dict[str, Any], context: ReplicaContext, folder: str) -> ReplicaContext:
    """Writes the host files of Open MPI and of Hydra; the context with the pod's interface.

    Raises:
        OSError: the folder cannot be written.
    """
    names = [address.rpartition(":")[0] for address in context.hosts["worker"]]
    for file, form in (("hosts.openmpi", "{} slots={}\n"), ("hosts.hydra", "{}:{}\n")):
        text = "".join(form.format(name, config["slots"]) for name in names)
        write_whole(os.path.join(folder, file), text)
    return context._replace(interface=find_interface())


def find_interface() -> str:
    """The network interface that has this host's address; empty when none is found.

    Hydra announces the address of an interface that it is told, else the bare name of the host, which
    the workers cannot resolve.
    """
    try:
        own = socket.inet_aton(socket.gethostbyname(socket.gethostname()))
    except OSError:
        return ""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for _number, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(any_socket, SIOCGIFADDR, struct.pack("256s", name.encode()))
            except OSError:
                continue  # it has no address
            if answer[20:24] == own:
                return name
    return ""
