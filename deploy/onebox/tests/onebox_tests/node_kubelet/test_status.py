"""What the API is told about a pod, and that only changes are sent."""

from __future__ import annotations

from datetime import UTC, datetime

from onebox.node.record import Role, Waiting
from onebox.node.status import (
    Ending,
    PodFacts,
    changed_fields,
    container_status,
    merged,
    pod_status,
)
from onebox_tests.node_kubelet.pods import container, crashing, exited, pod, record, running

NOW = datetime(2026, 11, 20, 12, 30, tzinfo=UTC)


def status(records: list, *, policy: str = "Always", **fields):
    facts = {
        "pod": pod(policy=policy),
        "sent": {},
        "records": records,
        "ip": "10.244.0.7",
        "has_sandbox": True,
        "started_at": NOW,
        "ending": None,
        "now": NOW,
    }
    return pod_status(PodFacts(**{**facts, **fields}))


def conditions(found: dict) -> dict[str, tuple[str, str]]:
    return {c["type"]: (c["status"], c.get("reason", "")) for c in found["conditions"]}


def test_a_running_ready_pod_has_all_conditions_true():
    found = status([running("main")])
    assert found["phase"] == "Running"
    assert found["podIPs"] == [{"ip": "10.244.0.7"}]
    assert set(conditions(found).values()) == {("True", "")}
    assert found["containerStatuses"][0]["state"]["running"]["startedAt"] == "2026-11-20T12:00:00Z"


def test_unready_containers_are_named():
    waiting = record("main", Role.MAIN)
    found = status([exited("i", 0, Role.INIT), running("gate", Role.SIDECAR), waiting])
    messages = {c["type"]: c.get("message", "") for c in found["conditions"]}
    assert messages["ContainersReady"] == "containers with unready status: [main]"
    assert conditions(found)["Initialized"] == ("True", "")
    assert [s["name"] for s in found["initContainerStatuses"]] == ["i", "gate"]
    assert [s["ready"] for s in found["initContainerStatuses"]] == [True, True]


def test_waiting_init_containers_are_named():
    found = status([running("i", Role.INIT), record("main", Role.MAIN)])
    initialized = next(c for c in found["conditions"] if c["type"] == "Initialized")
    assert initialized["reason"] == "ContainersNotInitialized"
    assert initialized["message"] == "containers with incomplete status: [i]"


def test_a_finished_pod_says_why_it_is_not_ready():
    done = conditions(status([exited("main", 0)], policy="Never", has_sandbox=False))
    assert done["Ready"] == ("False", "PodCompleted")
    assert done["Initialized"] == ("True", "PodCompleted")
    assert done["PodReadyToStartContainers"] == ("False", "")
    failed = conditions(status([exited("main", 1)], policy="Never"))
    assert failed["Ready"] == ("False", "PodFailed")


def test_readiness_gates_hold_the_pod_back():
    gated = pod(readinessGates=[{"conditionType": "example.com/up"}])
    found = conditions(status([running("main")], pod=gated))
    assert found["Ready"] == ("False", "ReadinessGatesNotReady")
    assert found["ContainersReady"] == ("True", "")
    gated["status"]["conditions"] = [{"type": "example.com/up", "status": "True"}]
    assert conditions(status([running("main")], pod=gated))["Ready"] == ("True", "")


def test_a_deadline_forces_failed_but_only_when_nothing_runs_any_more():
    ending = Ending("DeadlineExceeded", "too long", phase="Failed")
    still = status([running("main")], ending=ending)
    assert (still["phase"], "reason" in still) == ("Running", False)
    done = status([exited("main", 0)], ending=ending)
    assert (done["phase"], done["reason"], done["message"]) == (
        "Failed",
        "DeadlineExceeded",
        "too long",
    )


def test_a_container_in_back_off_shows_its_last_end():
    shown = container_status(crashing("main", 3, 10.0))
    assert shown["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert shown["lastState"]["terminated"]["exitCode"] == 3
    assert shown["started"] is False


def test_transition_times_change_only_with_the_status():
    first = status([running("main", started=False)])
    later = datetime(2026, 11, 20, 13, 0, tzinfo=UTC)
    second = status([running("main")], sent=first, now=later)
    times = {c["type"]: c["lastTransitionTime"] for c in second["conditions"]}
    assert times["Initialized"] == "2026-11-20T12:30:00Z"
    assert times["Ready"] == "2026-11-20T13:00:00Z"


def test_only_what_changed_is_sent_and_dropped_reasons_are_removed():
    first = status([running("main", started=False)])
    assert changed_fields(first, status([running("main", started=False)], sent=first)) == {}
    second = status([running("main")], sent=first)
    patch = changed_fields(first, second)
    assert set(patch) == {"conditions", "containerStatuses"}
    ready = next(c for c in patch["conditions"] if c["type"] == "Ready")
    assert ready["reason"] is None
    assert "Initialized" not in {c["type"] for c in patch["conditions"]}
    after = merged(first, patch)
    assert changed_fields(after, status([running("main")], sent=after)) == {}


def test_waiting_without_a_message_has_no_message():
    made = record("main", Role.MAIN, state=Waiting("ContainerCreating"))
    assert container_status(made)["state"] == {"waiting": {"reason": "ContainerCreating"}}
    assert container()["name"] == "main"


def test_another_address_takes_the_place_of_the_one_before():
    """The server merges addresses: a pod with two of one family would be refused."""
    sent = {"podIP": "10.244.0.3", "podIPs": [{"ip": "10.244.0.3"}]}
    wanted = {"podIP": "10.244.0.6", "podIPs": [{"ip": "10.244.0.6"}]}
    changed = changed_fields(sent, wanted)
    assert changed["podIPs"] == [{"ip": "10.244.0.6"}, {"$patch": "replace"}]
    assert merged(sent, changed) == wanted
    assert changed_fields({}, wanted)["podIPs"] == wanted["podIPs"]


def test_the_generation_that_the_status_is_of_is_said_where_pods_have_one():
    counted = pod()
    counted["metadata"]["generation"] = 2
    found = status([running("main")], pod=counted)
    assert found["observedGeneration"] == 2
    assert {c["observedGeneration"] for c in found["conditions"]} == {2}
    assert "observedGeneration" not in status([running("main")])
