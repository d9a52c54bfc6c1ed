"""The last lines of a program's output tell why it failed."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.pod.diagnosis import LINE_CHARS, Finding, diagnose
from jobs.pod.protocol import codes
from jobs.pod.redaction import HIDDEN, Redaction, secret_values
from jobs.pod.tail import TAIL_BYTES, OutputTail
from jobs.rules import reasons
from tests.jobs.pod.pods import Pod

# As the programs print them: CPython 3.11, PyTorch 2.9, TensorFlow 2.21, NCCL 2.27, argparse.
LINES = {
    "missing_module": "ModuleNotFoundError: No module named 'torchvision'",
    "cuda_out_of_memory": (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
        "capacity of 23.64 GiB of which 1.19 GiB is free."
    ),
    "cuda_driver": (
        "RuntimeError: CUDA error: no kernel image is available for execution on the device"
    ),
    "no_gpu_seen": "RuntimeError: No CUDA GPUs are available",
    "gpu_fault": "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
    "shared_memory_short": (
        "RuntimeError: DataLoader worker (pid 41) is killed by signal: Bus error. It is possible "
        "that dataloader's workers are out of shared memory. Please try to raise your shared "
        "memory limit."
    ),
    "peers_lost": (
        "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1275, remote "
        "process exited or there was a network error, NCCL version 2.27.3"
    ),
    "shared_library": (
        "ImportError: libGL.so.1: cannot open shared object file: No such file or directory"
    ),
    "disk_full": "OSError: [Errno 28] No space left on device",
    "volume_lost": "OSError: [Errno 107] Transport endpoint is not connected: '/log/jobs/x/model.pt'",
    "read_only": "OSError: [Errno 30] Read-only file system: '/usr/share/x'",
    "file_missing": "FileNotFoundError: [Errno 2] No such file or directory: '/data/mnist.npz'",
    "not_permitted": "PermissionError: [Errno 13] Permission denied: '/usr/local/cache'",
    "host_memory": "MemoryError",
    "name_unknown": "socket.gaierror: [Errno -3] Temporary failure in name resolution",
    "address_in_use": "OSError: [Errno 98] Address already in use",
    "bad_arguments": "train.py: error: unrecognized arguments: --ps_hosts=a:2222",
    "syntax_error": "SyntaxError: invalid syntax",
}


def tail_of(output: bytes, chunk_bytes: int = 64 * 1024) -> OutputTail:
    tail = OutputTail()
    for at in range(0, len(output), chunk_bytes):
        tail.feed(output[at : at + chunk_bytes])
    return tail


def told(output: str, exit_code: int = 1) -> Finding | None:
    """What is said of a whole output."""
    return diagnose(tail_of(output.encode()), exit_code)


@pytest.mark.parametrize("code", LINES)
def test_each_cause_is_found_and_told(code: str) -> None:
    output = f"step 1\n\x1b[31mTraceback (most recent call last):\x1b[0m\n{LINES[code]}\n"
    found = told(output)
    assert found is not None
    assert (found.code, found.detail) == (code, LINES[code][:300] + "…" * (len(LINES[code]) > 300))
    assert code in codes.EXPLAINED
    assert found.detail[:40] in reasons.make(code, who="worker-0", detail=found.detail).text


def found_in(output: str) -> str:
    """The code of the cause."""
    found = told(output)
    return found.code if found else ""


def test_tensorflows_own_words_for_a_full_gpu_are_known() -> None:
    for line in (
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor with shape[64,1024,1024] and type float on /GPU:0",
        "2026-11-20 W external/local_xla: failed: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
    ):
        assert found_in(f"{line}\nlast words\n") == "cuda_out_of_memory"


# Quoted from the files that diagnosis.py names, with numbers as they print them.
OF_GPUS = {
    "RuntimeError: CUDA error: out of memory": "cuda_out_of_memory",
    "2.27/src/init.cc:1838 NCCL WARN Cuda failure 2 'out of memory'": "cuda_out_of_memory",
    "RuntimeError: The NVIDIA driver on your system is too old (found version 12080). Please update": "cuda_driver",
    "RuntimeError: CUDA error: CUDA driver version is insufficient for CUDA runtime version": "cuda_driver",
    "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU": "no_gpu_seen",
    "RuntimeError: CUDA error: no CUDA-capable device is detected": "no_gpu_seen",
    "RuntimeError: CUDA error: device-side assert triggered": "gpu_fault",
    "RuntimeError: CUDA error: unspecified launch failure": "gpu_fault",
    "RuntimeError: CUDA error: uncorrectable ECC error encountered": "gpu_fault",
    "F external/xla cuda_executor.cc: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered": "gpu_fault",
    "[rank0]:[E ProcessGroupNCCL.cpp:629] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, "
    "OpType=BROADCAST, Timeout(ms)=600000) ran for 600081 milliseconds before timing out.": "peers_lost",
    "[E ProcessGroupNCCL.cpp:414] Some NCCL operations have failed or timed out. Due to the asynchronous": "peers_lost",
    "RuntimeError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1191, unhandled system error, "
    "NCCL version 2.11.4": "peers_lost",
    "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error. ": "peers_lost",
    "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.": "peers_lost",
    "jaxlib.xla_extension.XlaRuntimeError: INTERNAL: NCCL operation failed: unhandled system error": "peers_lost",
    "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8589934592 bytes.": "cuda_out_of_memory",
    # As they came from an H200 with driver 580, PyTorch 2.11, JAX 0.11 and CuPy 14.2:
    "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8.00GiB with allocator "
    "GPU_0_bfc on device 0. [tf-allocator-allocation-error='']": "cuda_out_of_memory",
    "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,589,934,592 bytes (allocated so far: "
    "146,028,888,064 bytes).": "cuda_out_of_memory",
    "RuntimeError: Unable to initialize backend 'cuda': Backend 'cuda' is not in the list of known backends: "
    "['cpu', 'tpu'].": "no_gpu_seen",
    "cupy_backends.cuda.api.runtime.CUDARuntimeError: cudaErrorNoDevice: no CUDA-capable device is detected": "no_gpu_seen",
    "torch.AcceleratorError: CUDA error: invalid device ordinal": "no_gpu_seen",
    "cupy_backends.cuda.api.driver.CUDADriverError: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was "
    "encountered": "gpu_fault",
}  # fmt: skip


@pytest.mark.parametrize("line", OF_GPUS)
def test_words_of_cuda_and_nccl_are_known(line: str) -> None:
    frames = "".join(f"frame #{number}: <unknown function> + 0xd6df4\n" for number in range(20))
    near = OF_GPUS[line] == "no_gpu_seen"
    assert found_in(f"step 9\n{line}\n" + ("" if near else frames)) == OF_GPUS[line]


def test_a_warning_long_ago_is_no_cause() -> None:
    assert found_in("cat: /etc/x: Permission denied\n" + "step\n" * 40) == found_in("") == ""
    assert found_in("ValueError: x is ignored\n" + "step 3, error 0.2\n" * 40) == ""


def test_the_last_cause_counts() -> None:
    output = "PermissionError: [Errno 13] a\nduring handling of it\nMemoryError\n"
    assert found_in(output) == "host_memory"


@given(st.binary(max_size=4000))
def test_no_bytes_break_it(data: bytes) -> None:
    found = diagnose(tail_of(data))
    assert found is None or found.code in {codes.FAILED, *codes.EXPLAINED}


def test_the_runner_tells_the_cause_of_a_failure_only(pod: Pod) -> None:
    pod.python("import no_such_thing_at_all")
    assert pod.run()[0] == 1
    assert pod.message["reason"] == "missing_module"
    assert "no_such_thing_at_all" in pod.message["text"]
    pod.python("print('MemoryError'); raise SystemExit(0)")
    assert pod.run()[0] == 0
    assert pod.message["reason"] == "completed"


TRACEBACK = 'Traceback (most recent call last):\n  File "t.py", line 1, in <module>\n    f()\n'
CHAINED = "\nDuring handling of the above exception, another exception occurred:\n\n"
TORCHRUN = f"""\
W1128 10:00:00.000000 41 torch/distributed/elastic/multiprocessing/api.py:900] Sending process 43 closing signal SIGTERM
E1128 10:00:00.100000 41 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: 1) local_rank: 0 (pid: 42) of binary: /usr/bin/python3
Traceback (most recent call last):
  File "/usr/local/bin/torchrun", line 8, in <module>
    sys.exit(main())
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
{"=" * 60}
train.py FAILED
{"-" * 60}
Failures:
  <NO_OTHER_FAILURES>
{"-" * 60}
Root Cause (first observed failure):
[0]:
  time      : 2026-11-28_10:00:00
  exitcode  : 1 (pid: 42)
  error_file: <N/A>
{"=" * 60}
"""
OPEN_MPI = f"""\
{"-" * 74}
mpirun detected that one or more processes exited with non-zero status, thus causing
the job to be terminated. The first process to do so was:

  Process name: [[12345,1],0]
  Exit code:    1
{"-" * 74}
"""
HYDRA = f"""\
{"=" * 83}
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   PID 41 RUNNING AT w-0
=   EXIT CODE: 1
=   CLEANING UP REMAINING PROCESSES
=   YOU CAN IGNORE THE BELOW CLEANUP MESSAGES
{"=" * 83}
"""
# What a program wrote, and its last words.
LAST_WORDS = {
    "plain": (TRACEBACK + "EOFError: EOF when reading a line\n", "EOFError: EOF when reading a line"),
    "without a message": (TRACEBACK + "AssertionError\n", "AssertionError"),
    "printed before": ("step 1\nERROR: retry\n" + TRACEBACK + "ValueError: bad\n", "ValueError: bad"),
    "printed after": (TRACEBACK + "ValueError: bad\nsaving...\n3 errors\n", "ValueError: bad"),
    "chained": (TRACEBACK + "KeyError: 'a'\n" + CHAINED + TRACEBACK + "demo.ConfigError: no a\n", "demo.ConfigError: no a"),
    "several lines": (TRACEBACK + "ValueError: shapes differ\n  a: 3\nb: 4\n", "ValueError: shapes differ"),
    "a break first": (TRACEBACK + "RuntimeError:\n\nweights are missing:\n a\n", "RuntimeError: weights are missing:"),
    "of a thread": (
        "Exception in thread Thread-1:\n" + TRACEBACK + "OSError: socket\n" + TRACEBACK + "ValueError: main\n",
        "ValueError: main",
    ),
    "a group": (
        (
        "  + Exception Group Traceback (most recent call last):\n  |   File \"t.py\", line 1, in <module>\n"
        "  | ExceptionGroup: two (1 sub-exception)\n  +-+---------------- 1 ----------------\n"
        "    | Traceback (most recent call last):\n    |   File \"t.py\", line 1, in <module>\n"
        "    | ValueError: inner\n    +------------------------------------\n"
        ),
        "ValueError: inner",
    ),
    "of a rank": ("".join(f"[rank1]: {row}\n" for row in (TRACEBACK + "ValueError: rank").split("\n")), "ValueError: rank"),
    "torchrun": (TRACEBACK + "ValueError: child\n" + TORCHRUN, "ValueError: child"),
    "torchrun alone": (TORCHRUN[TORCHRUN.index("Traceback") :], "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:"),
    "accelerate": (
        TRACEBACK + "ValueError: child\n" + TRACEBACK
        + "subprocess.CalledProcessError: Command '['python']' returned non-zero exit status 1.\n",
        "ValueError: child",
    ),
    "a command of it": (
        "step 1\n" + TRACEBACK + "subprocess.CalledProcessError: Command '['wget']' returned non-zero exit status 4.\n",
        "subprocess.CalledProcessError: Command '['wget']' returned non-zero exit status 4.",
    ),
    "mpirun": ("".join(f"[1,0]<stderr>:{row}\n" for row in (TRACEBACK + "ValueError: mpi").split("\n")) + OPEN_MPI, "ValueError: mpi"),
    "hydra": (TRACEBACK + "ValueError: mpi\n" + HYDRA, "ValueError: mpi"),
    "behind a bar": ("".join(f"\r{n}%" for n in range(100)) + "\n" + TRACEBACK + "ValueError: bar\n", "ValueError: bar"),
    "other signs": (TRACEBACK + "ValueError: 文件不存在 «Größe» 🔥\n", "ValueError: 文件不存在 «Größe» 🔥"),
    "in colours": ("\x1b[31m" + TRACEBACK + "\x1b[1mValueError\x1b[0m: red\n", "ValueError: red"),
    "C++": ("terminate called after throwing an instance of 'std::runtime_error'\n  what():  bad shape\n", "what():  bad shape"),
    "a level": ("step 1\n2026-11-28 10:00 ERROR train: no such split: val\nbye\n", "2026-11-28 10:00 ERROR train: no such split: val"),
    "R": ("Error in library(torch) : there is no package called \u2018torch\u2019\nExecution halted\n", "Error in library(torch) : there is no package called \u2018torch\u2019"),
    "rust": ("thread 'main' panicked at src/main.rs:2:5: boom\nnote: run with RUST_BACKTRACE=1\n", "thread 'main' panicked at src/main.rs:2:5: boom"),
}  # fmt: skip


@pytest.mark.parametrize("case", LAST_WORDS)
def test_of_an_unknown_cause_the_last_words_are_told(case: str) -> None:
    output, words = LAST_WORDS[case]
    assert told(output) == Finding("exit_code", words)


@pytest.mark.parametrize("output", ["", "\n", "step 1\nstep 2, error 0.21\n", "50%|###\r51%|###"])
def test_an_output_without_a_word_of_an_error_has_no_last_words(output: str) -> None:
    assert told(output) is None


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (TRACEBACK + "ValueError: " + "x" * 2**20, "ValueError: x"),
        (TRACEBACK + "ValueError: " + "x" * 10 * 2**20 + "\n", "ValueError: x"),
        (TRACEBACK + "StopIteration: " + "x" * 2**20, "StopIteration: x"),
        (TRACEBACK + "ValueError: " + "é" * 2**20 + "\n", "ValueError: é"),
        (("  File 't.py', line 9\n    f()\n" * 300_000) + CHAINED + TRACEBACK + "ValueError: x\n", "ValueError: x"),
        ("\r" + "#" * 4000 + "\r" * 3 + "ValueError: x", "ValueError: x"),
    ],
    ids=["1 MiB", "10 MiB", "another name", "of two bytes", "10 MB of frames", "4,000 columns"],
)  # fmt: skip
def test_a_long_last_line_is_told_from_its_beginning(output: str, words: str) -> None:
    for chunk_bytes in (1000, 2**20, len(output) * 2):
        found = diagnose(tail_of(output.encode(), chunk_bytes))
        assert found is not None
        assert found.detail.startswith(words)
        assert len(found.detail) <= LINE_CHARS + 1


def test_a_line_without_end_is_not_kept() -> None:
    tail = OutputTail()
    for _ in range(100):
        tail.feed(b"x" * 2**20)
    assert len(tail.data) <= 2 * TAIL_BYTES
    assert diagnose(tail) is None


@given(st.lists(st.binary(max_size=300), max_size=30), st.integers(1, 40))
def test_the_tail_of_a_short_output_is_all_of_it(chunks: list[bytes], times: int) -> None:
    tail, whole = OutputTail(), b""
    for chunk in chunks * times:
        tail.feed(chunk)
        whole += chunk
    assert whole.endswith(tail.data) if len(whole) > TAIL_BYTES else whole == tail.data


SECRET = "hf_3x'\\y/Größe 7"


@pytest.mark.parametrize(
    "line",
    [
        f"ValueError: {SECRET}",
        f"ValueError: {SECRET!r}",
        f"ValueError: {json.dumps(SECRET)}",
        "ValueError: https://hf_3x%27%5Cy%2FGr%C3%B6%C3%9Fe%207@host",
        "FileNotFoundError: [Errno 2] No such file or directory: " + repr("/data/" + SECRET),
        "ValueError: " + SECRET * 200,
        f"ValueError: {'x' * (LINE_CHARS - 15)}{SECRET}",
        f"{SECRET}: ValueError: " + "x" * 2**20,
    ],
)
def test_no_value_of_a_secret_is_told(line: str) -> None:
    output = (TRACEBACK + line + "\n").encode()
    for chunk_bytes in (7, 5000, 2**21):
        found = diagnose(tail_of(output, chunk_bytes), redaction=Redaction([SECRET, ""]))
        assert found is not None
        assert HIDDEN in found.detail
        for part in ("hf_3x", "Größe", "Gr\\u"):
            assert part not in found.detail


@pytest.mark.parametrize("margin", ["", "    ", "[rank0]: ", "[1,0]<stderr>:", "    | "])
@pytest.mark.parametrize(
    ("secret", "times"),
    [
        ("hf_" + "0123456789abcdef" * 400, 1),
        ("hf_" + "Größe" * 2000, 1),
        ("hf_" + "0123456789abcdef" * 94, 3),
        ("hf_" + ("0123456789" + " " * 40) * 100, 1),
    ],
)
def test_no_part_of_a_secret_is_told_for_which_a_line_has_no_room(
    margin: str, secret: str, times: int
) -> None:
    rows = ["Traceback (most recent call last):", "  File 'a.py', line 1"]
    rows.append(f"ValueError: cannot parse {secret * times}")
    output = "".join(f"{margin}{row}\n" for row in rows)
    found = diagnose(tail_of(output.encode()), redaction=Redaction([secret]))
    assert found is not None
    assert found.detail == "ValueError: cannot parse " + HIDDEN * times


def test_a_secret_of_several_lines_is_hidden_in_each() -> None:
    redaction = Redaction(["-----BEGIN KEY-----\nabcdef0123456\n-----END KEY-----\n"])
    assert redaction.hide("ValueError: abcdef0123456 at 2") == f"ValueError: {HIDDEN} at 2"


def test_a_short_secret_is_hidden_as_a_word() -> None:
    assert Redaction(["in"]).hide("wrong pin in line") == f"wrong pin {HIDDEN} line"


def test_what_only_a_name_takes_for_a_secret_leaves_words_and_numbers_to_be_read(
    tmp_path: Path,
) -> None:
    """What comes from a secret is hidden whatever it looks like."""
    (tmp_path / "key").write_text("77\n")
    env = {
        "TOKENIZERS_PARALLELISM": "false",
        "MAX_TOKENS": "512",
        "TOKEN_LIMIT": "1_000_000",
        "PASS_RATE": "-1.25e-05",
        "NUM_PASSES": "1",
        "PASS_MODE": "in",
        "HF_TOKEN": "hf_abcdef",
        "MY_PASSWORD": "s3cret",
        "DB_PASSWORD": "48151623",
        "API_KEY": "abc",
        "USE_PASSWORD": "1",
        "PIN": "4711",
        "FLAG": "true",
        "EPOCHS": "10",
    }
    hidden = {"hf_abcdef", "s3cret", "48151623", "abc", "4711", "true", "77\n"}
    assert set(secret_values(env, ["PIN", "FLAG"], str(tmp_path))) == hidden


def test_the_runner_tells_the_last_words_without_secrets(pod: Pod) -> None:
    """Of a variable that comes from a secret, of one that is called so, and of a file."""
    (pod.root / "secrets/hub").mkdir(parents=True)
    (pod.root / "secrets/hub/key").write_text("file-canary\n")
    pod.config["secret_env"] = ["WORD"]
    pod.environ["WORD"] = "variable-canary"
    pod.config["env"] = {"MY_TOKEN": "named-canary", "EPOCHS": "10"}
    pod.python(
        "import os; key = open(os.path.join(os.environ['DATA_DIR'], '../secrets/hub/key')).read()\n"
        "raise ValueError(os.environ['WORD'], os.environ['MY_TOKEN'], os.environ['EPOCHS'], key)"
    )
    assert pod.run()[0] == 1
    assert pod.message["reason"] == "exit_code"
    assert pod.message["text"] == "the program ended with exit code 1"
    assert pod.message["last_words"] == f"ValueError: ('{HIDDEN}', '{HIDDEN}', '10', '{HIDDEN}\\n')"
