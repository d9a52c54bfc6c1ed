"""The program as its users start it: credentials, restarts, kills, its parent's death."""

from __future__ import annotations

import json
import os
import select
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.tools.fsyncs import watched

from .conftest import DEADLINE_S, Obj, Process


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Process]:
    made = Process(tmp_path)
    made.start()
    yield made
    if made.child is not None:
        made.stop(signal.SIGKILL)


def run_to_its_end(*options: str) -> subprocess.CompletedProcess[str]:
    """Start the program with options that it must refuse."""
    return subprocess.run(
        [sys.executable, "-m", "onebox.api", *options],
        check=False,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )


def call(process: Process, path: str, body: Obj | None = None, file: str = "kubeconfig") -> Any:
    address, token, context = process.credentials(file)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{address}{path}", data, headers)
    with urllib.request.urlopen(request, context=context, timeout=DEADLINE_S) as reply:
        return json.load(reply)


MAPS = "/api/v1/namespaces/default/configmaps"


def test_credentials_are_for_the_owner_alone_and_work_for_both_users(own: Process) -> None:
    files = [own.kubeconfig, own.home / "node.kubeconfig", own.home / "api" / "state.db"]
    files += list((own.home / "api" / "pki").iterdir())
    for file in files:
        assert file.stat().st_mode & 0o077 == 0, file
    for file in ("kubeconfig", "node.kubeconfig"):
        assert len(call(own, "/api/v1/namespaces", file=file)["items"]) == 4
    address, _token, _context = own.credentials()
    assert address.startswith("https://127.0.0.1:")
    tokens = {own.credentials(file)[1] for file in ("kubeconfig", "node.kubeconfig")}
    assert len(tokens) == 2


def test_what_it_confirmed_is_on_disk(own: Process) -> None:
    """A power cut after the answer takes nothing of it away."""
    assert own.child is not None
    with watched(own.child.pid, own.home) as fsyncs:
        for number in range(3):
            before = fsyncs.of("state.db")
            call(own, MAPS, {"metadata": {"name": f"kept-{number}"}, "data": {"a": "b"}})
            assert fsyncs.of("state.db") > before, number


def test_it_speaks_tls_only_and_shows_a_certificate_of_its_own_authority(own: Process) -> None:
    address, token, _context = own.credentials()
    request = urllib.request.Request(f"{address}/version")
    with pytest.raises(urllib.error.URLError, match="certificate verify failed"):
        urllib.request.urlopen(request, context=ssl.create_default_context(), timeout=5)
    plain = address.replace("https", "http")
    request = urllib.request.Request(plain, headers={"Authorization": f"Bearer {token}"})
    with pytest.raises((urllib.error.URLError, ConnectionError)):
        urllib.request.urlopen(request, timeout=5)


def test_a_restart_keeps_port_credentials_and_objects(own: Process) -> None:
    before = own.credentials()[:2]
    made = call(own, MAPS, {"metadata": {"name": "kept"}})
    assert own.stop() == 0
    own.start()
    assert own.credentials()[:2] == before
    assert call(own, f"{MAPS}/kept") == made


def test_a_kill_loses_nothing_and_versions_go_on(own: Process) -> None:
    made = [call(own, MAPS, {"metadata": {"name": f"c{i}"}}) for i in range(20)]
    own.stop(signal.SIGKILL)
    own.start()
    listed = call(own, MAPS)
    names = {item["metadata"]["name"] for item in listed["items"]}
    assert {f"c{i}" for i in range(20)} <= names
    last = int(made[-1]["metadata"]["resourceVersion"])
    assert int(listed["metadata"]["resourceVersion"]) >= last
    after = call(own, MAPS, {"metadata": {"name": "after"}})
    assert int(after["metadata"]["resourceVersion"]) > last
    path = f"{MAPS}?watch=1&timeoutSeconds=1&resourceVersion={last - 5}"
    event = call(own, path)
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


def test_it_ends_on_sigterm_at_once_though_clients_watch(own: Process) -> None:
    address, token, context = own.credentials()
    request = urllib.request.Request(
        f"{address}{MAPS}?watch=1", headers={"Authorization": f"Bearer {token}"}
    )
    with urllib.request.urlopen(request, context=context, timeout=DEADLINE_S) as reply:
        assert reply.readline()
        start = time.monotonic()
        assert own.stop() == 0
        assert time.monotonic() - start < 5
    assert json.loads((own.home / "api" / "port").read_text()) == int(address.rsplit(":", 1)[1])


def test_it_dies_with_its_parent(tmp_path: Path) -> None:
    script = (
        "import os, subprocess, sys\n"
        "r, w = os.pipe()\n"
        "child = subprocess.Popen([sys.executable, '-m', 'onebox.api', '--home', "
        f"{str(tmp_path / 'api')!r}, '--ready-fd', str(w)], pass_fds=(w,), "
        "stdout=subprocess.DEVNULL)\n"
        "os.close(w)\n"
        "os.fdopen(r).read()\n"
        "print(child.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    assert parent.stdin is not None
    child = os.pidfd_open(int(parent.stdout.readline()))
    parent.kill()
    parent.wait()
    parent.stdout.close()
    parent.stdin.close()
    assert select.select([child], [], [], DEADLINE_S)[0], "the child outlives its parent"
    os.close(child)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--node-port-range", "40000-30000"], "does not lie within 1-65535"),
        (["--node-port-range", "some"], "is no range"),
        (["--port", "many"], "invalid int value"),
    ],
)
def test_wrong_options_are_refused_with_a_sentence(
    tmp_path: Path, options: list[str], sentence: str
) -> None:
    done = run_to_its_end("--home", str(tmp_path / "api"), *options)
    assert done.returncode == 2
    assert sentence in done.stderr


def test_a_second_one_on_the_same_home_is_refused(own: Process) -> None:
    done = run_to_its_end("--home", str(own.home / "api"))
    assert done.returncode == 1
    assert "is another onebox using it" in done.stderr
    assert call(own, "/version")["major"] == "1"


def test_a_taken_port_is_refused_when_it_was_asked_for(own: Process, tmp_path: Path) -> None:
    port = (own.home / "api" / "port").read_text().strip()
    done = run_to_its_end("--home", str(tmp_path / "b" / "api"), "--port", port)
    assert done.returncode == 1
    assert "address already in use" in done.stderr


def test_node_ports_come_from_the_range_that_was_asked_for(tmp_path: Path) -> None:
    process = Process(tmp_path, ["--node-port-range", "31500-31500"])
    process.start()
    try:
        body = {"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}}
        made = call(process, "/api/v1/namespaces/default/services", body)
        assert made["spec"]["ports"][0]["nodePort"] == 31500
    finally:
        process.stop()


def test_it_rests_while_nobody_asks(own: Process) -> None:
    assert own.child is not None

    def used_ticks() -> int:
        fields = Path(f"/proc/{own.child.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])

    ticks_per_s = os.sysconf("SC_CLK_TCK")
    for _ in range(10):  # the work of the start comes first
        before = used_ticks()
        time.sleep(2)
        share = (used_ticks() - before) / ticks_per_s / 2
        if share < 0.02:
            return
    pytest.fail(f"{share:.0%} of a core, for 20 s")
