"""Two reconcilers on one database whose connections are cut: the one that waits takes over."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from deploy.testcluster.ports import free_port
from tests.portal.postgres_server import postgres_server
from tests.tools.waiting import wait_for

ROOT = Path(__file__).resolve().parents[3]
TAKE_OVER_S = 20.0


def kubeconfig_of_nobody(path: Path) -> Path:
    """Leads to a cluster that does not answer: the lease is all that there is to do."""
    named = {"name": "none"}
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "none",
                "clusters": [{**named, "cluster": {"server": "http://127.0.0.1:9"}}],
                "users": [{**named, "user": {"token": "none"}}],
                "contexts": [{**named, "context": {"cluster": "none", "user": "none"}}],
            }
        )
    )
    return path


@contextmanager
def process(folder: Path, name: str, *arguments: str, **environ: str) -> Iterator[int]:
    """`manage.py ...` while the block runs; its process id."""
    with (folder / f"{name}.log").open("wb") as log:
        started = subprocess.Popen(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env={**os.environ, "DJANGO_SETTINGS_MODULE": "portal.settings", **environ},
            stdout=log,
            stderr=log,
        )
    try:
        yield started.pid
    finally:
        started.kill()
        started.wait()


def test_one_whose_connection_was_cut_while_it_waited(tmp_path: Path) -> None:
    with postgres_server() as database, ExitStack() as stack:
        environ = {
            "DATABASE_URL": database.url,
            "HOMEPORT_HOME": str(tmp_path / "home"),
            "HOMEPORT_KUBECONFIG": str(kubeconfig_of_nobody(tmp_path / "kubeconfig")),
        }
        with process(tmp_path, "migrate", "migrate", **environ) as pid:
            os.waitpid(pid, 0)

        def start(name: str) -> int:
            port = str(free_port())
            return stack.enter_context(
                process(tmp_path, name, "serve", "--no-web", PORT=port, **environ)
            )

        def holder() -> int:
            name = database.one("SELECT coalesce(max(holder), '') FROM jobs_reconcilerlease")
            return int(name.split("/")[-2]) if name else 0

        active = start("active")
        wait_for("the first one works", lambda: holder() == active, timeout_s=60)
        waiting = start("waiting")
        wait_for("both have a connection", lambda: database.connections() >= 2, timeout_s=60)
        database.cut_all()
        log = tmp_path / "waiting.log"
        wait_for(
            "the waiting one asked again",
            lambda: database.connections() >= 2 or "cannot be read" in log.read_text(),
        )
        os.kill(active, 9)
        wait_for("it takes over", lambda: holder() == waiting, timeout_s=TAKE_OVER_S)
