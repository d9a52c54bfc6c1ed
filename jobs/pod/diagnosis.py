# ruff: noqa: UP006, UP035, UP045 (the syntax of Python 3.6: images bring their own Python)
"""Finds in the end of a program's output why it failed, so that people need not search for it.

Looks only at a program that has ended with an error, only at the last lines, and takes the last
line that it knows: what comes later is nearer to the end. Where it knows none, the last line of the
traceback, or the last line that reports an error, are the program's last words.
"""

import re
from typing import Dict, List, NamedTuple, Optional, Pattern, Sequence, Set, Tuple

from jobs.pod.protocol import codes
from jobs.pod.redaction import Redaction
from jobs.pod.tail import OutputTail

LINE_CHARS = 300
_ESCAPES = re.compile(
    r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b-\x1f\x7f]"
)


class Finding(NamedTuple):
    """A code of Homeport's table of reasons, and the line of output that shows it.

    Attributes:
        code: `exit_code` when no cause is known.
    """

    code: str
    detail: str


# How near to the end such a line must stand, in lines: a program that prints "Permission denied" and
# goes on for long has not died of it.
_ANYWHERE = 400
_NEAR = 12
_NEAR_OF_NODE = 40
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
        _NEAR,
        (
            r"^(?:ModuleNotFoundError|ImportError): No module named .+",
            # `python -m a.b`, whose package a was found and imports c.
            r": Error while finding module specification for '(\w+)(?:\.[\w.]*)?' \(\S+ No module named '(?!\1\b)",
        ),
    ),
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
    # What follows is what shells and interpreters print about what they were to run: CPython, perl, Rscript, node,
    # ruby, julia, java, dash, bash, zsh, busybox, coreutils, and MPICH's Hydra.
    (
        codes.WINDOWS_LINES,
        _NEAR,
        (
            r"^\S+: (?:line )?\d+: .*\\r",
            r"^\S*env: .*\\r",
            r"^\S+: can't open file '.*\\r'",
            r"(?:\\r|\^M): bad interpreter: ",
        ),
    ),
    (
        codes.SHELL_COMMAND_MISSING,
        _NEAR,
        (
            r"^\S+: (?:line )?\d+: .+: (?:command )?not found$",
            r"^\S*sh: [^:]+: (?:command )?not found$",
            r"^zsh:\d+: (?:command not found|no such file or directory): ",
            r"^\S+: line \d+: .+: cannot execute: required file not found$",
            r": bad interpreter: ",
            r"^\S*env: .+: No such file or directory$",
            r"^\w+: failed to (?:run|execute) (?:command )?.+: No such file or directory$",
        ),
    ),
    (
        codes.SCRIPT_MISSING,
        _NEAR,
        (
            r"^\S+: can't open file '.+': \[Errno \d+\]",
            r"^\S+: can't find '__main__' module in ",
            r"^\S*py\S*: No module named ",
            r"^\S*py\S*: Error while finding (?:module specification|spec) for ",
            r"^\S*sh: (?!line \d)[^:]+: No such file or directory$",
            r"^\S*sh: (?:\d+: )?(?:[Cc]an't|cannot) open ",
            r"^\S*sh: (?!\d)[^:]+: cannot open \[",
            r"^Can't open perl script ",
            r"^Fatal error: cannot open file '",
            r"^ruby: No such file or directory -- ",
            r"^ERROR: (?:LoadError: )?SystemError: opening file ",
            r"^Error: (?:Unable to access jarfile|Could not find or load main class) ",
            r"^\S*lua\S*: cannot open ",
            r"\bexecvp error on file ",
        ),
    ),
    # Behind it node prints where its loader stood.
    (codes.SCRIPT_MISSING, _NEAR_OF_NODE, (r"^Error: Cannot find module '/",)),
    (codes.MISSING_MODULE, _NEAR_OF_NODE, (r"^Error: Cannot find module '",)),
    (
        codes.MPI_OPTION,
        _NEAR,
        (r"^\S*mpi\S*: Error: unknown option ", r"^\[mpi\S+\] .*unrecognized argument "),
    ),
)
_KNOWN: List[Tuple[str, int, Pattern[str]]] = [
    (code, depth, re.compile("|".join(parts))) for code, depth, parts in _LINES
]
# What is the cause only where nothing else went wrong after it: a shell goes on behind a command that it did not find.
_OF_LAST_COMMAND = {codes.WINDOWS_LINES, codes.SHELL_COMMAND_MISSING, codes.SCRIPT_MISSING}
# ... and, behind other lines, where it ended with such an exit code: of shells, and for a script of CPython, dash, perl
# and Rscript; others have codes of their own.
_EXIT_CODES: Dict[str, Set[int]] = {
    codes.SHELL_COMMAND_MISSING: {codes.EXIT_NOT_EXECUTABLE, codes.EXIT_NOT_FOUND},
    codes.SCRIPT_MISSING: {2, codes.EXIT_NOT_EXECUTABLE, codes.EXIT_NOT_FOUND},
}
_EXIT_CODES_OF_OTHERS = {
    1: re.compile(  # node, ruby, julia, java, lua
        r"^Error: Cannot find module '/|^ruby: |^ERROR: (?:LoadError: )?SystemError: |"
        r"^Error: (?:Unable to access jarfile|Could not find or load main class) |^\S*lua\S*: "
    ),
    255: re.compile(r"\bexecvp error on file "),  # Hydra
}


