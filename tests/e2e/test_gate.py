"""A real JupyterLab behind its gate on the embedded cluster, through the NodePort."""

import contextlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests
import websockets.exceptions

from tests.e2e.jupyter import CHUNK_BYTES, Lab
from tests.e2e.portal import Portal, Rest
from tests.e2e.test_services import Service
from tests.tools.waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.tensorflow]

MIB = 1024**2
# JupyterLab reads it at its start; it notes the headers of all that reaches it.
SPY = """
import json, tornado.httputil
before = tornado.httputil.HTTPServerRequest.__init__
def init(self, *a, **k):
    before(self, *a, **k)
    with open("/data/headers.jsonl", "a") as file:
        file.write(json.dumps([self.path, sorted(self.headers.get_all())]) + "\\n")
tornado.httputil.HTTPServerRequest.__init__ = init
"""


@pytest.fixture(scope="module")
def notebook(lin: Rest) -> Iterator[Service]:
    made = Service(lin, "notebook", name="behind a gate")
    made.wait("running")
    yield made
    lin.call("DELETE", made.path)


def enter(service: Service) -> Lab:
    """Through the gate, as a browser goes."""
    return enter_by(service.do("open")["url"])


def enter_by(address: str) -> Lab:
    """By an address that is good once."""
    page, _, ticket = address.partition("#t=")
    parts = urlsplit(page)
    origin = f"{parts.scheme}://{parts.netloc}"
    answer = requests.post(f"{page}/login", data=ticket, headers={"Origin": origin}, timeout=30)
    assert answer.ok, answer.text
    [cookie] = answer.cookies
    again = requests.post(f"{page}/login", data=ticket, headers={"Origin": origin}, timeout=30)
    assert again.status_code == 401  # good once
    return Lab(origin + answer.json()["next"], f"{cookie.name}={cookie.value}")


def gate_peak_bytes(service: Service) -> int:
    """The most memory that the gate's process ever had (resident)."""
    for pid in (entry.name for entry in Path("/proc").iterdir() if entry.name.isdigit()):
        with contextlib.suppress(OSError):
            command, environ = (
                Path(f"/proc/{pid}/{n}").read_bytes() for n in ("cmdline", "environ")
            )
            if b"/gate.py" in command and f"GATE_SERVICE_ID={service.id}".encode() in environ:
                status = Path(f"/proc/{pid}/status").read_text()
                return int(status.split("VmHWM:")[1].split()[0]) * 1024
    raise AssertionError("the gate's process is not to be found")


def test_a_kernel_computes_and_a_terminal_types(notebook: Service) -> None:
    lab = enter(notebook)
    with lab.kernel() as kernel:
        assert kernel.run("1 + 1") == "2"
        assert kernel.run("print('x' * 500_000)").strip() == "x" * 500_000
    name = lab.call("POST", "api/terminals", json={}).json()["name"]
    with lab.websocket(f"terminals/websocket/{name}") as terminal:
        terminal.send(json.dumps(["stdin", "echo $((40 + 2))-typed\r"]))
        said = ""
        while "42-typed" not in said:
            kind, *rest = json.loads(terminal.recv(timeout=60))
            said += rest[0] if kind == "stdout" else ""
    lab.call("DELETE", f"api/terminals/{name}")


def test_an_upload_arrives_whole_and_the_gate_stays_small(notebook: Service) -> None:
    upload(notebook, chunks=96)


@pytest.mark.slow
def test_an_upload_of_2_gb_arrives_whole_and_the_gate_stays_small(notebook: Service) -> None:
    upload(notebook, chunks=2048)


def upload(notebook: Service, *, chunks: int) -> None:
    lab = enter(notebook)
    lab.upload("big.bin", chunks, os.urandom(CHUNK_BYTES))
    found = lab.call("GET", "api/contents/big.bin?content=0").json()
    assert found["size"] == chunks * CHUNK_BYTES
    assert gate_peak_bytes(notebook) < 100 * MIB
    assert lab.call("DELETE", "api/contents/big.bin").status_code == 204


def test_a_cookie_opens_nothing_else(notebook: Service, lin: Rest) -> None:
    lab = enter(notebook)
    other = Service(lin, "notebook", name="another one")
    try:
        other.wait("running")
        elsewhere = enter(other)
        assert elsewhere.status() == 200
        assert Lab(elsewhere.base, lab.cookie).status() == 401
        # The same value under the other's name, as a port that was given to another would see it.
        name = elsewhere.cookie.partition("=")[0]
        renamed = f"{name}={lab.cookie.partition('=')[2]}"
        assert Lab(elsewhere.base, renamed).status() == 401
        assert requests.get(lab.base + "api/status", timeout=30).status_code == 401
        foreign = Lab(elsewhere.base, lab.cookie).websocket("api/events/subscribe")
        with pytest.raises(websockets.exceptions.InvalidStatus), foreign:
            pass
    finally:
        lin.call("DELETE", other.path)


