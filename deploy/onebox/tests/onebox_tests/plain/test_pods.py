"""Pods without namespaces: files, programs, addresses, and that they end whole."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from onebox.node.kinds import PLAIN
from onebox.node.sandbox import Mount, Pod, Sandbox
from onebox.testing.processes import processes_named
from onebox_tests.node_sandbox.bench import PYTHON, Bench, parent_of, until

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_bench() -> AsyncIterator[Bench]:
    home = Path(tempfile.mkdtemp(prefix="onebox-plain-"))
    made = Bench(await Sandbox._start_kind(home.resolve(), (1 << 29, 1 << 31), PLAIN), home)
    yield made
    await made.close()


@pytest_asyncio.fixture(loop_scope="module")
async def bench(shared_bench: Bench) -> AsyncIterator[Bench]:
    yield shared_bench
    await shared_bench.clear()


@pytest_asyncio.fixture(loop_scope="module")
async def pod(bench: Bench) -> Pod:
    return await bench.pod("alpha")


def volume(bench: Bench, name: str, path: str, **fields: bool) -> Mount:
    """A volume that belongs to the one user that there is."""
    folder = bench.home / "volumes" / name
    folder.mkdir(parents=True, exist_ok=True)
    return Mount(source=str(folder), path=path, **fields)


async def test_volumes_lie_at_their_paths(bench: Bench, pod: Pod) -> None:
    mounts = (volume(bench, "d", "/data"), volume(bench, "l", "/log"))
    program = """
import os, shutil, subprocess, tempfile
os.makedirs("/data/a/b")
with open("/data/a/b/file", "w") as file: file.write("text")
os.rename("/data/a/b/file", "/log/moved")
os.link("/log/moved", "/log/linked")
os.symlink("/log/moved", "/data/link")
os.chdir("/data/a")
with open("relative", "w") as file: file.write("here")
os.rename("relative", "/log/was-relative")
print(os.getcwd(), open("/data/link").read(), os.readlink("/data/link"))
print(sorted(os.listdir("/log")), os.stat("/log/moved").st_nlink, os.path.realpath("/data/link"))
print(subprocess.run(["pwd"], cwd="/log", capture_output=True, text=True).stdout.strip())
os.umask(0o077)
os.mkdir("/data/private"); open("/data/private/x", "w").close()
print(oct(os.stat("/data/private").st_mode & 0o777), oct(os.stat("/data/private/x").st_mode & 0o777))
shutil.copytree("/data/a", "/data/copy"); shutil.rmtree("/data/copy")
print(os.path.exists("/data/copy"), shutil.disk_usage("/data").total > 0, os.access("/log", os.W_OK))
os.truncate("/log/moved", 2); os.chmod("/log/moved", 0o600); os.utime("/log/moved", (1, 2))
print(open("/log/moved").read(), os.stat("/log/moved").st_mtime)
folder = os.open("/data", os.O_RDONLY)
os.rename("private", "/log/private", src_dir_fd=folder)
print(os.listdir("/log/private"))
print(len(tempfile.mkdtemp()) > 0, os.listdir("/tmp") != [])
"""
    text = await bench.python(pod, program, mounts=mounts)
    assert text.splitlines() == [
        "/data/a text /log/moved",
        "['linked', 'moved', 'was-relative'] 2 /log/moved",
        "/log",
        "0o700 0o600",
        "False True True",
        "te 2.0",
        "['x']",
        "True True",
    ]
    assert (bench.home / "volumes" / "l" / "moved").read_text() == "te"


async def test_what_cannot_be_written_is_refused(bench: Bench, pod: Pod) -> None:
    mounts = (volume(bench, "d", "/data", read_only=True), volume(bench, "l", "/log"))
    (bench.home / "volumes" / "d" / "file").write_text("text")
    program = """
import os
for action in (
    lambda: open("/data/file", "a"), lambda: open("/data/new", "w"), lambda: os.mkdir("/data/x"),
    lambda: os.unlink("/data/file"), lambda: os.rename("/data/file", "/log/file"),
    lambda: open("/usr/bin/new", "w"), lambda: os.rmdir("/log"), lambda: os.rename("/log", "/x"),
):
    try: action()
    except OSError as error: print(error.strerror)
