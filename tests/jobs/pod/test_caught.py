"""What a program has caught, or what ended nothing, is not told as the reason for its end."""

import pytest

from jobs.pod.diagnosis import Finding
from tests.jobs.pod.test_diagnosis import told


def traceback(line: str, head: str = "Traceback (most recent call last):") -> str:
    return f'{head}\n  File "/w/t.py", line 3, in <module>\n    run()\n{line}\n'


GIT = "subprocess.CalledProcessError: Command '['git', 'describe']' returned non-zero exit status 128."
HANDLING = "\nDuring handling of the above exception, another exception occurred:\n\n"
CAUSED = "\nThe above exception was the direct cause of the following exception:\n\n"
STEPS = "step\n" * 50
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
CELL = (
    "nbclient.exceptions.CellExecutionError: An error occurred while executing the following cell:\n"
    "------------------\n1/0\n------------------\n\n\n" + "-" * 75 + "\n"
    "ZeroDivisionError                         Traceback (most recent call last)\n"
    "Cell In[1], line 1\n----> 1 1/0\n\nZeroDivisionError: division by zero"
)
GROUP = """  + Exception Group Traceback (most recent call last):
  |   File "/tmp/d.py", line 15, in <module>
  |     raise ExceptionGroup("eg", [ValueError(1), TypeError(2)])
  | ExceptionGroup: eg (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | ValueError: 1
    +---------------- 2 ----------------
    | TypeError: 2
    +------------------------------------
"""
NO_DRIVERS = (
    "2026-11-20 10:00:00.123: I external/local_xla/xla/tsl/cuda/cudart_stub.cc:32] "
    "Could not find cuda drivers on your machine, GPU will not be used.\n"
)
# What was caught, ended nothing, or led to what came after it: an output, the exit code, the cause and words of it.
CAUGHT = [
    (traceback(GIT) + STEPS + "terminate called after throwing an instance of 'std::bad_alloc'\n", 134, "host_memory", ""),
    (traceback(GIT) + "step\n" + OOM + "\n", 1, "cuda_out_of_memory", ""),
    (traceback(GIT) + "bash: line 3: conda: command not found\n", 127, "shell_command_missing", ""),
    (traceback(GIT), 1, "exit_code", GIT),
    (traceback("RuntimeError: real") + "Exception ignored in: <function _It.__del__ at 0x7f>\n"
        + traceback("AssertionError: can only test a child process"), 1, "exit_code", "RuntimeError: real"),
    (traceback("ValueError: early") + STEPS + "ERROR: accuracy below 0.9, giving up\n", 3, "exit_code", "ERROR: accuracy"),
    (traceback("ValueError: early") + STEPS, 139, "exit_code", ""),
    (traceback("ValueError: early") + STEPS, 1, "exit_code", "ValueError: early"),
    ("--- Logging error ---\n" + traceback("TypeError: not all arguments converted") + STEPS + "FATAL: no data in /data\n",
        1, "exit_code", "FATAL: no data in /data"),
    (NO_DRIVERS + "learning rate has to be positive\n", 1, "exit_code", ""),
    ("W0123 cannot open x\nUserWarning: Failed to load y\n2026-01-01 - a - WARNING - could not z\n", 1, "exit_code", ""),
    (traceback("FileNotFoundError: [Errno 2] No such file or directory: 'cache.json'") + HANDLING + traceback("KeyError: 'lr'"),
        1, "exit_code", "KeyError: 'lr'"),
    (traceback("FileNotFoundError: [Errno 2] No such file or directory: 'cache.json'") + CAUSED + traceback("KeyError: 'lr'"),
        1, "file_missing", "FileNotFoundError"),
    (traceback("ModuleNotFoundError: No module named 'cupy'") + HANDLING + traceback("RuntimeError: set USE_CPU=1"),
        1, "exit_code", "RuntimeError: set USE_CPU=1"),
    ("tar: x: Cannot open: Permission denied\n" + traceback("ValueError: bad lr"), 1, "exit_code", "ValueError: bad lr"),
    (OOM + ", trying batch size 16\n" + STEPS + traceback("KeyError: 'lr'"), 1, "exit_code", "KeyError: 'lr'"),
    (traceback(OOM) + CAUSED + traceback("RuntimeError: training failed"), 1, "cuda_out_of_memory", "CUDA out of memory"),
    # Of another process.
    (traceback(OOM) + traceback("RuntimeError: a peer has left"), 1, "cuda_out_of_memory", "CUDA out of memory"),
    # What nobody gets over by catching it.
    (traceback("OSError: [Errno 28] No space left on device") + HANDLING + traceback("RuntimeError: unexpected pos 64"),
        1, "disk_full", "[Errno 28]"),
    # A launcher's words, behind what its program has said for long.
    (traceback("ValueError: child") + STEPS + traceback("subprocess.CalledProcessError: Command 'x' returned 1."),
        1, "exit_code", "ValueError: child"),
    (traceback("ValueError: early") + STEPS, 255, "exit_code", "ValueError: early"),
    ("Error: cannot open the store; set LOG_LEVEL=DEBUG to see why\n", 1, "exit_code", "Error: cannot open the store"),
    (traceback(CELL), 1, "exit_code", "ZeroDivisionError: division by zero"),
    (GROUP, 1, "exit_code", "ExceptionGroup: eg (2 sub-exceptions)"),
]  # fmt: skip


@pytest.mark.parametrize(("output", "exit_code", "code", "words"), CAUGHT)
def test_what_a_program_has_caught_is_not_why_it_ended(
    output: str, exit_code: int, code: str, words: str
) -> None:
    found = told(output, exit_code) or Finding("exit_code", "")
    assert (found.code, words in found.detail) == (code, True), found
    assert bool(found.detail) == (bool(words) or code != "exit_code")
