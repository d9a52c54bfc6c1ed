"""Namespaces come furnished and go empty."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from onebox.api.controllers.gc import GarbageCollector
from onebox.api.controllers.namespace import NamespaceController
from onebox.api.controllers.objects import find_condition, name_of
from onebox.api.controllers.volumebinder import VolumeBinder
from onebox.api.status import StatusError
from onebox_tests.controllers.world import Make, World, pod_spec


@pytest.fixture
def world(make_world: Callable[[Make], World]) -> World:
    made = make_world(
        lambda api: [NamespaceController(api, "PEM"), GarbageCollector(api), VolumeBinder(api)]
    )
    made.settle()
    return made


def delete(world: World) -> None:
    world.api.delete("namespaces", None, "ada")
    world.settle()


def condition(world: World, type_: str) -> tuple[str, str, str]:
    status = world.api.get("namespaces", None, "ada")["status"]
    found = find_condition(status["conditions"], type_) or {}
    return found["status"], found["reason"], found["message"]


def test_every_cluster_has_the_four_namespaces(world: World) -> None:
    names = [name_of(each) for each in world.api.list("namespaces")]
    assert names == ["ada", "default", "kube-node-lease", "kube-public", "kube-system"]


def test_a_namespace_gets_an_account_and_the_root_certificate_and_gets_them_back(
    world: World,
) -> None:
    for _ in range(2):
        assert world.api.find("serviceaccounts", "ada", "default")
        assert world.api.get("configmaps", "ada", "kube-root-ca.crt")["data"] == {"ca.crt": "PEM"}
        world.api.delete("serviceaccounts", "ada", "default")
        world.api.patch("configmaps", "ada", "kube-root-ca.crt", {"data": {"ca.crt": "forged"}})
        world.settle()


def test_an_empty_namespace_goes_at_once_with_all_its_content(world: World) -> None:
    world.api.create("configmaps", "ada", {"metadata": {"name": "one"}})
    world.api.create("secrets", "ada", {"metadata": {"name": "two"}})
    world.api.create("pods", "ada", {"metadata": {"name": "three"}, "spec": pod_spec()})
    delete(world)
    assert world.api.find("namespaces", None, "ada") is None
    assert world.api.list("configmaps", "ada") == []
    assert world.api.list("pods", "ada") == []


def test_a_running_pod_keeps_its_namespace_until_it_has_ended(world: World) -> None:
    pod = world.api.create("pods", "ada", {"metadata": {"name": "train"}, "spec": pod_spec()})
    world.run(pod)
    delete(world)
    assert "deletionTimestamp" in world.api.get("pods", "ada", "train")["metadata"]
    sentence = "Some resources are remaining: pods. has 1 resource instances"
    assert condition(world, "NamespaceContentRemaining") == (
        "True",
        "SomeResourcesRemain",
        sentence,
    )
    assert condition(world, "NamespaceDeletionContentFailure") == (
        "False",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    )
    with pytest.raises(StatusError) as refused:
        world.api.create("configmaps", "ada", {"metadata": {"name": "late"}})
    assert refused.value.code == 403
    world.remove(pod)
    world.settle()
    assert world.api.find("namespaces", None, "ada") is None


@pytest.mark.parametrize("commits", range(8))
def test_a_kill_at_any_write_still_empties_the_namespace(world: World, commits: int) -> None:
    for number in range(3):
        world.api.create("configmaps", "ada", {"metadata": {"name": f"c-{number}"}})
    world.api.delete("namespaces", None, "ada")
    world.settle_or_die_after(commits)
    found = world.api.find("namespaces", None, "ada")
    # A restart makes the test's namespace anew if the old one is gone.
    assert found is None or "deletionTimestamp" not in found["metadata"]
    assert [n for n in map(name_of, world.api.list("configmaps", "ada")) if n[0] == "c"] == []
