# ruff: noqa: UP006, UP035, UP045 (the syntax of Python 3.6: images bring their own Python)
"""What a pod really uses: CPU, memory, volumes and GPUs, sampled inside its container and told once a minute.

Whatever goes wrong here, the program does not notice: a thread of its own reads and tells and, at worst, ends.
"""

import contextlib
import os
import random
import threading
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from jobs.pod.errors import PortalError

MIB = 2**20
SAMPLE_S = 10.0
POST_S = 60.0  # before the portal has said otherwise
AWAY_S = 600.0  # where a web of the version before may have answered
FINISH_S = 3.0
KEPT_MINUTES = 120  # while the portal does not answer
Figures = Dict[str, float]
_V1 = {"cpu": "cpu.stat", "cpuacct": "cpuacct.usage", "memory": "memory.usage_in_bytes"}
_V2 = {"cpu.stat", "memory.current", "memory.stat"}
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# One of them is in each container that was given a GPU: by NVIDIA's driver, or by that of WSL 2.
_GPU_DEVICES = ("/dev/nvidiactl", "/dev/dxg")


class Reading(NamedTuple):
    """Seconds of CPU, periods of its limit and how many were cut short, all so far; memory now."""

    cpu_s: float
    memory_bytes: float
    periods: float = 0
    throttled: float = 0


def _read(path: str) -> str:
    with open(path, errors="replace") as file:
        return file.read()


def _pairs(path: str) -> Dict[str, float]:
    """A file of lines such as `usage_usec 1234`."""
    return {line.split()[0]: float(line.split()[1]) for line in _read(path).splitlines() if line}


class Cgroup:
    """The control group of the container, as it sees it itself.

    https://docs.kernel.org/admin-guide/cgroup-v2.html, https://docs.kernel.org/admin-guide/cgroup-v1/index.html
    """

    def __init__(self, method: str, folders: Dict[str, str]) -> None:
        """
        Args:
            method: `cgroup2` or `cgroup1`.
            folders: of `cpu`, `cpuacct` and `memory`.
        """
        self.method = method
        self._folders = folders

    @property
    def memory_folder(self) -> str:
        return self._folders["memory"]

    def _of(self, controller: str, name: str) -> str:
        return os.path.join(self._folders[controller], name)

    def read(self) -> Reading:
        """Raises OSError, ValueError, KeyError: it cannot be read."""
        cpu, memory = _pairs(self._of("cpu", "cpu.stat")), _pairs(self._of("memory", "memory.stat"))
        if self.method == "cgroup2":
            cpu_s, cache = cpu["usage_usec"] / 1e6, memory["inactive_file"]
            used = float(_read(self._of("memory", "memory.current")))
        else:
            cpu_s = float(_read(self._of("cpuacct", _V1["cpuacct"]))) / 1e9
            cache = memory["total_inactive_file"]
            used = float(_read(self._of("memory", _V1["memory"])))
        # What was read from files and not used since is given back as soon as room is short.
        used = max(0.0, used - cache)
        return Reading(cpu_s, used, cpu.get("nr_periods", 0), cpu.get("nr_throttled", 0))


def find_cgroup(top: str = "/") -> Optional[Cgroup]:
    """The group of this process; None where none is mounted, as in the embedded cluster.

    Raises:
        OSError, ValueError: the kernel does not say.
    """
    own = {}
    for line in _read(os.path.join(top, "proc/self/cgroup")).splitlines():
        _number, controllers, path = line.split(":", 2)
        own.update(dict.fromkeys(controllers.split(","), path))
    first: Dict[str, str] = {}
    for line in _read(os.path.join(top, "proc/self/mountinfo")).splitlines():
        fields, _, rest = line.partition(" - ")
        root, mount = fields.split()[3:5]
        kind, *_source, options = rest.split(" ")  # the source may be empty
        names = [""] if kind == "cgroup2" else options.split(",")
        for name in names if kind.startswith("cgroup") else ():
            path = own.get(name, "/")
            # A mount may show a part of the tree only, mostly the container's own.
            inside = path[len(root) :] if root != "/" and path.startswith(root) else path
            folder = os.path.join(top, mount.lstrip("/"))
            deeper = os.path.join(folder, inside.lstrip("/"))
            first.setdefault(name, deeper if os.path.isdir(deeper) else folder)
    if "" in first and all(os.path.exists(os.path.join(first[""], name)) for name in _V2):
        return Cgroup("cgroup2", {"cpu": first[""], "memory": first[""]})
    if all(name in first and os.path.exists(os.path.join(first[name], _V1[name])) for name in _V1):
        return Cgroup("cgroup1", first)
    return None


