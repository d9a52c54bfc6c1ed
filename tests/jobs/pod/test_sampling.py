"""What a pod uses: the kernel's files of both versions, a driver's library, minutes, and a portal that is away.

The files of version 2 are those of a group on Linux 6.18 with half a processor and 256 MiB, as seen from its own
namespace. Other layouts are those of containers with a mount of their own, or of the whole tree.
"""

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from jobs.pod import nvml, sampling
from jobs.pod.errors import PortalError
from jobs.pod.nvml import Gpus
from jobs.pod.sampling import (
    Cgroup,
    Processes,
    Reader,
    Reading,
    Sampler,
    find_cgroup,
    find_oom_file,
)

MIB = 2**20
POD = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podab12.slice/cri-containerd-7f.scope"
CPU_2 = """usage_usec 1876547
user_usec 930116
system_usec 946431
nice_usec 0
nr_periods 37
nr_throttled 37
throttled_usec 1830110
nr_bursts 0
burst_usec 0
"""
MEMORY_2 = (
    "anon 125870080\nfile 31510528\nkernel 1335296\nshmem 0\nfile_thp 31457280\ninactive_anon 125685760\n"
    "active_anon 16384\ninactive_file 31498240\nactive_file 12288\nunevictable 0\n"
)
CURRENT_2 = 159252480
MEMORY_1 = "cache 31510528\ninactive_file 1\ntotal_cache 31510528\ntotal_inactive_file 31498240\n"
USED = Reading(cpu_s=1.876547, memory_bytes=127754240, periods=37, throttled=37)


def tree(top: Path, groups: str, mounts: str, files: dict[str, str]) -> str:
    """A file system in which a container finds its group."""
    for name, text in {"proc/self/cgroup": groups, "proc/self/mountinfo": mounts, **files}.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)
    return str(top)


def of_2(folder: str) -> dict[str, str]:
    return {
        f"{folder}/cpu.stat": CPU_2,
        f"{folder}/memory.current": f"{CURRENT_2}\n",
        f"{folder}/memory.stat": MEMORY_2,
    }


V1 = {
    "cpu,cpuacct/cpu.stat": "nr_periods 37\nnr_throttled 37\nthrottled_time 1830110000\n",
    "cpu,cpuacct/cpuacct.usage": "1876547000\n",
    "memory/memory.usage_in_bytes": f"{CURRENT_2}\n",
    "memory/memory.stat": MEMORY_1,
}
MOUNT_2 = "39 38 0:28 {root} /sys/fs/cgroup rw,relatime - cgroup2 cgroup rw,nsdelegate,memory_recursiveprot\n"
MOUNTS_1 = (
    "1 0 0:20 / /sys/fs/cgroup ro - tmpfs tmpfs rw,mode=755\n"
    f"2 1 0:21 {POD} /sys/fs/cgroup/cpu,cpuacct ro shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
    f"3 1 0:22 {POD} /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
    "5 1 0:24 / /mnt ro - tmpfs  rw,size=1k\n"  # its source is empty
    "4 1 0:23 / /sys/fs/cgroup/unified ro - cgroup2 cgroup2 rw\n"
)


@pytest.mark.parametrize(
    ("method", "groups", "mounts", "files"),
    [
        ("cgroup2", "0::/\n", MOUNT_2.format(root="/"), of_2("sys/fs/cgroup")),
        ("cgroup2", f"0::{POD}\n", MOUNT_2.format(root=POD), of_2("sys/fs/cgroup")),
        ("cgroup2", f"0::{POD}\n", MOUNT_2.format(root="/"), of_2(f"sys/fs/cgroup{POD}")),
        (
            "cgroup1",
            f"4:memory:{POD}\n3:cpu,cpuacct:{POD}\n1:name=systemd:{POD}\n0::/\n",
            MOUNTS_1,
            {f"sys/fs/cgroup/{name}": text for name, text in V1.items()},
        ),
    ],
    ids=["v2-namespace", "v2-own-mount", "v2-whole-tree", "v1"],
)
def test_the_own_group_is_found_and_read(
    tmp_path: Path, method: str, groups: str, mounts: str, files: dict[str, str]
) -> None:
    found = find_cgroup(tree(tmp_path, groups, mounts, files))
    assert isinstance(found, Cgroup)
    assert (found.method, found.read()) == (method, USED)


