"""`top node` and `queue`: the numbers that people look for, and what is not theirs to see."""

import pytest

from homeport_client.fleet import bytes_of, cores_of, share_text
from tests.jobs.client.world import JOB_ID, CommandLine, listed

NODE = {
    "name": "gpu-01",
    "is_ready": True,
    "is_schedulable": True,
    "is_simulated": False,
    "capacity": {"cpu": "32", "memory": "128Gi", "gpu": 4, "pods": 110},
    "allocatable": {"cpu": "32", "memory": "128Gi", "gpu": 3, "pods": 110},
    "requested": {"cpu": "1500m", "memory": "4Gi", "gpu": 1, "pods": 2},
    "gpu": {"total": 4, "allocated": 1, "unhealthy": 1},
    "holders": [
        {"gpu": 1, "kind": "job", "name": "mnist", "owner": "ada", "since": "2026-11-20T10:00:00Z"},
        {"gpu": 2, "kind": None, "name": None, "owner": None, "since": None},
    ],
    "conditions": [
        {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "fine"},
        {"type": "DiskPressure", "status": "True", "message": "\x1b[2Jdisk is full"},
    ],
}


def test_nodes_say_what_they_have_and_who_holds_it(homeport: CommandLine) -> None:
    cordoned = {**NODE, "name": "gpu-02", "is_schedulable": False, "holders": [], "conditions": []}
    lost = {"name": "gpu-03", "is_ready": False}
    homeport.answers["GET nodes/"] = listed(NODE, cordoned, lost)
    ran = homeport("top", "node")
    assert ran.code == 0, ran.err
    lines = ran.out.splitlines()
    assert "1/4 (25%)" in lines[1]
    assert "1.5/32 (5%)" in lines[1]
    assert "4.0 GiB/128 GiB" in lines[1]
    assert "ready, cordoned" in lines[2]
    assert "not ready" in lines[3]
    assert "GPUs of all nodes: 2/8 (25%) allocated" in lines
    assert "gpu-01: DiskPressure: disk is full" in lines
    assert any("mnist" in line and "ada" in line for line in lines)
    assert any("other workload" in line for line in lines)


def test_the_queue_says_place_and_arithmetic(homeport: CommandLine) -> None:
    reason = {"code": "quota", "text": "needs 2 GPU, 1 is free", "next_step": "Stop something."}
    place = {"position": 1, "kind": "job", "id": JOB_ID, "name": "mnist", "owner": "ada", "gpu": 2}
    homeport.answers["GET queue/"] = listed({**place, "reason": reason})
    ran = homeport("queue")
    assert ran.out.splitlines()[1].split()[:4] == ["1", "12345678", "job", "mnist"]
    assert ran.out.rstrip().endswith("needs 2 GPU, 1 is free")
    assert "Stop something." in homeport("queue", "-o", "wide").out
    homeport.answers["GET queue/"] = listed()
    assert "Nothing queued" in homeport("queue").err


CORES = [("4", 4), ("1500m", 1.5), (2, 2), ("", 0), (None, 0), ("x", 0)]
SIZES = [("16Gi", 2**34), ("1k", 1000), (7, 7), ("", 0), (None, 0), ("Gi", 0)]
SHARES = [((1, 4), "1/4 (25%)"), ((0.5, 8), "0.5/8 (6%)"), ((0, 0), "0/0")]


@pytest.mark.parametrize(("text", "cores"), CORES)
def test_cores_are_read(text: object, cores: float) -> None:
    assert cores_of(text) == cores


@pytest.mark.parametrize(("text", "size"), SIZES)
def test_memory_is_read(text: object, size: float) -> None:
    assert bytes_of(text) == size


@pytest.mark.parametrize(("amounts", "text"), SHARES)
def test_shares_are_said_with_their_numbers(amounts: tuple[float, float], text: str) -> None:
    assert share_text(*amounts) == text
