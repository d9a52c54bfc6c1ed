"""What holds up a namespace that is being removed, in words."""

import pytest

from tenants.reconcile.blockers import Blocker, explain, find, remaining
from tests.tenants.conftest import Room

REMAIN = {
    "type": "NamespaceContentRemaining",
    "status": "True",
    "message": "Some resources are remaining: persistentvolumeclaims. has 1 resource instances, "
    "widgets.example.org has 2 resource instances",
}
FINALIZERS = {
    "type": "NamespaceFinalizersRemaining",
    "status": "True",
    "message": "Some content in the namespace has finalizers remaining: "
    "example.org/hold in 2 resource instances",
}
DONE = {"type": "NamespaceContentRemaining", "status": "False", "message": "all removed"}


def test_the_conditions_are_counted_by_kind():
    assert remaining([REMAIN, FINALIZERS]) == {
        "persistentvolumeclaims": 1,
        "widgets.example.org": 2,
    }
    assert remaining([DONE]) == {}


HOLD = ("example.org/hold",)
PVC = ("kubernetes.io/pvc-protection",)


@pytest.mark.parametrize(
    ("held", "text", "step"),
    [
        # What has a finalizer is named before what only takes its time.
        (
            [Blocker("Pod", "p"), Blocker("ConfigMap", "c", "u-a", HOLD)],
            "ConfigMap c is held by the finalizer example.org/hold",
            "kubectl edit configmap c -n u-a,",
        ),
        ([Blocker("PersistentVolumeClaim", "data", "u-a", PVC)], "data is held", "pod still uses"),
        ([Blocker("Job", "j", "u-a", ("foregroundDeletion",))], "Job j", "garbage collector"),
        ([Blocker("Pod", "p")], "Pod p is being removed", "node"),
        # Kinds that Homeport does not know are told as the cluster does.
        ([], "example.org/hold in 2 resource instances", "kubectl"),
    ],
)
def test_what_holds_it_is_told_with_the_next_step(held: list[Blocker], text: str, step: str):
    found = explain([REMAIN, FINALIZERS], held)
    assert text in found.text
    assert step in found.next_step
    assert list(found.held) == held


def test_a_removal_that_goes_on_needs_no_step():
    assert explain([DONE], []).next_step == ""
    assert explain([], []).text


async def test_pods_are_looked_up_though_the_cluster_says_that_nothing_is_left(room: Room):
    """Upstream removes pods first, and does not count them among what remains."""
    meta = {"name": "p", "namespace": "u-a", "finalizers": ["example.org/hold"]}
    room.api.put({"kind": "Pod", "metadata": meta})
    story = await find(room.cluster, "u-a", [DONE])
    assert story.text == "Pod p is held by the finalizer example.org/hold"


async def test_secrets_are_never_listed(room: Room):
    message = "Some resources are remaining: secrets. has 1 resource instances"
    story = await find(room.cluster, "u-a", [{**REMAIN, "message": message}])
    assert message in story.text
    assert not any(asked.path.endswith("/secrets") for asked in room.api.asked)
