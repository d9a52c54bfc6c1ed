"""What was read of a pod is kept as long as it is true, and no longer."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from jobs.engine import observe
from jobs.engine.observe import ReadPods
from jobs.kinds.state import PodFacts, WorkloadRow
from portal.cluster import objects
from tests.jobs.engine.test_observe import JOB


def pod(name: str, **status: Any) -> objects.PodSeen:
    made = {"metadata": {"name": name, "uid": f"uid of {name}"}, "status": status}
    return msgspec.json.decode(msgspec.json.encode(made), type=objects.PodSeen)


class View:
    """These pods, and these events about volumes."""

    def __init__(self, *found: objects.PodSeen) -> None:
        self.found = list(found)
        self.problem = ""
        self.pods = self

    def of_owner(self, owner: str) -> list[objects.PodSeen]:
        assert owner == JOB.id
        return self.found

    def events_about(self, namespace: str, kind: str, name: str) -> list[objects.EventSeen]:
        told = {"metadata": {"name": "e"}, "reason": "FailedMount", "message": self.problem}
        seen = msgspec.json.decode(msgspec.json.encode(told), type=objects.EventSeen)
        return [seen] if self.problem else []


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the pods that were read, in that order."""
    names: list[str] = []
    real: Callable[..., Any] = observe._pod

    def noted(job: WorkloadRow, seen: objects.PodSeen) -> Any:
        names.append(seen.metadata.name)
        return real(job, seen)

    monkeypatch.setattr(observe, "_pod", noted)
    return names


def look(pods: ReadPods, view: View, job: WorkloadRow = JOB) -> dict[str, PodFacts]:
    return {facts.name: facts for _, facts in pods.of_job(view, job)}  # type: ignore[arg-type]


def test_only_what_changed_is_read_again(read: list[str]) -> None:
    view, pods = View(pod("a"), pod("b", phase="Pending")), ReadPods()
    look(pods, view)
    assert look(pods, view)["b"].phase == "Pending"
    assert read == ["a", "b"]
    view.found[1] = pod("b", phase="Running")
    assert look(pods, view)["b"].phase == "Running"
    assert read == ["a", "b", "b"]


def test_pods_that_went_are_forgotten(read: list[str]) -> None:
    view, pods = View(pod("a"), pod("b")), ReadPods()
    look(pods, view)
    gone = view.found.pop()
    assert look(pods, view).keys() == {"a"}
    view.found.append(gone)
    look(pods, view)
    assert read == ["a", "b", "b"]
    view.found.clear()
    assert look(pods, view) == {}
    assert not pods._kept


def test_a_job_that_is_gone_is_forgotten_with_its_pods() -> None:
    view, pods = View(pod("a")), ReadPods()
    look(pods, view)
    pods.forget(JOB.id)
    assert not pods._kept
    pods.forget(JOB.id)


def test_pods_without_an_attempt_of_their_own_belong_to_the_current_one() -> None:
    view, pods = View(pod("a")), ReadPods()
    assert look(pods, view)["a"].key.attempt == 1
    assert look(pods, view, replace(JOB, attempt=2))["a"].key.attempt == 2


def test_a_volume_that_cannot_be_mounted_shows_though_the_pod_stays_as_it_is() -> None:
    view, pods = View(pod("a")), ReadPods()
    assert look(pods, view)["a"].mount_problem == ""
    view.problem = "no such volume"
    assert look(pods, view)["a"].mount_problem == "no such volume"
    view.problem = ""
    assert look(pods, view)["a"].mount_problem == ""
