"""What was read of a pod is kept as long as it is true, and no longer."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from jobs.kinds.observe import PodReader
from jobs.kinds.state import PodFacts, WorkloadRow
from jobs.kinds.training.observe import _with_mounts, read_pod
from portal.cluster import objects
from tests.jobs.kinds.training.test_observe import JOB


def pod(name: str, **status: Any) -> objects.KubePod:
    made = {"metadata": {"name": name, "uid": f"uid of {name}"}, "status": status}
    return msgspec.json.decode(msgspec.json.encode(made), type=objects.KubePod)


class View:
    """These pods, and these events about volumes."""

    def __init__(self, *found: objects.KubePod) -> None:
        self.found = list(found)
        self.problem = ""
        self.pods = self

    def of_owner(self, owner: str) -> list[objects.KubePod]:
        assert owner == JOB.id
        return self.found

    def events_about(self, namespace: str, kind: str, name: str) -> list[objects.KubeEvent]:
        told = {"metadata": {"name": "e"}, "reason": "FailedMount", "message": self.problem}
        seen = msgspec.json.decode(msgspec.json.encode(told), type=objects.KubeEvent)
        return [seen] if self.problem else []


class Read(list[str]):
    """Names of the pods that were read, in that order."""

    def pod(self, row: WorkloadRow, seen: objects.KubePod) -> PodFacts:
        self.append(seen.metadata.name)
        return read_pod(row, seen)


@pytest.fixture
def read() -> Read:
    return Read()


def look(pods: PodReader, view: Any, read: Read, row: WorkloadRow = JOB) -> dict[str, PodFacts]:
    return {facts.name: facts for facts in pods.read(view, row, read.pod)}


def test_only_what_changed_is_read_again(read: Read) -> None:
    view, pods = View(pod("a"), pod("b", phase="Pending")), PodReader()
    look(pods, view, read)
    assert look(pods, view, read)["b"].phase == "Pending"
    assert read == ["a", "b"]
    view.found[1] = pod("b", phase="Running")
    assert look(pods, view, read)["b"].phase == "Running"
    assert read == ["a", "b", "b"]


def test_pods_that_went_are_forgotten(read: Read) -> None:
    view, pods = View(pod("a"), pod("b")), PodReader()
    look(pods, view, read)
    gone = view.found.pop()
    assert look(pods, view, read).keys() == {"a"}
    view.found.append(gone)
    look(pods, view, read)
    assert read == ["a", "b", "b"]
    view.found.clear()
    assert look(pods, view, read) == {}
    assert not pods._kept


def test_a_job_that_is_gone_is_forgotten_with_its_pods(read: Read) -> None:
    view, pods = View(pod("a")), PodReader()
    look(pods, view, read)
    pods.forget(JOB.id)
    assert not pods._kept
    pods.forget(JOB.id)


def test_pods_without_an_attempt_of_their_own_belong_to_the_current_one(read: Read) -> None:
    view, pods = View(pod("a")), PodReader()
    assert look(pods, view, read)["a"].key.attempt == 1
    assert look(pods, view, read, replace(JOB, attempt=2))["a"].key.attempt == 2


def test_a_volume_that_cannot_be_mounted_shows_though_the_pod_stays_as_it_is() -> None:
    view: Any = View()
    (found,) = PodReader().read(View(pod("a")), JOB, read_pod)  # type: ignore[arg-type]
    for problem in ("", "no such volume", ""):
        view.problem = problem
        assert _with_mounts(view, JOB, found).mount_problem == problem
