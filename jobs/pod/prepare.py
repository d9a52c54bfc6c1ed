"""Prepares the pod of a notebook or TensorBoard: proves that its volumes can be used and brings the
program that starts JupyterLab or TensorBoard into the user's container.

Runs in an init container from Homeport's image. Ends with exit code 0, or with 65 and a reason in
the termination message, as `fetch.py` does.
"""

import contextlib
import os
import sys

if __name__ == "__main__":
    # A script has its own folder first on the path; the package's root is needed instead.
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from pathlib import Path

from jobs.pod import fetch, files
from jobs.pod.errors import PodError
from jobs.pod.protocol import codes
from jobs.pod.protocol.notices import notice
from jobs.pod.protocol.termination import TerminationMessage

# The first is started in the user's container; the others are what it imports.
LAUNCHERS = {
    "notebook": ("start_jupyter", "files"),
    "tensorboard": ("start_tensorboard", "portal_client", "errors", "files"),
}


def link_log(root: Path) -> None:
    """Shows the log volume among the files of the data volume, as `log`; never over a file."""
    link = root / "data/log"
    if not os.path.lexists(link):
        with contextlib.suppress(FileExistsError):  # another notebook was quicker
            link.symlink_to("/log")


def prepare(kind: str, paths: files.Paths) -> None:
    """Does all of it.

    Raises:
        PodError: a volume cannot be used; with reason and sentence.
    """
    root = Path(paths.root)
    if kind == "notebook":
        fetch.probe(str(root / "data"), "data")
        fetch.probe(str(root / "log"), "log")
        link_log(root)
    else:
        try:
            os.listdir(root / "log")
        except OSError as error:
            text = f"the log volume (/log) cannot be read: {error.strerror or error}"
            raise PodError(codes.VOLUME_NOT_READABLE, text) from error
    fetch.write_program(root / "homeport/start.py", LAUNCHERS[kind])


def main(arguments: list[str]) -> int:
    """The exit code of this process."""
    paths = files.read_paths(arguments)
    try:
        prepare(os.environ["GATE_KIND"], paths)
    except PodError as error:
        reason, text = error.reason, str(error)
    except (OSError, KeyError) as error:
        reason = codes.CONFIGURATION_BROKEN
        text = f"the pod could not be prepared: {type(error).__name__}: {error}"
    else:
        return 0
    sys.stdout.write(notice(text))
    files.write_message(paths.message, TerminationMessage(reason, text, codes.EXIT_PREPARATION))
    return codes.EXIT_PREPARATION


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
