"""A pod's file system in a temporary folder, and a portal's door that keeps what it is given."""

import hashlib
import json
import os
import signal
import ssl
import subprocess
import sys
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from jobs.pod.fetch import RUNNER_MODULES, write_program
from onebox.testing.processes import descendants

JOB_ID = "11111111-2222-4333-8444-555555555555"
TOKEN = "the-token-of-the-job"
UID = "abcdef01-0000-4000-8000-000000000000"


def end(exit_code: int | None, reason: str, *, skipped: int = 0, rescued: bool = False) -> Any:
    """The report of an end, of the pod of these tests or of one whose uid is not known."""
    return {
        "exit_code": exit_code,
        "reason": reason,
        "skipped_bytes": skipped,
        "by_rescue": rescued,
        "pod_uid": "" if rescued else UID,
    }


class LocalServer:
    """An HTTP server in threads of this process, on a port of its own."""

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self._thread = threading.Thread(
            target=self.server.serve_forever, kwargs={"poll_interval": 0.02}
        )
        self._thread.start()

    def speak_tls(self, certificate: Path, key: Path) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        # The handshake belongs to the thread of the connection.
        self.server.socket = context.wrap_socket(
            self.server.socket, server_side=True, do_handshake_on_connect=False
        )
        self.url = self.url.replace("http:", "https:")

    def close(self) -> None:
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()


