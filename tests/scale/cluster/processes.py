"""Memory, processor time and connections of a process, from /proc."""

import os
import socket
import struct
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_ESTABLISHED = "01"


def rss_bytes(pid: int) -> int:
    """Resident memory now."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise ProcessLookupError(f"process {pid} has no memory any more")


def cpu_s(pid: int) -> float:
    """Processor time so far, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def connections_to(pid: int, port: int) -> int:
    """Established TCP connections of a process to a port of loopback."""
    sockets = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(entry)
        except OSError:
            continue
        if target.startswith("socket:["):
            sockets.add(target.removeprefix("socket:[").removesuffix("]"))
    (address,) = struct.unpack("=I", socket.inet_aton("127.0.0.1"))
    wanted = f"{address:08X}:{port:04X}"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[2] == wanted and row[3] == _ESTABLISHED and row[9] in sockets for row in rows)
