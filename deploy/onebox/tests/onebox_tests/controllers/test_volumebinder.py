"""Claims and volumes: bound once, released for ever, kept while in use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from onebox.api.controllers.gc import GarbageCollector
from onebox.api.controllers.objects import uid_of
from onebox.api.controllers.volumebinder import VolumeBinder
from onebox_tests.controllers.world import Make, Obj, World


@pytest.fixture
def world(make_world: Callable[[Make], World]) -> World:
    made = make_world(lambda api: [VolumeBinder(api), GarbageCollector(api)])
    storage_class = {"metadata": {"name": "glusterfs"}, "provisioner": "homeport.dev/folder"}
    made.api.create("storageclasses", None, storage_class)
    made.settle()
    return made


def claim(world: World, name: str = "data", size: str = "10Gi", **spec: Any) -> Obj:
    spec = {
        "storageClassName": "glusterfs",
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": size}},
        **spec,
    }
    made = world.api.create(
        "persistentvolumeclaims", "ada", {"metadata": {"name": name}, "spec": spec}
    )
    world.settle()
    return made


def volume(world: World, name: str, size: str = "10Gi", **spec: Any) -> Obj:
    spec = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "glusterfs",
        "persistentVolumeReclaimPolicy": "Retain",
        "hostPath": {"path": f"/volumes/{name}"},
        **spec,
    }
    made = world.api.create("persistentvolumes", None, {"metadata": {"name": name}, "spec": spec})
    world.settle()
    return made


def reserved(made: Obj, *, uid: bool = True) -> Obj:
    ref = {"kind": "PersistentVolumeClaim", "namespace": "ada", "name": made["metadata"]["name"]}
    return {**ref, "uid": uid_of(made)} if uid else ref


def phase(world: World, name: str = "data") -> str:
    return world.api.get("persistentvolumeclaims", "ada", name)["status"]["phase"]


def volume_phase(world: World, name: str) -> str:
    return world.api.get("persistentvolumes", None, name)["status"]["phase"]


def test_a_claim_waits_for_the_provisioner_and_is_bound_to_what_it_makes(world: World) -> None:
    made = claim(world)
    assert phase(world) == "Pending"
    annotations = world.api.get("persistentvolumeclaims", "ada", "data")["metadata"]["annotations"]
    assert annotations["volume.kubernetes.io/storage-provisioner"] == "homeport.dev/folder"
    assert len(world.events("ExternalProvisioning")) == 1
    volume(world, "pv-1", claimRef=reserved(made))
    assert (phase(world), volume_phase(world, "pv-1")) == ("Bound", "Bound")
    bound = world.api.get("persistentvolumeclaims", "ada", "data")
    assert bound["spec"]["volumeName"] == "pv-1"
    assert bound["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] == "yes"
    assert bound["status"]["capacity"] == {"storage": "10Gi"}
    assert bound["status"]["accessModes"] == ["ReadWriteMany"]
    assert world.runtime.run_until_idle() == 0


def test_the_smallest_volume_that_fits_is_taken(world: World) -> None:
    volume(world, "small", "5Gi")
    volume(world, "large", "50Gi")
    volume(world, "right", "20Gi")
    volume(world, "wrong-class", "10Gi", storageClassName="other")
    volume(world, "wrong-mode", "10Gi", accessModes=["ReadWriteOnce"])
    claim(world)
    assert phase(world) == "Bound"
    assert volume_phase(world, "right") == "Bound"
    assert {volume_phase(world, n) for n in ("small", "large", "wrong-class")} == {"Available"}
    ref = world.api.get("persistentvolumes", None, "right")["spec"]["claimRef"]
    assert ref["uid"] == uid_of(world.api.get("persistentvolumeclaims", "ada", "data"))


def test_a_volume_reserved_by_name_waits_for_its_claim(world: World) -> None:
    ref = {"namespace": "ada", "name": "mine"}
    volume(world, "pv-1", claimRef=ref)
    claim(world, "other")
    assert (phase(world, "other"), volume_phase(world, "pv-1")) == ("Pending", "Available")
    claim(world, "mine")
    assert (phase(world, "mine"), volume_phase(world, "pv-1")) == ("Bound", "Bound")


def test_a_claim_may_name_its_volume(world: World) -> None:
    volume(world, "pv-1", "1Gi")
    claim(world, volumeName="pv-1")
    assert phase(world) == "Pending"
    assert world.events("VolumeMismatch") == [
        'Cannot bind to requested volume "pv-1": requested PV is too small'
    ]
    volume(world, "pv-2")
    claim(world, "second", volumeName="pv-2")
    assert phase(world, "second") == "Bound"
    claim(world, "third", volumeName="pv-2")
    assert phase(world, "third") == "Pending"


def test_a_released_volume_is_never_bound_again(world: World) -> None:
    made = claim(world)
    volume(world, "pv-1", claimRef=reserved(made))
    world.api.delete("persistentvolumeclaims", "ada", "data")
    world.settle()
    assert world.api.find("persistentvolumeclaims", "ada", "data") is None
    assert volume_phase(world, "pv-1") == "Released"
    claim(world)  # the same name, another uid
    assert phase(world) == "Pending"
    assert volume_phase(world, "pv-1") == "Released"
    # An admin hands it back by taking the reference off.
    world.api.patch("persistentvolumes", None, "pv-1", {"spec": {"claimRef": None}})
    world.settle()
    assert (phase(world), volume_phase(world, "pv-1")) == ("Bound", "Bound")


def test_a_bound_volume_is_removed_only_after_its_claim(world: World) -> None:
    made = claim(world)
    volume(world, "pv-1", claimRef=reserved(made))
    world.api.delete("persistentvolumes", None, "pv-1")
    world.settle()
    assert world.api.find("persistentvolumes", None, "pv-1")
    world.api.delete("persistentvolumeclaims", "ada", "data")
    world.settle()
    assert world.api.find("persistentvolumes", None, "pv-1") is None


def test_a_claim_whose_volume_is_gone_is_lost_and_says_so(world: World) -> None:
    made = claim(world)
    volume(world, "pv-1", claimRef=reserved(made))
    patch = {"metadata": {"finalizers": None}}
    world.api.patch("persistentvolumes", None, "pv-1", patch)
    world.api.delete("persistentvolumes", None, "pv-1")
    world.settle()
    assert phase(world) == "Lost"
    assert world.events("ClaimLost") == [
        "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
    ]


def test_what_cannot_be_provisioned_says_why(world: World) -> None:
    claim(world, "classless", storageClassName="")
    sentence = "no persistent volumes available for this claim and no storage class is set"
    assert world.events("FailedBinding") == [sentence]
    claim(world, "unknown", storageClassName="fast")
    assert world.events("ProvisioningFailed") == ['storageclass.storage.k8s.io "fast" not found']


@pytest.mark.parametrize("commits", range(10))
def test_a_kill_at_any_write_ends_bound_once(world: World, commits: int) -> None:
    for number in range(2):
        volume(world, f"pv-{number}")
        spec = {
            "storageClassName": "glusterfs",
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": "1Gi"}},
        }
        world.api.create(
            "persistentvolumeclaims", "ada", {"metadata": {"name": f"c-{number}"}, "spec": spec}
        )
    world.settle_or_die_after(commits)
    bound = {
        each["spec"]["volumeName"]: each["metadata"]["name"]
        for each in world.api.list("persistentvolumeclaims", "ada")
    }
    assert len(bound) == 2
    for each in world.api.list("persistentvolumes"):
        assert each["status"]["phase"] == "Bound"
        assert each["spec"]["claimRef"]["name"] == bound[each["metadata"]["name"]]
