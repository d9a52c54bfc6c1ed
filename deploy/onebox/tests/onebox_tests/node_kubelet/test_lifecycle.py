"""The rules of a pod's life as tables: who starts, who stops, which phase."""

from __future__ import annotations

import pytest

from onebox.node import lifecycle
from onebox.node.record import ContainerRecord, Role
from onebox_tests.node_kubelet.pods import crashing, exited, record, running

INIT, SIDECAR, MAIN = Role.INIT, Role.SIDECAR, Role.MAIN


def plan(records: list[ContainerRecord], policy: str = "Always", ending: bool = False):
    return lifecycle.plan(records, policy, 100.0, ending=ending)


def test_all_main_containers_of_a_new_pod_start():
    assert plan([record("a", MAIN), record("b", MAIN)]).start == ("a", "b")


def test_init_containers_start_one_after_the_other():
    records = [record("i1", INIT), record("i2", INIT), record("m", MAIN)]
    assert plan(records).start == ("i1",)
    records[0] = running("i1", INIT)
    assert plan(records).start == ()
    records[0] = exited("i1", 0, INIT)
    assert plan(records).start == ("i2",)
    records[1] = exited("i2", 0, INIT)
    assert plan(records).start == ("m",)


def test_a_sidecar_holds_the_next_container_back_until_its_startup_probe_passed():
    records = [record("gate", SIDECAR), record("i", INIT), record("m", MAIN)]
    assert plan(records).start == ("gate",)
    records[0] = running("gate", SIDECAR, started=False)
    assert plan(records).start == ()
    records[0] = running("gate", SIDECAR)
    assert plan(records).start == ("i",)
    records[1] = exited("i", 0, INIT)
    assert plan(records).start == ("m",)


def test_a_sidecar_that_died_restarts_without_stopping_the_main_container():
    result = plan([exited("gate", 1, SIDECAR), running("m")])
    assert (result.start, result.stop) == (("gate",), ())


def test_sidecars_end_in_reverse_order_when_the_main_containers_are_done():
    records = [running("s1", SIDECAR), running("s2", SIDECAR), exited("m", 0)]
    assert plan(records, "Never").stop == ("s2",)
    records[1] = exited("s2", 143, SIDECAR)
    assert plan(records, "Never").stop == ("s1",)
    records[0] = exited("s1", 143, SIDECAR)
    assert plan(records, "Never").over


def test_a_deleted_pod_stops_its_main_containers_first_and_all_at_once():
    records = [running("s", SIDECAR), running("a"), running("b")]
    assert plan(records, ending=True).stop == ("a", "b")


def test_a_failed_init_container_ends_a_pod_that_never_restarts():
    result = plan([exited("i", 3, INIT), record("m", MAIN)], "Never")
    assert result.over
    assert result.start == ()


def test_a_failed_init_container_is_tried_again_after_its_back_off():
    result = plan([exited("i", 3, INIT, retry_at_s=140.0), record("m", MAIN)], "OnFailure")
    assert (result.start, result.backing_off, result.wake_at_s) == ((), ("i",), 140.0)
    result = plan([exited("i", 3, INIT, retry_at_s=99.0), record("m", MAIN)], "OnFailure")
    assert result.start == ("i",)


@pytest.mark.parametrize(
    ("policy", "code", "restarts"),
    [
        ("Always", 0, True),
        ("Always", 1, True),
        ("OnFailure", 0, False),
        ("OnFailure", 1, True),
        ("Never", 0, False),
        ("Never", 1, False),
    ],
)
def test_main_containers_restart_by_policy(policy: str, code: int, restarts: bool):
    result = plan([exited("m", code)], policy)
    assert (result.start == ("m",)) is restarts
    assert result.over is not restarts


def test_one_finished_container_does_not_end_a_pod_in_which_another_runs():
    result = plan([exited("a", 1), running("b")], "Never")
    assert (result.over, result.start, result.stop) == (False, (), ())


PHASES = [
    ("a new pod", [record("m", MAIN)], "Always", "Pending"),
    ("init runs", [running("i", INIT), record("m", MAIN)], "Always", "Pending"),
    ("runs", [running("m")], "Always", "Running"),
    ("one still pulls", [running("a"), record("b", MAIN)], "Always", "Pending"),
    ("back-off", [crashing("m", 1, 0)], "Always", "Running"),
    ("ended, restarts", [exited("m", 0)], "Always", "Running"),
    ("ended well", [exited("m", 0)], "Never", "Succeeded"),
    ("ended badly", [exited("m", 2)], "Never", "Failed"),
    ("one badly", [exited("a", 0), exited("b", 2)], "Never", "Failed"),
    ("failed, tried again", [exited("m", 2)], "OnFailure", "Running"),
    ("ended well on failure", [exited("m", 0)], "OnFailure", "Succeeded"),
    ("init failed", [exited("i", 2, INIT), record("m", MAIN)], "Never", "Failed"),
    ("init failed, tried again", [exited("i", 2, INIT), record("m", MAIN)], "Always", "Pending"),
    (
        "sidecar not up yet",
        [running("s", SIDECAR, started=False), record("m", MAIN)],
        "Always",
        "Pending",
    ),
    ("sidecar still runs", [running("s", SIDECAR), exited("m", 0)], "Never", "Running"),
    ("sidecar ended badly", [exited("s", 137, SIDECAR), exited("m", 0)], "Never", "Succeeded"),
]


@pytest.mark.parametrize(
    ("records", "policy", "wanted"), [row[1:] for row in PHASES], ids=[row[0] for row in PHASES]
)
def test_phase_follows_the_containers(records: list[ContainerRecord], policy: str, wanted: str):
    assert lifecycle.phase(records, policy, terminal=False) == wanted


TERMINAL = [
    ("still runs", [running("m")], "Running"),
    ("killed", [exited("m", 137)], "Failed"),
    ("ended well on SIGTERM", [exited("m", 0)], "Succeeded"),
    ("never started", [record("m", MAIN)], "Failed"),
    ("one never started", [exited("a", 0), record("b", MAIN)], "Failed"),
]


@pytest.mark.parametrize(
    ("records", "wanted"), [row[1:] for row in TERMINAL], ids=[row[0] for row in TERMINAL]
)
def test_phase_of_a_pod_that_is_ended_from_outside(records: list[ContainerRecord], wanted: str):
    assert lifecycle.phase(records, "Always", terminal=True) == wanted
