# ruff: noqa: UP006, UP035 (the syntax of Python 3.6: images bring their own Python)
"""Starts JupyterLab in a notebook's pod, on the loopback address, behind the gate.

The token is read from a file by JupyterLab's own configuration: it is in no argument, no variable
and no address. JupyterLab takes this process over, so signals and the exit code are its own. A
child of it samples what it uses, and ends it when a volume is gone: the next container has it again,
or waits for it.
"""

import importlib.util
import os
import signal
import sys
import time
from typing import Dict, List

from jobs.pod.files import Paths, Volumes, find_own_packages, read_paths
from jobs.pod.protocol import codes

CONFIG = """\
import os

c = get_config()
# A pod's user is never root, but in a plain container there may be no other, without its rights.
c.ServerApp.allow_root = os.geteuid() == 0
with open({token_file!r}) as file:
    c.IdentityProvider.token = file.read().strip()
# New with each start: a cookie of an earlier one is worth nothing.
c.ServerApp.cookie_secret = os.urandom(32)
c.ServerApp.ip = "127.0.0.1"
c.ServerApp.port = {port!r}
c.ServerApp.port_retries = 0
c.ServerApp.base_url = {prefix!r}
# The browser's Host is the node's; the gate has checked it.
c.ServerApp.allow_remote_access = True
c.ServerApp.open_browser = False
c.ServerApp.root_dir = {root_dir!r}
c.ServerApp.terminals_enabled = True
# Its trash would be on another file system, which is lost with the pod.
c.FileContentsManager.delete_to_trash = False
c.LabApp.check_for_updates_class = "jupyterlab.NeverCheckForUpdate"
c.LabApp.news_url = None
"""


def config_text(environ: Dict[str, str], paths: Paths) -> str:
    """JupyterLab's configuration, as Python."""
    return CONFIG.format(
        token_file=os.path.join(paths.root, "run/homeport/app_token"),
        port=int(environ["APP_PORT"]),
        prefix=environ["APP_PREFIX"],
        root_dir=os.path.join(paths.root, "data"),
    )


def command(python: str, config: str, environ: Dict[str, str]) -> List[str]:
    """What runs JupyterLab with this configuration file and no other.

    Without the packages that were installed in the notebook, which its kernels have: none of them keeps it
    from starting.
    """
    found = importlib.util.find_spec("jupyterlab")
    base = environ.get("PYTHONUSERBASE")
    is_own = bool(base and found and (found.origin or "").startswith(os.path.join(base, "")))
    without = ["-s"] if base and not is_own else []
    return [python, *without, "-m", "jupyterlab", "--config=" + config]


def keep_quiet(settings: str) -> None:
    """JupyterLab does not ask at each start whether it may fetch news; who wants them says so."""
    folder = os.path.join(settings, "@jupyterlab", "apputils-extension")
    path = os.path.join(folder, "notification.jupyterlab-settings")
    try:
        os.makedirs(folder, exist_ok=True)
        with open(path, "x") as file:
            file.write('{"fetchNews": "false"}\n')
    except OSError:
        pass  # chosen before, or a full volume: then it asks


def watch(environ: Dict[str, str], paths: Paths, volumes: Volumes) -> None:
    """A child process samples what the notebook uses, and whether its volumes are there, for as long as it lives.

    Manifests of before ask for none.
    """
    try:
        # What the pod was given by a manifest of before has no such module.
        from jobs.pod import portal_client, sampling

        url, path = environ["APP_USAGE_URL"], environ["APP_USAGE_PATH"]
        with open(os.path.join(paths.root, "run/homeport/usage_token")) as file:
            portal = portal_client.PortalClient(url, file.read().strip())
        notebook = os.getpid()
        if os.fork():
            return
    except (ImportError, KeyError, OSError):
        return
    try:
        os.setsid()  # Ctrl-C of a terminal is not for it
        sampling.Sampler(
            lambda body: portal.post(path, body),
            notebook,
            volumes.folders,
        ).start()
        volumes.watch(lambda: os.kill(notebook, signal.SIGTERM))
        while os.getppid() == notebook:
            time.sleep(1.0)
    finally:
        os._exit(0)


def main(arguments: List[str]) -> int:
    """Does not return when all is well."""
    paths = read_paths(arguments)
    volumes = paths.volumes("data", "log")
    if not volumes.wait():
        return codes.EXIT_PREPARATION
    if importlib.util.find_spec("jupyterlab") is None:
        sys.stderr.write("The image has Python but no JupyterLab.\n")
        return codes.EXIT_NO_PROGRAM
    environ = dict(os.environ)
    path = os.path.join(environ["HOME"], "jupyter_lab_of_homeport.py")
    with open(path, "w") as file:
        file.write(config_text(environ, paths))
    # The same look in all of a person's notebooks, and after another start.
    settings = os.path.join(paths.root, "data/.jupyter/lab/user-settings")
    environ.setdefault("JUPYTERLAB_SETTINGS_DIR", settings)
    keep_quiet(environ["JUPYTERLAB_SETTINGS_DIR"])
    if "APP_PACKAGES" in environ:  # manifests of before keep nothing over a stop
        environ.setdefault("PYTHONUSERBASE", environ["APP_PACKAGES"])
    find_own_packages(environ)
    words = command(sys.executable, path, environ)
    sys.stdout.flush()
    watch(environ, paths, volumes)
    os.execve(words[0], words, environ)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
