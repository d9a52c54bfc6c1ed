"""What METRICS_PORT answers: the metrics that docs/operations.md lists, few whatever the fleet, and probes."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from deploy.testcluster.ports import free_port
from jobs.engine.metrics import GAUGES
from portal import metrics
from portal.cluster import labels
from portal.process import process
from portal.server import probes, requests
from tests.jobs.engine.test_takeover import process as running
from tests.portal.cluster.fake_api import FakeApi
from tests.portal.programs import ROOT, environ_of, program
from tests.portal.whole import TRAINING

MOST_SERIES = 600
PODS, NODES = 10_000, 1_250


def documented() -> list[str]:
    text = (ROOT / "docs" / "operations.md").read_text()
    return re.findall(r"^\| `(homeport_[a-z_]+)", text, re.MULTILINE)


def known() -> set[str]:
    """The names by which series begin."""
    ends = {"counter": "_total", "info": "_info"}
    families = [*metrics.REGISTRY.collect(), *map(_described, GAUGES)]
    return {
        one.name + ends.get(one.type, "") for one in families if one.name.startswith("homeport")
    }


def _described(name: str) -> Any:
    return metrics.Gauge(name, "described", registry=None).describe()[0]


def test_what_is_documented_exists_and_the_other_way_round() -> None:
    assert sorted(documented()) == sorted(known())


def test_no_label_can_name_anybody() -> None:
    told = {name: set(labels) for name, (_, labels) in GAUGES.items()}
    told |= {
        one.name: {label for sample in one.samples for label in sample.labels}
        for one in metrics.REGISTRY.collect()
    }
    for name, seen in told.items():
        assert not seen & {
            "user",
            "person",
            "owner",
            "tenant",
            "namespace",
            "job",
            "pod",
            "path",
        }, name


def test_requests_have_a_bound_whatever_is_asked() -> None:
    metrics.HTTP_REQUESTS.clear()
    requests._counters.clear()
    for number in range(1000):
        requests.count(f"route-{number}", ("GET", "POST", "BREW")[number % 3], 200)
    requests.count("another", "GET", 503)
    [family] = metrics.HTTP_REQUESTS.collect()
    assert len(family.samples) <= requests.MOST_SERIES + 4
    assert sum(sample.value for sample in family.samples) == 1001
    assert {"route": "other", "method": "GET", "code": "503"} in [s.labels for s in family.samples]
    metrics.HTTP_REQUESTS.clear()
    requests._counters.clear()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("is_synced", "code"), [(None, 200), (True, 200), (False, 503)], ids=["standby", "yes", "no"]
)
def test_a_reconciler_is_ready_as_standby_or_synced(
    monkeypatch: pytest.MonkeyPatch, is_synced: bool | None, code: int
) -> None:
    monkeypatch.setattr(process, "is_synced", is_synced)
    assert probes.reconciler_readiness()[0] == code
    assert probes.readiness()[0] == 200  # pages can still be read


@asynccontextmanager
async def fleet(nodes: int = NODES, pods: int = PODS) -> AsyncIterator[FakeApi]:
    """A cluster of GPU nodes full of pods, two NodePorts of Homeport's among them."""
    api = FakeApi()
    await api.start()
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": "8"}
    for number in range(nodes):
        ready = {"type": "Ready", "status": "True" if number else "False"}
        about = {"name": f"node-{number}"}
        status = {"allocatable": amounts, "capacity": amounts, "conditions": [ready]}
        api.put({"kind": "Node", "metadata": about, "status": status})
    asked = {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}
    for number in range(pods):
        place = {"nodeName": f"node-{1 + number % (nodes - 1)}"}
        spec = {**place, "containers": [{"name": "main", "resources": asked if number % 2 else {}}]}
        about = {"name": f"pod-{number}", "namespace": f"u-{number % 50}"}
        api.put({"kind": "Pod", "metadata": about, "spec": spec, "status": {"phase": "Running"}})
    for number in range(2):
        about = {
            "name": f"gate-{number}",
            "namespace": "u-1",
            "labels": {labels.MANAGED_BY: labels.MANAGER},
        }
        spec = {"type": "NodePort", "ports": [{"port": 8888, "nodePort": 30000 + number}]}
        api.put({"kind": "Service", "metadata": about, "spec": spec})
    try:
        yield api
    finally:
        await api.stop()


