"""Programs that nobody here wrote run as they are over two pods: examples of Kubeflow's operators."""

import re

import pytest

from tests.e2e.portal import Portal, Rest
from tests.e2e.proofs import EACH, need_torch, run_to_the_end
from tests.tools import kubeflow

pytestmark = [pytest.mark.e2e, pytest.mark.tensorflow]


@pytest.mark.parametrize(
    ("name", "starter", "seen"),
    [
        (
            "examples/pytorch/smoke-dist/dist_sendrecv.py",
            "python",
            [r"worker-0 \| .*Result from worker 1 : "],
        ),
        (
            "examples/pytorch/elastic/echo/echo.py",
            "python -m torch.distributed.run",
            [r"rank=0, world_size = 2", r"rank=1, world_size = 2"],
        ),
    ],
)
def test_it_runs_unchanged(
    portal: Portal, ada: Rest, name: str, starter: str, seen: list[str]
) -> None:
    need_torch()
    script = kubeflow.source() / name
    done, log = run_to_the_end(
        ada,
        script,
        topology="torch-ddp",
        image="lab/torch:1.13-cpu",
        command=[*starter.split(), script.name],
        replicas={"worker": {**EACH, "count": 2}},
    )
    assert all(re.search(pattern, log) for pattern in seen), log
    assert len({replica["pod"] for replica in done["replicas"]}) == 2
