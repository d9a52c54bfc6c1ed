"""Limits: memory (by the kernel or watched), processor time, and their control groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from onebox.node.cgroup import (
    Cgroups,
    Group,
    Resources,
    _hierarchies,
    cpu_shares,
    cpu_weight,
    find_cgroups,
    settings_v1,
    settings_v2,
)
from onebox.node.containerinit import MemoryWatch
from onebox.node.sandbox import Sandbox
from onebox.node.trial import describe_limits

from .bench import PYTHON
from .conftest import as_root

MIB = 1 << 20
# Fills memory as fast as the machine can.
FILL = "import sys, time; data = bytearray(int(sys.argv[1])); time.sleep(float(sys.argv[2]))"


async def fill(bench, pod, megabytes: int, sleep_s: float, limit_mib: int):
    argv = (PYTHON, "-I", "-S", "-c", FILL, str(megabytes * MIB), str(sleep_s))
    ended, _text = await bench.run(pod, *argv, memory_bytes=limit_mib * MIB)
    return ended


async def test_a_container_over_its_memory_limit_is_oom_killed(bench, pod):
    ended = await fill(bench, pod, 200, 5, 100)
    assert (ended.code, ended.signal, ended.oom_killed) == (137, 9, True)


async def test_one_that_exceeds_it_only_for_a_moment_is_oom_killed_too(bench, pod):
    ended = await fill(bench, pod, 200, 0, 100)
    assert (ended.code, ended.oom_killed) == (137, True)


async def test_one_below_its_limit_is_left_alone(bench, pod):
    ended = await fill(bench, pod, 60, 0.3, 100)
    assert (ended.code, ended.oom_killed) == (0, False)


async def test_memory_shared_after_a_fork_counts_once(bench, pod):
    program = """
import os, time
data = bytearray(50 << 20)
children = []
for _ in range(4):
    pid = os.fork()
    if pid == 0:
        time.sleep(0.4)
        os._exit(0)
    children.append(pid)
for pid in children:
    os.waitpid(pid, 0)
"""
    await bench.python(pod, program, memory_bytes=100 * MIB)


async def test_a_killed_child_counts_when_the_program_fails_of_it(bench, pod):
    program = f"import subprocess, sys; sys.exit(subprocess.run([{PYTHON!r}, '-I', '-S', '-c', {FILL!r}, str(200 << 20), '5']).returncode != 0)"
    ended, _text = await bench.run(pod, PYTHON, "-I", "-S", "-c", program, memory_bytes=100 * MIB)
    assert ended.oom_killed
    assert ended.code in (1, 137)


async def test_a_container_sees_how_many_of_its_processes_were_ended_for_memory(bench, pod):
    """As with a kubelet, whose containers see their control group: no other program sees it."""
    if bench.sandbox.limits.memory != "cgroup":
        pytest.skip("no control group limits memory here: the whole container is ended")
    program = f"""
import glob, subprocess, sys
[path] = glob.glob("/sys/fs/cgroup/memory.events") + glob.glob("/sys/fs/cgroup/memory/memory.oom_control")
def kills():
    return [int(line.split()[1]) for line in open(path) if line.startswith("oom_kill ")]
print(kills(), flush=True)
subprocess.run([{PYTHON!r}, "-I", "-S", "-c", {FILL!r}, str(200 << 20), "5"])
print(kills(), flush=True)
try:
    open(path, "w")
except OSError as error:
    print(type(error).__name__)
"""
    ended, text = await bench.run(pod, PYTHON, "-I", "-S", "-c", program, memory_bytes=100 * MIB)
    lines = text.splitlines()
    assert lines[0] == "[0]", text
    # Version 2 ends all of the group at once.
    assert ended.oom_killed or lines[1] == "[1]", text
    assert ended.oom_killed or lines[2] in {"OSError", "PermissionError"}, text


async def test_other_containers_of_the_pod_live_on(bench, pod):
    other = await bench.start(pod, "/bin/sleep", "100", memory_bytes=50 * MIB)
    assert (await fill(bench, pod, 200, 5, 100)).oom_killed
    assert (await other.exec(("/bin/true",), 5))[0] == 0


async def test_a_killed_program_that_used_little_is_not_oom_killed(bench, pod):
    ended, _text = await bench.run(pod, "/bin/sh", "-c", "kill -9 $$", memory_bytes=100 * MIB)
    assert (ended.code, ended.oom_killed) == (137, False)


async def test_what_is_enforced_is_said(bench):
    limits = bench.sandbox.limits
    assert limits.memory in ("cgroup", "watched")
    assert limits.text
    assert limits.cpu == (limits.memory == "cgroup")


@as_root
async def test_processor_time_is_limited(bench, pod):
    if not bench.sandbox.limits.cpu:
        pytest.skip("no control groups for processor time here")
    program = """
