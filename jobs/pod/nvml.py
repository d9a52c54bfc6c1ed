# ruff: noqa: UP006, UP035 (the syntax of Python 3.6: images bring their own Python)
"""What GPUs do, asked of the driver's own library (NVML) by ctypes, for there is nothing but Python in an image.

https://docs.nvidia.com/deploy/nvml-api/
"""

import ctypes
import os
from typing import Any, Dict, Iterator, Tuple

LIBRARY = "libnvidia-ml.so.1"
MIB = 2**20
# Power cap of software, and of hardware slow-down, heat, power brake: it runs below the clock asked for.
SLOWED = 0x4 | 0x8 | 0x20 | 0x40 | 0x80


class _UtilisationRates(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class _MemoryInfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]


class _MemoryInfo2(ctypes.Structure):
    """What the driver keeps for itself (600 MiB of an H200) is apart here: `used` is of programs, as in nvidia-smi."""

    _fields_ = [
        ("version", ctypes.c_uint),
        *((name, ctypes.c_ulonglong) for name in ("total", "reserved", "free", "used")),
    ]


# NVML_STRUCT_VERSION(Memory, 2) of nvml.h
_MEMORY_2 = ctypes.sizeof(_MemoryInfo2) | 2 << 24


class Gpus:
    """The GPUs that this process sees.

    Attributes:
        note: why nothing was measured at the last reading: `no_driver` (no library in the container), `mig` (a slice
            of a GPU, of which the driver reports no use), `nvml_N` (N is the library's own error); empty: it was.
        totals: MiB of memory by its figure's name, once they were read.
    """

    def __init__(self, library: str = LIBRARY) -> None:
        self.totals: Dict[str, float] = {}
        try:
            self._library: Any = ctypes.CDLL(library)
            code = self._library.nvmlInit_v2()
        except (OSError, AttributeError):
            self._refused = "no_driver"
        else:
            self._refused = f"nvml_{code}" if code else ""
        self.note = self._refused

    def read(self) -> Dict[str, float]:
        """Figures by name, such as `gpu0.percent`; what a device does not support is left out."""
        found: Dict[str, float] = {}
        count = ctypes.c_uint()
        # An error of one reading is not the next one's: a driver that is reset or busy answers again.
        self.note = self._refused
        code = 0 if self.note else self._ask("DeviceGetCount_v2", ctypes.byref(count))
        if code or not count.value:
            self.note = self.note or (f"nvml_{code}" if code else "no_gpu")
            return found
        # Without a container of its own it sees all GPUs of the machine, and is told by UUID which are its own.
        told = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        uuids = told.split(",") if told.startswith("GPU-") else []
        for index in range(min(len(uuids) or count.value, 64)):
            device = ctypes.c_void_p()
            by, which = ("UUID", uuids[index].encode()) if uuids else ("Index_v2", index)
            code = self._ask("DeviceGetHandleBy" + by, which, ctypes.byref(device))
            mode, pending = ctypes.c_uint(), ctypes.c_uint()
            refused = self._ask(
                "DeviceGetMigMode", device, ctypes.byref(mode), ctypes.byref(pending)
            )
            if code or (not refused and mode.value):
                self.note = f"nvml_{code}" if code else "mig"
                return {}
            for name, value in self._of(device, f"gpu{index}."):
                found[f"gpu{index}.{name}"] = value
        return found

    def _of(self, device: Any, prefix: str) -> Iterator[Tuple[str, float]]:
        use, memory = _UtilisationRates(), self._memory_of(device)
        power_mw, reasons = ctypes.c_uint(), ctypes.c_ulonglong()
        if not self._ask("DeviceGetUtilizationRates", device, ctypes.byref(use)):
            yield "percent", use.gpu
        if memory is not None:
            self.totals[prefix + "memory_mib"] = memory.total // MIB
            yield "memory_mib", memory.used // MIB
        if not self._ask("DeviceGetPowerUsage", device, ctypes.byref(power_mw)):
            yield "power_w", power_mw.value / 1000.0
        if not self._ask("DeviceGetCurrentClocksThrottleReasons", device, ctypes.byref(reasons)):
            yield "slowed_percent", 100 if reasons.value & SLOWED else 0

    def _memory_of(self, device: Any) -> Any:
        """`total` and `used` bytes; None where the device does not say. Drivers before 510 know the first form only."""
        for name, memory in (
            ("DeviceGetMemoryInfo_v2", _MemoryInfo2(_MEMORY_2)),
            ("DeviceGetMemoryInfo", _MemoryInfo()),
        ):
            if not self._ask(name, device, ctypes.byref(memory)):
                return memory
        return None

    def _ask(self, name: str, *words: Any) -> int:
        """The library's answer: 0 is success; 13 where it is too old for the question, as it says itself."""
        try:
            return int(getattr(self._library, "nvml" + name)(*words))
        except AttributeError:
            return 13
