# ruff: noqa: UP006, UP035 (the syntax of Python 3.6: images bring their own Python)
"""Which replica a pod runs, where its files are, and whether they are still there: configuration, token, termination
message, volumes.
"""

import contextlib
import errno
import json
import os
import sys
import threading
import time
from typing import Any, Callable, Dict, List, NamedTuple

from jobs.pod.protocol import codes
from jobs.pod.protocol.notices import notice
from jobs.pod.protocol.placeholders import ReplicaContext
from jobs.pod.protocol.termination import TerminationMessage, encode

Config = Dict[str, Any]
ROOM_BYTES = 4096
# How often volumes are looked at, and how long one is away before it is given up: as long as servers take that
# are started again. The mount of a client that ended never comes back in a pod that has it.
LOOK_S, GONE_S = 10.0, 120.0
_GONE = (errno.ENOTCONN, errno.ESTALE)


def read_context(config: Config, environ: Dict[str, str]) -> ReplicaContext:
    """The replica of this pod; PS pods are told their index, worker pods get it from their Job."""
    role, told = environ["HOMEPORT_ROLE"], environ.get("HOMEPORT_INDEX")
    index = int(told or environ.get("JOB_COMPLETION_INDEX") or 0)
    if config.get("indexes") and not told:  # of an array of which some run
        index = config["indexes"][index]
    return ReplicaContext(
        role=role,
        task_index=index,
        hosts=config["hosts"],
        data_dir=str(config.get("data_dir") or "/data"),
        log_dir=config.get("log_dir") or config["folder"],
        attempt=int(config["attempt"]),
        pod_uid=environ.get("HOMEPORT_POD_UID") or "00000000",
        role_count=config.get("counts", {}).get(role, 0),
        folder=config["folder"],
        is_sparse=config.get("sparse_spec", False),
        deadline_at=config.get("deadline_at", ""),
    )


def grace_of(config: Config) -> float:
    """Seconds from the request to end to SIGKILL by the node."""
    return float(config.get("grace_s") or 120)


def kill_after_s(grace_s: float) -> float:
    """When what ignores the request is killed, so that its log still gets out."""
    return grace_s - min(15, grace_s / 4)


class Paths(NamedTuple):
    """Where the pod keeps its files; `root` is another one in tests."""

    root: str = "/"

    def read_config(self) -> Config:
        with open(os.path.join(self.root, "etc/homeport/job.json"), encoding="utf-8") as file:
            config = json.load(file)
        if not isinstance(config, dict):
            raise TypeError("job.json holds no object")
        if config.get("private"):  # absent in what older versions wrote
            path = os.path.join(self.root, "run/homeport", config["private"])
            with open(path, encoding="utf-8") as file:
                config.update(json.load(file))
        return config

    def read_token(self) -> str:
        with open(os.path.join(self.root, "run/homeport/token")) as file:
            return file.read().strip()

    @property
    def message(self) -> str:
        return os.path.join(self.root, "dev/termination-log")

    @property
    def secrets(self) -> str:
        return os.path.join(self.root, "secrets")

    def volumes(self, *names: str) -> "Volumes":
        return Volumes({name: os.path.join(self.root, name) for name in names}, self.message)


def read_paths(arguments: List[str]) -> Paths:
    """`--root DIR` puts everything below DIR; without it the pod's own root is meant."""
    return Paths(arguments[1]) if arguments[:1] == ["--root"] else Paths()


def find_own_packages(environ: Dict[str, str]) -> None:
    """Makes what pip installs for the user found: its programs by PATH, its packages also by what runs already.

    Where images let nobody else install, pip does it there, and each Python looks at its own start whether the
    folder is there: https://docs.python.org/3/library/site.html
    """
    base = environ.get("PYTHONUSERBASE") or os.path.join(environ.get("HOME", "/"), ".local")
    programs = os.path.join(base, "bin")
    environ["PATH"] = os.pathsep.join((programs, environ.get("PATH", os.defpath)))
    version = "python{}.{}".format(*sys.version_info[:2])
    with contextlib.suppress(OSError):  # a full volume: pip says so where it is used
        os.makedirs(os.path.join(base, "lib", version, "site-packages"), exist_ok=True)


