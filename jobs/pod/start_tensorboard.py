# ruff: noqa: UP006, UP035, UP045 (the syntax of Python 3.6: images bring their own Python)
"""Runs TensorBoard in its pod, on the loopback address, behind the gate, and tells the portal how
many event files there are: the portal cannot look into volumes, and "no event files yet" is the one
thing that people ask of an empty TensorBoard.

Copied into the pod together with what it imports. Ends with TensorBoard's own exit code, and ends it when the log
volume is gone: the next container has it again, or waits for it.
"""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any, Dict, List, Optional

from jobs.pod.errors import PortalError
from jobs.pod.files import read_paths
from jobs.pod.portal_client import PortalClient
from jobs.pod.protocol import codes

LOG_ROOT = "/log"
LOOK_S = 15.0
MOST_COUNTED = 1000
MOST_ENTRIES = 200_000  # a volume full of checkpoints is not walked for ever


def count_event_files(folders: List[str], *, most: int = MOST_COUNTED) -> int:
    """How many files TensorBoard would read, up to `most`; folders that are missing hold none.

    It takes every file with `tfevents` in its name:
    https://github.com/tensorflow/tensorboard/blob/master/tensorboard/backend/event_processing/io_wrapper.py
    """
    found = entries = 0
    for folder in folders:
        for _, _, names in os.walk(folder):
            found += sum("tfevents" in name for name in names)
            entries += 1 + len(names)
            if found >= most or entries >= MOST_ENTRIES:
                return min(found, most)
    return found


def command(python: str, environ: Dict[str, str], log_dirs: List[Dict[str, Any]]) -> List[str]:
    """What runs TensorBoard."""
    words = [
        python,
        "-m",
        "tensorboard.main",
        "--host=127.0.0.1",
        "--port=" + environ["APP_PORT"],
        "--path_prefix=" + environ["APP_PREFIX"].rstrip("/"),
        # A training that goes on is shown as it goes on.
        "--reload_interval=5",
    ]
    if len(log_dirs) > 1:
        spec = ",".join("{}:{}".format(row["title"], row["path"]) for row in log_dirs)
        return [*words, "--logdir_spec=" + spec]
    return [*words, "--logdir=" + (log_dirs[0]["path"] if log_dirs else LOG_ROOT)]


class EventFileReporter(threading.Thread):
    """Tells the portal each changed count; tries again at the next look when it is not heard."""

    def __init__(self, portal: PortalClient, path: str, start: int, folders: List[str]) -> None:
        super().__init__(name="event files", daemon=True)
        self._portal = portal
        self._path = path
        self._start_count = start
        self._folders = folders
        self._told: Optional[int] = None

    def look(self) -> bool:
        """One look; False when the portal wants to hear no more of us."""
        count = count_event_files(self._folders)
        if count == self._told:
            return True
        try:
            self._portal.post(self._path, {"start": self._start_count, "count": count})
        except PortalError as error:
            return not error.is_final
        self._told = count
        return True

    def run(self) -> None:
        while self.look():
            time.sleep(LOOK_S)


def main(arguments: List[str]) -> int:
    """The exit code of TensorBoard."""
    paths = read_paths(arguments)
    volumes = paths.volumes("log")
    if not volumes.wait():
        return codes.EXIT_PREPARATION
    if importlib.util.find_spec("tensorboard") is None:
        sys.stderr.write("The image has Python but no TensorBoard.\n")
        return codes.EXIT_NO_PROGRAM
    environ = dict(os.environ)
    log_dirs = json.loads(environ["APP_LOG_DIRS"])
    with open(os.path.join(paths.root, "run/homeport/portal_token")) as file:
        portal = PortalClient(environ["HOMEPORT_URL"], file.read().strip())
    path = "services/{}/event-files/".format(environ["APP_SERVICE_ID"])
    folders = [row["path"] for row in log_dirs] or [LOG_ROOT]
    child = subprocess.Popen(command(sys.executable, environ, log_dirs))

    def forward(number: int, _frame: Any) -> None:
        child.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, forward)

    volumes.watch(child.terminate)
    EventFileReporter(portal, path, int(environ["APP_START"]), folders).start()
    code = child.wait()
    return code if code >= 0 else codes.SIGNAL_BASE - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
