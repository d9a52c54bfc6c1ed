"""What proofs with real programs have in common: the examples, how they are run, what they must leave."""

import os
import signal
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID

from onebox.testing.processes import naming
from portal.cluster.names import job_name
from tests.e2e.portal import ROOT, Portal, Rest, kubectl
from tests.tools.missing import is_missing
from tests.tools.waiting import wait_for

EXAMPLES = ROOT / "docs" / "examples"
TORCH = Path("/usr/lib/python3/dist-packages/torch")
TENSORFLOW = "tensorflow/tensorflow:2.21.0"
PULL_S = 300  # of TensorFlow or JAX for the first time, with all else that the machine does
RUN_S = 240
EACH = {"cpu": "400m", "memory": "1536Mi"}


def run_to_the_end(ada: Rest, script: Path, **body: Any) -> tuple[dict[str, Any], str]:
    """A training that succeeds, and its log."""
    bundle = ada.upload(script)
    job = ada.submit(name=script.stem, source={"bundle": bundle}, clean_policy="all", **body)
    ada.wait(job, "running", "succeeded", timeout_s=PULL_S)
    done = ada.wait(job, "succeeded", timeout_s=RUN_S)
    return done, ada.text(f"jobs/{job['id']}/logs/?download=1")


def check_that_all_were_apart(
    job: dict[str, Any], addresses: Collection[str], of: Collection[str] = ()
) -> None:
    """Each replica of the latest attempt had a pod of its own, and each of these roles (all) an address."""
    latest = [one for one in job["replicas"] if one["attempt"] == job["attempt"]]
    pods = [one["pod"] for one in latest]
    assert len(set(pods)) == len(pods)
    met = [one for one in latest if not of or one["role"] in of]
    assert len(met) == len(addresses) > 1, addresses


def check_that_nothing_is_left(portal: Portal, ada: Rest, job: dict[str, Any], most_s: int) -> None:
    namespace = ada.tenant()["namespace"]
    found = ("-n", namespace, "get", "jobs,deployments,services,pods,configmaps,secrets")
    mark = ("-l", f"homeport.dev/owner={job['id']}", "-o", "name")
    wait_for("all is gone", lambda: not kubectl(portal, *found, *mark).strip(), timeout_s=most_s)


def need_torch() -> None:
    if not TORCH.exists():
        is_missing("there is no PyTorch on this machine: apt-get install python3-torch")


def programs(job: dict[str, Any], role: str = "", index: int = 0) -> set[int]:
    """Processes of this machine that the command of a training has started.

    Args:
        role: of the one replica; "": of all.
    """
    marks = [f"LOG_DIR=/log/jobs/{job_name(job['name'], UUID(job['id']))}"]
    marks += [f"JOB_NAME={role}", f"TASK_INDEX={index}"] if role else []
    return set.intersection(*(set(naming(f"{mark}\0")) for mark in marks))


def kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):  # it ended with its parent
            os.kill(pid, signal.SIGKILL)