def write_whole(path: str, text: str) -> None:
    """Writes a small file so that it is there whole and durably, or not at all.

    Until then it has a hidden name: half of a notebook is nothing to open.

    Raises:
        OSError: it cannot be written.
    """
    folder, name = os.path.split(path)
    half = os.path.join(folder, f".{name}.tmp")
    with open(half, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.rename(half, path)


def keep_room(path: str, text: str) -> None:
    """Makes a file of some text and blanks that `write_in_room` fills, also where the volume is full by then.

    Raises:
        OSError: it cannot be written.
    """
    with open(path, "w") as file:
        file.write(text.ljust(ROOM_BYTES))


def write_in_room(path: str, text: str) -> None:
    """Writes a small file of JSON, durably; in its own bytes where there is no room for a new one.

    Raises:
        OSError: it cannot be written.
    """
    try:
        write_whole(path, text)
    except OSError:
        with open(path, "r+") as file:
            file.write(text.ljust(ROOM_BYTES))
            file.flush()
            os.fsync(file.fileno())


def write_message(path: str, message: TerminationMessage) -> None:
    """Leaves the termination message; without it the exit code tells what it can."""
    try:
        with open(path, "wb") as file:
            file.write(encode(message).encode())
    except OSError as error:
        sys.stderr.write(notice(f"no termination message: {error}"))


def remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def mark_uploaded(folders: List[str]) -> None:
    """Says on the volume that nothing of these folders is left to ship."""
    for folder in folders:
        try:
            write_whole(os.path.join(folder, "uploaded"), f"{time.time():f}\n")
        except OSError as error:
            # The portal knows; a rescue pod that is started all the same finds nothing to do.
            sys.stderr.write(notice(f"{folder} cannot be marked: {error.strerror}"))


class MountWatch(threading.Thread):
    """Tells once, in words, that a volume is gone: the client of its file system ended, or lost all its servers."""

    def __init__(
        self, volumes: Dict[str, str], tell: Callable[[str], None], *, until_there: bool = False
    ) -> None:
        """
        Args:
            volumes: their folders by name.
            until_there: it ends, without a word, when all of them answer.
        """
        # A thread of its own: a look at a file system of the network may never return.
        super().__init__(name="mounts", daemon=True)
        self._volumes = volumes
        self._tell = tell
        self._until_there = until_there
        self._since: Dict[str, float] = {}  # when those that are away were first found so

    def run(self) -> None:
        while True:
            words = self.look(time.monotonic())
            if words:
                self._tell(words)
            if words or (self._until_there and not self._since):
                return
            time.sleep(LOOK_S)

    def look(self, now: float) -> str:
        """What is told of a volume that has been gone for `GONE_S`; empty while there is none."""
        for name, folder in self._volumes.items():
            try:
                os.statvfs(folder)
            except OSError as error:
                if error.errno in _GONE:
                    if now - self._since.setdefault(name, now) >= GONE_S:
                        return f"the {name} volume is gone ({folder}): {error.strerror}"
                    continue
            self._since.pop(name, None)
        return ""


class Volumes(NamedTuple):
    """The volumes without which a program is not to be started, nor to go on.

    Attributes:
        folders: by name.
        message: where the termination message is left when one is gone.
    """

    folders: Dict[str, str]
    message: str

    def wait(self) -> bool:
        """Waits for those that are away; False: one is gone, as the termination message says."""
        told: List[str] = []
        looks = MountWatch(self.folders, told.append, until_there=True)
        looks.start()
        looks.join(LOOK_S)
        if looks.is_alive():
            names = " and ".join(
                f"the {name} volume ({path})" for name, path in self.folders.items()
            )
            sys.stderr.write(notice(f"waits for {names}, without an answer so far"))
            sys.stderr.flush()
            looks.join(GONE_S)
            if looks.is_alive():  # it hangs, where another one is an error
                told.append(f"no answer from {names} in {GONE_S:.0f} s")
        for words in told:
            self._leave(words)
        return not told

    def watch(self, end: Callable[[], None]) -> None:
        """Calls `end`, from a thread of its own, when one is gone."""

        def on_gone(words: str) -> None:
            self._leave(words)
            end()

        MountWatch(self.folders, on_gone).start()

    def _leave(self, words: str) -> None:
        write_message(self.message, TerminationMessage(codes.VOLUME_LOST, words))
