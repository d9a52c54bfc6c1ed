"""GPUs, resources and abilities at admission."""

from __future__ import annotations

import pytest

from onebox.node import gpus
from onebox.node.admission import (
    RefusedError,
    check_abilities,
    check_resources,
    pod_requests,
)
from onebox.node.gpus import Allocator, Gpu, GpuShortageError, Inventory
from onebox_tests.node_kubelet.pods import container, pod

ALLOCATABLE = {"cpu": "4", "memory": "8Gi", "pods": "3", gpus.RESOURCE: "4"}


def limited(name: str = "main", **resources: str) -> dict:
    named = {key.replace("gpu", gpus.RESOURCE): value for key, value in resources.items()}
    return container(name, resources={"limits": named, "requests": named})


def gpu_pod(uid: str, *counts: int) -> dict:
    made = pod(*(limited(f"c{i}", gpu=str(count)) for i, count in enumerate(counts)))
    made["metadata"]["uid"] = uid
    return made


def inventory(count: int) -> Inventory:
    return Inventory(tuple(Gpu(i, "simulated", f"s{i}") for i in range(count)), simulated=True)


def test_gpus_are_held_exclusively_and_come_back():
    allocator = Allocator(inventory(4))
    first = allocator.allocate(gpu_pod("a", 2))
    second = allocator.allocate(gpu_pod("b", 1, 1))
    assert first == {"c0": [0, 1]}
    assert second == {"c0": [2], "c1": [3]}
    with pytest.raises(GpuShortageError, match="Requested: 1, Available: 0"):
        allocator.allocate(gpu_pod("c", 1))
    allocator.release("a")
    assert allocator.allocate(gpu_pod("c", 1)) == {"c0": [0]}
    assert allocator.allocate(gpu_pod("b", 1, 1)) == second


def test_a_pod_that_comes_back_gets_its_own_gpus_again():
    made = gpu_pod("a", 2)
    made["metadata"]["annotations"] = {gpus.ANNOTATION: '{"c0": [1, 3]}'}
    assert Allocator(inventory(4)).allocate(made) == {"c0": [1, 3]}


def test_init_containers_lend_their_gpus_to_the_main_ones():
    made = pod(limited("m", gpu="1"), init=(limited("i", gpu="2"),))
    assert gpus.needed(made) == 2
    assert Allocator(inventory(2)).allocate(made) == {"i": [0, 1], "m": [0]}


def test_a_container_sees_its_own_gpus_and_without_any_none():
    real = Inventory(
        tuple(Gpu(index, "H200", f"GPU-{index}a") for index in range(4)), simulated=False
    )
    assert gpus.variables(real, None)["CUDA_VISIBLE_DEVICES"] == ""
    assert gpus.variables(real, [1, 3])["CUDA_VISIBLE_DEVICES"] == "GPU-1a,GPU-3a"
    assert gpus.variables(inventory(4), [1, 3])["CUDA_VISIBLE_DEVICES"] == "1,3"


def test_the_listing_of_nvidia_smi_is_read():
    text = (
        "GPU 0: NVIDIA H200 (UUID: GPU-1)\n"
        "  MIG 1g.18gb     Device  0: (UUID: MIG-2)\n"
        "GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-3)\n"
    )
    found = gpus.parse_listing(text)
    assert [(g.index, g.model) for g in found] == [(0, "NVIDIA H200"), (1, "NVIDIA A100-SXM4-40GB")]


def test_zero_gpus_means_none(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gpus, "_nvidia_smi", lambda: "")
    assert gpus.discover("0").gpus == ()
    assert len(gpus.discover("auto").gpus) == 4
    assert gpus.discover("2").simulated


def test_a_pod_that_does_not_fit_is_refused_with_the_arithmetic():
    others = [pod(limited(cpu="3"))]
    check_resources(pod(limited(cpu="1")), others, ALLOCATABLE)
    with pytest.raises(RefusedError) as error:
        check_resources(pod(limited(cpu="1500m")), others, ALLOCATABLE)
    assert error.value.reason == "OutOfcpu"
    assert "requested: 1500, used: 3000, capacity: 4000" in error.value.message
    with pytest.raises(RefusedError, match="resource: pods"):
        check_resources(pod(), [pod(), pod(), pod()], ALLOCATABLE)
    with pytest.raises(RefusedError) as error:
        check_resources(gpu_pod("x", 5), [], ALLOCATABLE)
    assert error.value.reason == "OutOfnvidia.com/gpu"


def test_requests_count_sidecars_on_top_and_the_largest_init_container():
    made = pod(
        limited("m", cpu="1"),
        init=(
            {**limited("s", cpu="500m"), "restartPolicy": "Always"},
            limited("i", cpu="2"),
        ),
    )
    assert pod_requests(made)["cpu"] == 2_500_000_000


REFUSED = [
    (pod(hostNetwork=True), "hostNetwork"),
    (pod(container(securityContext={"privileged": True})), "privileged"),
]


@pytest.mark.parametrize(("made", "word"), REFUSED)
def test_what_would_have_to_be_faked_is_refused(made: dict, word: str):
    with pytest.raises(RefusedError, match=word):
        check_abilities(made)
