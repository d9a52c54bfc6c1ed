"""Names are valid and nobody else's, whatever people type."""

import re
from uuid import UUID, uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from portal.cluster import names

RFC_1123 = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
RFC_1035 = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
JOB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,79}")

anything = st.text(max_size=150)
job_names = st.from_regex(JOB_NAME, fullmatch=True)
roles = st.sampled_from(["worker", "ps", "chief", "evaluator", "master"])


@settings(max_examples=300)
@given(anything, st.uuids())
def test_a_namespace_is_a_dns_label_of_ours(username: str, user_id: UUID):
    name = names.namespace_name(username, user_id)
    assert RFC_1123.fullmatch(name)
    assert len(name) <= 63
    assert name.startswith("u-")
    assert name.endswith("-" + user_id.hex[:8])


@pytest.mark.parametrize("username", ["kube-system", "default", "", "日本", "---"])
def test_no_user_name_makes_a_reserved_or_empty_namespace(username: str):
    name = names.namespace_name(username, UUID(int=1))
    assert re.fullmatch(r"u-[a-z][a-z0-9-]*-00000000", name)


@settings(max_examples=300)
@given(st.one_of(job_names, anything), st.uuids(), st.integers(1, 999))
def test_a_job_name_starts_with_a_letter_and_keeps_its_slug_short(
    typed: str, job_id: UUID, attempt: int
):
    name = names.job_name(typed, job_id, attempt)
    assert RFC_1035.fullmatch(name)
    assert len(name) <= 30 + 1 + 6 + 4
    assert name.startswith(names.job_name(typed, job_id))


@settings(max_examples=300)
@given(job_names, st.uuids(), st.integers(1, 999), roles, st.integers(0, 9999))
def test_every_pod_of_a_replica_fits_a_label(
    typed: str, job_id: UUID, attempt: int, role: str, index: int
):
    kube_name = names.job_name(typed, job_id, attempt)
    pod = f"{names.replica_name(kube_name, role, index)}-x7k2q"
    assert len(pod) <= 63
    assert RFC_1035.fullmatch(pod)
    host = names.replica_host(kube_name, role, index)
    assert host == f"{kube_name}-{role}-{index}.{kube_name}"


def test_examples_of_job_names():
    job_id = UUID("12345678-1234-4234-8234-123456789abc")
    assert names.job_name("My MNIST run", job_id) == "my-mnist-run-ci2fm6"
    assert names.job_name("My MNIST run", job_id, 3) == "my-mnist-run-ci2fm6-3"
    assert names.job_name("2layer", job_id) == "j-2layer-ci2fm6"
    assert names.job_name("..", job_id) == "job-ci2fm6"
    assert names.job_name("x" * 80, job_id) == "x" * 30 + "-ci2fm6"
    assert names.replica_address("a-ci2fm6", "ps", 0) == "a-ci2fm6-ps-0.a-ci2fm6:2222"


@pytest.mark.parametrize("attempt", [0, -1, 1000])
def test_an_absurd_attempt_is_refused(attempt: int):
    with pytest.raises(ValueError, match="attempt"):
        names.job_name("a", uuid4(), attempt)


def test_a_role_that_would_not_fit_is_refused():
    with pytest.raises(ValueError, match="longer than 9"):
        names.role_name("a-ci2fm6", "parameter-server")
