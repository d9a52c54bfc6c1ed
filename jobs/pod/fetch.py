"""Prepares the pod of a replica: volumes, the job's folder, the runner, and the user's code.

Runs in an init container from Homeport's image, so Python 3.11 and its standard library are there.
Ends with exit code 0, or with 65 and a reason in the termination message; a second run in the same
pod starts anew. Only here a pod may have a way to the internet, for code from a URL.
"""

import os
import sys

if __name__ == "__main__":
    # A script has its own folder first on the path; the package's root is needed instead.
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import contextlib
import errno
import shutil
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

from jobs.pod import files, sources
from jobs.pod.errors import PodError
from jobs.pod.portal_client import PortalClient
from jobs.pod.protocol import codes
from jobs.pod.protocol.notices import notice
from jobs.pod.protocol.placeholders import ReplicaContext
from jobs.pod.protocol.termination import TerminationMessage

PROBE_BYTES = 64 * 1024
RUNNER_MODULES = (
    "runner",
    "artifacts",
    "causes",
    "checkpoints",
    "diagnosis",
    "errors",
    "files",
    "mpi",
    "nvml",
    "peers",
    "portal_client",
    "processes",
    "program",
    "ratelimit",
    "redaction",
    "sampling",
    "scripts",
    "segments",
    "shipping",
    "startup",
    "tail",
    "volume",
)
MPI_MODULES = ("mpi_launch", "files", "processes")
TF_MODULES = ("tf_server", "files")


def protocol_modules() -> list[Path]:
    """The files of `jobs.pod.protocol`."""
    return sorted(Path(__file__).resolve().with_name("protocol").glob("*.py"))


def write_program(path: Path, modules: Sequence[str]) -> None:
    """One of our programs as one file: a zip archive, which Python runs like a script.

    What portal and pods agree on goes along with each.

    See https://docs.python.org/3/library/zipapp.html. Stored, not compressed: the user's Python may
    have been built without zlib.

    Args:
        path: the file to write.
        modules: of jobs.pod; the first has the `main` that gives the exit code.
    """
    here = Path(__file__).resolve().parent
    # By this line mpirun can execute `mpi_launch`.
    path.write_bytes(b"#!/usr/bin/env python3\n")
    with zipfile.ZipFile(path, "a", zipfile.ZIP_STORED) as archive:
        for path_of_module in (*(here / f"{name}.py" for name in modules), *protocol_modules()):
            inside = path_of_module.relative_to(here)
            archive.writestr(f"jobs/pod/{inside}", path_of_module.read_bytes())
        for package in ("jobs", "jobs/pod"):
            archive.writestr(f"{package}/__init__.py", "")
        archive.writestr(
            "__main__.py",
            f"import sys\n\nfrom jobs.pod.{modules[0]} import main\n\nsys.exit(main(sys.argv[1:]))\n",
        )
    path.chmod(0o755)


def probe(folder: str, what: str) -> None:
    """Proves that a volume can be written, before hours of training find out that it cannot.

    Raises:
        PodError: it is full, or not writable; in words.
    """
    path = os.path.join(folder, f".homeport-probe-{os.getpid()}-{os.urandom(4).hex()}")
    try:
        try:
            with open(path, "xb") as file:
                file.write(bytes(PROBE_BYTES))
                file.flush()
                os.fsync(file.fileno())
        finally:
            files.remove(path)
    except OSError as error:
        raise volume_error(error, what, folder) from error


def volume_error(error: OSError, what: str, folder: str) -> PodError:
    """The words for a volume that cannot be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return PodError(
            codes.VOLUME_FULL,
            f"the {what} volume ({folder}) is full; remove files from it, for example in a notebook",
        )
    return PodError(
        codes.VOLUME_NOT_WRITABLE,
        f"the {what} volume ({folder}) cannot be written: {error.strerror or error}; "
        "an admin has to look at it",
    )


def make_folders(context: ReplicaContext) -> None:
    """Makes the job's folders, with a place for artifacts and one for our own notes."""
    try:
        for folder in (context.log_dir, context.artifacts_dir, context.state_folder):
            os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise volume_error(error, "log", context.log_dir) from error
    # What may run next to us as another user of the same group has to write here too. Only who
    # made a folder may say so, and did.
    for folder in (context.log_dir, context.own_folder):
        with contextlib.suppress(PermissionError):
            os.chmod(folder, 0o2775)


def empty(folder: Path) -> None:
    """Removes what an earlier run left in the working directory."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def prepare(paths: files.Paths, environ: dict[str, str]) -> str:
    """Does all of it; returns a sentence about the code.

    Raises:
        PodError: with reason and sentence.
    """
    config = paths.read_config()
    context = files.read_context(config, environ)
    root = Path(paths.root)
    probe(context.data_dir, "data")
    probe(os.path.dirname(os.path.dirname(context.log_dir)) or "/", "log")
    make_folders(context)
    write_program(root / "homeport/runner.py", RUNNER_MODULES)
    write_program(root / "homeport/mpi_launch", MPI_MODULES)
    write_program(root / "homeport/tf_server.py", TF_MODULES)
    workspace = root / "workspace"
    empty(workspace)
    secret_dir = str(root / "run/git-secret")
    portal = PortalClient(environ["HOMEPORT_URL"], paths.read_token())
    try:
        return sources.bring({**config, "secret_dir": secret_dir}, portal, str(workspace))
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            text = "the code does not fit on the node's disk"
            raise PodError(codes.VOLUME_FULL, text) from error
        raise


def finish(paths: files.Paths, work: Callable[[], str]) -> int:
    """Does the work of an init container, which has a sentence to say or none; the exit code.

    A failure is told in the log and in the termination message.
    """
    try:
        sentence = work()
    except PodError as error:
        reason, text = error.reason, str(error)
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = codes.CONFIGURATION_BROKEN
        text = f"the pod could not be prepared: {type(error).__name__}: {error}"
    else:
        sys.stdout.write(notice(sentence) if sentence else "")
        return 0
    sys.stdout.write(notice(text))
    files.write_message(paths.message, TerminationMessage(reason, text, codes.EXIT_PREPARATION))
    return codes.EXIT_PREPARATION


def main(arguments: list[str]) -> int:
    """The exit code of this process."""
    paths = files.read_paths(arguments)
    return finish(paths, lambda: prepare(paths, dict(os.environ)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
