"""A replica of each topology is lost on a real node: its program killed or its pod taken by the cluster, and
then its node cut off. One training of each goes through both, and ends well. All losses of all roles are tried
on a simulated cluster (tests/jobs/engine/test_lost_replicas.py).

What its programs compute matters to none of this: they wait for a file. With JAX, whose processes end each
other, it is tried for real, and so it is for the servers of TensorFlow (test_topologies.py).
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest

from onebox.testing.processes import command_line
from portal.cluster.names import job_name
from tests.e2e.portal import Portal, Rest, kubectl, new_home, thrown_away
from tests.e2e.proofs import (
    EXAMPLES,
    PULL_S,
    RUN_S,
    check_that_nothing_is_left,
    kill,
    programs,
)
from tests.tools.waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.tensorflow]

WAITS = 'echo begun; until [ -e "$LOG_DIR/go" ]; do sleep 0.3; done'
EACH = {"cpu": "50m", "memory": "96Mi"}
TWO = {**EACH, "count": 2}
TAKEN = json.dumps(
    {
        "status": {
            "conditions": [
                {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
            ]
        }
    }
)


@dataclass
class Lost:
    """One training, and the replica that it loses."""

    topology: str
    replicas: dict[str, Any]
    who: tuple[str, int]
    first_loss: str
    causes: list[str]
    more: dict[str, Any] = field(default_factory=dict)
    job: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return "-".join((self.topology, *map(str, self.who), *self.more)).replace("_", "-")


ELASTIC = {"worker": {**TWO, "min": 1}}
SERVED = {"worker": TWO, "ps": EACH}
# Of its attempts after the first, and of the loss of all that follows.
ALONE: list[str] = []
RETRIED, DISRUPTED = ["retry", "disrupted"], ["disrupted", "disrupted"]
TRAININGS = (
    Lost("array", {"worker": TWO}, ("worker", 1), "killed", ALONE),
    Lost("tf-ps", SERVED, ("worker", 1), "taken", ALONE),
    Lost("tf-ps", SERVED, ("worker", 1), "killed", ALONE, {"sparse_spec": True}),
    Lost("tf-multiworker", {"worker": TWO}, ("worker", 1), "taken", DISRUPTED),
    Lost("torch-ddp", {"worker": TWO}, ("worker", 1), "taken", DISRUPTED),
    Lost("torch-ddp", ELASTIC, ("worker", 1), "killed", ALONE, {"success_policy": "all"}),
    Lost("jax", {"worker": TWO}, ("worker", 1), "taken", DISRUPTED),
    Lost("mpi", {"launcher": EACH, "worker": TWO}, ("worker", 1), "taken", DISRUPTED),
    Lost("mpi", {"launcher": EACH, "worker": EACH}, ("launcher", 0), "killed", RETRIED),
)


Seen = dict[str, dict[str, Any]]  # name -> the training


@pytest.fixture(scope="module")
def own() -> Iterator[Portal]:
    """An installation of its own, whose node is cut off."""
    environment = {"ONEBOX_ARGS": "--node-port-range 31700-31799"}
    with thrown_away(Portal(new_home("lost"), environment=environment)) as running:
        yield running


def replicas(job: dict[str, Any]) -> list[dict[str, Any]]:
    """Those of its attempt."""
    return [one for one in job["replicas"] if one["attempt"] == job["attempt"]]


def starts(job: dict[str, Any]) -> dict[tuple[str, int], tuple[str, int]]:
    """Role and index -> pod and restarts."""
    return {(o["role"], o["index"]): (o["pod"], o["restarts"]) for o in replicas(job)}


def all_run(ada: Rest, before: Seen, what: str) -> Seen:
    """All of them, once each has what it lost anew, and all replicas run."""
    found = {}
    for each in TRAININGS:

        def look(each: Lost = each) -> Any:
            job = ada.get(f"jobs/{each.job['id']}/")
            assert job["state"] not in {"succeeded", "failed", "stopped"}, ada.describe(job)
            if starts(job).get(each.who) == starts(before[each.name]).get(each.who):
                return None
            states = {job["state"], *(one["state"] for one in replicas(job))}
            return (
                job
                if states == {"running"} and all(programs(job, *o) for o in starts(job))
                else None
            )

        found[each.name] = wait_for(f"{each.name} runs {what}", look, timeout_s=PULL_S)
    return found


def test_each_topology_loses_a_replica_and_then_its_node(own: Portal) -> None:
    ada, root = own.sign_in("ada"), own.sign_in("root")
    tenant = ada.tenant()
    quota = {"quota": {"pods": 40}}
    assert root.call("PATCH", f"tenants/{tenant['id']}/", json=quota).ok
    asked = {"command": ["sh", "-c", WAITS], "retries": 1, "clean_policy": "all"}
    for each in TRAININGS:
        body = {**asked, **each.more, "topology": each.topology, "replicas": each.replicas}
        each.job = ada.submit(name=each.name, **body)
    first = all_run(ada, {each.name: {"replicas": [], "attempt": 1} for each in TRAININGS}, "")
    for each in TRAININGS:
        if each.first_loss == "killed":
            kill(programs(each.job, *each.who))
            continue
        pod, _restarts = starts(first[each.name])[each.who]
        of_it = ("-n", tenant["namespace"])
        kubectl(own, *of_it, "patch", "pod", pod, "--subresource=status", "-p", TAKEN)
        kubectl(own, *of_it, "delete", "pod", pod, "--grace-period=1", "--wait=false")
    second = all_run(ada, first, "after a loss")
    kill(pid for pid in own.processes() if "onebox.node" in command_line(pid))
    all_run(ada, second, "after its node was cut off")
    for each in TRAININGS:
        folder = job_name(each.name, UUID(each.job["id"]))
        [log_dir] = own.home.glob(f"onebox/node/volumes/*/jobs/{folder}")
        (log_dir / "go").touch()
    for each in TRAININGS:
        done = ada.wait(each.job, "succeeded", timeout_s=RUN_S)
        assert [one["cause"] for one in done["attempts"]] == ["first", *each.causes], each.name
        if not each.causes:
            before, after = starts(first[each.name]), starts(second[each.name])
            assert {one for one in before if before[one] != after[one]} == {each.who}, each.name
        check_that_nothing_is_left(own, ada, done, 120)
        assert not programs(each.job), each.name


def test_a_killed_process_of_jax_ends_the_other_and_the_next_attempt_ends_well(
    portal: Portal, ada: Rest
) -> None:
    job = ada.submit(
        name="killed",
        topology="jax",
        image="lab/jax:0.10",
        command=["python", "jax_sum.py", "--steps=4000"],
        source={"bundle": ada.upload(EXAMPLES / "jax_sum.py")},
        replicas={"worker": {"cpu": "400m", "memory": "1536Mi", "count": 2}},
        retries=1,
        deadline_s=1800,  # then whoever takes no SIGTERM is killed after a minute
        clean_policy="all",
    )
    log = f"jobs/{job['id']}/logs/"
    ada.wait(job, "running", timeout_s=PULL_S)
    wait_for("it trains", lambda: "rank 1 step " in ada.text(f"{log}?tail=99"), timeout_s=RUN_S)
    kill(programs(job, "worker", 1))
    done = ada.wait(job, "succeeded", timeout_s=PULL_S)
    told = [(one["cause"], one["reason_code"], one["exit_code"]) for one in done["attempts"]]
    assert told == [("first", "signal", 137), ("retry", "", 0)]
    ends = re.findall(r"rank (\d) weights (\S+) (\S+)", ada.text(f"{log}?download=1"))
    assert sorted(rank for rank, *_weights in ends) == ["0", "1"]
    assert len({tuple(weights) for _rank, *weights in ends}) == 1
    check_that_nothing_is_left(portal, ada, done, 120)
    assert not programs(job)
