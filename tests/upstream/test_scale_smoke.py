"""A small cluster of KWOK's nodes behind a whole Homeport: what pages and submits ask of the API.

Counts only, no times: `python -m tests.scale.cluster` measures those (docs/scale.md).
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from deploy.testcluster import binaries
from tests.e2e.portal import ROOT
from tests.tools import servers
from tests.upstream.power import need_built

pytestmark = pytest.mark.upstream

WORKERS = 49
SIZE = ("--nodes=50", "--tenants=5", "--trainings=1", f"--workers={WORKERS}", "--gpu-tenants=0")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The table of a short run, by the rows' names."""
    need_built(binaries.KUBERNETES, binaries.ETCD, binaries.KWOK)
    try:
        servers.find_program("redis-server", "redis-server")
    except servers.NoServerError as error:
        pytest.skip(str(error))
    told = tmp_path_factory.mktemp("scale") / "table.json"
    command = [
        sys.executable,
        "-m",
        "tests.scale.cluster",
        *SIZE,
        "--calls-only",
        "--by-controllers",
    ]
    done = subprocess.run(
        [*command, f"--json={told}", "--patience-s=300"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    return json.loads(Path(told).read_text())


def test_no_page_asks_the_api(found: dict[str, Any]) -> None:
    assert found["pages opened"] > 20
    assert found["calls of the API by pages, audit log"] == 0
    assert found["connections of the web server to the API, relay"] == 0


@pytest.mark.parametrize("servers_count", [1, 3])
def test_a_submit_asks_as_often_whatever_the_workers(
    found: dict[str, Any], servers_count: int
) -> None:
    asked = found[f"calls for a submit of {WORKERS} workers and {servers_count} PS"]

    # Job, Service, ConfigMap, Secret, a Deployment for each parameter server, and the start.
    assert asked.pop("all") == 5 + servers_count
    assert asked == {
        "create jobs": 1,
        "create services": 1,
        "create configmaps": 1,
        "create secrets": 1,
        "create deployments": servers_count,
        "patch jobs": 1,
    }


def test_the_reconciler_has_one_watch_for_each_kind(found: dict[str, Any]) -> None:
    watches = found["watches of the reconciler, most at once"]

    assert {"pods", "nodes", "jobs", "events", "namespaces"} <= watches.keys()
    assert set(watches.values()) == {1}
