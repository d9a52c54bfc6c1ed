"""The sandbox's start on machines that can and cannot, and its end, however it comes."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from onebox.node.interpreter import real_interpreter
from onebox.node.sandbox import Exit, Mount, Sandbox, SandboxUnavailable
from onebox.node.trial import explain_refusal, judge
from onebox.testing import IN_PLAIN_CONTAINER
from onebox.testing.processes import processes_named

from .bench import DEADLINE_S, IS_ROOT, until

TESTS = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
NODE = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from onebox_tests.node_sandbox.bench import Bench
from onebox.node.sandbox import Sandbox, SandboxUnavailable

async def main():
    home = Path(sys.argv[2])
    try:
        bench = Bench(await Sandbox.start(home), home)
    except SandboxUnavailable as error:
        print("unavailable:", error, flush=True)
        return
    for marker in sys.argv[3:]:
        await bench.start(await bench.pod(), "/bin/sh", "-c", f"setsid sleep {marker} & exec sleep {marker}")
    print("running", flush=True)
    await asyncio.sleep(1000)

asyncio.run(main())
"""


def start_node(home: Path, *markers: str, wrapper: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    argv = [*wrapper, sys.executable, "-c", NODE, str(TESTS), str(home), *markers]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)


def children_of(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def mounts_below(folder: Path) -> list[str]:
    found = []
    for mounts in Path("/proc").glob("[0-9]*/mounts"):
        try:
            found += [line for line in mounts.read_text().splitlines() if f" {folder}/" in line]
        except OSError:
            continue
    return found


async def test_the_mode_is_the_users(bench):
    assert bench.sandbox.mode == ("root" if IS_ROOT else "user")
    assert bench.sandbox.notes == ()


async def test_closing_leaves_nothing(tmp_path):
    sandbox = await Sandbox.start(tmp_path)
    holder = sandbox._process
    assert holder is not None
    await sandbox.close()
    assert holder.returncode is not None
    assert mounts_below(tmp_path) == []
    assert sorted(path.name for path in tmp_path.rglob("*")) in (
        ["sandbox.lock"],
        ["pods", "sandbox.lock"],
    )
    await sandbox.close()


async def test_a_home_is_used_by_one_node_at_a_time(bench):
    with pytest.raises(SandboxUnavailable, match="another node uses the home"):
        await Sandbox.start(bench.home)
    assert await bench.shell(await bench.pod(), "echo still fine") == "still fine\n"


async def test_a_home_that_cannot_be_made_is_said(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(SandboxUnavailable, match="the node's home cannot be written"):
        await Sandbox.start(tmp_path / "file" / "home")


@pytest.mark.skipif(not IS_ROOT, reason="only root's pods run as somebody else")
async def test_an_interpreter_that_pods_cannot_reach_is_said(tmp_path, monkeypatch):
    private = tmp_path / "bin" / "python"
    private.parent.mkdir()
    shutil.copy(real_interpreter(), private)
    private.chmod(0o700)
    mount = Mount(source=str(private.parent), path=str(private.parent), read_only=True)
    monkeypatch.setattr("onebox.node.trial.real_interpreter", lambda: str(private))
    monkeypatch.setattr("onebox.node.trial.interpreter_mounts", lambda: (mount,))
    with pytest.raises(SandboxUnavailable) as caught:
        await Sandbox.start(tmp_path)
    assert f"they cannot reach the Python at {private}" in str(caught.value)
    assert "Permission denied" in str(caught.value)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSEGV])
async def test_a_killed_node_leaves_no_process_and_no_mount(tmp_path, how):
    markers = [f"87{number}{os.getpid()}" for number in range(3)]
    node = start_node(tmp_path, *markers)
    assert node.stdout is not None
    assert await asyncio.to_thread(node.stdout.readline) == "running\n"
    commands = [f"sleep {marker}" for marker in markers]
    await until(lambda: all(len(processes_named(command)) == 2 for command in commands))
    holder = children_of(node.pid)[0]
    node.send_signal(how)
    await asyncio.to_thread(node.wait)
    node.stdout.close()
    await until(lambda: not any(map(processes_named, commands)), "the pods' end")
    await until(lambda: not os.path.exists(f"/proc/{holder}"), "the holder's end")
    assert mounts_below(tmp_path) == []
    sandbox = await Sandbox.start(tmp_path)  # the same home can be used again
    await sandbox.close()


