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


def test_an_object_with_a_finalizer_is_named_before_one_that_only_takes_its_time():
    story = explain(
        [REMAIN], [Blocker("Pod", "p"), Blocker("ConfigMap", "c", "u-a", ("example.org/hold",))]
    )
    assert story.text == "ConfigMap c is held by the finalizer example.org/hold"
    assert "example.org/hold" in story.next_step
    assert "kubectl edit configmap c -n u-a," in story.next_step
    assert len(story.held) == 2


@pytest.mark.parametrize(
    ("held", "words"),
    [
        (
            Blocker("PersistentVolumeClaim", "data", "u-a", ("kubernetes.io/pvc-protection",)),
            "pod still uses",
        ),
        (Blocker("Job", "j", "u-a", ("foregroundDeletion",)), "garbage collector"),
        (Blocker("Pod", "p"), "node"),
    ],
)
def test_the_next_step_depends_on_what_holds_it(held: Blocker, words: str):
    assert words in explain([REMAIN], [held]).next_step


def test_kinds_that_homeport_does_not_know_are_told_as_the_cluster_does():
    story = explain([REMAIN, FINALIZERS], [])
    assert "example.org/hold in 2 resource instances" in story.text
    assert "kubectl" in story.next_step


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
