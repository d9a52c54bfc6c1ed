# ruff: noqa: UP006, UP035 (the syntax of Python 3.6: images bring their own Python)
"""The lines by which programs, libraries and shells tell why they failed, each with its code of the table of reasons."""

import re
from typing import List, Pattern, Tuple

from jobs.pod.protocol import codes

# How near to the end such a line must stand, in lines: a program that prints "Permission denied" and
# goes on for long has not died of it.
ANYWHERE = 400
NEAR = 12
NEAR_OF_NODE = 40
# Where the lines come from: CPython, glibc, argparse, and, of GPUs, in these files:
# the CUDA runtime's cudaGetErrorString, which PyTorch puts behind "CUDA error: "
#   (c10/cuda/CUDAException.cpp), and the driver's names of errors, CUDA_ERROR_... (XLA's cuda_driver);
# PyTorch's c10/cuda/CUDAFunctions.cpp (the driver, no GPU) and CUDACachingAllocator.cpp (memory);
# PyTorch's torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp (the watchdog) and NCCLUtils.cpp
#   (ncclSystemError: ...), around ncclGetErrorString of NCCL's src/init.cc;
# TensorFlow's core/framework/op_kernel.cc and XLA's allocators (OOM, RESOURCE_EXHAUSTED);
# JAX's jax/_src/xla_bridge.py (a backend that is asked for and not there), CuPy's cupy/cuda/memory.pyx.
_LINES: Tuple[Tuple[str, int, Tuple[str, ...]], ...] = (
    (
        codes.MISSING_MODULE,
        NEAR,
        (
            r"^(?:ModuleNotFoundError|ImportError): No module named .+",
            # `python -m a.b`, whose package a was found and imports c.
            r": Error while finding module specification for '(\w+)(?:\.[\w.]*)?' \(\S+ No module named '(?!\1\b)",
        ),
    ),
    (
        codes.CUDA_OUT_OF_MEMORY,
        ANYWHERE,
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
        ANYWHERE,
        (
            r"CUDA driver version is insufficient",
            r"The NVIDIA driver on your system is too old",
            r"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
            r"no kernel image is available for execution",
        ),
    ),
    (
        codes.NO_GPU_SEEN,
        NEAR,
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
        ANYWHERE,
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
        ANYWHERE,
        (
            r"insufficient shared memory \(shm\)",
            r"unable to open shared memory object",
            r"DataLoader worker .* killed by signal: Bus error",
        ),
    ),
    (
        codes.PEERS_LOST,
        # Behind it PyTorch prints the C++ frames of its watchdog.
        ANYWHERE,
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
        NEAR,
        (
            r"^ImportError: .*cannot open shared object file",
            r"error while loading shared libraries",
        ),
    ),
    (codes.DISK_FULL, NEAR, (r"\[Errno (?:28|122)\]", r"No space left on device|quota exceeded")),
    # The client of a network file system ended, or lost all its servers.
    (
        codes.VOLUME_LOST,
        NEAR,
        (r"\[Errno (?:107|116)\]", r"Transport endpoint is not connected", r"Stale file handle"),
    ),
    (codes.READ_ONLY, NEAR, (r"\[Errno 30\]", r"Read-only file system")),
    (codes.FILE_MISSING, NEAR, (r"^FileNotFoundError: ", r"NotFoundError: .*No such file")),
    (
        codes.NOT_PERMITTED,
        NEAR,
        (r"^PermissionError: ", r": Permission denied$", r"^\S+:\d+: permission denied: "),
    ),
    (codes.HOST_MEMORY, NEAR, (r"^MemoryError\b", r"std::bad_alloc", r"Cannot allocate memory")),
    (
        codes.NAME_UNKNOWN,
        NEAR,
        (r"Name or service not known", r"Temporary failure in name resolution"),
    ),
    (codes.ADDRESS_IN_USE, NEAR, (r"Address already in use",)),
    (
        codes.BAD_ARGUMENTS,
        NEAR,
        (r"error: (?:unrecognized arguments|the following arguments are required|argument )",),
    ),
    (codes.SYNTAX_ERROR, NEAR, (r"^(?:SyntaxError|IndentationError|TabError): ",)),
    # What follows is what shells and interpreters print about what they were to run: CPython, perl, Rscript, node,
    # ruby, julia, java, PHP, lua, dash, bash, zsh, busybox, mksh, tcsh, coreutils, util-linux, and MPICH's Hydra.
    (
        codes.WINDOWS_LINES,
        NEAR,
        (
            r"^\S+: (?:line )?\d+: .*\\r",
            r"^\S*env: .*\\r",
            r"^\S+: can't open file '.*\\r'",
            r"(?:\\r|\^M): bad interpreter: ",
        ),
    ),
    # A path, and not the name of a command: what was to run, where a shell or a launcher looked for it.
    (
        codes.SCRIPT_MISSING,
        NEAR,
        (
            r"^(?:\S*sh: (?:exec: (?:line \d+: )?)?|\S+: (?:line )?\d+: (?:exec: )?)[^\s:]*/[^:]*: not found$",
            r"^E: \S+: [^\s:]*/[^:]*: inaccessible or not found$",
            r"^[^\s:]*/[^:]*: Command not found\.$",
            r"^(?:\S*env|nice|xargs): ['\u2018]?[^\s:]*/[^:]*: No such file or directory$",
            r"^\w+: (?:failed to (?:run|execute) (?:command )?|can't execute |cannot run )[^\s:]*/[^:]*: No such file or",
            # What it was to read into itself.
            r"^\S+: (?:(?:line )?\d+: )?(?:\.|source): .+: (?:file )?not found$",
            r"^\S+: (?:\.|source): line \d+: .+: not found$",
            r"^\S+: (?:\d+: )?(?:\.|source): (?:line \d+: )?(?:[Cc]an't|cannot) open ",
            r"^\S+:(?:\.|source):\d+: no such file or directory: ",
        ),
    ),
    (
        codes.SHELL_COMMAND_MISSING,
        NEAR,
        (
            r"^\S+: (?:line )?\d+: .+: (?:command )?not found$",
            r"^\S*sh: [^:]+: (?:command )?not found$",
            r"^E: \S+: [^:]+: inaccessible or not found$",
            r"^[^\s:]+: Command not found\.$",
            r"^\S+:\d+: command not found: ",
            r"^\S+: line \d+: .+: cannot execute: required file not found$",
            r": bad interpreter: ",
            r"^(?:\S*env|nice|xargs): .+: No such file or directory$",
            r"^\w+: (?:failed to (?:run|execute) (?:command )?|can't execute |cannot run ).+: No such file or directory$",
        ),
    ),
    (
        codes.SCRIPT_MISSING,
        NEAR,
        (
            r"^\S+: can't open file '.+': \[Errno \d+\]",
            r"^\S+: can't find '__main__' module in ",
            r"^\S*py\S*: No module named ",
            r"^\S*py\S*: Error while finding (?:module specification|spec) for ",
            r"^(?:E: )?\S*sh: (?!line \d)[^:]+: No such file or directory$",
            # Behind another number than 0, or without quotes, it is a redirection.
            r"^\S*sh: (?:0: )?(?:[Cc]an't|cannot) open (?!.+: no such file$)",
            r"^\S*sh: (?!\d)[^:]+: cannot open \[",
            r"^Can't open perl script ",
            r"^Could not open input file: ",
            r"^Fatal error: cannot open file '",
            r"^ruby: No such file or directory -- ",
            r"^ERROR: (?:LoadError: )?SystemError: opening file ",
            r"^Error: (?:Unable to access jarfile|Could not find or load main class) ",
            r"^\S*lua\S*: cannot open ",
            r"\bexecvp error on file ",
        ),
    ),
    # Behind it node prints where its loader stood.
    (codes.SCRIPT_MISSING, NEAR_OF_NODE, (r"^Error: Cannot find module '/",)),
    (codes.MISSING_MODULE, NEAR_OF_NODE, (r"^Error: Cannot find module '",)),
    (
        codes.MPI_OPTION,
        NEAR,
        (r"^\S*mpi\S*: Error: unknown option ", r"^\[mpi\S+\] .*unrecognized argument "),
    ),
)
KNOWN: List[Tuple[str, int, Pattern[str]]] = [
    (code, depth, re.compile("|".join(parts))) for code, depth, parts in _LINES
]
# What shells print of a command as of a redirection: which it was the exit code tells.
_OF_SHELLS: Tuple[Tuple[str, Tuple[int, ...], Tuple[str, ...]], ...] = (
    (
        codes.SCRIPT_MISSING,
        (codes.EXIT_NOT_FOUND,),
        (
            r"^\S+: line \d+: [^\s:]*/[^:]*: No such file or directory$",
            r"^\S+:\d+: no such file or directory: \S*/",
        ),
    ),
    (
        codes.SCRIPT_MISSING,
        (codes.EXIT_NOT_EXECUTABLE,),
        (r"^\S+: line \d+: [^:]+: Is a directory$", r"^(\S+): \1: Is a directory$"),
    ),
    (
        codes.SCRIPT_MISSING,
        (1,),
        (r"^\S+: line \d+: [^:]+\.(?:ba|k|z)?sh: No such file or directory$",),
    ),
    (
        codes.FILE_MISSING,
        (1, 2),
        (
            r"^\S+: line \d+: .+: No such file or directory$",
            r"^\S+:\d+: no such file or directory: ",
            r"^\S+:cd:\d+: no such file or directory: ",
            r"^\S+: \d+: (?:[Cc]an't|cannot) (?:open .+: No such file|create .+: Directory nonexistent)$",
            r"^\S+: can't (?:open .+: no such file|create .+: nonexistent directory)$",
            r"^\S+: (?:\d+: )?cd: (?:line \d+: )?can't cd to ",
        ),
    ),
)
OF_SHELLS: List[Tuple[str, Tuple[int, ...], Pattern[str]]] = [
    (code, exit_codes, re.compile("|".join(parts))) for code, exit_codes, parts in _OF_SHELLS
]
