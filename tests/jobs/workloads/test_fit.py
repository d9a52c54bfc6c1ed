"""What the form says of its place in the queue: behind whom, of the same namespace, it really waits."""

from typing import Any

import pytest
from django.utils.timezone import now

from jobs.kinds.registry import KINDS
from jobs.kinds.spec import spec_of
from jobs.kinds.training.spec import TrainingSpec
from jobs.models import Workload
from jobs.rules.states import Desired
from jobs.workloads.fit import fit
from tests.browsing import tenant_with_a_node
from tests.factories import make_job, new_job, role_request

pytestmark = pytest.mark.django_db

GPUS = {"worker": role_request(gpu_count=3)}
ONE_GPU = {"worker": role_request(gpu_count=1)}
NO_GPU = {"worker": role_request()}
QUOTA, BEHIND = {"reason_code": "quota"}, {"reason_code": "queue"}
NOW, BEHIND_ONE, BEHIND_TWO = (
    "Fits now.",
    "Fits, but is queued behind 1 of your workloads.",
    "Fits, but is queued behind 2 of your workloads.",
)


@pytest.mark.parametrize(
    ("waiting", "asked", "said"),
    [
        pytest.param([QUOTA], {"replicas": NO_GPU}, NOW, id="it lacks what this one does not want"),
        pytest.param([QUOTA], {"replicas": ONE_GPU}, BEHIND_ONE, id="both want what it lacks"),
        pytest.param(
            [QUOTA, {**BEHIND, "replicas": ONE_GPU}], {"replicas": ONE_GPU}, BEHIND_TWO, id="a line"
        ),
        pytest.param([QUOTA, BEHIND], {"replicas": NO_GPU}, NOW, id="a line for something else"),
        pytest.param(
            [QUOTA, {"replicas": NO_GPU}], {"replicas": NO_GPU}, BEHIND_ONE, id="not looked at yet"
        ),
        pytest.param(
            [{**QUOTA, "priority": "low"}], {"replicas": ONE_GPU}, NOW, id="low goes last"
        ),
        pytest.param(
            [QUOTA], {"replicas": ONE_GPU, "priority": "low"}, NOW, id="low waits for low only"
        ),
        pytest.param(
            [{**QUOTA, "priority": "low"}],
            {"replicas": ONE_GPU, "priority": "low"},
            BEHIND_ONE,
            id="low behind low",
        ),
        pytest.param(
            [QUOTA], {"replicas": ONE_GPU, "priority": "high"}, NOW, id="high goes before normal"
        ),
        pytest.param(
            [{**QUOTA, "priority": "high"}], {"replicas": ONE_GPU}, BEHIND_ONE, id="behind high"
        ),
        pytest.param(
            [{**QUOTA, "desired": Desired.STOP}], {"replicas": ONE_GPU}, NOW, id="asked to stop"
        ),
        pytest.param(
            [{**QUOTA, "desired": Desired.DELETE}], {"replicas": ONE_GPU}, NOW, id="deleted"
        ),
    ],
)
def test_only_what_waits_for_the_same_is_ahead(
    waiting: list[dict[str, Any]], asked: dict[str, Any], said: str
) -> None:
    alice = tenant_with_a_node("alice")
    alice.observed_used = {**alice.observed_used, "gpu": alice.observed_hard["gpu"] - 2}
    alice.save()
    for row in waiting:
        make_job(alice, queued_at=now(), **{"replicas": GPUS, **row})
    spec = spec_of(new_job(alice, **asked), TrainingSpec)
    answer = fit(KINDS["job"], spec, alice, alice.owner)
    assert answer.text == said
    assert (answer.kind, answer.code) == (("now", "") if said == NOW else ("later", "queue"))


@pytest.mark.parametrize(
    "broken", [{"kind": "a later one"}, {"replicas": {"worker": {"count": 1}}}], ids=str
)
def test_a_row_that_cannot_be_read_is_ahead_of_nobody(broken: dict[str, Any]) -> None:
    alice = tenant_with_a_node("alice")
    row = make_job(alice, queued_at=now(), replicas=ONE_GPU)
    Workload.objects.filter(pk=row.pk).update(**broken)
    spec = spec_of(new_job(alice, replicas=ONE_GPU), TrainingSpec)
    assert fit(KINDS["job"], spec, alice, alice.owner).text == NOW


def test_who_waits_for_what_low_holds_is_ahead_of_nobody() -> None:
    """Nothing is kept for it of what is free: what low priority holds is given back for it."""
    alice = tenant_with_a_node("alice")
    alice.observed_used = {**alice.observed_used, "gpu": alice.observed_hard["gpu"] - 2}
    alice.save()
    make_job(alice, state="running", replicas=GPUS, priority="low")
    make_job(alice, queued_at=now(), replicas=GPUS, **QUOTA)
    spec = spec_of(new_job(alice, replicas=ONE_GPU), TrainingSpec)
    assert fit(KINDS["job"], spec, alice, alice.owner).text == NOW