async def test_the_loss_of_the_holder_is_noticed(own_bench):
    bench = own_bench
    pod = await bench.pod()
    container = await bench.start(pod, "/bin/sleep", "100")
    bench.sandbox._process.kill()
    await asyncio.wait_for(bench.sandbox.lost.wait(), DEADLINE_S)
    assert (await asyncio.wait_for(container.wait(), DEADLINE_S)).code == 137
    await asyncio.wait_for(pod.gone.wait(), DEADLINE_S)
    with pytest.raises(OSError, match="closed"):
        await bench.pod()
    with pytest.raises(OSError, match="closed"):
        await bench.sandbox.connect("10.244.0.9", 1)


async def test_starting_from_another_thread_is_refused(tmp_path):
    """The kernel ends the holder with the thread that started it."""
    problems = []

    def start() -> None:
        try:
            asyncio.run(Sandbox.start(tmp_path))
        except SandboxUnavailable as error:
            problems.append(str(error))

    thread = threading.Thread(target=start)
    thread.start()
    await asyncio.to_thread(thread.join)
    assert problems == ["the sandbox must be started from the main thread"]


@pytest.mark.skipif(IS_ROOT, reason="root needs no user namespace")
async def test_without_user_namespaces_it_says_which_switch_to_turn(tmp_path):
    wrapper = (sys.executable, str(HERE / "without_user_namespaces.py"))
    node = start_node(tmp_path, wrapper=wrapper)
    output, _ = await asyncio.to_thread(node.communicate, timeout=DEADLINE_S)
    assert output.startswith("unavailable: Pods cannot run here: user namespaces are switched off")
    assert "sysctl -w user.max_user_namespaces=15000" in output


@pytest.mark.skipif(not IS_ROOT, reason="takes rights that only root can give up")
async def test_root_without_rights_says_what_is_missing(tmp_path):
    setpriv = ("setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin")
    drop = (*IN_PLAIN_CONTAINER, "--only-notification", "busy")
    wrapper = (*drop, *setpriv)
    node = start_node(tmp_path, wrapper=wrapper)
    output, _ = await asyncio.to_thread(node.communicate, timeout=DEADLINE_S)
    assert "root lacks CAP_SYS_ADMIN here" in output
    assert "--privileged" in output
    assert "answering their system calls, they cannot run either" in output


def test_refusals_in_words():
    assert "modprobe bridge veth" in explain_refusal(
        "network", "Operation not supported", is_root=True
    )
    old = explain_refusal("container", "mount_setattr: Function not implemented", is_root=True)
    assert "Linux 5.12 or newer is needed" in old
    assert "Use an interpreter that everybody may read" in explain_refusal(
        "interpreter", "Permission denied", is_root=True
    )


def test_the_trial_is_judged():
    now = datetime.now(UTC)
    good = {"own_proc": True, "seccomp": True, "capabilities": 0, "uid": 1000}

    def ended(code: int = 0, **changes: object) -> Exit:
        return Exit(code, None, False, now, now, json.dumps({**good, **changes}))

    assert judge(ended(), "") == ()
    assert "masks /proc" in judge(ended(own_proc=False), "")[0]
    assert "seccomp" in judge(ended(seccomp=False), "")[0]
    with pytest.raises(SandboxUnavailable, match="kept rights of root"):
        judge(ended(capabilities=1), "")
    with pytest.raises(SandboxUnavailable, match="kept rights of root"):
        judge(ended(uid=0), "")
    with pytest.raises(SandboxUnavailable, match="ended with code 1: OSError: no port"):
        judge(ended(code=1), "Traceback\nOSError: no port\n")


async def test_a_pod_uid_that_is_no_folder_name_is_refused(bench):
    with pytest.raises(ValueError, match="cannot be the uid"):
        await bench.pod(uid="../../etc")


async def test_a_pod_that_cannot_be_set_up_is_refused_and_leaves_nothing(bench):
    with pytest.raises(OSError, match="Invalid argument"):
        await bench.pod(hostname="x" * 65)
    await until(lambda: not bench.sandbox._pods, "the pod's end")
    await until(lambda: not children_of(bench.sandbox._process.pid), "the init's end")


async def test_a_pod_that_nobody_waits_for_any_more_is_not_left(bench):
    for pause_s in (0, 0.001, 0.003, 0.005):
        task = asyncio.create_task(bench.pod())
        await asyncio.sleep(pause_s)
        task.cancel()
        made = (await asyncio.gather(task, return_exceptions=True))[0]
        if not isinstance(made, BaseException):
            await made.remove()
    holder = bench.sandbox._process.pid
    await until(lambda: not children_of(holder), "the inits' end")
    assert await bench.shell(await bench.pod(), "echo fine") == "fine\n"