# --- what stands around the program's own words ---
# A carriage return that ends a word, as shells quote it; elsewhere it ends a state of a progress bar.
_RETURN_IN_WORD = re.compile(r"\r(?=: |['\"\u2019])")
# torchrun, and Open MPI's mpirun, name whose line it is.
_RANK = re.compile(
    r"^\[(?:(?:rank|default)\d+\]: ?(?!\[)|[^\]\s]*\d+,\d+\](?:<std(?:err|out)>)?: ?)"
)
_GROUP_MARGIN = re.compile(r"^(?:\s*\|)+ ?")  # of an ExceptionGroup's traceback
# What launchers say behind their program's words. Sources: torch/distributed/elastic/multiprocessing/errors and api.py,
# Open MPI's help-mpirun.txt and PRRTE's help-prun.txt, MPICH's src/pm/hydra (HYDT_bscd), deepspeed/launcher/launch.py.
_EPILOGUES = [
    re.compile(
        r"^.*torch.distributed.elastic.*Sending process \d+ closing signal.*$", re.MULTILINE
    ),
    re.compile(
        r"^.*torch.distributed.elastic.multiprocessing.api.*failed \(exitcode.*$"
        r"(?:\nTraceback .*\n(?:[ \t].*\n)*.*ChildFailedError:.*(?:\n=+\n[\s\S]*?\n=+$)?)?",
        re.MULTILINE,
    ),
    re.compile(
        r"^-{60,}\n(?:(?!-{60}).*\n){0,4}?.*(?:Primary job\s+terminated normally, but|"
        r"detected that one or more processes exited|has exited due to process rank).*\n"
        r"(?:(?!-{60}).*\n){0,40}?-{60,}$",
        re.MULTILINE,
    ),
    re.compile(
        r"^=+\n= +BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES[\s\S]*?\n=+$", re.MULTILINE
    ),
    re.compile(r"^YOUR APPLICATION TERMINATED WITH THE EXIT STRING.*$", re.MULTILINE),
    re.compile(r"^.*\[launch\.py:\d+:\w+\] .*$", re.MULTILINE),
    re.compile(r"^make(?:\[\d+\])?: \*\*\* .* Error \d+$", re.MULTILINE),
]
_OF_A_LAUNCHER = re.compile(r"^(?:\S*\.)?(?:ChildFailedError|CalledProcessError)\b")
_TRACEBACK = "Traceback (most recent call last):"
_NOTEBOOK = re.compile(r'^File "(?:[^"]*/)?([^"/]+\.ipynb)", line \d+')
_SLOTS = re.compile(
    r"not enough slots available in the system to satisfy the (\d+)\s+slots", re.IGNORECASE
)
_OPTION = re.compile(
    r"An unrecognized option was included on the \S+ command line:\s+Option: +(\S+)"
)
_EXECUTABLE = re.compile(
    r"was unable to find the specified executable file[\s\S]{0,600}?Executable: +(\S+)"
)
_MPI_ROWS = 60
_ERROR = re.compile(
    r"^(?:[A-Za-z_][\w.]*)?(?:Error|Exception)\b|\b\w+(?:Error|Exception): |\b(?:ERROR|FATAL|CRITICAL|PANIC)\b|^\s*what\(\): |"
    r"^(?:Fatal|Abort|Aborted|Killed|[Uu]sage|terminate called)\b|core dumped|"
    r"\b(?:[Ee]rror|[Ff]atal|[Ee]xception|[Pp]anic|panicked|[Ff]ault|[Aa]ssertion)\b[^:]{0,60}:|"
    r"\b(?:[Cc]annot|[Cc]an't|[Cc]ould not|[Cc]ouldn't|[Uu]nable to|[Nn]ot found|[Nn]o such|"
    r"[Pp]ermission denied|[Nn]ot permitted|[Ff]ailed to)\b"
)
_EXCEPTION = re.compile(r"^[A-Za-z_][\w.]*: ")
_NO_SUCH_COMMAND = re.compile(r"^\S+: line \d+: [^:]+: No such file or directory$")
_OF_A_SHELL = re.compile(r"^[^\s:]+: .+: \S")  # in whatever language
ROW_CHARS = 4096  # of a line at most


