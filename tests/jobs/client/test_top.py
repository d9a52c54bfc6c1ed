"""`top job` and `top node`: what is requested and used, of what one may see."""

from typing import Any

from homeport_client.fleet import share_text
from tests.jobs.client.world import JOB_ID, CommandLine, Scripted, job, listed


def row(replica: str, **changes: Any) -> dict[str, Any]:
    """A replica that runs, as REST shows it."""
    return {
        "kind": "job",
        "id": JOB_ID,
        "name": "mnist",
        "owner": "ada",
        "node": "gpu-01",
        "replica": replica,
        "requested": {"cpu_m": 4000, "memory_mib": 8192, "gpu_count": 1},
        "now": {"cpu_m": 900, "memory_mib": 2048, "gpu_percent": 40, "gpu_memory_mib": 10240},
        "gpu_note": "",
        "low": {},
        **changes,
    }


NONE = {"cpu_m": None, "memory_mib": 100, "gpu_percent": None, "gpu_memory_mib": None}
ROWS = (
    row("worker-0"),
    row("worker-1", node="gpu-02", low={"gpu": "2026-11-20T10:00:00Z"}),
    row("worker-0", id="b", name="mig", now=NONE, gpu_note="the GPU is divided by MIG"),
    row("notebook-0", kind="notebook", id="c", name="ideas"),
)


def test_running_trainings_are_added_up_over_their_replicas(
    homeport: CommandLine, portal: Scripted
) -> None:
    portal.answers["GET usage/"] = listed(*ROWS)
    ran = homeport("top", "job", "-o", "wide")
    lines = [line.split() for line in ran.out.splitlines()]
    title = [
        "NAME",
        "OWNER",
        "REPLICAS",
        "GPU",
        "DUTY",
        "GPU",
        "MEMORY",
        "CPU",
        "MEMORY",
        "LOW",
        "GPU",
        "NOTE",
        "NODE",
    ]
    assert lines[0] == title
    used = "mnist ada 2 2 40% 10.0 GiB 1.8/8 (22%) 4.0 GiB/16.0 GiB (25%) gpu - gpu-01, gpu-02"
    assert lines[1] == used.split()
    other = "mig ada 1 1 not measured - -/4 100 MiB/8.0 GiB (1%) - the GPU is divided by MIG gpu-01"
    assert lines[2] == other.split()
    assert len(lines) == 3
    assert homeport("top", "job", "-o", "json").json == [*ROWS[:3]]


def test_one_training_is_shown_replica_by_replica(homeport: CommandLine, portal: Scripted) -> None:
    portal.answers["GET jobs/"] = listed(job())
    portal.answers[f"GET jobs/{JOB_ID}/usage/"] = listed(*ROWS[:2])
    lines = homeport("top", "job", "mnist").out.splitlines()
    assert [line.split()[0] for line in lines] == ["REPLICA", "worker-0", "worker-1"]
    assert "40%" in lines[1]
    portal.answers[f"GET jobs/{JOB_ID}/usage/"] = listed()
    assert "Nothing measured yet" in homeport("top", "job", "mnist").err


def test_nodes_say_how_busy_ones_own_gpus_are(homeport: CommandLine, portal: Scripted) -> None:
    own = {"id": JOB_ID, "name": "mnist", "owner": "ada", "gpu": 1, "kind": "job"}
    others = {"id": None, "name": None, "owner": None, "gpu": 2, "kind": None}
    node = {"name": "gpu-01", "is_ready": True, "gpu": {"total": 4, "allocated": 3}}
    portal.answers["GET nodes/"] = listed({**node, "holders": [own, others]})
    portal.answers["GET usage/"] = listed(*ROWS)
    lines = homeport("top", "node").out.splitlines()
    assert f"GPUs of all nodes: {share_text(3, 4)} allocated" in lines
    assert [line.split()[:2] for line in lines[-2:]] == [["1", "40%"], ["2", "-"]]
    del portal.answers["GET usage/"]  # a portal of before
    ran = homeport("top", "node")
    assert (ran.code, ran.out.splitlines()[-2].split()[:2]) == (0, ["1", "-"])
