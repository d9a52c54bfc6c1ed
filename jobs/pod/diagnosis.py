# ruff: noqa: UP006, UP035, UP045 (the syntax of Python 3.6: images bring their own Python)
"""Finds in the end of a program's output why it failed, so that people need not search for it.

Looks only at a program that has ended with an error, only at the last lines, and takes the last
line that it knows: what comes later is nearer to the end. Where it knows none, the last line of the
traceback, or the last line that reports an error, are the program's last words.
"""

import re
from typing import Dict, NamedTuple, Optional, Sequence, Set

from jobs.pod.causes import ANYWHERE, KNOWN, NEAR, NEAR_OF_NODE, OF_SHELLS
from jobs.pod.protocol import codes
from jobs.pod.redaction import Redaction
from jobs.pod.scripts import CommandScripts
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


# What nobody gets over by catching it: what comes after it follows from it.
_LASTING = {codes.DISK_FULL, codes.VOLUME_LOST}
_OF_MINUS_ONE = 255  # sys.exit(-1), which no signal is
# What a shell tells of a command: the cause,
_OF_LAST_COMMAND = {
    codes.WINDOWS_LINES,
    codes.SHELL_COMMAND_MISSING,
    codes.SCRIPT_MISSING,
    codes.FILE_MISSING,
}
_BY_CONVENTION = {codes.EXIT_NOT_EXECUTABLE, codes.EXIT_NOT_FOUND}
_OF_SCRIPT = 2
# ... and, behind other lines, where it ended with such an exit code: of shells, and for a script of CPython, dash, perl
# and Rscript; others have codes of their own.
_EXIT_CODES: Dict[str, Set[int]] = {
    codes.SHELL_COMMAND_MISSING: _BY_CONVENTION,
    codes.SCRIPT_MISSING: {_OF_SCRIPT, *_BY_CONVENTION},
}
_EXIT_CODES_OF_OTHERS = {
    1: re.compile(  # node, ruby, julia, java, PHP, lua
        r"^Error: Cannot find module '/|^ruby: |^Could not open input file: |^ERROR: (?:LoadError: )?SystemError: |"
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
# Of an ExceptionGroup's traceback.
_GROUP_MARGIN = re.compile(r"^(?:\s*\|)+ ?|^\s*\+ (?=Exception Group Traceback )")
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
# Before the traceback of what ended nothing: CPython's Python/errors.c and Lib/logging/__init__.py.
_OF_NO_END = ("Exception ignored in", "--- Logging error ---")
_CAUSED = "The above exception was the direct cause of the following exception:"  # Lib/traceback.py
# The frame of a program that was to be started: CPython's Lib/subprocess.py.
_OF_START = re.compile(r'^File "[^"]*subprocess\.py", line \d+, in _execute_child$')
_NO_PROGRAM = re.compile(r"^FileNotFoundError: .*: '([^/']+)'$")
_PLACE = re.compile(r'^File "([^"]+)", line (\d+)$')  # of a SyntaxError: no function is named
# nbclient/exceptions.py; behind it stand the cell, and IPython's traceback, whose last line names the exception.
_OF_A_CELL = re.compile(r"^(?:\S*\.)?CellExecutionError: ")
# Lines that report no error whatever their words: TensorFlow's, glog's and Python's levels below it, and warnings.
_NO_ERROR = re.compile(
    r"^\d{4}-\d\d-\d\d \S+ [IWDV] |^[IWDV]\d{4} |\b\w*Warning: |"
    r"^(?!.*\b(?:ERROR|FATAL|CRITICAL)\b|[\w.]*(?:[Ee]rror|[Ee]xception)\b).*\b(?:INFO|DEBUG|WARNING|WARN)\b"
)
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
    r"[Pp]ermission denied|[Nn]ot permitted|[Ff]ailed to)\b|"
    r"^make(?:\[\d+\])?: \*\*\* |^\S+: (?:invalid|unrecognized|unknown|illegal|ambiguous|missing) |"
    r"^\S+: (?:line )?\d+: .*(?:unbound variable|parameter not set|[Bb]ad substitution)$"
)
_EXCEPTION = re.compile(r"^[A-Za-z_][\w.]*: ")
# The path that a shell or a launcher did not find, between such signs.
_PATH = re.compile(
    r"(?:^|[\s'\u2018])([^\s:'\u2018]*/[^:'\u2019]*)['\u2019]?: (?:.*not found\.?|No such file or directory)$|"
    r": no such file or directory: (\S*/.*)$"
)
_READ_BY_PATH = re.compile(r": (?:\.|source): (?:line \d+: )?([^\s/:]+): (?:file )?not found$")
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
        rows = _ESCAPES.sub("", text).splitlines()
        text = "\n".join(map(_bare, rows))
        for epilogue in _EPILOGUES:
            rest = epilogue.sub("", text)
            text = rest if rest.strip() else text
        self._rows = text.splitlines()
        self._launchers_words = ""
        self._exception_row: Optional[int] = None
        self._cause_row: Optional[int] = None  # of the exception that caused that one
        self._find_exception()
        self.lines = [row.strip() for row in self._rows if row.strip()]
        self._cut = self.lines[0] if tail.is_cut and self.lines else ""
        # What is shorter than a row may have lost its end, too: its margin and blanks were taken off afterwards.
        cut_rows = {_bare(row).strip() for row in rows if len(row) > ROW_CHARS}
        self._cut_rows = {row for row in [self._cut, *cut_rows] if row}

    def text(self, rows: int) -> str:
        """So many lines of the end, without the blanks around them."""
        return "\n".join(row.strip() for row in self._rows[-rows:])

    def is_cut(self, line: str) -> bool:
        """Whether its end is not kept."""
        return any(line.endswith(row) for row in self._cut_rows)

    @property
    def exception(self) -> str:
        """The line of the last traceback that names the exception; empty: there is none."""
        row = self._exception_row
        if row is None:
            return ""
        line = self._rows[row].strip()
        if _OF_A_CELL.match(line):
            named = [more for more in self._rows[row + 1 :] if _EXCEPTION.match(more)]
            return named[-1].strip() if named else line
        if line.endswith(":"):  # the message begins with a line break
            line += " " + next((more.strip() for more in self._rows[row + 1 :] if more.strip()), "")
        return line.strip()

    @property
    def lines_since_cause(self) -> int:
        """How many lines there are from that one on, or from the exception that caused it; all when there is none."""
        row = self._exception_row if self._cause_row is None else self._cause_row
        return len(self.lines) if row is None else self._count_from(row)

    def _count_from(self, row: int) -> int:
        return sum(1 for more in self._rows[row:] if more.strip())

    def last_words(self, exit_code: int) -> str:
        """The exception, else the last line near the end that reports an error; empty: there is neither.

        An exception long ago was caught, where another line reports an error since, or a signal ended the program.
        """
        row = self._exception_row
        is_near = row is not None and self._count_from(row) <= NEAR_OF_NODE
        if is_near:
            return self.exception
        is_caught = codes.SIGNAL_BASE < exit_code < _OF_MINUS_ONE
        own = self._error_line(exit_code) or ("" if is_caught else self.exception)
        return own or self._launchers_words

    def _error_line(self, exit_code: int) -> str:
        near = self.lines[-NEAR:][::-1]
        if self._cut and len(near) == 1 and _EXCEPTION.match(near[0]):
            return near[0]  # so long that nothing of its traceback is kept
        for line in near:
            if _ERROR.search(line[:2000]) and not _NO_ERROR.search(line[:2000]):
                return line
        if exit_code in _BY_CONVENTION:
            return next((line for line in near if _OF_A_SHELL.match(line[:2000])), "")
        return ""

    def _find_exception(self) -> None:
        """Where the last traceback names its exception; a launcher's only says that its program has failed."""
        for start in range(len(self._rows) - 1, -1, -1):
            if _TRACEBACK not in self._rows[start]:
                continue
            row = self._end_of_traceback(start)
            if row is None or self._row_before(start).startswith(_OF_NO_END):
                continue
            line = self._rows[row].strip()
            if self._exception_row is not None:
                self._cause_row = row
            elif not _OF_A_LAUNCHER.match(line):
                self._exception_row = row
            else:
                self._launchers_words = self._launchers_words or line
                # torchrun's goes on for some lines.
                is_whole = len(self._rows) - row <= NEAR_OF_NODE and "ChildFailed" in line
                del self._rows[start : len(self._rows) if is_whole else row + 1]
                continue
            if self._row_before(start) != _CAUSED:
                return

    def _row_before(self, row: int) -> str:
        return next((text.strip() for text in reversed(self._rows[:row]) if text.strip()), "")

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
    scripts: Optional[CommandScripts] = None,
    slots: int = 0,
) -> Optional[Finding]:
    """What the end of an output says about the cause, without what is secret; None when it says nothing.

    Args:
        exit_code: of the program; 128 + n when signal n ended it.
        command: what was run, for what only it shows: a launcher's options.
        scripts: those that were run; None: none can be looked at.
        slots: of all hosts of mpirun; 0: it is not known.
    """
    output = LastLines(tail)
    found = _of_mpi(output, command, slots) or _of_notebook(output) or _of_line(output, exit_code)
    if found is not None and found.code == codes.SCRIPT_MISSING:
        found = _of_script(found, scripts)
    words = found.detail if found is not None else output.last_words(exit_code)
    is_shells = found is None or found.code in _OF_LAST_COMMAND
    windows_script = scripts.windows_words if scripts is not None else ""
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