class LastLines:
    """The end of an output, read once.

    Attributes:
        lines: those that are not blank, without the blanks around them.
    """

    def __init__(self, tail: OutputTail) -> None:
        text = tail.data.decode("utf-8", "replace").replace("\r\n", "\n")
        text = _RETURN_IN_WORD.sub(r"\\r", text).replace("\r", "\n")
        text = "\n".join(map(_bare, _ESCAPES.sub("", text).splitlines()))
        for epilogue in _EPILOGUES:
            rest = epilogue.sub("", text)
            text = rest if rest.strip() else text
        self._rows = text.splitlines()
        self._launchers_words = ""
        self._exception_row: Optional[int] = None
        self._find_exception()
        self.lines = [row.strip() for row in self._rows if row.strip()]
        self._cut = self.lines[0] if tail.is_cut and self.lines else ""

    def text(self, rows: int) -> str:
        """So many lines of the end, without the blanks around them."""
        return "\n".join(row.strip() for row in self._rows[-rows:])

    def is_cut(self, line: str) -> bool:
        """Whether its end is not kept."""
        return len(line) >= ROW_CHARS or (bool(self._cut) and line.endswith(self._cut))

    @property
    def exception(self) -> str:
        """The line of the last traceback that names the exception; empty: there is none."""
        row = self._exception_row
        if row is None:
            return ""
        line = self._rows[row].strip()
        if line.endswith(":"):  # the message begins with a line break
            line += " " + next((more.strip() for more in self._rows[row + 1 :] if more.strip()), "")
        return line.strip()

    @property
    def lines_since_exception(self) -> int:
        """How many lines there are from that one on; all when there is none."""
        if self._exception_row is None:
            return len(self.lines)
        return sum(1 for row in self._rows[self._exception_row :] if row.strip())

    def last_words(self, exit_code: int) -> str:
        """The exception, else the last line near the end that reports an error; empty: there is neither."""
        if self.exception:
            return self.exception
        near = self.lines[-_NEAR:][::-1]
        if self._cut and len(near) == 1 and _EXCEPTION.match(near[0]):
            return near[0]  # so long that nothing of its traceback is kept
        for line in near:
            if _ERROR.search(line[:2000]):
                return line
        if exit_code in {codes.EXIT_NOT_FOUND, codes.EXIT_NOT_EXECUTABLE}:
            found = next((line for line in near if _OF_A_SHELL.match(line[:2000])), "")
            return found or self._launchers_words
        return self._launchers_words

    def _find_exception(self) -> None:
        """Where the last traceback names its exception; a launcher's only says that its program has failed."""
        for start in range(len(self._rows) - 1, -1, -1):
            if _TRACEBACK not in self._rows[start]:
                continue
            row = self._end_of_traceback(start)
            if row is None:
                continue
            line = self._rows[row].strip()
            if not _OF_A_LAUNCHER.match(line):
                self._exception_row = row
                return
            self._launchers_words = self._launchers_words or line
            del self._rows[start:]

    def _end_of_traceback(self, start: int) -> Optional[int]:
        indent = _indent(self._rows[start])
        for row in range(start + 1, len(self._rows)):
            if self._rows[row].strip() and _indent(self._rows[row]) <= indent:
                return row
        return None


def _bare(row: str) -> str:
    return _GROUP_MARGIN.sub("", _RANK.sub("", row[:ROW_CHARS].rstrip(), 1), 1)


def _indent(row: str) -> int:
    return len(row) - len(row.lstrip())


