"""Says by a label of its node whether the volume is mounted there, and keeps the empty mount point closed.

`python guard.py MOUNT LABEL` with NODE_NAME, in a pod that sees the node's mounts (HostToContainer).
Standard library only. Where the volume is not mounted, whoever makes a folder below the mount point would
write to the node's own disk: the flag "immutable" refuses that, and kubelet starts such a pod when the
volume is back. https://man7.org/linux/man-pages/man2/ioctl_iflags.2.html
"""

import fcntl
import json
import os
import ssl
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

READY = "ready"
_EVERY_S = 5.0
_ASK_EVERY_S = 60.0  # for the label, which somebody else may have changed
_ANSWER_S = 10.0
_GET_FLAGS, _SET_FLAGS, _IMMUTABLE = 0x80086601, 0x40086602, 0x10
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_ASK = """
import os, sys
try:
    os.statvfs(sys.argv[1])
except OSError as error:
    sys.exit(error.errno)
"""


def file_system(mount: str, mountinfo: str) -> str:
    """Type of what is mounted there, such as "fuse.glusterfs"; "" when nothing is."""
    found = ""
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        if before.split()[4] == mount:
            found = after.split()[0]
    return found


def close(folder: str) -> None:
    """Make the empty mount point, and let nobody make anything in it.

    Raises:
        OSError: the node's disk has no such flag, or it is read-only.
    """
    os.makedirs(folder, exist_ok=True)
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        flags = int.from_bytes(fcntl.ioctl(place, _GET_FLAGS, bytes(8))[:4], sys.byteorder)
        if not flags & _IMMUTABLE:
            wanted = (flags | _IMMUTABLE).to_bytes(8, sys.byteorder)
            fcntl.ioctl(place, _SET_FLAGS, wanted)
    finally:
        os.close(place)


class Mount:
    """What is at the mount point; a file system that answers nobody is asked by a process of its own."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._asking: subprocess.Popen[bytes] | None = None

    def trouble(self) -> str:
        """Why pods cannot use it now; "" when they can."""
        if self._asking is None or self._asking.poll() is not None:
            kind = file_system(self._folder, Path("/proc/self/mountinfo").read_text())
            if not kind:
                close(self._folder)
                return "nothing is mounted there"
            if kind != "fuse.glusterfs":
                return f"what is mounted there is {kind}"
            self._asking = subprocess.Popen(
                [sys.executable, "-I", "-c", _ASK, self._folder], stderr=subprocess.DEVNULL
            )
        try:
            code = self._asking.wait(_ANSWER_S)
        except subprocess.TimeoutExpired:
            return "it does not answer"
        return os.strerror(code) if code else ""


class Node:
    """The node's object, as far as its guard may see and change it."""

    def __init__(self, name: str, label: str) -> None:
        host, port = (os.environ[f"KUBERNETES_SERVICE_{part}"] for part in ("HOST", "PORT"))
        host = f"[{host}]" if ":" in host else host
        self._url = f"https://{host}:{port}/api/v1/nodes/{name}"
        self._label = label

    def _ask(self, patch: "dict[str, object] | None" = None) -> "dict[str, str]":
        asked = urllib.request.Request(self._url, method="PATCH" if patch else "GET")
        # Read each time: the token is renewed.
        asked.add_header("Authorization", f"Bearer {(_ACCOUNT / 'token').read_text()}")
        if patch:
            asked.add_header("Content-Type", "application/merge-patch+json")
            asked.data = json.dumps(patch).encode()
        tls = ssl.create_default_context(cafile=str(_ACCOUNT / "ca.crt"))
        with urllib.request.urlopen(asked, timeout=_ANSWER_S, context=tls) as reply:
            labels: dict[str, str] = json.load(reply)["metadata"].get("labels", {})
        return labels

    def say(self, value: "str | None") -> None:
        """Set the label, or remove it, unless it is so.

        Raises:
            OSError: the API server is not reached, or refuses.
        """
        if self._ask().get(self._label) != value:
            self._ask({"metadata": {"labels": {self._label: value}}})


def main() -> None:
    folder, label = sys.argv[1:]
    mount, node = Mount(folder), Node(os.environ["NODE_NAME"], label)
    said, said_at = "unknown", 0.0
    while True:
        try:
            trouble = mount.trouble()
        except OSError as error:
            trouble = str(error)
        if trouble != said or time.monotonic() - said_at > _ASK_EVERY_S:
            try:
                node.say(None if trouble else READY)
                if trouble != said:
                    print(f"{folder}: {trouble or READY}", flush=True)
                said, said_at = trouble, time.monotonic()
            except (OSError, ValueError) as error:
                print(f"the label {label} cannot be set: {error}", flush=True)
        time.sleep(_EVERY_S)


if __name__ == "__main__":
    main()
