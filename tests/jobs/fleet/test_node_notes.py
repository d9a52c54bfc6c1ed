"""What is said of a node: each condition, taint and label has words and, for trouble, a next step."""

from typing import Any

import pytest

from jobs.fleet.node_notes import NodeNote, notes_on
from jobs.models import Node


def node(**changes: Any) -> Node:
    fields: dict[str, Any] = {
        "name": "gpu-01",
        "is_ready": True,
        "conditions": [condition("Ready", "True")],
        "capacity": {"gpu": 8},
        "allocatable": {"gpu": 8},
        "requested": {"gpu": 2},
    }
    return Node(**{**fields, **changes})


def condition(kind: str, status: str, message: str = "") -> dict[str, Any]:
    told = {"type": kind, "status": status, "reason": "Why", "message": message}
    return {**told, "since": "2026-11-20T10:00:00+00:00"}


def only(row: Node) -> NodeNote:
    found = notes_on(row)
    assert len(found) == 1, found
    return found[0]


def test_nothing_is_said_of_a_healthy_node() -> None:
    quiet = [condition("Ready", "True"), condition("MemoryPressure", "False")]
    assert notes_on(node(conditions=quiet)) == []


@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_a_node_that_is_not_ready_says_why_and_since_when(status: str) -> None:
    ready = condition("Ready", status, "container runtime is down")
    said = only(node(is_ready=False, conditions=[ready]))
    assert (said.tone, said.text) == ("bad", "container runtime is down")
    assert said.since_at is not None
    assert said.next_step


def test_a_node_that_never_reported_is_out_of_sight() -> None:
    said = only(node(is_ready=False, conditions=[]))
    assert said.title == "Not responding"


@pytest.mark.parametrize(
    ("kind", "title"),
    [
        ("MemoryPressure", "Short of memory"),
        ("DiskPressure", "Short of disk space"),
        ("PIDPressure", "Too many processes"),
        ("NetworkUnavailable", "Network not set up"),
        ("KernelDeadlock", "KernelDeadlock"),  # of the node problem detector, say
    ],
)
def test_trouble_has_a_next_step(kind: str, title: str) -> None:
    said = only(node(conditions=[condition("Ready", "True"), condition(kind, "True", "so it is")]))
    assert (said.tone, said.title, said.text) == ("warn", title, "so it is")
    assert said.next_step


def test_a_cordoned_node_names_the_command_that_opens_it() -> None:
    said = only(node(is_schedulable=False, taints=[taint("node.kubernetes.io/unschedulable")]))
    assert said.next_step.endswith("kubectl uncordon gpu-01")


def taint(key: str, value: str = "", effect: str = "NoSchedule") -> dict[str, str]:
    return {"key": key, "value": value, "effect": effect}


def test_a_gpu_that_is_not_offered_is_out_of_service() -> None:
    said = only(node(allocatable={"gpu": 7}))
    assert (said.tone, said.title) == ("bad", "1 of 8 GPUs out of service")


def test_a_gpu_that_went_away_under_a_pod_is_told() -> None:
    said = notes_on(node(allocatable={"gpu": 1}))
    assert "Pods request 1 GPU more than exists" in [note.title for note in said]


def test_taints_of_others_are_named_and_those_for_gpus_explained() -> None:
    taints = [taint("dedicated", "render"), taint("nvidia.com/gpu", "present")]
    titles = {note.title for note in notes_on(node(taints=taints))}
    assert titles == {
        "Reserved: dedicated=render:NoSchedule",
        "Reserved for pods with GPUs",
    }
    assert notes_on(node(taints=[taint("slow", effect="PreferNoSchedule")])) == []


def test_what_a_node_says_of_itself_is_told() -> None:
    said = notes_on(
        node(
            labels={"homeport.dev/simulated-gpu": "true"},
            about={"gpu_note": "4 simulated ones are offered."},
            conditions=[
                condition("Ready", "True"),
                condition("homeport.dev/CPUOvercommitted", "True", "16 on 4"),
                condition("homeport.dev/Isolation", "False", "Not enforced: NetworkPolicy."),
                condition("homeport.dev/Limits", "True"),
            ],
        )
    )
    assert [(note.tone, note.text) for note in said] == [
        ("warn", "Not enforced: NetworkPolicy."),
        ("info", "16 on 4"),
        ("info", "4 simulated ones are offered."),
    ]


def test_the_worst_comes_first() -> None:
    pressure = condition("DiskPressure", "True")
    said = notes_on(node(conditions=[pressure], is_ready=False, taints=[taint("a")]))
    assert [note.tone for note in said] == ["bad", "warn", "info"]