def diagnose(
    tail: OutputTail,
    exit_code: int = 1,
    *,
    redaction: Optional[Redaction] = None,
    command: Sequence[str] = (),
    windows_script: str = "",
    slots: int = 0,
) -> Optional[Finding]:
    """What the end of an output says about the cause, without what is secret; None when it says nothing.

    Args:
        exit_code: of the program; 128 + n when signal n ended it.
        command: what was run, for what only it shows: a launcher's options.
        windows_script: words about a shell's script with the line ends of Windows; empty: none was run.
        slots: of all hosts of mpirun; 0: it is not known.
    """
    output = LastLines(tail)
    found = _of_mpi(output, command, slots) or _of_notebook(output) or _of_line(output, exit_code)
    words = found.detail if found is not None else output.last_words(exit_code)
    is_shells = found is None or found.code in _OF_LAST_COMMAND
    if windows_script and is_shells and not output.exception:
        found = Finding(codes.WINDOWS_LINES, "; ".join(filter(None, [windows_script, words])))
    if found is None:
        if not words:
            return None
        found = Finding(codes.FAILED, words)
    line = found.detail
    if redaction is not None:
        line = redaction.hide(line, is_cut=output.is_cut(line))
    return Finding(found.code, line if len(line) <= LINE_CHARS else line[:LINE_CHARS] + "…")


def _of_line(output: LastLines, exit_code: int) -> Optional[Finding]:
    lines = output.lines
    since_exception = output.lines_since_exception
    for distance, line in enumerate(reversed(lines[-_ANYWHERE:])):
        for code, depth, pattern in _KNOWN:
            if distance >= depth or (code in _OF_LAST_COMMAND and distance >= since_exception):
                continue
            if pattern.search(line[:2000]) and _may_be_cause(code, line, distance, exit_code):
                is_shells = exit_code == codes.EXIT_NOT_EXECUTABLE and code == codes.NOT_PERMITTED
                return Finding(codes.COMMAND_NOT_EXECUTABLE if is_shells else code, line)
        if distance:
            continue
        if exit_code == codes.EXIT_NOT_FOUND and _NO_SUCH_COMMAND.search(line[:2000]):
            return Finding(codes.SHELL_COMMAND_MISSING, line)
    return None


def _may_be_cause(code: str, line: str, distance: int, exit_code: int) -> bool:
    """Whether what was not found can have ended it: a shell goes on behind that, and says so in its exit code where not."""
    if code not in _EXIT_CODES:
        return True
    if exit_code > codes.SIGNAL_BASE and exit_code not in _EXIT_CODES_OF_OTHERS:
        return False
    of_others = _EXIT_CODES_OF_OTHERS.get(exit_code)
    is_of_others = of_others is not None and of_others.search(line[:2000]) is not None
    return distance == 0 or exit_code in _EXIT_CODES[code] or is_of_others


def _of_notebook(output: LastLines) -> Optional[Finding]:
    """A notebook that was run as if it were a script: its JSON mostly is no Python."""
    names = [_NOTEBOOK.match(line) for line in output.lines[-_NEAR:]]
    found = [match.group(1) for match in names if match is not None]
    words = output.exception or (output.lines[-1] if output.lines else "")
    return Finding(codes.NOTEBOOK_AS_SCRIPT, found[-1] + ": " + words) if found else None


def _of_mpi(output: LastLines, command: Sequence[str], slots: int) -> Optional[Finding]:
    """What mpirun says in several lines."""
    text = output.text(_MPI_ROWS)
    asked, option, executable = (pattern.search(text) for pattern in (_SLOTS, _OPTION, _EXECUTABLE))
    if asked is not None:
        have = f"have {slots} slots" if slots else "have fewer slots"
        return Finding(codes.MPI_SLOTS, f"it asks for {asked.group(1)} processes, the hosts {have}")
    if option is not None:
        return Finding(codes.MPI_OPTION, "it does not know the option " + option.group(1))
    if executable is None:
        return None
    name = executable.group(1)
    before = _word_before(command, name)
    # Open MPI 5 names the long options that it does not know, and takes what follows a short one for the program.
    if before.startswith("-") and not before.startswith("--") and not re.search(r"[/.]", name):
        words = f"it does not know the option {before}, and took {name} for the program"
        return Finding(codes.MPI_OPTION, words)
    return Finding(codes.SCRIPT_MISSING, "mpirun found no executable " + name)


def _word_before(command: Sequence[str], name: str) -> str:
    words = " ".join(command).split()
    places = [place for place, word in enumerate(words) if word == name and place]
    return words[places[0] - 1] if places else ""