def test_the_kernels_top_group_is_nobodys_own(tmp_path: Path) -> None:
    # It has no memory.current: what would be read is the whole machine.
    top = tree(tmp_path, "0::/\n", MOUNT_2.format(root="/"), {"sys/fs/cgroup/cpu.stat": CPU_2})
    assert find_cgroup(top) is None
    assert (
        find_cgroup(tree(tmp_path / "none", "0::/\n", "1 0 0:1 / / rw - ext4 a rw\n", {})) is None
    )


def test_processes_are_counted_with_their_ended_children() -> None:
    burn = "import time\nend = time.process_time() + {}\nwhile time.process_time() < end: pass\n"
    code = (
        "import subprocess, sys\n"
        f"subprocess.run([sys.executable, '-c', {burn.format(0.3)!r}])\n"
        f"held = bytearray({64 * MIB})\n"
        "print(flush=True)\nsys.stdin.read()\n"
    )
    words = [sys.executable, "-c", code]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        program.stdout.readline()
        found = Processes(program.pid).read()
        whole = Processes(os.getpid()).read()
        program.communicate()
    assert found.cpu_s >= 0.3
    assert 64 * MIB <= found.memory_bytes < 200 * MIB
    assert whole.memory_bytes > found.memory_bytes
    assert Processes(program.pid).read() == Reading(0, 0)


# --- the driver's library ---


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    made = tmp_path_factory.mktemp("nvml") / nvml.LIBRARY
    source = Path(__file__).with_name("nvml.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", made, source], check=True)
    return str(made)


def test_gpus_say_what_they_can(library: str) -> None:
    gpus = Gpus(library)
    assert gpus.read() == {
        "gpu0.percent": 40,
        "gpu0.memory_mib": 10240,
        "gpu0.power_w": 312.5,
        "gpu0.slowed_percent": 0,
        "gpu1.percent": 41,
        "gpu1.memory_mib": 11264,
        "gpu1.slowed_percent": 100,
    }
    assert gpus.totals == {"gpu0.memory_mib": 81920, "gpu1.memory_mib": 81920}
    assert gpus.note == ""