print(open("/data/file").read(), os.access("/data/file", os.W_OK), os.access("/data/file", os.R_OK))
"""
    text = await bench.python(pod, program, mounts=mounts)
    refused = ["Read-only file system"] * 6 + ["Device or resource busy"] * 2
    assert text.splitlines() == [*refused, "text False True"]


async def test_own_files_lie_where_they_are_counted_and_go_with_their_container(
    bench: Bench, pod: Pod
) -> None:
    container = await bench.start(
        pod, "/bin/sh", "-c", "echo x > /srv/a; echo x > /tmp/b; sleep 600"
    )
    [(name, folder)] = pod.own_folders()
    assert name == container.name
    await until(lambda: (folder / "tmp" / "b").exists(), "the files are written")
    assert (folder / "root" / "srv" / "a").read_text() == "x\n"
    await container.signal(signal.SIGKILL)
    await container.wait()
    await until(lambda: not folder.exists(), "they are removed")
    assert pod.own_folders() == []


async def test_the_machines_own_files_are_not_seen(bench: Bench, pod: Pod) -> None:
    secret = bench.home / "secret"
    secret.write_text("secret")
    program = f"""
import os
print([os.path.exists(path) for path in ({str(secret)!r}, "/etc/shadow", "/boot", "/var/lib/dpkg")])
os.makedirs("/opt/own/folder"); open("/file", "w").write("x")
print(os.listdir("/opt"), open("/file").read(), os.path.exists("/etc/passwd"))
"""
    text = await bench.python(pod, program)
    assert text == "[False, False, False, False]\n['own'] x True\n"
    assert not Path("/file").exists()


async def test_programs_in_volumes_run_even_by_an_interpreter_in_a_volume(
    bench: Bench, pod: Pod
) -> None:
    mounts = (volume(bench, "d", "/data"),)
    script = """
import os, subprocess, sys
for name, line in (("shell", "#!/bin/sh\\necho shell $0 $1"), ("own", "#!/data/bin/sh -e\\necho own $0 $1")):
    os.makedirs("/data/bin", exist_ok=True)
    if not os.path.lexists("/data/bin/sh"): os.symlink("/bin/sh", "/data/bin/sh")
    open(f"/data/bin/{name}", "w").write(line + "\\n")
    os.chmod(f"/data/bin/{name}", 0o755)
    print(subprocess.run([f"/data/bin/{name}", "one"], capture_output=True, text=True).stdout.split())
os.environ["PATH"] = "/nowhere:/data/bin:/usr/bin:/bin"
print(subprocess.run(["own", "two"], capture_output=True, text=True).stdout.split())
try: subprocess.run(["/data/bin/absent"])
except FileNotFoundError as error: print(error.filename)
"""
    text = await bench.python(pod, script, mounts=mounts)
    shell, own = "['shell', '/data/bin/shell', 'one']", "['own', '/data/bin/own', 'one']"
    lines = [shell, own, "['own', '/data/bin/own', 'two']", "/data/bin/absent"]
    assert text.splitlines() == lines


async def test_folders_are_found_from_those_above_them(bench: Bench, pod: Pod) -> None:
    mounts = (volume(bench, "d", "/home/data"), volume(bench, "i", "/home/data/inner"))
    (bench.home / "volumes" / "d" / "file").write_text("text")
    script = "cd / && ls && pwd && cat home/data/file && cd home && ls && cat data/file && ls ../usr/bin/env"
    text = await bench.shell(pod, script, mounts=mounts)
    names, _, rest = text.partition("/\n")
    assert {"dev", "etc", "home", "proc", "tmp", "usr"} <= set(names.split())
    assert "boot" not in names.split()
    assert rest.split() == ["textdata", "text../usr/bin/env"]


async def test_pods_listen_on_the_same_port_and_know_each_other(bench: Bench) -> None:
    server = """
import socket
listener = socket.create_server(("0.0.0.0", 2222)); listener6 = socket.create_server(("::", 81), family=socket.AF_INET6, dualstack_ipv6=True)
while True:
    connection, (ip, _port) = listener.accept()
    connection.sendall((ip + " " + socket.gethostname()).encode()); connection.close()
"""
    pods = [await bench.pod(f"p{number}") for number in range(2)]
    for made in pods:
        await bench.start(made, *_python(server))
    client = f"""
import socket, time
for host in ({pods[0].ip!r}, {pods[1].ip!r}, "127.0.0.1"):
    for _ in range(100):
        try: connection = socket.create_connection((host, 2222), 5); break
        except ConnectionRefusedError: time.sleep(0.05)
    print(connection.recv(100).decode())
