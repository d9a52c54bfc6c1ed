"""Prepares the pod of what is served behind a gate: proves that its volumes can be used and brings the
program that starts it into the user's container.

Runs in an init container from Homeport's image. Ends with exit code 0, or with 65 and a reason in
the termination message, as `fetch.py` does.
"""

import contextlib
import os
import sys

if __name__ == "__main__":
    # A script has its own folder first on the path; the package's root is needed instead.
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from jobs.pod import fetch, files
from jobs.pod.errors import PodError
from jobs.pod.protocol import codes


class Preparation(NamedTuple):
    """What a pod needs.

    Attributes:
        launcher: modules; the first is started in the user's container, the others are what it imports.
        writable, readable: volumes that must be so.
    """

    launcher: Sequence[str]
    writable: Sequence[str]
    readable: Sequence[str]


# What manifests of before say by the kind alone.
_OF_KINDS = {
    "notebook": Preparation(
        ("start_jupyter", "files", "sampling", "nvml", "portal_client", "errors"),
        ("data", "log"),
        (),
    ),
    "tensorboard": Preparation(
        ("start_tensorboard", "portal_client", "errors", "files"), (), ("log",)
    ),
}


def read_preparation(environ: Mapping[str, str]) -> Preparation:
    """What the manifest asks for.

    Raises:
        KeyError: it does not say.
    """
    if "GATE_KIND" in environ:
        return _OF_KINDS[environ["GATE_KIND"]]
    return Preparation(
        environ["PREPARE_LAUNCHER"].split(),
        environ.get("PREPARE_WRITABLE", "").split(),
        environ.get("PREPARE_READABLE", "").split(),
    )


def link_log(root: Path) -> None:
    """Shows the log volume among the files of the data volume, as `log`; never over a file."""
    link = root / "data/log"
    if not os.path.lexists(link):
        with contextlib.suppress(FileExistsError):  # another notebook was quicker
            link.symlink_to("/log")


def prepare(wanted: Preparation, paths: files.Paths) -> str:
    """Does all of it; there is nothing to say of it.

    Raises:
        PodError: a volume cannot be used; with reason and sentence.
    """
    root = Path(paths.root)
    for volume in wanted.writable:
        fetch.probe(str(root / volume), volume)
    if {"data", "log"} <= set(wanted.writable):
        link_log(root)
    for volume in wanted.readable:
        try:
            os.listdir(root / volume)
        except OSError as error:
            text = f"the {volume} volume (/{volume}) cannot be read: {error.strerror or error}"
            raise PodError(codes.VOLUME_NOT_READABLE, text) from error
    fetch.write_program(root / "homeport/start.py", wanted.launcher)
    return ""


def main(arguments: list[str]) -> int:
    """The exit code of this process."""
    paths = files.read_paths(arguments)
    return fetch.finish(paths, lambda: prepare(read_preparation(os.environ), paths))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
