"""What the cluster adds to new objects, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from onebox.api.registry import Api
from onebox.api.status import StatusError
from onebox.api.strategy import WriteOptions

from .bodies import forbidden
from .conftest import Obj, pod


def set_limits(api: Api, *limits: Obj) -> None:
    api.create("limitranges", "lab", {"metadata": {"name": "l"}, "spec": {"limits": list(limits)}})


def test_priorities_come_from_their_class(api: Api) -> None:
    assert forbidden(api, "pods", pod(priorityClassName="none")) == (
        'pods "p" is forbidden: no PriorityClass with name none was found'
    )
    high = {"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"}
    api.create("priorityclasses", None, high)
    spec = api.create("pods", "lab", pod(priorityClassName="high"))["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (1000, "Never")
    usual = {"metadata": {"name": "usual"}, "value": 5, "globalDefault": True}
    api.create("priorityclasses", None, usual)
    spec = api.create("pods", "lab", pod("q"))["spec"]
    assert (spec["priorityClassName"], spec["priority"]) == ("usual", 5)


def test_pods_tolerate_a_node_that_is_away_for_five_minutes(api: Api) -> None:
    own = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}
    made = api.create("pods", "lab", pod(tolerations=[own]))["spec"]["tolerations"]
    assert own in made
    assert {t["key"]: t.get("tolerationSeconds") for t in made} == {
        "node.kubernetes.io/unreachable": None,
        "node.kubernetes.io/not-ready": 300,
    }


def test_objects_that_onebox_does_not_enforce_say_so(api: Api) -> None:
    for plural, body in (
        ("networkpolicies", {"metadata": {"name": "n"}, "spec": {"podSelector": {}}}),
        ("roles", {"metadata": {"name": "r"}, "rules": []}),
        ("rolebindings", {"metadata": {"name": "r"}, "roleRef": {"kind": "Role", "name": "r"}}),
    ):
        options = WriteOptions()
        api.create(plural, "lab", body, options=options)
        assert any("does not enforce them" in text for text in options.warnings), plural


def test_one_priority_class_is_the_default(api: Api) -> None:
    def make(name: str, value: int, **more: Any) -> Obj:
        return api.create(
            "priorityclasses", None, {"metadata": {"name": name}, "value": value, **more}
        )

    make("usual", 5, globalDefault=True)
    made = api.create("pods", "lab", pod("a"))
    assert (made["spec"]["priority"], made["spec"]["priorityClassName"]) == (5, "usual")
    text = "PriorityClass usual is already marked as default. Only one default can exist"
    with pytest.raises(StatusError, match=text):
        make("second", 6, globalDefault=True)
    make("second", 6)
    with pytest.raises(StatusError, match=text):
        api.patch("priorityclasses", None, "second", {"globalDefault": True})
    api.patch("priorityclasses", None, "usual", {"description": "stays the default"})


def test_a_pod_cannot_choose_its_priority_itself(api: Api) -> None:
    made = {"metadata": {"name": "high"}, "value": 1000}
    api.create("priorityclasses", None, made)
    with pytest.raises(StatusError) as refused:
        api.create("pods", "lab", pod("a", priority=7, priorityClassName="high"))
    assert refused.value.message == (
        'pods "a" is forbidden: the integer value of priority (7) must not be provided in pod '
        "spec; priority admission controller computed 1000 from the given PriorityClass name"
    )
    with pytest.raises(StatusError, match="computed PreemptLowerPriority from the given"):
        api.create("pods", "lab", pod("a", preemptionPolicy="Never", priorityClassName="high"))
    pod_ = api.create("pods", "lab", pod("a", priority=1000, priorityClassName="high"))
    without = {"spec": {"priority": None, "preemptionPolicy": None}}
    assert api.patch("pods", "lab", "a", without)["spec"] == pod_["spec"]
