"""The bodies that ask for notebooks and TensorBoards: what is taken, and what an admin locked.

Other bodies that are refused are rows of tests/recorded (`given/bodies.yaml`).
"""

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from jobs.kinds.interactive.spec import NotebookSpec, TensorBoardSpec
from jobs.kinds.notebook import NOTEBOOK
from jobs.kinds.tensorboard import TENSORBOARD
from jobs.rules.requests import RoleRequest
from portal.cluster.names import job_name, short_id
from portal.errors import Refused
from tenants.models import Tenant
from tests.factories import make_job, make_tenant

pytestmark = pytest.mark.django_db
GI = 2**30
JUPYTER = "quay.io/jupyter/tensorflow-notebook:2026-11-01"


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


def refused(body: Any, tenant: Tenant) -> dict[str, str]:
    """Field -> code of what is refused."""
    with pytest.raises(Refused) as caught:
        notebook_of(body, tenant)
    return {error.field: error.code for error in caught.value.errors}


def notebook_of(body: dict[str, Any], tenant: Tenant) -> NotebookSpec:
    spec = NOTEBOOK.read(body, tenant=tenant, user=tenant.owner)
    assert isinstance(spec, NotebookSpec)
    return spec


def board_of(body: dict[str, Any], tenant: Tenant) -> TensorBoardSpec:
    spec = TENSORBOARD.read(body, tenant=tenant, user=tenant.owner)
    assert isinstance(spec, TensorBoardSpec)
    return spec


# --- notebooks ---
def asked(name: str, image: str, *size: int) -> NotebookSpec:
    return NotebookSpec(name=name, image=image, replicas={"notebook": RoleRequest(1, *size)})


def test_a_size_gives_what_is_not_said(tenant: Tenant) -> None:
    body = {"name": "notes", "size": "large", "cpu": "1500m", "gpu": 2, "image": "lab/own:1"}
    request = notebook_of(body, tenant)
    assert request == asked("notes", "lab/own:1", 1500, 8 * GI, 2)


def test_what_the_admin_locked_cannot_be_typed(
    tenant: Tenant, catalog: Callable[..., None]
) -> None:
    catalog(images={"locked": True}, sizes={"locked": True}, gpu={"locked": True, "max": 1})
    body = {"name": "notes", "image": "lab/own:1", "cpu": "1", "memory": "1Gi", "gpu": 2}
    assert refused(body, tenant) == {
        "image": "image_not_offered",
        "cpu": "locked",
        "memory": "locked",
        "gpu": "locked",
    }
    for more in ({"size": "medium"}, {"gpu": "1"}):
        taken = notebook_of({"name": "notes", **more}, tenant)
        assert taken.replicas["notebook"].gpu_count == 1


# --- TensorBoards ---
def test_one_training_and_several_under_titles_of_their_own(tenant: Tenant) -> None:
    first, second = make_job(tenant, name="run"), make_job(tenant, name="run")
    path = f"/log/jobs/{job_name('run', first.pk)}"
    one = {"title": "run", "path": path, "job": str(first.pk)}
    assert board_of({"name": "b", "job": str(first.pk)}, tenant).log_dirs == (one,)
    both = board_of({"name": "b", "jobs": [str(first.pk), str(second.pk)]}, tenant).log_dirs
    assert both[0] == one
    assert both[1]["title"] == f"run {short_id(second.pk)}"
    twice = board_of({"name": "b", "jobs": [str(first.pk)] * 2}, tenant).log_dirs
    assert twice == (one,)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
fields = st.sampled_from(["name", "image", "size", "cpu", "memory", "gpu", "job", "jobs", "x"])


@given(st.dictionaries(fields, anything, max_size=6))
@hypothesis_settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_no_body_breaks_it(tenant: Tenant, body: dict[str, Any]) -> None:
    for parse in (notebook_of, board_of):
        with contextlib.suppress(Refused):
            parse(body, tenant)