async def test_a_scrape_of_ten_thousand_pods(tmp_path: Path) -> None:
    steps = "homeport_reconciler_steps_total"
    home, port, metrics_port = tmp_path / "home", free_port(), free_port()
    home.mkdir()
    async with fleet() as api, aiohttp.ClientSession() as session:
        environ = {
            "PORT": str(port),
            "POD_PORT": str(free_port()),
            "METRICS_PORT": str(metrics_port),
            "HOMEPORT_KUBECONFIG": api.kubeconfig(tmp_path),
        }
        made = program(home, "-m", "tests.portal.whole", "0", "0", **environ)
        badges = json.loads(made.stdout.splitlines()[-1])

        async def ask(url: str, **more: Any) -> tuple[int, str]:
            try:
                async with session.request(more.pop("method", "GET"), url, **more) as answer:
                    return answer.status, await answer.text()
            except aiohttp.ClientError:
                return 0, ""

        async def scrape() -> dict[str, list[Sample]]:
            _, text = await ask(f"http://127.0.0.1:{metrics_port}/metrics")
            found: dict[str, list[Sample]] = {}
            for family in text_string_to_metric_families(text):
                for sample in family.samples:
                    found.setdefault(sample.name, []).append(sample)
            return found

        async def until(what: Any) -> dict[str, list[Sample]]:
            async with asyncio.timeout(90):
                while not what(found := await scrape()):
                    await asyncio.sleep(0.5)
            return found

        with running(tmp_path, "serve", "serve", **environ_of(home, **environ)):
            await until(lambda found: "homeport_gpus" in found)
            token = {"Authorization": f"Token {badges['token']}"}
            rest = f"http://localhost:{port}/api/v1"
            code, text = await ask(f"{rest}/jobs/", method="POST", json=TRAINING, headers=token)
            assert code == 201, text
            job = json.loads(text)["id"]
            assert (await ask(f"{rest}/jobs/{job}/", headers=token))[0] == 200
            assert (await ask(f"http://localhost:{port}/nowhere/"))[0] == 404
            found = await until(
                lambda seen: (
                    value(seen, "homeport_jobs", state="starting", topology="single") == 1
                    and value(seen, steps, step="CreateAll", result="done") == 1
                )
            )
            for path, wanted in (("livez", 200), ("readyz", 200), ("status", 200), ("", 404)):
                assert (await ask(f"http://127.0.0.1:{metrics_port}/{path}"))[0] == wanted
            # Neither of the public doors has them.
            assert (await ask(f"http://localhost:{port}/metrics"))[0] == 404
    assert sum(map(len, found.values())) <= MOST_SERIES
    assert "alice" not in str(found)
    assert job not in str(found)
    requested = "homeport_http_requests_total"
    assert value(found, requested, route="api-jobs", method="POST", code="201") == 1
    assert value(found, requested, route="api-job", method="GET", code="200") == 1
    assert value(found, requested, route="none", method="GET", code="404") == 1
    assert not [one for one in found[requested] if one.labels["route"].endswith("z")]
    assert value(found, "homeport_reconciler_active") == 1
    assert value(found, "homeport_reconciler_epoch") == 1
    assert value(found, "homeport_gpus", state="used") == PODS / 2
    assert value(found, "homeport_gpus", state="closed") == 8
    assert value(found, "homeport_gpus", state="free") == (NODES - 1) * 8 - PODS / 2
    assert value(found, "homeport_nodeports", state="used") == 2
    assert value(found, "homeport_nodeports", state="free") == 2766
    assert sum(sample.value for sample in found["homeport_tenants"]) == 1
    assert value(found, "homeport_kubernetes_requests_total", verb="list", kind="Pod", code="200")
    assert value(found, "homeport_database_bytes") > 100_000
    assert value(found, "homeport_backup_timestamp_seconds") == 0
    assert value(found, "homeport_watch_heard_timestamp_seconds", kind="Node") > 1e9
    assert value(found, "homeport_reconciler_tick_seconds_count") >= 1
    assert value(found, "homeport_job_wait_seconds_count") == 1


def value(found: dict[str, list[Sample]], name: str, **labels: str) -> float:
    """Of the one series with these labels; 0: there is none."""
    return sum(sample.value for sample in found.get(name, ()) if sample.labels == labels)
