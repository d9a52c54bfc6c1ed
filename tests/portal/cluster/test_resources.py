"""What a pod holds is what the scheduler counts."""

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


def test_containers_add_up():
    spec = PodSpec(containers=[container("500m", memory="1Gi"), container("1", gpu="2")])
    assert of_pod(spec) == Resources(1500, 2**30, 2, 1)


def test_an_init_container_counts_only_when_it_is_larger():
    small = PodSpec(containers=[container("1")], init_containers=[container("500m")])
    large = PodSpec(containers=[container("1")], init_containers=[container("3")])
    assert of_pod(small).cpu_millicores == 1000
    assert of_pod(large).cpu_millicores == 3000


def test_a_sidecar_adds_to_containers_and_to_later_init_containers():
    inits = [container("200m", sidecar=True), container("1")]
    spec = PodSpec(containers=[container("1")], init_containers=inits)
    assert of_pod(spec).cpu_millicores == 1200
    spec = PodSpec(containers=[container("100m")], init_containers=inits)
    assert of_pod(spec).cpu_millicores == 1200


def test_overhead_is_added():
    spec = PodSpec(containers=[container("1")], overhead={"cpu": "250m"})
    assert of_pod(spec).cpu_millicores == 1250


def test_an_odd_number_of_a_foreign_pod_counts_as_nothing():
    assert of_resources({"cpu": "many"}) == NOTHING


def test_sums_and_differences():
    one = Resources(1000, 5, 1, 1)
    assert one + one - one == one
    assert one.most(Resources(500, 9, 0, 0)) == Resources(1000, 9, 1, 1)