class FakeDoor(LocalServer):
    """The parts of /internal/v1/ that pods use, on a port of its own; faults can be switched on."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.segments: dict[int, dict[str, Any]] = {}
        self.dropped: list[int] = []
        self.artifacts: dict[str, dict[str, Any]] = {}
        self.ends: list[dict[str, Any]] = []
        self.bundle: tuple[str, bytes] = ("train.py", b"")
        self.bundle_sha256 = ""
        self.commit = ""  # that the training takes
        self.hosts: dict[str, list[str]] = {}  # IP addresses
        self.ended: dict[str, list[int]] = {}  # indexes of replicas
        self.usage: list[dict[str, Any]] = []
        self.usage_status: int | None = None  # that is answered to what tells of use
        self.calls: list[str] = []
        self.fail_next = 0  # so many calls are cut off without an answer
        # An earlier container has ended the log, and no segment began it again.
        self.is_complete = False
        self.status: int | None = None  # every call is answered with this
        self.put_status: int | None = None
        door = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                pass

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                door.calls.append(self.path)
                if self._faulty():
                    return
                if self.path.endswith("/usage/") and door.usage_status:
                    self._answer(door.usage_status, {"errors": [{"text": "because of a test"}]})
                    return
                if self.headers["Authorization"] != f"Bearer {TOKEN}":
                    self._answer(404, {"errors": [{"text": "wrong token"}]})
                    return
                self._answer(200, door.post(self.path, json.loads(body)))

            def do_PUT(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self._faulty():
                    return
                if door.put_status:
                    self._answer(door.put_status, {})
                    return
                door.objects[unquote(self.path)] = body
                self._answer(200, {})

            def do_GET(self) -> None:
                is_question = self.path.partition("?")[0].endswith("/hosts/")
                told = {"ended": door.ended} if "ended=1" in self.path else door.hosts
                data = json.dumps(told).encode() if is_question else door.bundle[1]
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def _faulty(self) -> bool:
                if door.fail_next > 0:
                    door.fail_next -= 1
                    self.close_connection = True
                    return True
                status = door.refusal(self.path)
                if status:
                    self._answer(status, {"errors": [{"text": "because of a test"}]})
                    return True
                return False

            def _answer(self, status: int, fields: dict[str, Any]) -> None:
                data = json.dumps(fields).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        super().__init__(Handler)

    def refusal(self, path: str) -> int | None:
        """The status of an answer that refuses."""
        return 410 if self.is_complete and path.endswith("/drop/") else self.status

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        parts = path.strip("/").split("/")[4:]  # behind internal/v1/jobs/<id>/
        if parts == ["source"]:
            name, data = self.bundle
            digest = self.bundle_sha256 or hashlib.sha256(data).hexdigest()
            return {
                "url": f"{self.url}/bundle",
                "method": "GET",
                "headers": {},
                "sha256": digest,
                "size_bytes": len(data),
                "file_name": name,
            }
        if parts == ["commit"]:
            self.commit = self.commit or body["commit"]
            return {"commit": self.commit}
        if parts == ["artifacts"]:
            missing = [f for f in body["files"] if self.artifacts.get(f["path"]) != f]
            return {
                "links": {f["path"]: self._link(f"/a/{f['path']}") for f in missing},
                "refused": {},
            }
        if parts == ["artifacts", "done"]:
            self.artifacts.update({f["path"]: f for f in body["files"]})
            return {}
        where = parts[4:]
        if where == ["segments"]:
            self.is_complete = False
            if self.segments.get(body["number"], {}).get("sha256") == body["sha256"]:
                return {"have": True}
            return self._link(f"/s/{'-'.join(parts[1:4])}/{body['number']}")
        if where[:1] == ["segments"] and where[2] == "done":
            self.segments[int(where[1])] = body
            return {}
        if where[:1] == ["segments"] and where[2] == "drop":
            self.dropped.append(int(where[1]))
            self.segments.pop(int(where[1]), None)
            return {}
        if where == ["usage"]:
            self.usage.append(body)
            return {"next_s": 60}
        if where == ["done"]:
            body.pop("log", None)  # lacks nothing of it
            self.ends.append(body)
            return {}
        raise AssertionError(path)

    def _link(self, path: str) -> dict[str, Any]:
        return {"url": self.url + quote(path), "method": "PUT", "headers": {}}

    def log(self, replica: str = "worker-0-1") -> bytes:
        """The shipped log in order; positions are checked for overlaps."""
        data, position = b"", 0
        for number in sorted(self.segments):
            row = self.segments[number]
            piece = self.objects[f"/s/{replica}/{number}"]
            assert hashlib.sha256(piece).hexdigest() == row["sha256"]
            assert row["size_bytes"] == len(piece)
            assert row["start_byte"] >= position
            position = row["start_byte"] + len(piece)
            data += piece
        return data


class Pod:
    """The files of one pod, and its runner as a real process."""

    def __init__(self, root: Path, door: FakeDoor) -> None:
        self.root = root
        self.door = door
        for name in ("etc/homeport", "run/homeport", "dev", "homeport", "workspace", "data", "log"):
            (root / name).mkdir(parents=True)
        (root / "run/homeport/token").write_text(TOKEN + "\n")
        self.config: dict[str, Any] = {
            "id": JOB_ID,
            "name": "my training",
            "kube_name": "m-abc123",
            "folder": str(root / "log/jobs/m-abc123"),
            "attempt": 1,
            "topology": "single",
            "command": [sys.executable, "-c", "print('hello')"],
            "env": {},
            "cluster_flags": [],
            "source": None,
            "hosts": {"worker": ["m-abc123-worker-0.m-abc123:2222"]},
            "data_dir": str(root / "data"),
            "limits": {
                "log_archive_bytes": 2 * 1024**3,
                "artifacts_bytes": 1024**3,
                "segment_bytes": 4 * 1024**2,
                "segment_s": 60,
            },
            "retry_s": 2,
            "grace_s": 8,
        }
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOMEPORT_ROLE": "worker",
            "HOMEPORT_INDEX": "0",
            "HOMEPORT_ATTEMPT": "1",
            "HOMEPORT_POD_UID": UID,
            "HOMEPORT_URL": door.url,
        }
        self.processes: list[subprocess.Popen[bytes]] = []
        self.is_of_an_older_version = False
        self.wrapper: list[str] = []  # in front of the runner's command line

    @property
    def folder(self) -> Path:
        return Path(self.config["folder"])

    @property
    def state(self) -> Path:
        role, index = self.environ["HOMEPORT_ROLE"], self.environ["HOMEPORT_INDEX"]
        uid = self.environ["HOMEPORT_POD_UID"][:8]
        return self.folder / f".homeport/{role}-{index}/{self.config['attempt']}-{uid}"

    @property
    def runner(self) -> list[str]:
        """What follows `python` on its command line."""
        return [str(self.root / "homeport/runner.py"), "--root", str(self.root)]

    def python(self, code: str) -> None:
        self.config["command"] = [sys.executable, "-c", code]

    def start(self, *, packed: bool = False) -> "subprocess.Popen[bytes]":
        """The runner; what `fetch` has packed, or today's."""
        self._write_config()
        if not packed:
            write_program(self.root / "homeport/runner.py", RUNNER_MODULES)
        process = subprocess.Popen(
            # Isolated: nothing of this checkout can be imported by accident.
            [*self.wrapper, sys.executable, "-I", *self.runner],
            cwd=self.root / "workspace",
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.processes.append(process)
        return process

    def start_and_read(self) -> "tuple[subprocess.Popen[bytes], bytes]":
        """The runner, and the first line of the program's output."""
        process = self.start()
        assert process.stdout is not None
        return process, process.stdout.readline()

    def _write_config(self) -> None:
        """As the portal writes it: what may be secret lies beside the token."""
        shown = {**self.config, "private": "private.json"}
        private = {"env": shown.pop("env"), "source": shown.pop("source")}
        if self.is_of_an_older_version:
            shown, private = self.config, {}
        (self.root / "etc/homeport/job.json").write_text(json.dumps(shown))
        beside = self.root / "run/homeport"
        if beside.is_dir():  # a test may have taken it away
            (beside / "private.json").write_text(json.dumps(private))

    def run(self, timeout_s: float = 30, *, packed: bool = False) -> tuple[int, bytes]:
        process = self.start(packed=packed)
        output, _ = process.communicate(timeout=timeout_s)
        return process.returncode, output

    def program(self, script: str, *arguments: str) -> tuple[int, str]:
        """Runs another of our programs (`fetch`, `rescue`) as its pod would."""
        self._write_config()
        path = Path(__file__).resolve().parents[3] / f"jobs/pod/{script}.py"
        done = subprocess.run(
            [sys.executable, str(path), "--root", str(self.root), *arguments],
            cwd="/",
            env=self.environ,
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert not done.stderr, done.stderr.decode()
        return done.returncode, done.stdout.decode()

    @property
    def message(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.root / "dev/termination-log").read_text())
        return found

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                # With its programs, as the kernel ends a container whose first process is gone.
                for pid in (*descendants(process.pid), process.pid):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                process.wait()
            if process.stdout:
                process.stdout.close()


def wait_until(condition: Any, timeout_s: float = 15) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.02)