socket.create_connection(("localhost", 81), 5)
"""
    text = await bench.python(pods[0], client)
    own = pods[0].ip.replace("10.244.", "127.88.")
    assert [line.split()[1] for line in text.splitlines()] == ["p0", "p1", "p0"]
    assert {line.split()[0].split(".", 2)[2] for line in text.splitlines()} == {
        own.split(".", 2)[2]
    }
    connection = await bench.sandbox.connect(pods[1].ip, 2222)
    assert b" p1" in await asyncio.get_running_loop().sock_recv(connection, 100)
    connection.close()


async def test_local_sockets_lie_in_the_pods_folders(bench: Bench, pod: Pod) -> None:
    program = """
import os, socket
server = socket.socket(socket.AF_UNIX); server.bind("/tmp/own.socket"); server.listen()
client = socket.socket(socket.AF_UNIX); client.connect("/tmp/own.socket")
server.accept()[0].sendall(b"hello")
print(client.recv(10).decode(), os.listdir("/tmp"))
"""
    assert await bench.python(pod, program) == "hello ['own.socket']\n"
    assert not Path("/tmp/own.socket").exists()


async def test_whoever_opens_a_pipe_waits_for_the_other_end(bench: Bench, pod: Pod) -> None:
    script = "mkfifo /data/pipe; (sleep 0.3; echo through > /data/pipe) & cat /data/pipe"
    text = await bench.shell(pod, script, mounts=(volume(bench, "d", "/data"),))
    assert text == "through\n"


async def test_a_program_that_hides_its_memory_goes_on(bench: Bench, pod: Pod) -> None:
    program = """
import ctypes, os
ctypes.CDLL(None).prctl(4, 0)  # PR_SET_DUMPABLE
print(os.path.exists("/usr"), os.path.exists("/no/such/file"))
"""
    assert await bench.python(pod, program) == "True False\n"


async def test_a_program_that_ends_at_once_is_noticed(bench: Bench, pod: Pod) -> None:
    for _ in range(10):
        ended, _text = await bench.run(pod, "/bin/true")
        assert ended.code == 0


async def test_a_signal_to_everybody_reaches_the_container_alone(bench: Bench, pod: Pod) -> None:
    other = await bench.start(await bench.pod("other"), "/bin/sleep", "100")
    ended, _text = await bench.run(pod, "/bin/sh", "-c", "sleep 100 & sleep 100 & kill -9 -1")
    assert ended.code in (0, 137)
    assert other.pid
    assert Path(f"/proc/{other.pid}").exists()


@pytest.mark.parametrize("victim", ["supervisor", "init", "pod"])
async def test_nothing_is_left_of_a_pod_whoever_is_killed(bench: Bench, victim: str) -> None:
    marker = f"76{os.getpid()}.{len(victim)}"
    pod = await bench.pod()
    script = f"setsid sleep {marker} & (setsid sh -c 'sleep {marker} & sleep {marker}' &) ; exec sleep {marker}"
    container = await bench.start(pod, "/bin/sh", "-c", script)
    await until(lambda: len(processes_named(f"sleep {marker}")) == 4, "four processes")
    supervisor = parent_of(container.pid)
    if victim == "pod":
        await pod.remove()
    else:
        os.kill(supervisor if victim == "supervisor" else parent_of(supervisor), signal.SIGKILL)
    await until(lambda: not processes_named(f"sleep {marker}"), "the end of all")
    assert (await asyncio.wait_for(container.wait(), 20)).code == 137


async def test_many_processes_at_once_are_all_answered(bench: Bench, pod: Pod) -> None:
    program = """
import concurrent.futures as futures, os, threading
def work(number):
    for turn in range(60):
        path = f"/data/{number}-{turn}"
        with open(path, "w") as file: file.write(path)
        assert open(path).read() == path and os.stat(path).st_size == len(path)
        os.unlink(path)
    return 1
def threads(number):
    with futures.ThreadPoolExecutor(4) as pool:
        return sum(pool.map(work, [f"{number}-{n}" for n in range(4)]))
with futures.ProcessPoolExecutor(4) as pool:
    print(sum(pool.map(threads, range(4))))
"""
    assert await bench.python(pod, program, mounts=(volume(bench, "d", "/data"),)) == "16\n"


def _python(program: str) -> tuple[str, ...]:
    return (PYTHON, "-I", "-S", "-c", program)
