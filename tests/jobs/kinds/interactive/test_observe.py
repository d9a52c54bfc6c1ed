"""What is read out of a pod behind a gate, in the cluster's own objects."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from jobs.kinds.interactive.observe import read_pod
from jobs.kinds.interactive.startup import reason_of_wait
from jobs.kinds.notebook import NotebookLifecycle
from jobs.kinds.state import PodFacts
from tests.jobs.kinds.interactive.cases import row
from tests.jobs.kinds.test_pods_read import pod
from tests.jobs.kinds.training.test_observe import DONE, NO_IMAGE, STARTED, container

LATER = {"waiting": {"reason": "PodInitializing"}}


def facts(prepare: Any, gate: Any, app: Any, **status: Any) -> PodFacts:
    inits = [container("prepare", **prepare), container("gate", **gate)]
    apps = [container("app", **app)]
    seen = pod("p", initContainerStatuses=inits, containerStatuses=apps, **status)
    return replace(read_pod(row(), seen), node="a")


@pytest.mark.parametrize(
    ("states", "words"),
    [
        ((NO_IMAGE, LATER, LATER), "The image of Homeport's own helpers cannot be pulled: no"),
        ((DONE, NO_IMAGE, LATER), "The image of Homeport's own helpers cannot be pulled: no"),
        ((DONE, STARTED, NO_IMAGE), "The image lab/jupyter:1 cannot be pulled: no"),
        ((DONE, STARTED, LATER), "The notebook is being prepared on node a."),
    ],
)
def test_the_image_to_blame_is_that_of_the_container(states: Any, words: str) -> None:
    found = facts(*states)
    assert reason_of_wait(NotebookLifecycle.app, row(), None, found).text == words


def test_steps_have_the_times_that_the_cluster_tells() -> None:
    times = [f"2026-11-20T12:00:0{second}Z" for second in range(4)]
    states = ({"terminated": {"exitCode": 0, "startedAt": times[1]}}, STARTED)
    conditions = [
        {"type": of, "status": "True", "lastTransitionTime": at}
        for of, at in (("PodScheduled", times[0]), ("Ready", times[3]))
    ]
    found = facts(*states, {"running": {"startedAt": times[2]}}, conditions=conditions)
    told = [found.scheduled_at, found.prepared_from, found.started_at, found.ready_at]
    assert told == [datetime(2026, 11, 20, 12, 0, second, tzinfo=UTC) for second in range(4)]
