"""Real servers for tests: PostgreSQL, Redis and an S3 server, each in a folder of its own.

They listen on loopback only and end with their context. PostgreSQL refuses to run as root, so root
starts it as `nobody`.
"""

import hashlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.testcluster.ports import free_port

READY_S = 30.0


class NoServerError(RuntimeError):
    """A program is not installed; the text says which package has it."""


def find_program(name: str, package: str, *places: str) -> str:
    """The path of a program of Debian's.

    Raises:
        NoServerError: it is not installed.
    """
    path = os.pathsep.join([*places, os.environ.get("PATH", os.defpath)])
    found = shutil.which(name, path=path)
    if found is None:
        raise NoServerError(f"{name} is not installed: apt-get install {package}")
    return found


def answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


@contextmanager
def running(
    command: list[str], log: Path, is_ready: Callable[[], bool], **popen: object
) -> Iterator[subprocess.Popen[bytes]]:
    """A server while the context is open.

    Raises:
        AssertionError: it ended, or was not ready in time; the text has the end of its log.
    """
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            **popen,  # type: ignore[call-overload]
        )
    try:
        deadline = time.monotonic() + READY_S
        while not is_ready():
            tail = log.read_text(errors="replace")[-2000:]
            assert process.poll() is None, f"{command[0]} ended:\n{tail}"
            assert time.monotonic() < deadline, f"{command[0]} is not ready:\n{tail}"
            time.sleep(0.05)
        yield process
    finally:
        process.send_signal(signal.SIGINT)  # PostgreSQL: end sessions, then end
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    """A PostgreSQL server; its URL, with a database `homeport`."""
    places = [str(path) for path in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
    initdb = find_program("initdb", "postgresql", *places)
    server = find_program("postgres", "postgresql", *places)
    createdb = find_program("createdb", "postgresql", *places)
    folder.mkdir(parents=True)
    who: dict[str, object] = {"cwd": folder}
    if os.getuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
        who |= {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
    data, port = folder / "data", free_port()
    made = subprocess.run(
        [initdb, "--auth=trust", "--username=homeport", "--encoding=UTF8", "--no-sync", str(data)],
        capture_output=True,
        text=True,
        check=False,
        **who,  # type: ignore[call-overload]
    )
    assert made.returncode == 0, made.stderr
    options = {
        "listen_addresses": "127.0.0.1",
        "port": port,
        "unix_socket_directories": "",
        "fsync": "off",
        "max_connections": 200,
    }
    command = [server, "-D", str(data)]
    for name, setting in options.items():
        command += ["-c", f"{name}={setting}"]
    create = [createdb, "--host=127.0.0.1", f"--port={port}", "--username=homeport", "homeport"]

    def is_ready() -> bool:
        # The server may listen before it lets anybody in.
        made = subprocess.run(create, capture_output=True, check=False)
        return made.returncode == 0

    with running(command, folder.with_suffix(".log"), is_ready, **who):
        yield f"postgres://homeport@127.0.0.1:{port}/homeport"


@contextmanager
def redis(folder: Path, port: int = 0) -> Iterator[str]:
    """A Redis server that keeps nothing on disk, on a free port or this one; its URL."""
    server, port = find_program("redis-server", "redis-server"), port or free_port()
    folder.mkdir(parents=True)
    command = [server, "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--dir"]
    log = folder.with_suffix(".log")
    with running([*command, str(folder)], log, lambda: answers(port)):
        yield f"redis://127.0.0.1:{port}/0"


S3_SOURCE = Path(__file__).parent / "s3server"
S3_PACKAGE = "github.com/versity/versitygw/cmd/versitygw"


def build_s3() -> Path:
    """The S3 server's program, built once for each set of versions.

    Raises:
        NoServerError: there is no Go compiler.
    """
    go = find_program("go", "golang", "/usr/local/go/bin")
    sums = (S3_SOURCE / "go.sum").read_bytes()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "homeport-tests"
    program = cache / f"s3server-{hashlib.sha256(sums).hexdigest()[:12]}"
    if not program.exists():
        cache.mkdir(parents=True, exist_ok=True)
        unfinished = program.with_suffix(f".{os.getpid()}")
        built = subprocess.run(
            [go, "build", "-o", str(unfinished), S3_PACKAGE],
            cwd=S3_SOURCE,
            capture_output=True,
            text=True,
            check=False,
        )
        assert built.returncode == 0, built.stderr[-2000:]
        unfinished.rename(program)
    return program


@contextmanager
def s3(folder: Path) -> Iterator[dict[str, str]]:
    """An S3 server that checks signatures; the settings and credentials that lead to its bucket."""
    program, port = build_s3(), free_port()
    for name in ("objects", "metadata"):
        (folder / name).mkdir(parents=True)
    access = {"AWS_ACCESS_KEY_ID": "homeport", "AWS_SECRET_ACCESS_KEY": "a secret of the tests"}
    command = [str(program), "--quiet", "--port", f"127.0.0.1:{port}"]
    command += ["--access", access["AWS_ACCESS_KEY_ID"]]
    command += ["--secret", access["AWS_SECRET_ACCESS_KEY"]]
    command += ["posix", "--sidecar", str(folder / "metadata"), str(folder / "objects")]
    with running(command, folder.with_suffix(".log"), lambda: answers(port)):
        # A folder of the top level is a bucket.
        (folder / "objects" / "homeport").mkdir()
        yield {
            "S3_BUCKET": "homeport",
            "S3_ENDPOINT": f"http://127.0.0.1:{port}",
            "S3_REGION": "us-east-1",
            **access,
        }
