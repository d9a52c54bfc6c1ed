"""A training that writes more to its node's disk than the catalog lets it ends by that, and nobody else does."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from portal import catalog
from tests.e2e.portal import Portal, Rest, new_home, thrown_away
from tests.tools.waiting import wait_for

pytestmark = pytest.mark.e2e

LIMIT = "256Mi"
PULL_S = 240
SMALL = {
    "image": "python:3.11-slim",
    "topology": "single",
    "replicas": {"worker": {"cpu": "200m", "memory": "256Mi"}},
}
FILL = "head -c 500000000 /dev/zero > /workspace/large; echo written; sleep 600"


@pytest.fixture
def ada(tmp_path: Path) -> Iterator[Rest]:
    """Of a portal whose catalog gives containers little disk."""
    built_in = Path(catalog.__file__).with_name("catalog.yaml").read_text()
    own = tmp_path / "catalog.yaml"
    own.write_text(built_in.replace("container_disk: 20Gi", f"container_disk: {LIMIT}"))
    with thrown_away(Portal(new_home("disk"), environment={"CATALOG": str(own)})) as portal:
        rest = portal.sign_in("ada")
        rest.tenant()
        yield rest


def test_who_writes_too_much_fails_with_the_limit_and_nobody_else(ada: Rest) -> None:
    other = ada.submit(name="other", command=["sh", "-c", "echo begun; sleep 600"], **SMALL)
    ada.wait(other, "running", timeout_s=PULL_S)
    job = ada.submit(name="writes", command=["sh", "-c", FILL], **SMALL)
    failed = ada.wait(job, "failed", timeout_s=PULL_S)
    assert failed["reason"]["code"] == "evicted_disk"
    assert LIMIT in failed["reason"]["text"]
    assert "LOG_DIR or DATA_DIR" in failed["reason"]["next_step"]
    log = partial(ada.text, f"jobs/{job['id']}/logs/?replica=worker-0&download=1")
    wait_for("its log is kept", lambda: "written" in log(), timeout_s=60)
    assert ada.get(f"jobs/{other['id']}/")["state"] == "running"
