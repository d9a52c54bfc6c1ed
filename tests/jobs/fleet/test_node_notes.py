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
    found = notes_on(row, {})
    assert len(found) == 1, found
    return found[0]


def test_nothing_is_said_of_a_healthy_node() -> None:
    quiet = [condition("Ready", "True"), condition("MemoryPressure", "False")]
    assert notes_on(node(conditions=quiet), {}) == []


def taint(key: str, value: str = "", effect: str = "NoSchedule") -> dict[str, str]:
    return {"key": key, "value": value, "effect": effect}


@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_a_node_that_is_not_ready_says_why_and_since_when(status: str) -> None:
    ready = condition("Ready", status, "container runtime is down")
    said = only(node(is_ready=False, conditions=[ready]))
    assert (said.tone, said.text) == ("bad", "container runtime is down")
    assert said.since_at is not None
    assert said.next_step


PRESSURES = {
    "MemoryPressure": "Short of memory",
    "DiskPressure": "Short of disk space",
    "PIDPressure": "Too many processes",
    "NetworkUnavailable": "Network not set up",
    "KernelDeadlock": "KernelDeadlock",  # of the node problem detector, say
}


@pytest.mark.parametrize("kind", PRESSURES)
def test_trouble_has_a_next_step(kind: str) -> None:
    said = only(node(conditions=[condition("Ready", "True"), condition(kind, "True", "so it is")]))
    assert (said.tone, said.title, said.text) == ("warn", PRESSURES[kind], "so it is")
    assert said.next_step


RESERVED = [taint("dedicated", "render"), taint("nvidia.com/gpu", "present")]


@pytest.mark.parametrize(
    ("changes", "titles"),
    [
        ({"is_ready": False, "conditions": []}, {"Not responding"}),
        ({"allocatable": {"gpu": 7}}, {"1 of 8 GPUs out of service"}),
        (
            {"allocatable": {"gpu": 1}},
            {"7 of 8 GPUs out of service", "Pods request 1 GPU more than exists"},
        ),
        (
            {"taints": RESERVED},
            {"Reserved: dedicated=render:NoSchedule", "Reserved for pods with GPUs"},
        ),
        ({"taints": [taint("slow", effect="PreferNoSchedule")]}, set()),
    ],
)
def test_what_is_told(changes: dict[str, Any], titles: set[str]) -> None:
    assert {note.title for note in notes_on(node(**changes), {})} == titles


def test_a_cordoned_node_names_the_command_that_opens_it() -> None:
    said = only(node(is_schedulable=False, taints=[taint("node.kubernetes.io/unschedulable")]))
    assert said.next_step.endswith("kubectl uncordon gpu-01")


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
        ),
        {},
    )
    assert [(note.tone, note.text) for note in said] == [
        ("warn", "Not enforced: NetworkPolicy."),
        ("info", "16 on 4"),
        ("info", "4 simulated ones are offered."),
    ]


def test_the_worst_comes_first() -> None:
    pressure = condition("DiskPressure", "True")
    closed = node(conditions=[pressure], is_ready=False, taints=[taint("a")])
    said = notes_on(closed, {})
    assert [note.tone for note in said] == ["bad", "warn", "info"]


def test_a_node_that_is_not_selected_names_the_label() -> None:
    selector = {"homeport.dev/gluster": "ready"}
    assert notes_on(node(labels=selector), selector) == []
    [said] = notes_on(node(labels={"homeport.dev/gluster": "no"}), selector)
    assert "homeport.dev/gluster=ready" in said.text
