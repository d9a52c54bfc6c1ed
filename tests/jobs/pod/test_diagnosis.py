"""The last lines of a program's output tell why it failed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.pod import diagnosis
from jobs.pod.diagnosis import diagnose
from jobs.pod.protocol import codes
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


@pytest.mark.parametrize("code", diagnosis.CODES)
def test_each_cause_is_found_and_told(code: str) -> None:
    output = f"step 1\n\x1b[31mTraceback (most recent call last):\x1b[0m\n{LINES[code]}\n"
    found = diagnose(output.encode())
    assert found is not None
    assert (found.code, found.detail) == (code, LINES[code][:300] + "…" * (len(LINES[code]) > 300))
    assert code in codes.EXPLAINED
    assert found.detail[:40] in reasons.make(code, who="worker-0", detail=found.detail).text


def found_in(output: str) -> str:
    """The code of the cause."""
    found = diagnose(output.encode())
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


def test_the_last_cause_counts() -> None:
    output = "PermissionError: [Errno 13] a\nduring handling of it\nMemoryError\n"
    assert found_in(output) == "host_memory"


@given(st.binary(max_size=4000))
def test_no_bytes_break_it(data: bytes) -> None:
    found = diagnose(data)
    assert found is None or found.code in diagnosis.CODES


def test_the_runner_tells_the_cause_of_a_failure_only(pod: Pod) -> None:
    pod.python("import no_such_thing_at_all")
    assert pod.run()[0] == 1
    assert pod.message["reason"] == "missing_module"
    assert "no_such_thing_at_all" in pod.message["text"]
    pod.python("print('MemoryError'); raise SystemExit(0)")
    assert pod.run()[0] == 0
    assert pod.message["reason"] == "completed"
