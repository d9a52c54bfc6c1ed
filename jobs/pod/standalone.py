"""Prepares the pod of an exported training, which runs without a portal: folders, code, names of the others.

Runs in an init container from Homeport's image, as `fetch.py` does, and ends as that does. What it is
told is in the variable HOMEPORT_EXPORT: `source`, `log_dir`, `data_dir` and `limits` as runners have
them in job.json, and `peers`, the host names to wait for.
"""

import os
import sys

if __name__ == "__main__":
    # A script has its own folder first on the path; the package's root is needed instead.
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import json
from pathlib import Path
from typing import Any

from jobs.pod import fetch, files, sources
from jobs.pod.errors import PodError
from jobs.pod.peers import some_names, wait_for_peers
from jobs.pod.portal_client import PortalClient
from jobs.pod.protocol import codes

PEERS_WAIT_S = 900  # nodes may have to pull an image first


class NoPortal(PortalClient):
    """Agrees to any commit: without a portal each replica takes the one that it finds."""

    def __init__(self) -> None:
        super().__init__("", "")

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return body


def prepare(paths: files.Paths, environ: dict[str, str]) -> str:
    """Does all of it; returns a sentence about the code.

    Raises:
        PodError: with reason and sentence.
    """
    config = json.loads(environ["HOMEPORT_EXPORT"])
    try:
        os.makedirs(os.path.join(config["log_dir"], "artifacts"), exist_ok=True)
    except OSError as error:
        raise fetch.volume_error(error, "log", config["log_dir"]) from error
    workspace = Path(paths.root) / "workspace"
    fetch.empty(workspace)
    sentence = sources.bring({"id": "", **config}, NoPortal(), str(workspace))
    if missing := wait_for_peers(config["peers"], PEERS_WAIT_S, print, lambda: False):
        text = f"{some_names(missing)} did not get an address within {PEERS_WAIT_S} s"
        raise PodError(codes.PEER_UNRESOLVED, text)
    return sentence


if __name__ == "__main__":
    given = files.read_paths(sys.argv[1:])
    sys.exit(fetch.finish(given, lambda: prepare(given, dict(os.environ))))
