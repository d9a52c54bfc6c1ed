"""What runs in the pods of a preflight: one serves and tells, the other tries. Standard library only.

The text of this module is the pods' program, `python3 -c TEXT JSON`; it imports nothing of Homeport.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from typing import Any

GATE, OTHER = 8888, 8080
_TRY_S = 3


def _folder(folder: str, mine: str, theirs: str) -> dict[str, Any]:
    """What this user finds in the volume, having written a file of its own."""
    try:
        with open(f"{folder}/{mine}", "w") as file:
            file.write("ahoy")
            file.flush()
            os.fsync(file.fileno())
        size = os.statvfs(folder)
        seen = not theirs or os.path.exists(f"{folder}/{theirs}")
        return {"uid": os.getuid(), "bytes": size.f_blocks * size.f_frsize, "is_seen": seen}
    except OSError as error:
        return {"uid": os.getuid(), "problem": str(error)}


def _reaches(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), _TRY_S).close()
    except OSError:
        return False
    return True


def _opens(host: str, port: int, patience_s: float) -> float | None:
    """Seconds until a connection is let through; None: it was not in time."""
    began = time.monotonic()
    while True:
        if _reaches(host, port):
            return round(time.monotonic() - began, 1)
        if time.monotonic() - began > patience_s:
            return None
        time.sleep(0.5)


def _stays_open(host: str, port: int, patience_s: float) -> bool:
    """Rules for a new pod may be late: until then it is open to everybody."""
    end = time.monotonic() + patience_s
    while _reaches(host, port):
        if time.monotonic() > end:
            return True
        time.sleep(0.5)
    return False


def _names(name: str) -> str:
    """The error of looking a name up, empty when there is none; new pods may have to wait."""
    said, end = "", time.monotonic() + 20
    while time.monotonic() < end:
        try:
            socket.getaddrinfo(name, 443)
        except OSError as error:
            said = str(error)
            time.sleep(0.5)
        else:
            return ""
    return said


def serve(told: dict[str, Any]) -> None:
    """Tells whoever connects what it found, its time, and whom it sees."""
    facts = {
        "folder": _folder(told["folder"], "server", "") if told["folder"] else {},
        "api": _reaches(*told["api"]),
    }

    def answer(port: int) -> None:
        server = socket.create_server(("", port))
        while True:
            peer, address = server.accept()
            said = {**facts, "time": time.time(), "peer": address[0]}
            with contextlib.suppress(OSError), peer:
                peer.sendall(json.dumps(said).encode() + b"\n")

    threading.Thread(target=answer, args=(OTHER,), daemon=True).start()
    answer(GATE)


def look(told: dict[str, Any]) -> dict[str, Any]:
    """What the other pod finds under the policies of a namespace."""
    found: dict[str, Any] = {"opened_s": _opens(told["server"], GATE, 60)}
    if found["opened_s"] is not None:
        began = time.time()
        with socket.create_connection((told["server"], GATE), _TRY_S) as peer:
            said = json.loads(peer.makefile().readline())
        found["clock_s"] = round(said["time"] - (began + time.time()) / 2, 2)
    if told["folder"]:
        found["folder"] = _folder(told["folder"], "client", "server")
    found["dns"] = _names("kubernetes.default.svc")
    found["needed"] = {
        name: _opens(host, port, 20) is not None for name, (host, port) in told["needed"].items()
    }
    found["closed"] = {
        name: _stays_open(host, port, 20) for name, (host, port) in told["closed"].items()
    }
    return found


def gpus() -> dict[str, Any]:
    done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    return {"gpus": (done.stdout or done.stderr).strip()[:1000]}


def main() -> None:
    told = json.loads(sys.argv[1])
    if told["role"] == "server":
        serve(told)
    try:
        found = look(told) if told["role"] == "client" else gpus()
    except OSError as error:
        found = {"problem": str(error)}
    with open("/dev/termination-log", "w") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