import time
began = time.monotonic()
while time.monotonic() - began < 1: pass
print(time.process_time())
"""
    used_s = float(await bench.python(pod, program, cpu_millicores=200))
    assert used_s < 0.45


@as_root
async def test_the_groups_carry_the_limits_and_are_removed_with_the_pod(bench, pod):
    cgroups = find_cgroups(bench.home, is_root=True)
    assert cgroups is not None
    container = await bench.start(
        pod, "/bin/sleep", "100", memory_bytes=64 * MIB, cpu_millicores=500, name="main"
    )
    bases = set(cgroups._bases.values())
    for base in bases:
        procs = (base / pod.spec.uid / "main-1" / "cgroup.procs").read_text().split()
        assert procs == [str(container.pid)]
    limit = "memory.limit_in_bytes" if cgroups.version == 1 else "memory.max"
    memory = cgroups._bases["memory"] / pod.spec.uid / "main-1" / limit
    assert int(memory.read_text()) == 64 * MIB
    _code, output = await container.exec(("/bin/sh", "-c", "cat /proc/self/cgroup"), 5)
    assert f"{pod.spec.uid}/main-1" in output.decode()
    await pod.remove()
    assert [base / pod.spec.uid for base in bases if (base / pod.spec.uid).exists()] == []


@as_root
async def test_groups_of_a_killed_node_are_removed_at_the_next_start(tmp_path):
    cgroups = find_cgroups(tmp_path, is_root=True)
    assert cgroups is not None
    cgroups.make("left-over", "main-1", Resources(MIB, None, 0))
    left = [base / "left-over" for base in set(cgroups._bases.values())]
    elsewhere = next(iter(cgroups._bases.values())).parent / "onebox-test-session"
    another_session = elsewhere / next(iter(cgroups._bases.values())).name / "uid"
    another_session.mkdir(parents=True)
    left.append(another_session)
    sandbox = await Sandbox.start(tmp_path)
    elsewhere.rmdir()
    assert [path for path in left if path.exists()] == []
    await sandbox.close()
    assert [base for base in set(cgroups._bases.values()) if base.exists()] == []


def test_requests_become_weights_as_the_kubelet_has_it():
    assert [cpu_shares(m) for m in (0, 1, 100, 1000, 2500)] == [2, 2, 102, 1024, 2560]
    assert [cpu_weight(m) for m in (0, 100, 1000, 300_000)] == [1, 4, 39, 10000]


def test_the_settings_of_both_versions():
    resources = Resources(memory_bytes=1000, cpu_millicores=1500, cpu_shares_millicores=1000)
    assert settings_v1(resources) == [
        ("pids", "pids.max", "8192"),
        ("cpu", "cpu.shares", "1024"),
        ("memory", "memory.limit_in_bytes", "1000"),
        ("memory", "memory.memsw.limit_in_bytes", "1000"),
        ("cpu", "cpu.cfs_period_us", "100000"),
        ("cpu", "cpu.cfs_quota_us", "150000"),
    ]
    assert settings_v2(resources) == [
        ("pids", "pids.max", "8192"),
        ("cpu", "cpu.weight", "39"),
        ("memory", "memory.max", "1000"),
        ("memory", "memory.swap.max", "0"),
        ("memory", "memory.oom.group", "1"),
        ("cpu", "cpu.max", "150000 100000"),
    ]
    unlimited = Resources(None, None, 0)
    assert [file for _controller, file, _text in settings_v2(unlimited)] == [
        "pids.max",
        "cpu.weight",
    ]


def test_hierarchies_are_read_from_the_kernels_lists():
    """As on a Debian 12 with systemd, and inside a container whose mount shows a part."""
    unified = "30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
    own = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/run.scope\n"
    (found,) = _hierarchies(unified, own)
    slice_ = Path("/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice")
    assert (found.version, found.own) == (2, slice_ / "run.scope")
    memory = "35 30 0:31 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
    (found,) = _hierarchies(memory, "5:memory:/docker/abc/x\n3:cpuset:/docker/abc\n")
    assert (found.version, found.own) == (1, Path("/sys/fs/cgroup/memory/x"))
    assert found.controllers == frozenset({"memory"})


async def test_version_2_groups_are_laid_out_and_read(tmp_path):
    """On a folder that looks like a hierarchy; the files of a real one exist by themselves."""
    base = tmp_path / "onebox"
    base.mkdir()
    cgroups = Cgroups(2, dict.fromkeys(("cpu", "memory", "pids"), base))
    group = cgroups.make("uid-1", "main-1", Resources(1000, 500, 100))
    assert (base / "uid-1" / "cgroup.subtree_control").read_text() == "+cpu +memory +pids"
    events = base / "uid-1" / "main-1" / "memory.events"
    events.write_text("low 0\nhigh 0\nmax 12\noom 1\noom_kill 3\noom_group_kill 1\n")
    assert group.oom_kills() == 3
    assert Group([], None).oom_kills() == 0


def test_a_watch_measures_sooner_the_less_room_there_is():
    roomy, tight = MemoryWatch(1 << 50), MemoryWatch(1 << 50)
    roomy._sum = lambda _file, _wanted: 0
    tight._sum = lambda _file, _wanted: (1 << 50) - MIB
    assert roomy.measure() == 1.0
    assert tight.measure() == 0.05
    assert [round(tight.measure(), 3) for _ in range(30)][-1] == 0.25  # it rests
    tight._sum = lambda file, _wanted: (1 << 50) + (1 if file == "status" else -2 * MIB)
    assert tight.measure() == 0.05  # shared pages, counted exactly
    tight._sum = lambda _file, _wanted: (1 << 50) + 1
    assert tight.measure() < 0


def test_limits_in_words():
    assert "watched" in describe_limits(None).text
    some = Cgroups(1, {"memory": Path("/x")})
    assert describe_limits(some).text.endswith("limits of CPU and processes are not enforced")
    assert describe_limits(some).pids is False
