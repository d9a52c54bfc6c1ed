"""git's own program behind an HTTP server of Python's; imports nothing of ours, for it also runs in a pod."""

import os
import subprocess
from http.server import BaseHTTPRequestHandler
from pathlib import Path

_QUIET = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
_AUTHOR = ("-c", "user.name=ada", "-c", "user.email=ada@lab.example")


def git(folder: Path, *words: str) -> str:
    """What git says in that folder."""
    done = subprocess.run(
        ["git", *_AUTHOR, *words],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), **_QUIET},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def backend_answer(
    root: Path, asked: BaseHTTPRequestHandler, body: bytes
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body by https://git-scm.com/docs/git-http-backend, a CGI program."""
    path, _mark, query = asked.path.partition("?")
    done = subprocess.run(
        ["git", "http-backend"],
        env={
            **_QUIET,
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_PROTOCOL": asked.headers.get("Git-Protocol", ""),
            "REQUEST_METHOD": asked.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": asked.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": asked.headers.get("Content-Encoding", ""),
        },
        input=body,
        capture_output=True,
        check=False,
    )
    head, _blank, answer = done.stdout.partition(b"\r\n\r\n")
    headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if line)
    headers["Content-Length"] = str(len(answer))
    return int(headers.pop("Status", "200").split()[0]), headers, answer
