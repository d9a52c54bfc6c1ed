"""Which pods are placed together or not at all, where the cluster can do that."""

from typing import Any

import pytest

from jobs.engine import gangs
from jobs.kinds.registry import KINDS
from portal.cluster.manifests import Object
from tests.jobs.kinds.training.cases import job

JOB: Object = {
    "kind": "Job",
    "metadata": {"name": "j"},
    "spec": {"template": {"spec": {"containers": []}}},
}
SERVICE: Object = {"kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": []}}


@pytest.mark.parametrize(
    ("asked", "least"),
    [
        ({"topology": "tf-ps", "counts": {"worker": 2, "ps": 1}}, 3),
        ({"topology": "torch-ddp", "counts": {"worker": 4}, "least": {"worker": 2}}, 2),
        ({"topology": "array", "counts": {"worker": 4}, "tasks": (0, 1, 2, 3)}, None),
        ({"topology": "single", "counts": {"worker": 1}}, None),
    ],
    ids=lambda value: value["topology"] if isinstance(value, dict) else str(value),
)
def test_how_many_pods_are_placed_together(asked: dict[str, Any], least: int | None) -> None:
    group = gangs.group_of(job(**asked), [JOB, SERVICE])

    assert (group and group["spec"]) == (
        least and {"schedulingPolicy": {"gang": {"minCount": least}}}
    )


def test_pods_name_their_group_unless_one_of_them_has_another_scheduler() -> None:
    group = gangs.group_of(job(), [JOB, SERVICE])
    assert group is not None
    named = gangs.naming(JOB, group)
    other: Object = {**JOB, "spec": {"template": {"spec": {"schedulerName": "volcano"}}}}

    assert gangs.is_named(named)
    assert gangs.naming(SERVICE, group) == SERVICE
    assert not gangs.is_named(JOB)
    assert gangs.group_of(job(), [JOB, other]) is None


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"job"}))
def test_what_is_one_pod_has_no_group(kind: str) -> None:
    assert KINDS[kind].together(job()) is None
