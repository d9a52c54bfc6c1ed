"""Owners and dependents: Background, Foreground, Orphan, and owners that are not there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from onebox.api.controllers.gc import GarbageCollector
from onebox.api.controllers.objects import uid_of
from onebox_tests.controllers.world import Make, Obj, World


@pytest.fixture
def world(make_world: Callable[[Make], World]) -> World:
    return make_world(lambda api: [GarbageCollector(api)])


def make(world: World, name: str, *owners: Obj, namespace: str = "ada", **meta: Any) -> Obj:
    metadata = {"name": name, "ownerReferences": list(owners), **meta}
    created = world.api.create("configmaps", namespace, {"metadata": metadata})
    world.settle()
    return created


def ref(owner: Obj, **more: Any) -> Obj:
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": uid_of(owner),
        **more,
    }


def delete(world: World, name: str, propagation: str) -> None:
    world.api.delete("configmaps", "ada", name, propagation=propagation)
    world.settle()


def names(world: World) -> list[str]:
    return [obj["metadata"]["name"] for obj in world.api.list("configmaps", "ada")]


def get(world: World, name: str) -> Obj:
    return world.api.get("configmaps", "ada", name)


def test_foreground_does_not_wait_for_dependents_that_do_not_block(world: World) -> None:
    root = make(world, "root")
    make(world, "held", ref(root), finalizers=["example.org/hold"])
    delete(world, "root", "Foreground")
    assert names(world) == ["held"]


def test_an_owner_that_waits_goes_on_when_its_dependent_lets_go_of_it(world: World) -> None:
    root = make(world, "root")
    blocking = ref(root, blockOwnerDeletion=True)
    make(world, "child", blocking, finalizers=["example.org/hold"])
    delete(world, "root", "Foreground")
    assert "root" in names(world)
    world.api.patch("configmaps", "ada", "child", {"metadata": {"ownerReferences": None}})
    world.settle()
    assert names(world) == ["child"]


def test_an_owner_of_the_same_name_with_another_uid_does_not_count(world: World) -> None:
    root = make(world, "root")
    stale = {**ref(root), "uid": "00000000-0000-4000-8000-000000000000"}
    make(world, "child", stale)
    assert names(world) == ["root"]


def test_an_owner_of_a_kind_that_is_not_served_keeps_its_dependents(world: World) -> None:
    owner = {"apiVersion": "example.org/v1", "kind": "Widget", "name": "w", "uid": "1"}
    make(world, "child", owner)
    assert names(world) == ["child"]


def test_an_owner_in_another_namespace_counts_as_absent_and_says_so(world: World) -> None:
    world.api.create("namespaces", None, {"metadata": {"name": "lin"}})
    root = make(world, "root", namespace="lin")
    make(world, "child", ref(root))
    assert names(world) == []
    (message,) = world.events("OwnerRefInvalidNamespace")
    assert message.endswith('does not exist in namespace "ada"')
    assert message.startswith("ownerRef [v1/ConfigMap, namespace: ada, name: root, uid: ")


def test_two_that_own_each_other_can_be_deleted_in_the_foreground(world: World) -> None:
    one = make(world, "one")
    two = make(world, "two", ref(one, blockOwnerDeletion=True))
    patch = {"metadata": {"ownerReferences": [ref(two, blockOwnerDeletion=True)]}}
    world.api.patch("configmaps", "ada", "one", patch)
    world.settle()
    delete(world, "one", "Foreground")
    assert names(world) == []


def test_what_was_deleted_while_nobody_watched_is_found_at_the_next_start(world: World) -> None:
    root = make(world, "root")
    child = make(world, "child", ref(root))
    make(world, "grandchild", ref(child))
    world.runtime.stop()
    world.api.delete("configmaps", "ada", "root", propagation="Background")
    world.restart()
    assert names(world) == []


@pytest.mark.parametrize("propagation", ["Background", "Foreground", "Orphan"])
@pytest.mark.parametrize("commits", range(6))
def test_a_kill_at_any_write_ends_in_the_same_state(
    world: World, propagation: str, commits: int
) -> None:
    root = make(world, "root")
    for number in range(3):
        make(world, f"child-{number}", ref(root, blockOwnerDeletion=True))
    world.api.delete("configmaps", "ada", "root", propagation=propagation)
    world.settle_or_die_after(commits)
    left = [f"child-{n}" for n in range(3)] if propagation == "Orphan" else []
    assert names(world) == left
    assert all("ownerReferences" not in get(world, name)["metadata"] for name in left)