def test_the_app_sees_its_token_and_no_cookie_of_the_portal(
    portal: Portal, notebook: Service
) -> None:
    """JupyterLab is started again with a spy in its configuration; its gate stays."""
    lab = enter(notebook)
    session = portal.session("lin").cookies["homeport_session"]
    with lab.kernel() as kernel:
        kernel.run(
            "import os, pathlib, signal\n"
            "folder = pathlib.Path.home() / '.jupyter'\n"
            "folder.mkdir(exist_ok=True)\n"
            f"(folder / 'jupyter_config.py').write_text({SPY!r})\n"
            "pathlib.Path('/data/headers.jsonl').unlink(missing_ok=True)\n"
        )
        with contextlib.suppress(websockets.exceptions.ConnectionClosed, TimeoutError):
            kernel.run("os.kill(os.getppid(), signal.SIGKILL)", timeout_s=20)

    def answers() -> requests.Response:
        return lab.call("GET", "lab", headers={"Accept": "text/html"})

    def refused() -> list[requests.Response]:
        answer = answers()
        return [answer] if answer.status_code in {502, 503} else []

    [gone] = wait_for("it is gone", refused)
    assert "This page tries again automatically" in " ".join(gone.text.split())
    assert int(gone.headers["Refresh"]) >= 3
    wait_for("it is back", lambda: answers().status_code == 200, timeout_s=120)
    foreign = f"homeport_session={session}; homeport_csrf=c; gate_99999999=g; other=o; {lab.cookie}"
    stranger = Lab(lab.base, foreign)
    given = {"Authorization": "token stolen", "X-Forwarded-For": "6.6.6.6"}
    assert stranger.call("GET", "api/status?spied=1", headers=given).status_code == 200
    with stranger.kernel() as kernel:
        assert kernel.run("1 + 1") == "2"
    text = stranger.call("GET", "files/headers.jsonl").text
    stranger.call("DELETE", "api/contents/headers.jsonl")
    seen = [json.loads(line) for line in text.splitlines()]
    assert any(path.endswith("/channels") for path, _ in seen)
    for secret in (session, "stolen", "6.6.6.6", "gate_", "homeport_", "other=o"):
        assert secret not in text
    for path, headers in seen:
        found = dict(headers)
        if "X-Forwarded-For" in found:  # not the gate's own question
            assert found["Authorization"].startswith("token "), path
            assert found["Host"] == urlsplit(lab.base).netloc


def test_who_is_disabled_is_out_within_a_minute(
    portal: Portal, notebook: Service, lin: Rest
) -> None:
    root = portal.sign_in("root")
    lab, session = enter(notebook), portal.session("lin")
    user = f"users/{lin.get('me/')['id']}/"
    try:
        with lab.kernel() as kernel:
            assert kernel.run("1 + 1") == "2"
            changed = root.call("PATCH", user, json={"is_active": False})
            assert changed.ok, changed.text
            began = time.monotonic()
            assert lin.call("GET", "me/").status_code == 401
            assert session.get(
                f"{portal.url}/account/", allow_redirects=False, timeout=30
            ).is_redirect
            wait_for("the cookie is dead", lambda: _refuses(lab), timeout_s=60)
            with pytest.raises(websockets.exceptions.ConnectionClosed):
                kernel.listen(began + 60)
    finally:
        assert root.call("PATCH", user, json={"is_active": True}).ok


def _refuses(lab: Lab) -> bool:
    """No answer of the app: refused by the gate, or there is no port any more."""
    try:
        return lab.status() in {401, 410}
    except requests.ConnectionError:
        return True


@pytest.mark.slow
def test_an_idle_websocket_stays_open_for_half_an_hour(lin: Rest) -> None:
    notebook = Service(lin, "notebook", name="idle")
    try:
        notebook.wait("running")
        lab = enter(notebook)
        with lab.kernel() as kernel:
            kernel.run("left = 42")
            deadline = time.monotonic() + 1800
            # Nobody types; only pings of JupyterLab pass, which the library answers.
            with pytest.raises(TimeoutError):
                kernel.listen(deadline)
            assert kernel.run("left") == "42"
    finally:
        lin.call("DELETE", notebook.path)
