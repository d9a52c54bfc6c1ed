"""Real servers for tests: PostgreSQL, Redis and an S3 server, each in a folder of its own.

They listen on loopback, unless they are told another address, and end with their context. PostgreSQL refuses to run as root, so root
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
from contextlib import ExitStack, contextmanager
from pathlib import Path

from deploy.testcluster import binaries
from deploy.testcluster.ports import free_port

READY_S = 30.0


# The packages that the row of a lane names (tests/lanes.py), in the environment of all that the lane runs; not there
# where somebody runs tests without a lane.
OF_LANE = "HOMEPORT_LANE_PACKAGES"


class NoServerError(RuntimeError):
    """A program is not installed; the text says which package has it."""


def check_named(package: str) -> None:
    """Where a lane runs: raises AssertionError if its row does not name this package.

    Also where the program is installed, for elsewhere it is not, and nobody would be told.
    """
    named = os.environ.get(OF_LANE)
    if named is not None and package not in named.split():
        raise AssertionError(f"{package} is not among what the lane needs: tests/lanes.py")


def find_program(name: str, package: str, *places: str) -> str:
    """The path of a program of Debian's.

    Raises:
        AssertionError: the lane that runs here does not name its package.
        NoServerError: it is not installed.
    """
    check_named(package)
    path = os.pathsep.join([*places, os.environ.get("PATH", os.defpath)])
    found = shutil.which(name, path=path)
    if found is None:
        raise NoServerError(f"{name} is not installed: apt-get install {package}")
    return found


def answers(port: int, host: str = "127.0.0.1") -> bool:
    try:
        with socket.create_connection((host, port), timeout=1):
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


def postgres_program(name: str) -> str:
    """The path of one of PostgreSQL's programs.

    Raises:
        NoServerError: it is not installed.
    """
    places = [str(path) for path in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
    return find_program(name, "postgresql", *places)


class Postgres:
    """A PostgreSQL server, which can be ended and started again as often as somebody likes.

    Args:
        folder: is made, for its data; the log lies beside it.
        settings: the server's own.

    Raises:
        NoServerError: it is not installed.
    """

    def __init__(self, folder: Path, **settings: object) -> None:
        self._server, self._is_ready = postgres_program("postgres"), postgres_program("pg_isready")
        self.folder, self.data, self.port = folder, folder / "data", free_port()
        self._settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": "",
            "fsync": "off",
            "max_connections": 200,
            **settings,
        }
        folder.mkdir(parents=True)
        self._who: dict[str, object] = {"cwd": folder}
        if os.getuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(folder, nobody.pw_uid, nobody.pw_gid)
            self._who |= {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}

    @property
    def url(self) -> str:
        """Of a database `homeport`."""
        return f"postgres://homeport@127.0.0.1:{self.port}/homeport"

    def run(self, program: str, *arguments: str) -> None:
        """Runs one of PostgreSQL's programs to its end."""
        done = subprocess.run(
            [postgres_program(program), *arguments],
            capture_output=True,
            text=True,
            check=False,
            **self._who,  # type: ignore[call-overload]
        )
        assert done.returncode == 0, done.stderr

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        """It lets people in while the context is open."""
        command = [self._server, "-D", str(self.data)]
        for name, setting in self._settings.items():
            command += ["-c", f"{name}={setting}"]
        # The server may listen before it lets anybody in.
        ask = [self._is_ready, "--quiet", "--host=127.0.0.1", f"--port={self.port}"]

        def is_ready() -> bool:
            return subprocess.run(ask, check=False).returncode == 0

        log = self.folder.with_suffix(".log")
        with running(command, log, is_ready, **self._who) as process:
            yield process


@contextmanager
def running_postgres(folder: Path, **settings: object) -> Iterator[tuple[Postgres, ExitStack]]:
    """A new server with an empty database; what is on the stack is what runs."""
    made = Postgres(folder, **settings)
    how = ("--auth=trust", "--username=homeport", "--encoding=UTF8", "--no-sync")
    made.run("initdb", *how, str(made.data))
    with ExitStack() as stack:
        stack.enter_context(made.running())
        where = ("--host=127.0.0.1", f"--port={made.port}", "--username=homeport")
        made.run("createdb", *where, "homeport")
        yield made, stack


@contextmanager
def postgres(folder: Path, **settings: object) -> Iterator[str]:
    """A PostgreSQL server; its URL, with a database `homeport`. `settings` are the server's."""
    with running_postgres(folder, **settings) as (made, _):
        yield made.url


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


def _s3_program() -> Path:
    sums = (S3_SOURCE / "go.sum").read_bytes()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "homeport-tests"
    return cache / f"s3server-{hashlib.sha256(sums).hexdigest()[:12]}"


def needs_go() -> bool:
    """Whether a Go has to be fetched before there is an S3 server."""
    return not _s3_program().exists() and binaries.find_go() is None


def go_for_s3() -> str:
    """The path of the compiler that builds the S3 server; fetched where this machine has none.

    Raises:
        NoServerError: there is none, and none can be fetched.
    """
    try:
        return binaries.go()
    except binaries.NoBinariesError as error:
        raise NoServerError(str(error)) from error


def build_s3() -> Path:
    """The S3 server's program, built once for each set of versions.

    Raises:
        AssertionError: the lane that runs here does not name Go.
        NoServerError: it cannot be built.
    """
    check_named("go")
    program = _s3_program()
    if not program.exists():
        go = go_for_s3()
        program.parent.mkdir(parents=True, exist_ok=True)
        unfinished = program.with_suffix(f".{os.getpid()}")
        print("building the S3 server of the tests (once, some minutes) ...", flush=True)
        built = subprocess.run(
            [go, "build", "-o", str(unfinished), S3_PACKAGE],
            cwd=S3_SOURCE,
            env=os.environ | binaries.GO_SETTINGS,
            capture_output=True,
            text=True,
            check=False,
        )
        if built.returncode:
            raise NoServerError(f"the S3 server could not be built:\n{built.stderr[-2000:]}")
        unfinished.rename(program)
    return program


@contextmanager
def s3(
    folder: Path, host: str = "127.0.0.1", pair: tuple[Path, Path] | None = None
) -> Iterator[dict[str, str]]:
    """An S3 server that checks signatures; the settings and credentials that lead to its bucket.

    Args:
        pair: certificate and key; it speaks HTTPS with them.
    """
    program, port = build_s3(), free_port()
    for name in ("objects", "metadata"):
        (folder / name).mkdir(parents=True)
    access = {"AWS_ACCESS_KEY_ID": "homeport", "AWS_SECRET_ACCESS_KEY": "a secret of the tests"}
    command = [str(program), "--quiet", "--port", f"{host}:{port}"]
    command += ["--access", access["AWS_ACCESS_KEY_ID"]]
    command += ["--secret", access["AWS_SECRET_ACCESS_KEY"]]
    if pair is not None:
        command += ["--cert", str(pair[0]), "--key", str(pair[1])]
    command += ["posix", "--sidecar", str(folder / "metadata"), str(folder / "objects")]
    with running(command, folder.with_suffix(".log"), lambda: answers(port, host)):
        # A folder of the top level is a bucket.
        (folder / "objects" / "homeport").mkdir()
        yield {
            "S3_BUCKET": "homeport",
            "S3_ENDPOINT": f"{'https' if pair else 'http'}://{host}:{port}",
            "S3_REGION": "us-east-1",
            **access,
        }
