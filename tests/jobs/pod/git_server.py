"""A git server over HTTPS: `git http-backend` behind a server with a certificate of a test's own authority."""

import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from tests.jobs.pod.git_backend import backend_answer, git
from tests.jobs.pod.pods import LocalServer
from tests.tools.authority import Authority


class GitServer(LocalServer):
    """Serves `work`, a repository with a branch `main`.

    Attributes:
        address: of the repository.
        ca_file: the authority that signed the certificate.
        password: what an `Authorization` header must have; None: anybody may read.
        redirect: where every request is sent to.
        answers: while it is not set nothing is answered.
        floods: answers a pack without end.
        flooded_bytes: how much of it was taken.
        is_cut: set once nobody takes more of it.
    """

    def __init__(self, folder: Path) -> None:
        authority = Authority(folder / "authority")
        certificate, key = authority.pair("server")
        self.ca_file = folder / "authority/ca.crt"
        self.work = folder / "project"
        self.work.mkdir()
        git(self.work, "init", "--quiet", "--initial-branch=main")
        # As the hosts that people use have it.
        git(self.work, "config", "uploadpack.allowAnySHA1InWant", "true")
        self.password: str | None = None
        self.redirect = ""
        self.floods = False
        self.answers = threading.Event()
        self.answers.set()
        self.flooded_bytes = 0
        self.is_cut = threading.Event()
        self.asked: list[str] = []
        super().__init__(_handler(self))
        self.speak_tls(certificate, key)
        self.address = f"{self.url}/project/.git"

    def commit(self, **files: str) -> str:
        """Adds files by their names (`a__b` is a/b); the commit."""
        for name, text in files.items():
            path = self.work / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        git(self.work, "add", "--all")
        git(self.work, "commit", "--quiet", "--allow-empty", "-m", "a change")
        return git(self.work, "rev-parse", "HEAD")


def _handler(git_server: GitServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            git_server.asked.append(self.path)
            git_server.answers.wait()
            if git_server.redirect:
                self._answer(301, Location=git_server.redirect + self.path)
            elif git_server.password and self.headers["Authorization"] != git_server.password:
                self._answer(401, **{"WWW-Authenticate": 'Basic realm="git"'})
            else:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if git_server.floods and b"command=fetch" in body:
                    self._flood()
                else:
                    self._serve(body)

        do_POST = do_GET  # noqa: N815 (the name that http.server asks for)

        def _answer(self, status: int, **headers: str) -> None:
            """The head of an answer, of one without a body unless `headers` say otherwise."""
            self.send_response(status)
            length = {} if "Content-Type" in headers else {"Content-Length": "0"}
            for name, text in {**length, **headers}.items():
                self.send_header(name, text)
            self.end_headers()

        def _serve(self, body: bytes) -> None:
            status, headers, answer = backend_answer(git_server.work.parent, self, body)
            self._answer(status, **headers)
            self.wfile.write(answer)

        def _flood(self) -> None:
            """A pack of one blob of 4 GiB, as https://git-scm.com/docs/pack-format has it; its data are
            stored blocks of https://www.rfc-editor.org/rfc/rfc1951#section-3.2.4."""
            self._answer(200, **{"Content-Type": "application/x-git-upload-pack-result"})
            self._line(b"packfile\n")
            self._line(
                b"\x01PACK\x00\x00\x00\x02\x00\x00\x00\x01" + b"\xbf\xff\xff\xff\x7f" + b"\x78\x01"
            )
            block = b"\x00" + b"\x00\x80" + b"\xff\x7f" + bytes(0x8000)
            try:
                while git_server.flooded_bytes < 2**32 - 0x8000:
                    self._line(b"\x01" + block)
                    git_server.flooded_bytes += 0x8000
            except OSError:
                self.close_connection = True
                git_server.is_cut.set()

        def _line(self, data: bytes) -> None:
            self.wfile.write(b"%04x" % (len(data) + 4) + data)

    return Handler
