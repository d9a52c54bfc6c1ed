"""What our replicas are told beside what Kubeflow's training operator 1.8.1 tells them.

The record is made by the operator's own functions, of our exports (tests/tools/kubeflow.py):
`HOMEPORT_WRITE_GOLDEN=1 pytest` with this file writes it anew. That TensorFlow's TFConfigClusterResolver
reads ours is tried with docs/examples/parameter_server.py (tests/e2e/test_topologies.py). What differs on purpose:
- names of hosts, and the port of PyTorch (29500; theirs is 23456): each pod has an address of its own;
- a sparse spec: theirs leaves out "environment", and tells a parameter server a list of its own
  address, whatever its index, and no workers;
- the evaluator: theirs lists it in `cluster`, though no other replica talks to it;
- WORLD_SIZE under `python` with several processes a replica: ours counts replicas, as RANK does;
- worker 0 of a PyTorchJob is its Master, unless it is elastic, and the workers after it are counted from 0;
- elastic, each attempt has its own ID, and ours names the host of the rendezvous (PET_RDZV_CONF).
"""

import json
import os
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from jobs.kinds.training.export import FORMS, Export
from jobs.kinds.training.manifests import render_training
from jobs.models import Workload
from jobs.rules.topologies import ROLES
from tests.jobs.kinds.training.test_environment import given_to
from tests.manifests import altered
from tests.manifests.test_job_manifests import PODS, TF_PS
from tests.tools import kubeflow

RECORD = Path(__file__).with_name("operator_record.json")
# Topology, GPUs of each replica, replicas; with `min` the fewest workers, with `sparse` a sparse spec.
CASES: list[tuple[str, int, dict[str, int]]] = [
    ("tf-ps", 0, {"worker": 1, "ps": 1}),
    ("tf-ps", 0, {"worker": 11, "ps": 2}),
    ("tf-ps", 0, {"chief": 1, "worker": 2, "ps": 2, "evaluator": 1}),
    ("tf-ps", 0, {"worker": 3, "ps": 1, "sparse": 1}),
    ("tf-multiworker", 0, {"worker": 4}),
    ("torch-ddp", 1, {"worker": 1}),
    ("torch-ddp", 0, {"worker": 3}),
    ("torch-ddp", 4, {"worker": 2}),
    ("torch-ddp", 0, {"worker": 3, "min": 2}),
]


def training_of(topology: str, gpus: int, counts: dict[str, int]) -> Workload:
    each = {"cpu_millicores": 1000, "memory_bytes": 2**30, "gpu_count": gpus}
    replicas = {role: {**each, "count": n} for role, n in counts.items() if role in ROLES}
    if "min" in counts:
        replicas["worker"]["min_count"] = counts["min"]
    run = {"sparse_spec": "sparse" in counts}
    more = {"cluster_flags": (), "source": None, "run_policy": run}
    return altered(TF_PS, topology=topology, replicas=replicas, **more)


@cache
def record() -> list[Any]:
    if os.environ.get("HOMEPORT_WRITE_GOLDEN"):
        jobs = []
        for case in CASES:
            form = FORMS["pytorchjob" if case[0] == "torch-ddp" else "tfjob"]
            jobs += form.build(Export(training_of(*case), form))
        RECORD.write_text(json.dumps(kubeflow.tell(jobs), indent=1, sort_keys=True) + "\n")
    found: list[Any] = json.loads(RECORD.read_text())
    assert len(found) == len(CASES)
    return found


def placed(config: str) -> Any:
    """TF_CONFIG with hosts as `worker-0:2222`, which leaves of a name what both have."""
    return json.loads(
        re.sub(r'"[^"]*?((?:chief|worker|ps|evaluator)-\d+)\.[^"]*(:\d+)"', r'"\1\2"', config)
    )


def bare(text: str) -> str:
    """`worker-0:29400` of an address; other texts as they are."""
    return re.sub(r".*(worker-\d+)(?:\..*)?(:\d+)", r"\1\2", text)


@pytest.mark.django_db  # exports look for secrets, when the record is written
@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda n: f"{CASES[n]}")
def test_replicas_are_told_what_the_operator_tells_them(number: int) -> None:
    case, theirs = CASES[number], record()[number]
    training = training_of(*case)
    ours = given_to(training, render_training(training, attempt=1, pods=PODS))
    assert len(theirs) == len(ours) == sum(n for role, n in case[2].items() if role in ROLES)
    for (role, index), (_flags, env) in ours.items():
        if case[0] != "torch-ddp":
            told = placed(theirs[f"{role}-{index}"]["TF_CONFIG"])
            told["cluster"].pop("evaluator", None)
            if "sparse" in case[2]:
                told["environment"] = "cloud"
                [server] = told["cluster"]["ps"]
                if role == "ps":
                    assert told["cluster"].pop("worker") == {}
                    told["cluster"]["ps"] = {"0": server}
            assert placed(env["TF_CONFIG"]) == told
            continue
        is_elastic = "min" in case[2]
        worker = f"worker-{index}" if is_elastic else f"worker-{index - 1}"
        told = theirs["master-0" if not (index or is_elastic) else worker]
        world = int(env.get("WORLD_SIZE", 0)) * max(1, case[1])
        assert int(told.get("WORLD_SIZE", 0)) == world
        hosts = {told[name].rpartition("-export-")[2] for name in told if "ADDR" in name}
        assert hosts == (set() if is_elastic else {"master-0"})
        other = re.compile("ADDR|PORT|WORLD_SIZE|PYTHONUNBUFFERED|RDZV_ID")
        named = [name for name in told if not other.search(name)]
        assert {name: bare(env[name]) for name in named} == {n: bare(told[n]) for n in named}
