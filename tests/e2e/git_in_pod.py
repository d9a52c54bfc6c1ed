"""The program of a pod that serves a repository by HTTPS: after each fetch its branch has moved on.

Beside it lie `git_backend.py`, and `ca.crt` and `ca.key` of the authority that its certificate is made with.
"""

import os
import ssl
import subprocess
from base64 import b64encode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from git_backend import backend_answer, git  # type: ignore[import-not-found]  # it lies beside

HERE = Path.cwd()
WORK = HERE / "project"
PORT = 2222  # of replicas
ADA = f"Basic {b64encode(b'ada:canary-c0ffee').decode()}"
PROGRAM = """
import json, os, pathlib, signal, sys, time
print("this is version {version}", flush=True)
if os.environ["JOB_NAME"] == "ps":
    signal.pause()  # until it is recycled
place, workers = pathlib.Path(os.environ["LOG_DIR"]), json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"]
begun = [place / worker.replace(":", "-") for worker in workers]  # names of this attempt
begun[int(os.environ["TASK_INDEX"])].touch()
failed = place / "failed"
if not failed.exists():
    failed.touch()
    sys.exit(1)
while not all(path.exists() for path in begun):  # who has ended is found by nobody any more
    time.sleep(0.1)
"""


class Handler(BaseHTTPRequestHandler):
    versions = 0

    def do_GET(self) -> None:
        if self.path.startswith("/private") and self.headers["Authorization"] != ADA:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.path = self.path.replace("/private/", "/project/", 1)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, headers, answer = backend_answer(HERE, self, body)
        if b"command=fetch" in body:
            commit()
        self.send_response(status)
        for name, text in headers.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(answer)

    do_POST = do_GET  # noqa: N815 (the name that http.server asks for)


def commit() -> None:
    Handler.versions += 1
    (WORK / "src/main.py").write_text(PROGRAM.replace("{version}", str(Handler.versions)))
    git(WORK, "add", "--all")
    git(WORK, "commit", "--quiet", "-m", "a version")


def certify(host: str) -> None:
    """Makes `server.crt` and `server.key` for that name."""
    Path("san").write_text(f"subjectAltName=DNS:{host}\n")
    new = "req -new -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj /CN=git"
    sign = "x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -extfile san"
    for words in (new, f"{sign} -out server.crt -days 1"):
        subprocess.run(["openssl", *words.split()], check=True, stderr=subprocess.DEVNULL)


def main() -> None:
    (WORK / "src").mkdir(parents=True)
    git(WORK, "init", "--quiet", "--initial-branch=main")
    (HERE / "samples.git").symlink_to(WORK / ".git")  # as hosts name it
    commit()
    replica = os.environ["HOMEPORT_POD_NAME"].rpartition("-")[0]  # NAME-worker-0
    host = f"{replica}.{replica.rsplit('-', 2)[0]}"
    certify(host)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain("server.crt", "server.key")
    server = ThreadingHTTPServer(("0.0.0.0", PORT), Handler)
    server.socket = context.wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    print(f"serving https://{host}:{PORT} {git(WORK, 'rev-parse', 'HEAD')}", flush=True)
    server.serve_forever()


main()
