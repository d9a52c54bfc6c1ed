"""What `manage.py` does otherwise in a pod of Kubernetes, and HTTPS that the web server speaks itself."""

import re
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import requests

from deploy.testcluster.ports import free_port
from tests.portal.programs import ROOT, environ_of, program
from tests.tools.authority import Authority
from tests.tools.waiting import wait_for

IN_POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1"}
KEY = {"HOMEPORT_SECRET_KEY": "a-key-of-the-test-" * 4}


def code_of(url: str, **more: str) -> int:
    try:
        return requests.get(url, timeout=5, **more).status_code
    except requests.ConnectionError:
        return 0


def test_a_pod_with_an_empty_key_does_not_start(tmp_path: Path) -> None:
    told = program(tmp_path, "manage.py", "migrate", HOMEPORT_SECRET_KEY="", **IN_POD)
    assert told.returncode == 1
    assert told.stderr.startswith("Homeport did not start: HOMEPORT_SECRET_KEY is empty")
    assert not list(tmp_path.iterdir())
    # One that an earlier version generated on a volume goes on.
    (tmp_path / "secret_key").write_text(KEY["HOMEPORT_SECRET_KEY"])
    assert (
        program(tmp_path, "manage.py", "migrate", HOMEPORT_SECRET_KEY="", **IN_POD).returncode == 0
    )


def test_a_pod_waits_for_migrations_and_speaks_https(tmp_path: Path) -> None:
    first, second = Authority(tmp_path / "first"), Authority(tmp_path / "second")
    certificate, key = first.pair("portal")
    port, pod_port, probes = free_port(), free_port(), free_port()
    home = tmp_path / "home"
    settings = {
        "PORT": str(port),
        "POD_PORT": str(pod_port),
        "METRICS_PORT": str(probes),
        "PUBLIC_URL": f"https://127.0.0.1:{port}",
        "POD_PORTAL_URL": "http://pods",
        "TLS_CERT_FILE": str(certificate),
        "TLS_KEY_FILE": str(key),
        "NODE_HOST": "node.lab",
        "ACCEPT_INSECURE": "no-redis",
        **IN_POD,
        **KEY,
    }
    assert program(home, "manage.py", "collectstatic", "--no-input", **settings).returncode == 0
    command = [sys.executable, "manage.py", "serve", "--no-reconciler"]
    log = tmp_path / "log"
    with log.open("w") as out:
        served = subprocess.Popen(
            command, cwd=ROOT, env=environ_of(home, **settings), stdout=out, stderr=out
        )
    try:
        ready = f"http://127.0.0.1:{probes}/readyz"
        wait_for("it waits", lambda: served.poll() or code_of(ready) == 503, timeout_s=60)
        waits = requests.get(ready, timeout=5).json()
        assert "lacks the migration" in waits["migrations"]
        assert waits["database"] == "ok"
        told = requests.get(ready.replace("readyz", "status"), timeout=5).json()
        assert (told["migrations"]["text"], told["ok"]) == (waits["migrations"], False)
        verify = str(first.folder / "ca.crt")
        for path, words in (("", "Homeport is being upgraded"), ("api/v1/jobs/", '"upgrading"')):
            said = requests.get(f"https://127.0.0.1:{port}/{path}", verify=verify, timeout=10)
            assert (said.status_code, words in said.text) == (503, True), said.text
            assert int(said.headers["Retry-After"]) > 0
        sheet = re.search(
            r'/static/css/[^"]+',
            requests.get(f"https://127.0.0.1:{port}/", verify=verify, timeout=10).text,
        )
        assert sheet is not None
        found = requests.get(f"https://127.0.0.1:{port}{sheet[0]}", verify=verify, timeout=10)
        assert found.status_code == 200
        assert program(home, "manage.py", "migrate", **settings).returncode == 0
        wait_for("it is ready", lambda: code_of(ready) == 200, timeout_s=60)
        assert log.read_text().count("Homeport waits: the database lacks the migration") >= 1

        page = f"https://127.0.0.1:{port}/api/v1/jobs/"
        answer = requests.get(page, verify=str(first.folder / "ca.crt"), timeout=10)
        assert answer.status_code == 401, answer.text
        assert answer.headers["Strict-Transport-Security"]
        assert code_of(f"http://127.0.0.1:{pod_port}/internal/") == 404
        with socket.create_connection(("127.0.0.1", port)) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert not plain.recv(100).startswith(b"HTTP")

        certificate.write_text("half of a renewed")
        greet(first, port)
        for old, new in zip((certificate, key), second.pair("portal"), strict=True):
            old.write_bytes(new.read_bytes())
        greet(second, port)
    finally:
        served.kill()
        served.wait()


def greet(authority: Authority, port: int) -> None:
    """Speaks HTTPS as one who trusts this authority alone; it is answered, and given no session ticket.

    Raises:
        ssl.SSLError: the certificate is of another one.
    """
    context = ssl.create_default_context(cafile=str(authority.folder / "ca.crt"))
    with (
        socket.create_connection(("127.0.0.1", port), timeout=10) as raw,
        context.wrap_socket(raw, server_hostname="127.0.0.1") as spoken,
    ):
        spoken.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert spoken.recv(1)  # a session ticket would have come before it
        assert not spoken.session.has_ticket


def test_half_a_pair_and_http_are_sentences(tmp_path: Path) -> None:
    files = {"TLS_CERT_FILE": str(tmp_path / "absent"), "TLS_KEY_FILE": str(tmp_path / "absent")}
    told = {
        "no certificate and its key": {**files, "PUBLIC_URL": "https://portal.lab"},
        "does not begin with https": {"PUBLIC_URL": "http://localhost", **pair(tmp_path)},
    }
    assert program(tmp_path, "manage.py", "migrate").returncode == 0
    for words, settings in told.items():
        more = {"POD_PORTAL_URL": "http://pods", "PORT": str(free_port()), **settings}
        said = program(tmp_path, "manage.py", "serve", **more)
        assert said.returncode == 1
        assert words in said.stderr
        assert "Traceback" not in said.stderr


def pair(folder: Path) -> dict[str, str]:
    certificate, key = Authority(folder / "authority").pair("portal")
    return {"TLS_CERT_FILE": str(certificate), "TLS_KEY_FILE": str(key)}
