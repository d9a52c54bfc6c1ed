"""The launcher refuses in sentences, and asks a cluster only what it needs to know."""

import base64
import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from deploy.child import Child
from deploy.probe import Probe
from deploy.run import Launcher, Plan, warn_of_a_full_disk
from deploy.testcluster.ports import free_port
from tests.tools.waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]


def launch(home: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """A launcher that is expected to end by itself."""
    return subprocess.run(
        [sys.executable, "-m", "deploy.run"],
        cwd=ROOT,
        env={**os.environ, "HOMEPORT_HOME": str(home), **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def refused(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    return done.stderr


def test_a_taken_port_names_the_way_out(tmp_path: Path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        words = refused(launch(tmp_path, PORT=str(port)))
    assert f"port {port}" in words
    assert f"make run PORT={port + 2}" in words
    assert not (tmp_path / "homeport.sqlite3").exists()


WRONG = [
    ({"HOMEPORT_KUBECONFIG": "/elsewhere", "POD_PORTAL_URL": ""}, ["POD_PORTAL_URL is empty"]),
    ({"PORT": "eighty"}, ["PORT='eighty'"]),
    ({"PORT": "0"}, ["PORT=0 is no port"]),
    ({"PORT": "-1"}, ["PORT=-1 is no port"]),
    ({"PORT": "70000"}, ["PORT=70000 is no port"]),
    ({"POD_LISTEN": "192.0.2.1"}, ["POD_LISTEN=192.0.2.1 cannot be reached by pods"]),
    ({"PORT": "8000", "POD_PORT": "8000"}, ["POD_PORT=8000 is PORT too", "set another one"]),
]


@pytest.mark.parametrize(("environ", "words"), WRONG, ids=range(len(WRONG)))
def test_a_setting_that_cannot_be_is_named(
    tmp_path: Path, environ: dict[str, str], words: list[str]
):
    said = refused(launch(tmp_path, **environ))
    assert [word for word in words if word not in said] == []


def test_a_second_launcher_on_one_home_names_the_first(tmp_path: Path):
    with (tmp_path / "run.lock").open("w") as lock:
        lock.write("4711\n")
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        words = refused(launch(tmp_path))
    assert "already runs" in words
    assert "process 4711" in words


_ANSWERS = """
import http.server, sys
class Here(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
    def log_message(self, *_): pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Here).serve_forever()
"""


def test_a_portal_that_stands_still_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOMEPORT_HOME", str(tmp_path))
    monkeypatch.setenv("PORT", str(free_port()))
    launcher = Launcher(Plan.from_environment())
    command = [sys.executable, "-c", _ANSWERS, str(launcher.plan.port)]
    portal = launcher.portal = Child("portal", command, dict(os.environ), ROOT)
    portal.start()
    try:
        monkeypatch.setattr("deploy.run._SILENCE_S", 3.0)
        wait_for("it answers", lambda: launcher._end_a_silent_portal() or launcher.heard_at)
        assert portal.process is not None
        portal.process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        launcher._end_a_silent_portal()
        assert portal.is_running  # one answer that does not come says nothing
        wait_for("it is ended", lambda: launcher._end_a_silent_portal() or not portal.is_running)
        assert time.monotonic() - began > 2.5
    finally:
        portal.kill()
        portal.process.wait()


def test_too_little_disk_is_told_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DISK_RESERVE_BYTES", "0")
    warn_of_a_full_disk(tmp_path)
    assert not capsys.readouterr().out
    monkeypatch.setenv("DISK_RESERVE_BYTES", str(1 << 60))  # more than any disk has
    warn_of_a_full_disk(tmp_path)
    told = " ".join(capsys.readouterr().out.split())
    assert "less than the reserve of 1,099,511,627,776 MiB (DISK_RESERVE_BYTES)" in told
    assert "new trainings are refused until there is more" in told


def kubeconfig(folder: Path, **cluster: str) -> Path:
    path = folder / "kubeconfig"
    path.write_text(
        yaml.safe_dump(
            {
                "current-context": "here",
                "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [
                    {"name": "c", "cluster": {"server": "https://127.0.0.1:1", **cluster}}
                ],
                "users": [{"name": "u", "user": {"token": "t"}}],
            }
        )
    )
    return path


def test_an_authority_is_read_from_the_file_or_beside_it(tmp_path: Path):
    data = base64.b64encode(b"PEM").decode()
    inline = Probe.of(kubeconfig(tmp_path, **{"certificate-authority-data": data}))
    (tmp_path / "ca.crt").write_text("PEM")
    beside = Probe.of(kubeconfig(tmp_path, **{"certificate-authority": "ca.crt"}))
    assert inline == beside == Probe("https://127.0.0.1:1", "PEM", "t")


@pytest.mark.parametrize("text", [None, "", "clusters: [", "clusters: []", "current-context: x"])
def test_a_kubeconfig_that_is_not_whole_yet_is_none(tmp_path: Path, text: str | None):
    path = tmp_path / "kubeconfig"
    if text is not None:
        path.write_text(text)
    assert Probe.of(path) is None


def test_accounts_of_another_cluster_are_not_tried_on_the_embedded_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("WEB_KUBECONFIG", "/elsewhere/web")
    monkeypatch.setenv("PURGE_KUBECONFIG", "/elsewhere/purge")
    plan = Plan(
        home=tmp_path,
        port=8000,
        address="127.0.0.1",
        pod_port=8001,
        pod_address="127.0.0.1",
        url="http://localhost:8000",
        kubeconfig="",
    )
    assert not {"WEB_KUBECONFIG", "PURGE_KUBECONFIG"} & plan.portal().environ.keys()
    given = replace(plan, kubeconfig="/elsewhere/reconciler")
    assert given.portal().environ["WEB_KUBECONFIG"] == "/elsewhere/web"
