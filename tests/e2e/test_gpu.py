"""A training on a GPU of this machine: what the driver measures is on its page and in `homeport top`, and an idle one
is told of. It needs an NVIDIA GPU with its driver, and nothing else: no framework, no image of its own.
"""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.portal import PASSWORD, Portal, Rest, new_home, thrown_away
from tests.e2e.test_cli import CommandLine
from tests.tools.waiting import wait_for

pytestmark = pytest.mark.e2e

HELD_MIB = 4096
# CUDA's driver API (https://docs.nvidia.com/cuda/cuda-driver-api/): holds memory of its GPU for so many
# seconds, and fills it again and again if it is to work.
PROGRAM = f"""
import ctypes, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
def ask(name, *words):
    code = getattr(cuda, name)(*words)
    if code:
        sys.exit(f"{{name}}: error {{code}} of CUDA")
context, count, device, held = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_int(), ctypes.c_uint64()
ask("cuInit", 0)
ask("cuDeviceGetCount", ctypes.byref(count))
print("GPUs:", count.value, flush=True)
ask("cuDeviceGet", ctypes.byref(device), 0)
ask("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
ask("cuCtxSetCurrent", context)
ask("cuMemAlloc_v2", ctypes.byref(held), ctypes.c_size_t({HELD_MIB} << 20))
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    if sys.argv[1] == "idle":
        time.sleep(1)
        continue
    for _ in range(100):
        ask("cuMemsetD32_v2", held, 7, ctypes.c_size_t({HELD_MIB} << 18))
    ask("cuCtxSynchronize")
"""


def smi(*fields: str) -> list[float]:
    """What NVIDIA's own program says of the first GPU."""
    program = shutil.which("nvidia-smi")
    if program is None:
        pytest.skip("this machine has no NVIDIA GPU")
    words = [program, f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits", "--id=0"]
    line = subprocess.check_output(words, text=True, timeout=60)
    return [float(value) for value in line.split(",")]


@pytest.fixture
def soon() -> Iterator[Portal]:
    """An installation that says after a minute that a GPU is idle."""
    smi("memory.total")
    home = new_home("gpu")
    with thrown_away(Portal(home, environment={"LOW_USE_MINUTES": "1"})) as running:
        yield running


def submit(ada: Rest, name: str, *words: str, gpus: int = 1) -> dict[str, Any]:
    replica = {"cpu": "1", "memory": "4Gi", "gpu": gpus}
    command = ["python", "-c", PROGRAM, *words]
    return ada.submit(name=name, command=command, replicas={"worker": replica}, deadline_s=900)


def test_what_a_gpu_does_is_measured_and_an_idle_one_is_told_of(
    soon: Portal, tmp_path: Path
) -> None:
    ada = soon.sign_in("ada")
    ada.tenant()
    total_mib, before_mib = smi("memory.total", "memory.used")
    command = CommandLine(tmp_path)
    command("login", soon.url, "--user", "ada", stdin=PASSWORD + "\n")

    def told(job: dict[str, Any]) -> Any:
        found = ada.get(f"jobs/{job['id']}/usage/?hours=1")["results"]
        return found[0] if found and found[0]["minutes"] else None

    def driver_says() -> list[float]:
        return smi("utilization.gpu", "memory.used")

    works = submit(ada, "works", "work", "150")
    ada.wait(works, "running")
    wait_for("the GPU is busy", lambda: driver_says()[0] > 80, timeout_s=60, interval_s=1)
    percent, used_mib = driver_says()
    assert used_mib >= HELD_MIB
    seen = wait_for("a minute of work", lambda: told(works), timeout_s=180)
    assert (seen["requested"]["gpu_count"], seen["gpu_note"]) == (1, "")
    assert seen["totals"]["gpu0.memory_mib"] == pytest.approx(total_mib, rel=0.01)
    assert seen["peak"]["gpu_percent"] == pytest.approx(percent, abs=20)
    assert seen["peak"]["gpu_memory_mib"] == pytest.approx(used_mib, abs=max(1024, before_mib))
    (row,) = [line for line in command("top", "job").stdout.splitlines() if "works" in line]
    gpus, duty = row.split()[3:5]
    assert (gpus, int(duty.rstrip("%")) > 80) == ("1", True)
    assert "works" in command("top", "node").stdout
    page = soon.session("ada").get(f"{soon.url}/trainings/{works['id']}/").text
    assert "GPU memory" in page
    done = ada.wait(works, timeout_s=240)
    assert ada.exit_codes(done) == [0]
    assert "GPUs: 1" in ada.text(f"jobs/{works['id']}/logs/")

    idle = submit(ada, "idle", "idle", "600")
    blind = submit(ada, "blind", "work", "1", gpus=0)
    failed = ada.wait(blind, "failed")
    assert "error 100 of CUDA" in ada.text(f"jobs/{failed['id']}/logs/")  # CUDA_ERROR_NO_DEVICE

    def low() -> Any:
        return (told(idle) or {"low": {}})["low"].get("gpu")

    wait_for("its owner is told", low, timeout_s=300)
    assert told(idle)["peak"]["gpu_percent"] <= 10
    assert told(idle)["peak"]["gpu_memory_mib"] >= HELD_MIB
    banner = soon.session("ada").get(f"{soon.url}/trainings/{idle['id']}/").text
    assert "GPU below 10" in banner
    ada.call("POST", f"jobs/{idle['id']}/stop/")
    ada.wait(idle, "stopped", timeout_s=180)
