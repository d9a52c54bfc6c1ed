"""An installation whose cluster goes on while its portal is stopped and started in another version."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.image import REFERENCES, definition
from deploy.testcluster.ports import free_port
from onebox.testing import OneBox, launch
from onebox.testing.kube import Kube
from onebox.testing.processes import naming
from portal.cluster import labels
from tests.e2e.portal import PASSWORD, ROOT, Portal
from tests.tools.waiting import wait_for
from tests.upgrade.old import Old

NODE_PORTS = "31700-31799"
POD_PORTAL_URL = "http://10.244.0.1:8000"
# JupyterLab alone: what the tests' notebooks have in place of TensorFlow's image, to be pulled soon.
LAB = "lab/jupyter:1"
_LEFT_OUT = ("tensor", "keras", "h5py", "grpcio", "libclang", "ml-dtypes", "pandas", "matplotlib")


def offer_lab(home: Path) -> None:
    """Makes `LAB` an image of the installation's embedded cluster."""
    folder = home / "onebox" / "node" / "images"
    folder.mkdir(parents=True, exist_ok=True)
    pinned = ROOT / "deploy/onebox/src/onebox/images/requirements/tensorflow-notebook.txt"
    lines = [li for li in pinned.read_text().splitlines() if not li.startswith(_LEFT_OUT)]
    (folder / "lab.txt").write_text("\n".join(lines) + "\n")
    (folder / "lab.toml").write_text(
        f'[[image]]\nreference = "{LAB}"\nrequirements = "lab.txt"\nenv = {{ SHELL = "/bin/bash" }}\n'
    )


# What later versions' launchers do first: their pods' own image.
_OFFER = "import pathlib, sys; from deploy.image import offer_image as offer; offer(pathlib.Path(sys.argv[1]))"


@dataclass
class Parts(Portal):
    """A cluster of the earlier version and a portal of either, each a process of its own."""

    box: OneBox | None = None

    def start_old(self, old: Old) -> None:
        """The cluster, then the earlier version's portal; the first one has one port for everybody."""
        self.checkout, self.python = old.checkout, old.python
        offer_lab(self.home)
        if old.version.has_pod_port:
            self.run("-c", _OFFER, str(self.home / "onebox" / "node"))
        else:
            self.port = self.pod_port
        box = ["--home", str(self.home / "onebox"), "--forward", str(self.pod_port)]
        box += ["--egress", "off", "--node-port-range", NODE_PORTS]
        self.box = launch(
            [old.python, "-m", old.version.cluster, *box],
            self.home / "onebox",
            self.home / "onebox.log",
            old.checkout,
        )
        self.run("-m", "deploy.prepare", "--demo")
        self.serve()

    def become_todays(self) -> None:
        """From now on commands are today's: what pods know stays, and people have a port of their own.

        The node can pull today's image, as docs/operations.md asks for before an upgrade.
        """
        images = self.home / "onebox" / "node" / "images"
        (images / "todays.toml").write_text(definition(REFERENCES[0]))
        self.checkout, self.python, self.port = ROOT, sys.executable, free_port()

    @property
    def settings(self) -> dict[str, str]:
        """The environment of every command; the first version knows no POD_PORT."""
        return {
            **{k: v for k, v in os.environ.items() if k != "DJANGO_SETTINGS_MODULE"},
            "HOMEPORT_HOME": str(self.home),
            "PORT": str(self.port),
            "POD_PORT": str(self.pod_port),
            "POD_PORTAL_URL": POD_PORTAL_URL,
            "HOMEPORT_KUBECONFIG": str(self.kubeconfig),
            "HOMEPORT_DEMO_PASSWORD": PASSWORD,
            **self.environment,
        }

    def run(self, *words: str, typed: str = "") -> str:
        """What a command of the version says, to which somebody types; it has to end well."""
        done = subprocess.run(
            [self.python, *words],
            cwd=self.checkout,
            env=self.settings,
            input=typed,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}"
        return done.stdout

    def serve(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [self.python, "manage.py", "serve"],
                cwd=self.checkout,
                env=self.settings,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        wait_for("the portal answers", self._answers, timeout_s=90)

    def end_portal(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == 0, self.tail()
        self.process = None

    def pods(self, namespace: str, owners: Container[str]) -> dict[str, tuple[str, dict[str, int]]]:
        """Name of each pod of these -> its uid, and how often each of its containers came again."""
        return {
            pod["metadata"]["name"]: (
                pod["metadata"]["uid"],
                {
                    status["name"]: status["restartCount"]
                    for kind in ("initContainerStatuses", "containerStatuses")
                    for status in pod["status"].get(kind, [])
                },
            )
            for pod in self.items(namespace)
            if pod["metadata"]["labels"].get(labels.OWNER) in owners
        }

    def items(self, namespace: str) -> list[dict[str, Any]]:
        return Kube(self.kubeconfig).items(f"/api/v1/namespaces/{namespace}/pods")


@contextmanager
def started(parts: Parts, old: Old) -> Iterator[Parts]:
    """Its cluster and its portal while the context is open; nothing is left of it."""
    parts.home.mkdir()
    try:
        parts.start_old(old)
        yield parts
    finally:
        parts.kill_everything()
        if parts.box is not None:
            parts.box.kill()
        shutil.rmtree(parts.home.parent, ignore_errors=True)


def kill_container(*texts: str) -> None:
    """Kills the processes that name all of these texts in command line or environment, once."""
    found = set.intersection(*(set(naming(text)) for text in texts))
    assert found, texts
    for pid in found:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
