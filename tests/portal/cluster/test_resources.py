"""What a pod holds is what the scheduler counts."""

import pytest

from portal.cluster.objects import ContainerSpec, PodSpec, ResourceRequirements
from portal.cluster.resources import NOTHING, Resources, of_pod, of_resources


def container(
    cpu: str, *, memory: str = "0", sidecar: bool = False, gpu: str = ""
) -> ContainerSpec:
    limits = {"nvidia.com/gpu": gpu} if gpu else {}
    return ContainerSpec(
        name="c",
        resources=ResourceRequirements(requests={"cpu": cpu, "memory": memory}, limits=limits),
        restart_policy="Always" if sidecar else "",
    )


ONE = container("1")
INITS = [container("200m", sidecar=True), ONE]


@pytest.mark.parametrize(
    ("spec", "cpu_millicores"),
    [
        (PodSpec(containers=[container("500m"), ONE]), 1500),
        # An init container counts only when it is larger.
        (PodSpec(containers=[ONE], init_containers=[container("500m")]), 1000),
        (PodSpec(containers=[ONE], init_containers=[container("3")]), 3000),
        # A sidecar adds to containers and to later init containers.
        (PodSpec(containers=[ONE], init_containers=INITS), 1200),
        (PodSpec(containers=[container("100m")], init_containers=INITS), 1200),
        (PodSpec(containers=[ONE], overhead={"cpu": "250m"}), 1250),
    ],
)
def test_a_pod_holds_what_the_scheduler_counts(spec: PodSpec, cpu_millicores: int):
    assert of_pod(spec).cpu_millicores == cpu_millicores


def test_all_kinds_are_counted():
    spec = PodSpec(containers=[container("500m", memory="1Gi"), container("1", gpu="2")])
    assert of_pod(spec) == Resources(1500, 2**30, 2, 1)


def test_an_odd_number_of_a_foreign_pod_counts_as_nothing():
    assert of_resources({"cpu": "many"}) == NOTHING


def test_sums_and_differences():
    one = Resources(1000, 5, 1, 1)
    assert one + one - one == one
    assert one.most(Resources(500, 9, 0, 0)) == Resources(1000, 9, 1, 1)
