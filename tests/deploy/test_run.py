"""The launcher refuses in sentences, and asks a cluster only what it needs to know."""

import base64
import fcntl
import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from deploy.probe import Probe
from deploy.run import Plan

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
    assert f"make run PORT={port + 1}" in words
    assert not (tmp_path / "homeport.sqlite3").exists()


def test_a_second_launcher_on_one_home_names_the_first(tmp_path: Path):
    with (tmp_path / "run.lock").open("w") as lock:
        lock.write("4711\n")
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        words = refused(launch(tmp_path))
    assert "already runs" in words
    assert "process 4711" in words


def test_a_port_that_is_no_number_is_named(tmp_path: Path):
    assert "PORT='eighty'" in refused(launch(tmp_path, PORT="eighty"))


@pytest.mark.parametrize("port", ["0", "-1", "70000"])
def test_a_number_that_is_no_port_is_named(tmp_path: Path, port: str):
    assert f"PORT={port} is no port" in refused(launch(tmp_path, PORT=port))


def test_an_address_that_pods_cannot_reach_is_refused(tmp_path: Path):
    words = refused(launch(tmp_path, LISTEN="192.0.2.1"))
    assert "LISTEN=192.0.2.1 cannot be reached by pods" in words


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
    plan = Plan(home=tmp_path, port=8000, address="127.0.0.1", kubeconfig="")
    assert not {"WEB_KUBECONFIG", "PURGE_KUBECONFIG"} & plan.portal().environ.keys()
    given = replace(plan, kubeconfig="/elsewhere/reconciler")
    assert given.portal().environ["WEB_KUBECONFIG"] == "/elsewhere/web"
