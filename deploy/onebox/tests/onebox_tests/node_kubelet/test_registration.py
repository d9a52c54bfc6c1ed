"""What the Node object says of this machine."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from onebox.node import registration
from onebox.node.client import KubeconfigError, load_kubeconfig, resource_path
from onebox.node.gpus import Gpu, Inventory
from onebox.node.nodestatus import Offer, default_cpu_cores, labels, node_status
from onebox.node.options import parse_options
from onebox.node.spec import Limits
from onebox_tests.node_kubelet.conftest import StartApi
from onebox_tests.node_kubelet.fakeapi import Request, ok, stream

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def offer(**fields: object) -> Offer:
    values: dict[str, object] = {
        "name": "onebox",
        "cpu_cores": 8,
        "real_cores": 2,
        "memory_bytes": 16 << 30,
        "disk_bytes": 100 << 30,
        "inventory": Inventory((Gpu(0, "simulated", "s0"),), simulated=True),
        "mode": "root",
        "limits": Limits("cgroup", cpu=True, pids=True, text="enforced by control groups"),
        "notes": (),
    }
    return Offer(**{**values, **fields})


def conditions(made: Offer) -> dict[str, dict[str, str]]:
    return {c["type"]: c for c in node_status(made, 4711, NOW, is_ready=True)["conditions"]}


def test_the_node_offers_what_was_measured_and_where_its_logs_are():
    status = node_status(offer(), 4711, NOW, is_ready=True)
    assert status["capacity"]["cpu"] == "8"
    assert status["capacity"]["nvidia.com/gpu"] == "1"
    assert status["capacity"]["memory"] == f"{16 << 20}Ki"
    assert int(status["allocatable"]["memory"][:-2]) < 16 << 20
    assert status["daemonEndpoints"]["kubeletEndpoint"]["Port"] == 4711


def test_what_is_not_as_on_a_real_cluster_is_said():
    found = conditions(offer())
    assert found["homeport.dev/CPUOvercommitted"]["status"] == "True"
    assert "8 CPUs are offered on a machine with 2" in str(found["homeport.dev/CPUOvercommitted"])
    assert "NetworkPolicy" in found["homeport.dev/Isolation"]["message"]
    assert found["homeport.dev/Limits"]["status"] == "True"
    assert "RBAC" in found["homeport.dev/Isolation"]["message"]
    joined = conditions(offer(is_joined=True))["homeport.dev/Isolation"]["message"]
    assert "RBAC" not in joined  # another control plane has its own rules
    weak = offer(limits=Limits("none", cpu=False, pids=False, text="nothing holds"), cpu_cores=2)
    found = conditions(weak)
    assert found["homeport.dev/Limits"]["status"] == "False"
    assert found["homeport.dev/Limits"]["message"] == "nothing holds"
    assert found["homeport.dev/CPUOvercommitted"]["status"] == "False"


def test_simulated_gpus_are_labelled_and_real_ones_are_not():
    assert labels(offer())["homeport.dev/simulated-gpu"] == "true"
    real = Inventory((Gpu(0, "NVIDIA H200", "GPU-1"),), simulated=False)
    assert "homeport.dev/simulated-gpu" not in labels(offer(inventory=real))
    none = node_status(offer(inventory=Inventory((), simulated=False)), 4711, NOW, is_ready=True)
    assert "nvidia.com/gpu" not in none["capacity"]


def test_small_machines_offer_eight_cpus():
    assert [default_cpu_cores(n) for n in (1, 2, 4, 64)] == [8, 8, 16, 256]


def test_paths_are_those_of_kubernetes():
    assert resource_path("v1", "pods", "ns", "p", "status") == "/api/v1/namespaces/ns/pods/p/status"
    leases = resource_path("coordination.k8s.io/v1", "leases", "kube-node-lease", "n")
    assert leases == "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n"
    assert resource_path("v1", "nodes", name="n") == "/api/v1/nodes/n"


async def test_the_node_says_what_its_images_lack_and_again_when_that_changes(
    start_api: StartApi, monkeypatch: pytest.MonkeyPatch
):
    def answer(request: Request) -> web.StreamResponse | Awaitable[web.StreamResponse]:
        if "watch" in request.query:
            return stream(request, hold=True)
        return ok({"metadata": {"uid": "u", "resourceVersion": "1"}, "items": [{}]})

    def reported() -> list[Any]:
        kept = [one.body["metadata"] for one in api.seen if "metadata" in (one.body or {})]
        texts = [meta.get("annotations", {}).get("homeport.dev/images") for meta in kept]
        return [json.loads(text) for text in texts if text]

    monkeypatch.setattr(registration, "RENEW_S", 0.02)
    api, lacks = await start_api(answer), {"docker.io/lab/x:1": "needs a"}
    node = registration.Registration(api.client, offer(), log_port=1, lacks=lambda: lacks)
    await node.register()
    running = asyncio.create_task(node.run())
    leases = len(api.seen)
    await api.wait_for(lambda: len(api.seen) > leases + 5)
    assert reported() == [{"docker.io/lab/x:1": "needs a"}]
    lacks["docker.io/lab/x:1"] = ""
    await api.wait_for(lambda: len(reported()) == 2)
    assert reported()[1] == lacks
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "not valid YAML"),
        ("{}", "no usable current context"),
        ("", "no usable current context"),
    ],
)
def test_a_bad_kubeconfig_is_named(tmp_path: Path, text: str, sentence: str):
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(KubeconfigError, match=sentence):
        load_kubeconfig(path)
    with pytest.raises(KubeconfigError, match="cannot be read"):
        load_kubeconfig(tmp_path / "absent")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--node-port-range", "32767-30000"),
        ("--gpus", "many"),
        ("--cpu", "0"),
        ("--forward", "99999"),
    ],
)
def test_wrong_options_are_refused_in_words(
    option: str, value: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as error:
        parse_options(["--kubeconfig", "k", "--home", "h", option, value])
    assert error.value.code == 2
    assert value in capsys.readouterr().err
