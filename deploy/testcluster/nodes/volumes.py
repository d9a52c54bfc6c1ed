"""Makes the volumes that claims wait for: a folder each, which all nodes see at the same path.

`python -m deploy.testcluster.nodes.volumes SERVER KEYS FOLDER` runs beside a cluster of nodes that
share this machine's disk, so a `hostPath` is a shared file system there. What local-path-provisioner
does with `sharedFileSystemPath`, without pods that make the folders. Sizes are not enforced.
"""

from __future__ import annotations

import json
import os
import ssl
import sys
import time
import urllib.error
import urllib.request
from http import HTTPStatus
from pathlib import Path
from typing import Any

PROVISIONER = "homeport.dev/shared-folder"
CLASS = "glusterfs"
_EVERY_S = 0.5
_USER, _GROUP = 1000, 100  # of people's pods: a fsGroup does nothing on a hostPath
_MODE = 0o2770


def volume(claim: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The PersistentVolume of a claim that has none."""
    meta, spec = claim["metadata"], claim["spec"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": f"pvc-{meta['uid']}",
            "annotations": {"pv.kubernetes.io/provisioned-by": PROVISIONER},
        },
        "spec": {
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "accessModes": spec["accessModes"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": spec["storageClassName"],
            "claimRef": {key: meta[key] for key in ("namespace", "name", "uid")},
            "hostPath": {"path": str(folder), "type": "Directory"},
        },
    }


class Server:
    """The API server, as one user with a certificate."""

    def __init__(self, address: str, keys: Path) -> None:
        self._address = address
        self._tls = ssl.create_default_context(cafile=str(keys / "ca.crt"))
        self._tls.load_cert_chain(keys / "admin.crt", keys / "admin.key")

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        asked = urllib.request.Request(self._address + path, data, headers)
        with urllib.request.urlopen(asked, timeout=10, context=self._tls) as reply:
            return json.load(reply)


def serve(server: Server, home: Path) -> None:
    """Make what is missing, for ever."""
    while True:
        try:
            for claim in server.ask("/api/v1/persistentvolumeclaims")["items"]:
                spec = claim["spec"]
                if spec.get("storageClassName") != CLASS or spec.get("volumeName"):
                    continue
                folder = home / claim["metadata"]["uid"]
                folder.mkdir(parents=True, exist_ok=True)
                os.chown(folder, _USER, _GROUP)
                folder.chmod(_MODE)
                try:
                    server.ask("/api/v1/persistentvolumes", volume(claim, folder))
                except urllib.error.HTTPError as refused:
                    if refused.code != HTTPStatus.CONFLICT:
                        raise
        except (OSError, ValueError) as error:
            sys.stderr.write(f"{error}\n")
        time.sleep(_EVERY_S)


if __name__ == "__main__":
    serve(Server(sys.argv[1], Path(sys.argv[2])), Path(sys.argv[3]))