def _is_of_the_last(code: str, depth: int, distance: int) -> bool:
    """Whether it is the cause only where nothing else went wrong after it.

    A shell goes on behind a command that it did not find, and a program behind what it has caught: another module, or,
    for long, a smaller batch for a full GPU. What a GPU or a peer has done stands before what follows from it.
    """
    is_caught = code == codes.CUDA_OUT_OF_MEMORY and distance >= NEAR_OF_NODE
    return code not in _LASTING and (depth < ANYWHERE or is_caught)


def _of_line(output: LastLines, exit_code: int) -> Optional[Finding]:
    lines = output.lines
    since_cause = output.lines_since_cause
    for distance, line in enumerate(reversed(lines[-ANYWHERE:])):
        for code, depth, pattern in KNOWN:
            is_before = distance >= since_cause and _is_of_the_last(code, depth, distance)
            if distance >= depth or is_before:
                continue
            if pattern.search(line[:2000]) and _may_be_cause(code, line, distance, exit_code):
                return _in_full(Finding(code, line), exit_code, lines[: len(lines) - distance - 1])
        for code, exit_codes, pattern in OF_SHELLS:
            # It goes on behind a file that it could not read.
            is_near = distance == 0 or (distance < NEAR and exit_code in _BY_CONVENTION)
            if exit_code in exit_codes and is_near and pattern.search(line[:2000]):
                return Finding(code, line)
    return None


