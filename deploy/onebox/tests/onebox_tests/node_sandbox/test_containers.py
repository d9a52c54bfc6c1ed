"""Containers: starting, ending, failing to start, signals, probes, several in one pod."""

from __future__ import annotations

import asyncio
import os
import signal
import time

import pytest

from onebox.node.sandbox import Mount, Pod, PodGone, StartError
from onebox.testing.processes import processes_named

from .bench import DEADLINE_S, IS_ROOT, PYTHON, Bench, log_text, parent_of, until


async def refusal(bench: Bench, pod: Pod, *argv: str, **fields) -> StartError:
    with pytest.raises(StartError) as caught:
        await bench.start(pod, *argv, **fields)
    return caught.value


async def test_an_exit_code_is_reported(bench, pod):
    ended, _text = await bench.run(pod, "/bin/sh", "-c", "exit 7")
    assert (ended.code, ended.signal, ended.oom_killed) == (7, None, False)
    assert ended.started_at <= ended.finished_at


async def test_a_death_by_signal_is_reported_as_a_shell_has_it(bench, pod):
    ended, _text = await bench.run(pod, "/bin/sh", "-c", "kill -SEGV $$")
    assert (ended.code, ended.signal) == (128 + signal.SIGSEGV, signal.SIGSEGV)


async def test_a_program_that_is_not_in_path_is_named(bench, pod):
    error = await refusal(bench, pod, "no-such-program")
    assert (error.code, error.reason) == (127, "ContainerCannotRun")
    assert error.message == 'executable not found in PATH: "no-such-program"'


async def test_a_missing_file_is_named(bench, pod):
    error = await refusal(bench, pod, "/opt/no-such-program")
    assert (error.code, error.message) == (127, 'no such file: "/opt/no-such-program"')


async def test_a_file_without_the_executable_bit_is_not_executable(bench, pod):
    (bench.volume("src") / "train.py").write_text("#!/bin/sh\n")
    error = await refusal(bench, pod, "/src/train.py", mounts=(bench.mount("src", "/src"),))
    assert (error.code, error.reason) == (126, "ContainerCannotRun")
    assert "Permission denied" in error.message


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("#!/no/such/interpreter\n", "an interpreter that does not exist"),
        ("x", "neither a program"),
    ],
)
async def test_a_script_that_cannot_run_says_why(bench, pod, content, words):
    script = bench.volume("src") / "script"
    script.write_text(content)
    script.chmod(0o755)
    error = await refusal(bench, pod, "/src/script", mounts=(bench.mount("src", "/src"),))
    assert error.code == 126
    assert words in error.message


async def test_a_folder_is_not_executable(bench, pod):
    error = await refusal(bench, pod, "/usr")
    assert (error.code, error.message) == (126, 'not executable: "/usr" is a folder')


async def test_root_is_refused(bench, pod):
    error = await refusal(bench, pod, "/bin/true", run_as_uid=0)
    assert error.code == 128
    assert error.message == "container has runAsUser 0; onebox runs no container as root"


async def test_a_missing_volume_is_named(bench, pod):
    mount = Mount(source=str(bench.home / "nowhere"), path="/data")
    error = await refusal(bench, pod, "/bin/true", mounts=(mount,))
    assert (error.code, error.reason) == (128, "CreateContainerError")
    assert error.message.startswith('a volume cannot be mounted at "/data": ')
    assert str(bench.home) not in error.message  # people read it


@pytest.mark.parametrize("path", ["/", "/proc", "/proc/1", "/sys/x", "data", "/a/../etc"])
async def test_a_mount_path_that_would_break_the_container_is_refused(bench, pod, path):
    error = await refusal(bench, pod, "/bin/true", mounts=(bench.mount("data", path),))
    assert (error.code, error.reason) == (128, "CreateContainerError")
    assert f'"{path}"' in error.message


async def test_a_mount_inside_the_hosts_programs_says_that_it_is_read_only(bench, pod):
    error = await refusal(bench, pod, "/bin/true", mounts=(bench.mount("d", "/usr/new/data"),))
    assert "read-only" in error.message


async def test_after_a_failed_start_the_pod_still_runs_containers(bench, pod):
    await refusal(bench, pod, "no-such-program")
    assert await bench.shell(pod, "echo fine") == "fine\n"


async def test_the_identity_is_the_pods(bench, pod):
    uid, gid = (1234, 567) if IS_ROOT else (os.getuid(), os.getgid())
    text = await bench.shell(
        pod, "id -u; id -g; id -un; touch /tmp/f", run_as_uid=1234, run_as_gid=567
    )
    assert text == f"{uid}\n{gid}\nuser\n"


async def test_without_a_user_it_is_1000_and_100(bench):
    pod = await bench.pod(fs_gid=4242)
    text = await bench.python(pod, "import os; print(os.getuid(), os.getgid(), os.getgroups())")
    expected = "1000 100 [4242]\n" if IS_ROOT else f"{os.getuid()} {os.getgid()} "
    assert text.startswith(expected)


