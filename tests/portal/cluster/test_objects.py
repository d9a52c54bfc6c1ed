"""What is kept of a pod's JSON, and what of it may be unknown."""

import msgspec
import pytest

from portal.cluster import labels
from portal.cluster.objects import KubePod, PodConditionType


def seen(metadata: dict[str, object], status: dict[str, object]) -> KubePod:
    return msgspec.json.decode(
        msgspec.json.encode({"metadata": metadata, "status": status}), type=KubePod
    )


def test_labels_of_a_pod_are_read_by_their_names() -> None:
    marks = {
        labels.MANAGED_BY: labels.MANAGER,
        labels.OWNER: "one",
        labels.ROLE: "worker",
        labels.COMPLETION_INDEX: "3",
        "batch.kubernetes.io/controller-uid": "not kept",
    }
    pod = seen({"labels": marks}, {})
    assert pod.metadata.owner == "one"
    assert (pod.metadata.labels.role, pod.metadata.labels.completion_index) == ("worker", "3")


def test_a_pod_with_our_label_that_is_not_ours_has_no_owner() -> None:
    assert seen({"labels": {labels.OWNER: "one"}}, {}).metadata.owner == ""


@pytest.mark.parametrize("kind", ["Ready", "PodScheduled", "DisruptionTarget"])
def test_conditions_compare_as_text(kind: str) -> None:
    condition = seen({}, {"conditions": [{"type": kind, "status": "True"}]}).status.conditions[0]
    assert condition.type == kind
    assert condition.status == "True"


def test_conditions_of_others_are_let_be() -> None:
    told = [{"type": "example.org/Gate", "status": "Unknown", "reason": "Waits"}]
    condition = seen({}, {"conditions": told}).status.conditions[0]
    assert condition.type is PodConditionType.OTHER
    assert condition.reason == "Waits"
