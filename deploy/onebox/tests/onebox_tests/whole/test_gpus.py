"""GPUs are whole, exclusive, and nobody else sees them."""

from __future__ import annotations

import json

import pytest

from onebox.testing import OneBox
from onebox.testing.kube import Kube, Space, shell

GPU = "nvidia.com/gpu"


@pytest.fixture(autouse=True)
def _four_simulated(kube: Kube):
    node = kube.get("/api/v1/nodes/onebox")
    if node["metadata"]["labels"].get("homeport.dev/simulated-gpu") != "true":
        pytest.skip("this machine has real GPUs; the test counts on four simulated ones")


def gpu_pod(space: Space, name: str, count: int) -> None:
    space.pod(
        name,
        shell("echo $CUDA_VISIBLE_DEVICES; sleep 1000", resources={"limits": {GPU: str(count)}}),
    )


def test_two_pods_never_share_a_gpu_and_a_third_waits_for_one(space: Space):
    gpu_pod(space, "a", 2)
    gpu_pod(space, "b", 2)
    shown = []
    for name in ("a", "b"):
        pod = space.wait_pod(name, "Running")
        text = space.first_line(name).strip()
        annotation = json.loads(pod["metadata"]["annotations"]["homeport.dev/gpu-indices"])
        assert annotation == {"main": [int(index) for index in text.split(",")]}
        shown += annotation["main"]
    assert sorted(shown) == [0, 1, 2, 3]
    gpu_pod(space, "c", 1)
    event = space.wait_event("c", "FailedScheduling")
    assert "Insufficient nvidia.com/gpu" in event["message"]
    space.kube.delete(space.path("pods", "a"), grace_s=0)
    space.wait_pod("c", "Running")
    assert space.first_line("c").strip() in ("0", "1", "2", "3")


def test_a_pod_bound_by_hand_to_a_full_node_is_refused(space: Space):
    gpu_pod(space, "a", 4)
    space.wait_pod("a", "Running")
    container = shell("true", resources={"limits": {GPU: "1"}})
    space.pod("b", container, nodeName="onebox")
    pod = space.wait_pod("b", "Failed")
    assert pod["status"]["reason"] in (f"OutOf{GPU}", "UnexpectedAdmissionError")


def test_a_pod_that_asked_for_none_sees_none(space: Space, box: OneBox):
    text = space.output("p", shell('echo "[$CUDA_VISIBLE_DEVICES]"'))
    assert text == "[]\n"