def _in_full(found: Finding, exit_code: int, before: Sequence[str]) -> Finding:
    """With what the exit code, or the lines before that one, tell of it."""
    code, line = found
    if code == codes.NOT_PERMITTED and exit_code == codes.EXIT_NOT_EXECUTABLE:
        return Finding(codes.COMMAND_NOT_EXECUTABLE, line)
    near = before[-NEAR:]
    if code == codes.FILE_MISSING and _NO_PROGRAM.match(line[:2000]):
        is_start = any(_OF_START.match(each[:2000]) for each in near)
        return Finding(codes.SHELL_COMMAND_MISSING if is_start else code, line)
    if code == codes.SYNTAX_ERROR:
        places = [match for match in (_PLACE.match(each[:2000]) for each in near) if match]
        if places:
            name, number = places[-1].groups()
            return Finding(code, f"{name}, line {number}: {line}")
    return found


def _of_script(found: Finding, scripts: Optional[CommandScripts]) -> Finding:
    """What was to run is not there; or it is, and its interpreter is not, of which some shells say the same."""
    line = found.detail[:2000]
    by_path = _READ_BY_PATH.search(line)
    if by_path is not None:
        how = f"; sh looks for it in PATH, so write . ./{by_path.group(1)}"
        return Finding(found.code, found.detail + how)
    named = _PATH.search(line)
    if named is None or scripts is None:
        return found
    obstacle = scripts.find_obstacle(named.group(1) or named.group(2))
    return found if obstacle is None else Finding(obstacle.reason, obstacle.text)


def _may_be_cause(code: str, line: str, distance: int, exit_code: int) -> bool:
    """Whether what was not found can have ended it: a shell goes on behind that, and says so in its exit code where not."""
    if code not in _EXIT_CODES:
        return True
    if exit_code > codes.SIGNAL_BASE and exit_code not in _EXIT_CODES_OF_OTHERS:
        return False
    if distance and exit_code == _OF_SCRIPT and line.endswith("not found"):
        return False  # a shell ends so for what it was told to run itself only
    of_others = _EXIT_CODES_OF_OTHERS.get(exit_code)
    is_of_others = of_others is not None and of_others.search(line[:2000]) is not None
    return distance == 0 or exit_code in _EXIT_CODES[code] or is_of_others


def _of_notebook(output: LastLines) -> Optional[Finding]:
    """A notebook that was run as if it were a script: its JSON mostly is no Python."""
    names = [_NOTEBOOK.match(line) for line in output.lines[-NEAR:]]
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