# Where a container sees its own group, of version 2 and of 1, and where one sees nothing else of it.
_OOM_FILES = ("sys/fs/cgroup/memory.events", "sys/fs/cgroup/memory/memory.oom_control")


def find_oom_file(top: str = "/") -> str:
    """The file in which the kernel counts the processes that it ended for want of memory; empty: there is none."""
    folders = []
    with contextlib.suppress(OSError, ValueError):
        group = find_cgroup(top)
        folders = [group.memory_folder] if group is not None else []
    names = [
        os.path.join(folder, os.path.basename(name)) for folder in folders for name in _OOM_FILES
    ]
    names += [os.path.join(top, name) for name in _OOM_FILES]
    for name in names:
        with contextlib.suppress(OSError, ValueError, IndexError):
            if "oom_kill" in _pairs(name):
                return name
    return ""


class Processes:
    """A process and all that descend from it, where no control group is theirs alone."""

    method = "processes"

    def __init__(self, root_pid: int) -> None:
        self._root_pid = root_pid

    def read(self) -> Reading:
        """Memory is what is their own: no pages of files, nor shared ones.

        Raises:
            OSError: there is no /proc.
        """
        parents, used = {}, {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
                resident, shared = _read(f"/proc/{pid}/statm").split()[1:3]
            except (OSError, ValueError):
                continue  # it ended meanwhile, or is none of ours
            parents[int(pid)] = int(fields[1])
            # With what its children used that have ended.
            ticks = sum(int(field) for field in fields[11:15])
            used[int(pid)] = (ticks, max(0, int(resident) - int(shared)))
        ours = [used[pid] for pid in used if self._descends(pid, parents)]
        ticks, pages = (sum(one[place] for one in ours) for place in (0, 1))
        return Reading(ticks / _TICKS, pages * _PAGE_BYTES)

    def _descends(self, pid: int, parents: Dict[int, int]) -> bool:
        seen = set()
        while pid in parents and pid not in seen:
            if pid == self._root_pid:
                return True
            seen.add(pid)
            pid = parents[pid]
        return False


def _find_gpus() -> Any:
    """`nvml.Gpus`; None where there is none to be asked of, or Python was built without libffi."""
    if not any(map(os.path.exists, _GPU_DEVICES)):
        return None
    try:
        from jobs.pod.nvml import Gpus
    except ImportError:
        return None
    return Gpus()


class Reader:
    """All figures of a container, by their names.

    Attributes:
        totals: MiB that there are of a volume or of a GPU's memory, by the name of the figure of its use.
    """

    def __init__(self, root_pid: int, volumes: Dict[str, str]) -> None:
        """
        Args:
            root_pid: the process whose use is meant with that of its descendants.
            volumes: name -> folder.
        """
        self._volumes = volumes
        self._gpus = _find_gpus()
        self.totals: Figures = {}
        # The first process of a container has a group with it; that of others may be the whole machine's.
        group = find_cgroup() if root_pid == 1 else None
        self._source: Any = group or Processes(root_pid)
        self.method: str = self._source.method
        self._last: Optional[Reading] = None
        self._last_at = 0.0
        self._oom_file = find_oom_file()
        self._oom_before = self._count_oom_kills()  # of a group that is not the container's alone

    @property
    def oom_kills(self) -> int:
        """How many processes the kernel has ended for want of memory since this began to look."""
        return max(0, self._count_oom_kills() - self._oom_before)

    def _count_oom_kills(self) -> int:
        try:
            return int(_pairs(self._oom_file)["oom_kill"]) if self._oom_file else 0
        except (OSError, ValueError, KeyError, IndexError):
            return 0

    def read(self, at: float) -> Figures:
        """
        Args:
            at: monotonic seconds. What is counted needs two looks: the first has no `cpu_m`.

        Raises:
            OSError, ValueError, KeyError: the kernel's files are not as they should be.
        """
        counted, last, passed_s = self._source.read(), self._last, at - self._last_at
        self._last, self._last_at = counted, at
        found = {"memory_mib": counted.memory_bytes / MIB}
        # Less than before: processes have gone with what they used, and how much is not known.
        if last is not None and passed_s > 0 and counted.cpu_s >= last.cpu_s:
            found["cpu_m"] = (counted.cpu_s - last.cpu_s) / passed_s * 1000
            if counted.periods > last.periods:
                cut = (counted.throttled - last.throttled) / (counted.periods - last.periods)
                found["throttled_percent"] = min(100.0, max(0.0, cut * 100))
        for name, folder in self._volumes.items():
            try:
                room = os.statvfs(folder)
            except OSError:
                continue
            key = name + "_mib"
            self.totals[key] = room.f_blocks * room.f_frsize // MIB
            found[key] = (room.f_blocks - room.f_bfree) * room.f_frsize / MIB
        if self._gpus is not None:
            found.update(self._gpus.read())
            self.totals.update(self._gpus.totals)
        return found

    @property
    def gpu_note(self) -> str:
        """Why no GPU is measured, as `nvml.Gpus.note`."""
        return "no_driver" if self._gpus is None else self._gpus.note


class Sampler(threading.Thread):
    """Samples until it is told to finish, or the portal wants to hear no more."""

    def __init__(
        self,
        post: Callable[[Dict[str, Any]], Dict[str, Any]],
        root_pid: int,
        volumes: Dict[str, str],
    ) -> None:
        """
        Args:
            post: tells the portal; raises PortalError.
        """
        super().__init__(name="sampler", daemon=True)
        self._post = post
        self._about = (root_pid, volumes)
        self._end = threading.Event()
        self._reader: Optional[Reader] = None
        self._minutes: Dict[int, Dict[str, List[float]]] = {}  # name -> count, sum, most
        self._reported_kills = self._tried_kills = 0

    def run(self) -> None:
        with contextlib.suppress(Exception):  # never the program's trouble
            self._reader = Reader(*self._about)
            self.sample()
            # Pods that began together do not ask together.
            due = time.monotonic() + random.uniform(0, POST_S)
            while not self._end.wait(SAMPLE_S):
                self.sample()
                is_due = time.monotonic() >= due or self._has_kills_to_report
                if is_due and len(self._minutes) > 1:
                    wait_s = self.tell(int(time.time() // 60))
                    if wait_s <= 0:
                        return
                    due = time.monotonic() + wait_s
            self.sample()
            self.tell(int(time.time() // 60) + 1)

    @property
    def _has_kills_to_report(self) -> bool:
        """News that do not wait for as long as figures do."""
        return self._reader is not None and self._reader.oom_kills > self._tried_kills

    def finish(self) -> None:
        """Tells what is left of the last minutes, in one try that is not waited for long."""
        self._end.set()
        if self.is_alive():
            self.join(FINISH_S)

    def sample(self) -> None:
        """One look, into the minute that it is in."""
        if self._reader is None:
            return
        try:
            found = self._reader.read(time.monotonic())
        except (OSError, ValueError, KeyError):
            return
        minute = self._minutes.setdefault(int(time.time() // 60), {})
        for name, value in found.items():
            count, total, most = minute.get(name, (0, 0.0, 0.0))
            minute[name] = [count + 1, total + value, max(most, value)]
        for old in sorted(self._minutes)[:-KEPT_MINUTES]:
            del self._minutes[old]

    def tell(self, before: int) -> float:
        """Tells the minutes before this one; seconds until the next time, 0: never."""
        reader, told = self._reader, [minute for minute in sorted(self._minutes) if minute < before]
        if reader is None or not told:
            return POST_S
        kills = self._tried_kills = reader.oom_kills
        body = {
            "method": reader.method,
            "oom_kills": kills - self._reported_kills,
            "gpu_note": reader.gpu_note,
            "totals": {name: int(value) for name, value in reader.totals.items()},
            "minutes": [
                {
                    "at": minute * 60,
                    "used": {
                        name: [round(total / count), round(most)]
                        for name, (count, total, most) in self._minutes[minute].items()
                    },
                }
                for minute in told
            ],
        }
        try:
            answer = self._post(body)
        except PortalError as error:
            if error.status == 410:
                return 0
            if error.is_final:
                return AWAY_S
            if not error.status:
                return POST_S  # told again with the next ones
            answer = {}  # it will not have them
        self._reported_kills = kills
        for minute in told:
            del self._minutes[minute]
        return max(POST_S, float(answer.get("next_s") or POST_S))