async def test_a_missing_working_directory_is_made_and_can_be_written(bench, pod):
    assert await bench.shell(pod, "pwd; touch file", cwd="/workspace/deep") == "/workspace/deep\n"


async def test_home_is_made_and_can_be_written(bench, pod):
    env = {"HOME": "/home/ada"}
    text = await bench.shell(pod, "touch ~/file; echo ~; grep ada /etc/passwd", env=env)
    assert text.splitlines()[0] == "/home/ada"


async def test_the_environment_is_the_containers_own(bench, pod):
    text = await bench.shell(pod, "env | sort", env={"A": "1", "B": "x y\nz"})
    assert text.splitlines() == [
        "A=1",
        "B=x y",
        "HOME=/",
        "HOSTNAME=alpha",
        "PATH=/usr/local/bin:/usr/bin:/bin",
        "PWD=/",
        "z",
    ]


async def test_ten_thousand_variables_arrive(bench, pod):
    env = {f"VARIABLE_{number}": "x" * 100 for number in range(10_000)}
    program = "import os; print(sum(name.startswith('VARIABLE_') for name in os.environ))"
    assert await bench.python(pod, program, env=env) == "10000\n"


@pytest.mark.parametrize("env", [{"A": "a\0b"}, {"A=B": "c"}, {"A": "\ud800"}])
async def test_an_impossible_variable_is_refused(bench, pod, env):
    error = await refusal(bench, pod, "/bin/true", env=env)
    assert (error.code, error.reason) == (128, "StartError")


async def test_the_standard_streams_can_be_opened_by_name(bench, pod):
    await bench.shell(
        pod, "echo out > /dev/stdout; echo err > /dev/stderr; echo two > /proc/self/fd/2"
    )
    assert sorted(log_text(bench.last_log).split()) == ["err", "out", "two"]


async def test_a_program_starts_with_three_descriptors_and_default_signals(bench, pod):
    program = """
import os
print(sorted(int(fd) for fd in os.listdir("/proc/self/fd"))[:-1])
lines = open("/proc/self/status").read().splitlines()
print([line for line in lines if line.startswith(("SigIgn", "SigBlk"))])
"""
    text = await bench.shell(pod, "cat /proc/self/status | grep -E 'SigIgn|SigBlk'")
    assert text == "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n"
    assert (await bench.python(pod, program)).splitlines()[0] == "[0, 1, 2]"


async def test_sigterm_reaches_the_main_process(bench, pod):
    script = "trap 'echo got it; exit 5' TERM; echo ready; while :; do sleep 0.05; done"
    container = await bench.start(pod, "/bin/sh", "-c", script)
    await until(lambda: "ready" in log_text(bench.last_log))
    await container.signal(signal.SIGTERM)
    ended = await asyncio.wait_for(container.wait(), DEADLINE_S)
    assert ended.code == 5
    assert "got it" in log_text(bench.last_log)


async def test_sigterm_ends_a_program_that_does_not_handle_it(bench, pod):
    container = await bench.start(pod, "/bin/sleep", "100")
    await container.signal(signal.SIGTERM)
    ended = await asyncio.wait_for(container.wait(), DEADLINE_S)
    assert (ended.code, ended.signal) == (143, signal.SIGTERM)
    await container.signal(signal.SIGTERM)  # nothing happens


async def test_what_a_program_leaves_behind_ends_with_it(bench, pod):
    volume = bench.mount("shared", "/shared")
    left = f"sleep 1{os.getpid()}"  # nobody else's here
    script = f"setsid {left} & while [ ! -e /shared/go ]; do sleep 0.02; done"
    container = await bench.start(pod, "/bin/sh", "-c", script, mounts=(volume,))
    await until(lambda: processes_named(left), "the left process")
    (bench.volume("shared") / "go").touch()
    assert (await asyncio.wait_for(container.wait(), DEADLINE_S)).code == 0
    assert processes_named(left) == []
    assert not pod.gone.is_set()


async def test_the_termination_message_is_read_up_to_4096_bytes(bench, pod):
    script = "head -c 5000 /dev/zero | tr '\\0' x > /dev/termination-log"
    ended, _text = await bench.run(pod, "/bin/sh", "-c", script)
    assert ended.message == "x" * 4096


async def test_the_termination_message_may_lie_elsewhere(bench, pod):
    script = "echo because > /var/run/why"
    path = "/run/why"
    ended, text = await bench.run(pod, "/bin/sh", "-c", script, termination_message_path=path)
    assert (ended.message, text) == ("because\n", "")


