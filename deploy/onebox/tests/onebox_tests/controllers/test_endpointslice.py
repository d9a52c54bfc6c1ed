"""Services find their pods: addresses, readiness, ports, host names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from onebox.api.controllers.endpointslice import EndpointSliceController
from onebox.api.controllers.gc import GarbageCollector
from onebox.api.controllers.objects import name_of, uid_of
from onebox_tests.controllers.world import Make, Obj, World, pod_spec


@pytest.fixture
def world(make_world: Callable[[Make], World]) -> World:
    return make_world(lambda api: [EndpointSliceController(api), GarbageCollector(api)])


def serve(world: World, **spec: Any) -> Obj:
    spec = {"selector": {"app": "web"}, "ports": [{"port": 80}], **spec}
    made = world.api.create(
        "services", "ada", {"metadata": {"name": "web", "labels": {"tier": "front"}}, "spec": spec}
    )
    world.settle()
    return made


def start(world: World, name: str, *, ready: bool = True, ip: str, **spec: Any) -> Obj:
    metadata = {"name": name, "labels": {"app": "web"}}
    pod = world.api.create("pods", "ada", {"metadata": metadata, "spec": pod_spec(**spec)})
    running = world.run(pod, ready=ready, ip=ip)
    world.settle()
    return running


def slices(world: World) -> list[Obj]:
    return world.api.list("endpointslices", "ada")


def endpoints(world: World) -> dict[str, Obj]:
    (one,) = slices(world)
    return {each["addresses"][0]: each for each in one.get("endpoints", [])}


def conditions(world: World, ip: str) -> tuple[bool, bool, bool]:
    found = endpoints(world)[ip]["conditions"]
    return found["ready"], found["serving"], found["terminating"]


def test_readiness_and_deletion_are_followed(world: World) -> None:
    serve(world)
    pod = start(world, "one", ip="10.244.0.2")
    world.run(pod, ready=False, ip="10.244.0.2")
    world.settle()
    assert conditions(world, "10.244.0.2") == (False, False, False)
    world.run(pod, ip="10.244.0.2")
    world.api.delete("pods", "ada", "one")
    world.settle()
    assert conditions(world, "10.244.0.2") == (False, True, True)
    world.remove(pod)
    world.settle()
    assert endpoints(world) == {}


def test_unready_addresses_are_published_when_asked_for(world: World) -> None:
    serve(world, clusterIP="None", publishNotReadyAddresses=True)
    start(world, "one", ip="10.244.0.2", ready=False, hostname="n-0", subdomain="web")
    start(world, "two", ip="10.244.0.3", ready=False, hostname="n-1", subdomain="other")
    assert conditions(world, "10.244.0.2") == (True, False, False)
    assert endpoints(world)["10.244.0.2"]["hostname"] == "n-0"
    assert "hostname" not in endpoints(world)["10.244.0.3"]
    (made,) = slices(world)
    assert "service.kubernetes.io/headless" in made["metadata"]["labels"]
    assert made["metadata"]["labels"]["tier"] == "front"


def test_named_ports_are_looked_up_in_each_pod(world: World) -> None:
    serve(world, ports=[{"name": "http", "port": 80, "targetPort": "web"}])
    for name, ip, number in (("one", "10.244.0.2", 8080), ("two", "10.244.0.3", 9090)):
        container = {
            "name": "main",
            "image": "x",
            "ports": [{"name": "web", "containerPort": number}],
        }
        metadata = {"name": name, "labels": {"app": "web"}}
        spec = {"containers": [container]}
        world.run(world.api.create("pods", "ada", {"metadata": metadata, "spec": spec}), ip=ip)
    world.settle()
    found = {
        (each["ports"][0]["port"], each["endpoints"][0]["addresses"][0]) for each in slices(world)
    }
    assert found == {(8080, "10.244.0.2"), (9090, "10.244.0.3")}
    world.api.delete("pods", "ada", "two", grace_s=0)
    world.settle()
    assert len(slices(world)) == 1


def test_a_changed_port_changes_the_slice_and_does_not_replace_it(world: World) -> None:
    serve(world)
    start(world, "one", ip="10.244.0.2")
    (before,) = slices(world)
    world.api.patch("services", "ada", "web", {"spec": {"ports": [{"port": 81}]}})
    world.settle()
    (after,) = slices(world)
    assert after["ports"][0]["port"] == 81
    assert uid_of(after) == uid_of(before)


def test_pods_that_have_ended_or_match_no_more_are_left_out(world: World) -> None:
    serve(world)
    start(world, "one", ip="10.244.0.2")
    pod = start(world, "two", ip="10.244.0.3")
    world.api.patch("pods", "ada", "one", {"metadata": {"labels": {"app": "other"}}})
    world.finish(pod)
    world.settle()
    assert endpoints(world) == {}


def test_a_service_without_selector_gets_no_slice_and_a_deleted_one_loses_it(world: World) -> None:
    serve(world)
    assert len(slices(world)) == 1
    world.api.patch("services", "ada", "web", {"spec": {"selector": None}})
    world.settle()
    assert slices(world) == []
    world.api.patch("services", "ada", "web", {"spec": {"selector": {"app": "web"}}})
    world.settle()
    assert len(slices(world)) == 1
    world.api.delete("services", "ada", "web")
    world.settle()
    assert slices(world) == []


def test_a_slice_that_somebody_spoiled_or_doubled_is_put_right(world: World) -> None:
    serve(world)
    start(world, "one", ip="10.244.0.2")
    (made,) = slices(world)
    world.api.patch("endpointslices", "ada", name_of(made), {"endpoints": []})
    world.settle()
    assert list(endpoints(world)) == ["10.244.0.2"]
    labels = made["metadata"]["labels"]
    twin = {"metadata": {"name": "twin", "labels": labels}, "addressType": "IPv4"}
    world.api.create("endpointslices", "ada", {**twin, "ports": [], "endpoints": []})
    world.settle()
    assert len(slices(world)) == 1
