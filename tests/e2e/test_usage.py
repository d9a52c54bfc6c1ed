"""What a training uses, measured where it runs: told while it runs, at its end, and kept afterwards."""

from typing import Any

import pytest

from tests.e2e.portal import Portal, Rest
from tests.tools.waiting import wait_for

pytestmark = pytest.mark.e2e

MIB = 2**20
# Half of the time of one processor, with memory held.
WORKS = f"""
import time
held = b"x" * {200 * MIB}
end = time.monotonic() + float(__import__("sys").argv[1])
while time.monotonic() < end:
    busy = time.process_time() + 0.1
    while time.process_time() < busy:
        pass
    time.sleep(0.1)
"""


def submit(ada: Rest, name: str, seconds: int) -> dict[str, Any]:
    return ada.submit(
        name=name,
        command=["python", "-c", WORKS, str(seconds)],
        replicas={"worker": {"cpu": "1", "memory": "1Gi"}},
        deadline_s=600,
    )


def test_figures_of_a_training_that_runs_and_of_one_that_was_short(
    portal: Portal, ada: Rest
) -> None:
    long, short = submit(ada, "long", 400), submit(ada, "short", 15)

    def told(job: dict[str, Any]) -> Any:
        found = ada.get(f"jobs/{job['id']}/usage/?hours=1")["results"]
        return found[0] if found and found[0]["minutes"] else None

    ada.wait(short, "succeeded", timeout_s=180)
    after = told(short)  # its only word was its last
    assert after["replica"] == "worker-0"
    assert after["peak"]["cpu_m"] > 50
    seen = wait_for("the first figures", lambda: told(long), timeout_s=180)
    assert ada.get(f"jobs/{long['id']}/")["state"] == "running"
    assert seen["requested"] == {"cpu_m": 1000, "memory_mib": 1024, "gpu_count": 0}
    assert 50 < seen["mean"]["cpu_m"] < 1100
    assert 200 <= seen["peak"]["memory_mib"] < 400
    assert seen["totals"] == {}, (
        "its volumes are folders of the machine's disk, which is no use of theirs"
    )
    assert (seen["now"]["gpu_percent"], seen["gpu_note"]) == (None, "")
    (row,) = [one for one in ada.get("usage/")["results"] if one["id"] == long["id"]]
    assert (row["name"], row["kind"]) == ("long", "job")
    assert row["node"]
    page = portal.session("ada").get(f"{portal.url}/trainings/{long['id']}/").text
    assert "Over time" in page
    assert "promised, use unknown on this storage" in page
    assert 'class="plot-mean"' in page
    ada.call("POST", f"jobs/{long['id']}/stop/")
    ada.wait(long, "stopped", timeout_s=180)
    assert told(long)["peak"]["memory_mib"] >= 200