async def test_a_probe_runs_inside_with_the_same_user_and_mounts(bench, pod):
    (bench.volume("data") / "file").write_text("content")
    container = await bench.start(
        pod, "/bin/sleep", "100", mounts=(bench.mount("data", "/data"),), env={"X": "1"}
    )
    script = "cat /data/file; echo $X; id -u; echo err >&2; exit 3"
    code, output = await container.exec(("/bin/sh", "-c", script), 5)
    uid = 1000 if IS_ROOT else os.getuid()
    assert (code, output.decode()) == (3, f"content1\n{uid}\nerr\n")


async def test_a_probe_that_takes_too_long_is_killed(bench, pod):
    stays, probed = f"3{os.getpid()}", f"2{os.getpid()}"  # nobody else's here
    container = await bench.start(pod, "/bin/sleep", stays)
    began = time.monotonic()
    code, output = await container.exec(("/bin/sh", "-c", f"echo begun; sleep {probed}; echo"), 3)
    assert (code, output) == (-1, b"begun\n")
    assert time.monotonic() - began < DEADLINE_S
    assert processes_named(f"sleep {probed}") == []
    assert processes_named(f"/bin/sleep {stays}") == [container.pid]


async def test_the_output_of_a_probe_is_bounded(bench, pod):
    container = await bench.start(pod, "/bin/sleep", "100")
    code, output = await container.exec(("/bin/sh", "-c", "yes | head -c 1000000"), 5)
    assert (code, len(output)) == (0, 10 * 1024)


async def test_a_probe_that_cannot_start_says_why(bench, pod):
    container = await bench.start(pod, "/bin/sleep", "100")
    assert await container.exec(("nothing",), 5) == (
        127,
        b'executable not found in PATH: "nothing"',
    )


async def test_a_probe_of_an_ended_container_finds_it_gone(bench, pod):
    container = await bench.start(pod, "/bin/true")
    await container.wait()
    with pytest.raises(PodGone):
        await container.exec(("/bin/true",), 5)


async def test_containers_of_a_pod_share_network_and_volumes_but_not_roots(bench, pod):
    shared = Mount(source="scratch", path="/shared", kind="tmpfs", size_bytes=1 << 20)
    server = """
import socket
open("/shared/ready", "w").close()
server = socket.create_server(("127.0.0.1", 7777))
server.accept()[0].sendall(b"hello")
"""
    private = "open('/private', 'w').close();"
    await bench.start(pod, PYTHON, "-I", "-S", "-c", private + server, mounts=(shared,))
    client = """
import os, socket, time
while not os.path.exists("/shared/ready"):
    time.sleep(0.01)
while True:
    try:
        peer = socket.create_connection(("127.0.0.1", 7777))
        break
    except ConnectionRefusedError:
        time.sleep(0.01)
print(peer.recv(10).decode(), os.path.exists("/private"))
"""
    assert await bench.python(pod, client, mounts=(shared,)) == "hello False\n"


async def test_containers_of_a_pod_do_not_see_each_others_processes(bench, pod):
    await bench.start(pod, "/bin/sleep", "4321")
    text = await bench.shell(pod, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert "4321" not in text


async def test_a_pods_tmpfs_outlives_its_containers(bench, pod):
    shared = Mount(source="scratch", path="/shared", kind="tmpfs")
    await bench.shell(pod, "echo kept > /shared/file", mounts=(shared,))
    assert await bench.shell(pod, "cat /shared/file", mounts=(shared,)) == "kept\n"


async def test_removing_a_pod_ends_everything_in_it(bench, pod):
    script = "setsid sleep 1000 & exec sleep 1000"
    container = await bench.start(pod, "/bin/sh", "-c", script)
    pid = container.pid
    assert os.path.exists(f"/proc/{pid}")
    await pod.remove()
    assert pod.gone.is_set()
    assert not os.path.exists(f"/proc/{pid}")
    ended = await container.wait()
    assert (ended.code, ended.signal) == (137, signal.SIGKILL)
    await pod.remove()
    with pytest.raises(PodGone):
        await bench.start(pod, "/bin/true")
    assert not (bench.home / "pods" / pod.spec.uid).exists()


async def test_killing_the_pods_init_from_inside_is_impossible(bench, pod):
    text = await bench.shell(pod, "for s in 1 2 3 9 15 19; do kill -$s 1 || true; done; echo alive")
    assert "alive" in text
    assert not pod.gone.is_set()


async def test_a_pod_whose_init_dies_is_noticed(bench, pod):
    container = await bench.start(pod, "/bin/sleep", "1000")
    os.kill(parent_of(parent_of(container.pid)), signal.SIGKILL)
    await asyncio.wait_for(pod.gone.wait(), DEADLINE_S)
    assert (await container.wait()).code == 137


async def test_fifty_pods_start_within_seconds(bench):
    """Half a second on a quiet machine; the tests may run on one that is not."""

    async def one(number: int) -> None:
        pod = await bench.pod(f"many-{number}")
        await bench.start(pod, "/bin/sleep", "100")

    began = time.monotonic()
    await asyncio.gather(*(one(number) for number in range(50)))
    assert time.monotonic() - began < 30