@pytest.mark.parametrize(
    ("told", "percent", "note"), [("GPU-1", 41, ""), ("1", 40, ""), ("GPU-7", None, "nvml_6")]
)
def test_of_a_machines_gpus_those_are_measured_that_are_told_by_uuid(
    library: str, monkeypatch: pytest.MonkeyPatch, told: str, percent: int | None, note: str
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", told)
    gpus = Gpus(library)
    found = gpus.read()
    assert (found.get("gpu0.percent"), gpus.note) == (percent, note)
    assert ("gpu1.percent" in found) == (told == "1")


def test_a_driver_of_before_counts_what_it_keeps_for_itself(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NVML_OLD", "1")
    assert Gpus(library).read()["gpu1.memory_mib"] == 11264 + 600


@pytest.mark.parametrize(
    ("says", "note"),
    [("NVML_MIG", "mig"), ("NVML_INIT", "nvml_1"), ("NVML_LOST", "nvml_15"), ("", "no_driver")],
)
def test_what_is_not_measured_has_a_reason_and_no_figure(
    library: str, monkeypatch: pytest.MonkeyPatch, says: str, note: str
) -> None:
    if says:
        monkeypatch.setenv(says, "1")
    gpus = Gpus(library if says else "libnvidia-ml.so.no-such")
    assert (gpus.read(), gpus.note) == ({}, note)
    if says in ("NVML_MIG", "NVML_LOST"):  # a device that answers again is measured again
        monkeypatch.delenv(says)
        assert (gpus.read()["gpu0.percent"], gpus.note) == (40, "")


def test_a_library_that_is_none_is_no_driver(tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("no library")
    assert Gpus(str(tmp_path / "text.so")).note == "no_driver"


def test_a_python_without_ctypes_runs_the_training_and_measures_no_gpu() -> None:
    code = (
        "import sys\n"
        "sys.modules['_ctypes'] = None\n"
        "from jobs.pod import runner, sampling\n"
        "sampling._GPU_DEVICES = ('/dev/null',)\n"
        "reader = sampling.Reader(0, {})\n"
        "print(reader.gpu_note, 'memory_mib' in reader.read(0.0))\n"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "no_driver True\n"


# --- minutes, and the portal ---


class Clock:
    """Time that goes when it is waited for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_800_000_000.0
        monkeypatch.setattr(sampling, "time", self)

    def time(self) -> float:
        return self.now

    monotonic = time


def test_a_minute_has_mean_and_most_and_is_told_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    clock, told = Clock(monkeypatch), []
    counted = iter([Reading(0, MIB), Reading(5, 3 * MIB), Reading(25, 2 * MIB), Reading(25, 0)])
    monkeypatch.setattr(Processes, "read", lambda self: next(counted))

    def post(body: dict[str, Any]) -> dict[str, Any]:
        told.append(body)
        if len(told) == 1:
            raise PortalError("it does not answer")
        return {"next_s": 300}

    sampler = Sampler(post, 0, {"data": str(tmp_path), "log": "/no/such"})
    sampler._reader = Reader(0, {"data": str(tmp_path), "log": "/no/such"})
    for _ in range(3):
        sampler.sample()
        clock.now += 10
    clock.now += 60
    sampler.sample()
    assert sampler.tell(int(clock.now // 60)) == 60  # again with the next ones
    assert sampler.tell(int(clock.now // 60)) == 300
    assert told[0] == told[1]
    (minute,) = told[1]["minutes"]
    assert minute["at"] == 1_800_000_000
    assert minute["used"]["cpu_m"] == [1250, 2000]
    assert minute["used"]["memory_mib"] == [2, 3]
    assert set(minute["used"]) == {"cpu_m", "memory_mib", "data_mib"}
    assert minute["used"]["data_mib"][0] <= told[1]["totals"]["data_mib"]
    assert (told[1]["method"], told[1]["gpu_note"]) == ("processes", "no_driver")
    assert sampler.tell(int(clock.now // 60)) == 60  # nothing is left of it
    assert len(told) == 2


def test_time_of_processes_that_are_gone_is_unknown_and_not_0(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted = iter([Reading(0, MIB), Reading(9, MIB), Reading(1, MIB), Reading(2, MIB)])
    monkeypatch.setattr(Processes, "read", lambda self: next(counted))
    reader = Reader(0, {})
    found = [reader.read(at).get("cpu_m") for at in (0, 10, 12, 22)]
    assert found == [None, 900, None, 100]


def test_a_portal_that_stays_away_costs_no_more_than_two_hours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)
    sampler = Sampler(lambda body: {}, os.getpid(), {})
    sampler._reader = Reader(os.getpid(), {})
    for _ in range(200):
        sampler.sample()
        clock.now += 60
    assert len(sampler._minutes) == sampling.KEPT_MINUTES
    assert min(sampler._minutes) > 1_800_000_000 // 60


@pytest.mark.parametrize(("status", "next_s", "left"), [(404, 600, 1), (410, 0, 1), (400, 60, 0)])
def test_what_the_portal_refuses_is_told_again_later_or_never(
    status: int, next_s: float, left: int
) -> None:
    def post(body: dict[str, Any]) -> dict[str, Any]:
        raise PortalError("gone", status)

    sampler = Sampler(post, os.getpid(), {})
    sampler._reader = Reader(os.getpid(), {})
    sampler.sample()
    assert (sampler.tell(2**40), len(sampler._minutes)) == (next_s, left)


def test_the_end_is_told_and_a_portal_that_hangs_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told, hangs = [], threading.Event()

    def post(body: dict[str, Any]) -> dict[str, Any]:
        told.append(body)
        hangs.wait(60)
        return {}

    monkeypatch.setattr(sampling, "FINISH_S", 0.2)
    sampler = Sampler(post, os.getpid(), {})
    sampler.start()
    sampler.finish()
    assert sampler.is_alive()  # it waits for the answer, and nobody for it
    hangs.set()
    sampler.join(30)
    assert not sampler.is_alive()
    (body,) = told
    assert body["minutes"][0]["used"]["memory_mib"][0] > 0


OOM_1 = "oom_kill_disable 0\nunder_oom 0\noom_kill {}\n"
OOM_2 = "low 0\nhigh 0\nmax 41\noom 3\noom_kill {}\noom_group_kill 0\n"
GROUPS_1 = f"4:memory:{POD}\n3:cpu,cpuacct:{POD}\n0::/\n"
OWN_1 = {f"sys/fs/cgroup/{name}": text for name, text in V1.items()}
EVENTS_1, EVENTS_2 = "sys/fs/cgroup/memory/memory.oom_control", "sys/fs/cgroup/memory.events"


@pytest.mark.parametrize(
    ("groups", "mounts", "files", "path", "text"),
    [
        ("0::/\n", MOUNT_2.format(root="/"), of_2("sys/fs/cgroup"), EVENTS_2, OOM_2),
        (f"0::{POD}\n", MOUNT_2.format(root="/"), of_2(f"sys/fs/cgroup{POD}"),
         f"sys/fs/cgroup{POD}/memory.events", OOM_2),
        (GROUPS_1, MOUNTS_1, OWN_1, EVENTS_1, OOM_1),
        # Where the container is shown this file and nothing else of its group.
        ("0::/\n", "1 0 0:1 / / rw - ext4 a rw\n", {}, EVENTS_1, OOM_1),
        ("0::/\n", "1 0 0:1 / / rw - ext4 a rw\n", {}, EVENTS_2, OOM_2),
    ],
    ids=["v2", "v2-whole-tree", "v1", "v1-file", "v2-file"],
)  # fmt: skip
def test_ends_for_want_of_memory_are_counted_and_told_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    groups: str,
    mounts: str,
    files: dict[str, str],
    path: str,
    text: str,
) -> None:
    top = tree(tmp_path, groups, mounts, {**files, path: text.format(2)})
    found = find_oom_file(top)
    assert found == os.path.join(top, path)
    monkeypatch.setattr(sampling, "find_oom_file", lambda: found)
    bodies: list[dict[str, Any]] = []
    is_away = [False]

    def post(body: dict[str, Any]) -> dict[str, Any]:
        if is_away[0]:
            raise PortalError("away")
        bodies.append(body)
        return {}

    sampler = Sampler(post, os.getpid(), {})
    sampler._reader = Reader(os.getpid(), {})

    def tell() -> int:
        sampler.sample()
        sampler.tell(2**40)
        return int(bodies[-1]["oom_kills"])

    assert tell() == 0  # those of before
    Path(found).write_text(text.format(5))
    is_away[0] = True
    tell()
    is_away[0] = False
    assert [tell(), tell()] == [3, 0]


def test_without_a_group_nothing_is_counted(tmp_path: Path) -> None:
    """A machine with neither version; and the files of a kernel before 4.13, which do not count."""
    assert find_oom_file(tree(tmp_path, "0::/\n", "1 0 0:1 / / rw - ext4 a rw\n", {})) == ""
    older = {EVENTS_1: "oom_kill_disable 0\nunder_oom 0\n"}
    assert find_oom_file(tree(tmp_path / "older", GROUPS_1, MOUNTS_1, {**OWN_1, **older})) == ""
