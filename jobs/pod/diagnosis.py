# ruff: noqa: UP006, UP035, UP045 (the syntax of Python 3.6: images bring their own Python)
"""Finds in the end of a program's output why it failed, so that people need not search for it.

Looks only at a program that has ended with an error, only at the last lines, and takes the last
line that it knows: what comes later is nearer to the end.
"""

import re
from typing import List, NamedTuple, Optional, Pattern, Tuple

from jobs.pod.protocol import codes

TAIL_BYTES = 64 * 1024
LINE_CHARS = 300
_ESCAPES = re.compile(
    r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b-\x1f\x7f]"
)


class Finding(NamedTuple):
    """A code of Homeport's table of reasons, and the line of output that tells it."""

    code: str
    detail: str


# How near to the end such a line must stand, in lines: a program that prints "Permission denied" and
# goes on for long has not died of it.
_ANYWHERE = 400
_NEAR = 12
# Where the lines come from: CPython, glibc, argparse, and, of GPUs, in these files:
# the CUDA runtime's cudaGetErrorString, which PyTorch puts behind "CUDA error: "
#   (c10/cuda/CUDAException.cpp), and the driver's names of errors, CUDA_ERROR_... (XLA's cuda_driver);
# PyTorch's c10/cuda/CUDAFunctions.cpp (the driver, no GPU) and CUDACachingAllocator.cpp (memory);
# PyTorch's torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp (the watchdog) and NCCLUtils.cpp
#   (ncclSystemError: ...), around ncclGetErrorString of NCCL's src/init.cc;
# TensorFlow's core/framework/op_kernel.cc and XLA's allocators (OOM, RESOURCE_EXHAUSTED);
# JAX's jax/_src/xla_bridge.py (a backend that is asked for and not there), CuPy's cupy/cuda/memory.pyx.
_LINES: Tuple[Tuple[str, int, Tuple[str, ...]], ...] = (
    (codes.MISSING_MODULE, _NEAR, (r"^(?:ModuleNotFoundError|ImportError): No module named .+",)),
    (
        codes.CUDA_OUT_OF_MEMORY,
        _ANYWHERE,
        (
            r"CUDA out of memory",
            r"CUDA error: out of memory|Cuda failure (?:2 )?'out of memory'",
            r"CUDA_ERROR_OUT_OF_MEMORY",
            r"CUDNN_STATUS_ALLOC_FAILED",
            r"cudaErrorMemoryAllocation",
            r"OOM when allocating tensor",
            r"RESOURCE_EXHAUSTED: .*(?:[Oo]ut of memory|GPU)",
            r"cupy\.cuda\.memory\.OutOfMemoryError",
        ),
    ),
    (
        codes.CUDA_DRIVER,
        _ANYWHERE,
        (
            r"CUDA driver version is insufficient",
            r"The NVIDIA driver on your system is too old",
            r"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
            r"no kernel image is available for execution",
        ),
    ),
    (
        codes.NO_GPU_SEEN,
        _NEAR,
        (
            r"no CUDA-capable device is detected",
            r"No CUDA GPUs are available",
            r"Found no NVIDIA driver on your system",
            r"invalid device ordinal",
            r"Unable to initialize backend '(?:cuda|gpu)'",
        ),
    ),
    (
        codes.GPU_FAULT,
        _ANYWHERE,
        (
            r"an illegal memory access was encountered|CUDA_ERROR_ILLEGAL_ADDRESS",
            r"an illegal instruction was encountered|misaligned address",
            r"device-side assert triggered",
            r"unspecified launch failure|CUDA_ERROR_LAUNCH_FAILED",
            r"uncorrectable ECC error encountered",
        ),
    ),
    (
        codes.SHARED_MEMORY_SHORT,
        _ANYWHERE,
        (
            r"insufficient shared memory \(shm\)",
            r"unable to open shared memory object",
            r"DataLoader worker .* killed by signal: Bus error",
        ),
    ),
    (
        codes.PEERS_LOST,
        # Behind it PyTorch prints the C++ frames of its watchdog.
        _ANYWHERE,
        (
            r"ncclSystemError|ncclRemoteError",
            r"NCCL error",
            r"unhandled system error|remote process exited or there was a network error",
            r"Watchdog caught collective operation timeout",
            r"Some NCCL operations have failed or timed out",
            r"Connection closed by peer \[",
        ),
    ),
    (
        codes.SHARED_LIBRARY,
        _NEAR,
        (
            r"^ImportError: .*cannot open shared object file",
            r"error while loading shared libraries",
        ),
    ),
    (codes.DISK_FULL, _NEAR, (r"\[Errno (?:28|122)\]", r"No space left on device|quota exceeded")),
    # The client of a network file system ended, or lost all its servers.
    (
        codes.VOLUME_LOST,
        _NEAR,
        (r"\[Errno (?:107|116)\]", r"Transport endpoint is not connected", r"Stale file handle"),
    ),
    (codes.READ_ONLY, _NEAR, (r"\[Errno 30\]", r"Read-only file system")),
    (codes.FILE_MISSING, _NEAR, (r"^FileNotFoundError: ", r"NotFoundError: .*No such file")),
    (codes.NOT_PERMITTED, _NEAR, (r"^PermissionError: ", r": Permission denied$")),
    (codes.HOST_MEMORY, _NEAR, (r"^MemoryError\b", r"std::bad_alloc", r"Cannot allocate memory")),
    (
        codes.NAME_UNKNOWN,
        _NEAR,
        (r"Name or service not known", r"Temporary failure in name resolution"),
    ),
    (codes.ADDRESS_IN_USE, _NEAR, (r"Address already in use",)),
    (
        codes.BAD_ARGUMENTS,
        _NEAR,
        (r"error: (?:unrecognized arguments|the following arguments are required|argument )",),
    ),
    (codes.SYNTAX_ERROR, _NEAR, (r"^(?:SyntaxError|IndentationError|TabError): ",)),
)
_KNOWN: List[Tuple[str, int, Pattern[str]]] = [
    (code, depth, re.compile("|".join(parts))) for code, depth, parts in _LINES
]
CODES = tuple(code for code, _, _ in _LINES)


def diagnose(tail: bytes) -> Optional[Finding]:
    """What the end of an output says about the cause; None when nothing is known."""
    text = _ESCAPES.sub("", tail[-TAIL_BYTES:].decode("utf-8", "replace").replace("\r", "\n"))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for distance, line in enumerate(reversed(lines[-_ANYWHERE:])):
        for code, depth, pattern in _KNOWN:
            if distance < depth and pattern.search(line[:2000]):
                return Finding(code, line if len(line) <= LINE_CHARS else line[:LINE_CHARS] + "…")
    return None
