"""The table of topologies: roles, who decides, who must succeed, and what each replica is told."""

import pytest

from jobs.rules.topologies import (
    MPI,
    SINGLE,
    TF_INGRAPH,
    TF_PS,
    TOPOLOGIES,
    AskedRoles,
    RoleKind,
    SuccessPolicy,
    advice,
    find_role_problem,
    get_topology,
    needed,
    success_policy,
)

PAIR = {"worker": 2, "ps": 1}
SHAPES = pytest.mark.parametrize("shape", TOPOLOGIES.values(), ids=lambda shape: shape.name)


@SHAPES
def test_each_topology_can_be_rendered_chosen_and_explained(shape) -> None:
    assert get_topology(shape.name) is shape
    assert all(len(role.name) <= 9 for role in shape.roles)
    # The root is a Job, whatever optional roles there are.
    for roles in ({role.name for role in shape.roles if role.least}, shape.role_names):
        deciding = shape.deciding(roles)
        assert deciding.kind is RoleKind.JOB
        assert deciding not in shape.serving(roles)
        assert len(shape.serving(roles)) == len(roles) - 1
    assert all(sentence.endswith(".") for sentence in shape.help)


def test_an_unknown_topology_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"'ring'; choose single(, [\w-]+)* or [\w-]+$"):
        get_topology("ring")


def test_roles_are_exactly_those_of_the_topology() -> None:
    assert find_role_problem(TF_PS, ["ps", "worker"]) == ""
    assert find_role_problem(TF_PS, ["evaluator", "ps", "worker", "chief"]) == ""
    problem = "tf-ps has the roles worker and ps and may have chief and evaluator."
    assert find_role_problem(TF_PS, ["worker"]) == problem
    assert find_role_problem(SINGLE, ["worker", "ps"]) == "single has exactly the role worker."


def test_policies() -> None:
    assert success_policy(TF_PS, None, PAIR) is SuccessPolicy.ALL
    assert success_policy(SINGLE, "worker0", ["worker"]) is SuccessPolicy.WORKER0
    with pytest.raises(ValueError, match="cannot end by 'chief'; choose all or worker0"):
        success_policy(TF_PS, "chief", PAIR)
    assert success_policy(TF_PS, None, {**PAIR, "chief": 1}) is SuccessPolicy.CHIEF
    roles = {"launcher": 1, "worker": 2}
    assert MPI.success_policies(roles) == (SuccessPolicy.ALL,)
    assert needed(MPI, SuccessPolicy.ALL, roles) == {("launcher", 0)}
    servers = {"worker": 2, "ps": 1}
    assert needed(TF_INGRAPH, SuccessPolicy.ALL, {"master": 1, **servers}) == {("master", 0)}
    assert TF_INGRAPH.deciding(servers).name == "worker"


@pytest.mark.parametrize(
    ("policy", "counts", "expected"),
    [
        ("all", PAIR, {("worker", 0), ("worker", 1)}),
        ("worker0", PAIR, {("worker", 0)}),
        ("all", {"chief": 1, **PAIR}, {("chief", 0), ("worker", 0), ("worker", 1)}),
        ("chief", {"chief": 1, **PAIR}, {("chief", 0)}),
    ],
)
def test_who_must_succeed(policy, counts, expected) -> None:
    assert needed(TF_PS, SuccessPolicy(policy), counts) == expected


@pytest.mark.parametrize(
    ("asked", "begins"),
    [
        (AskedRoles(PAIR), []),
        (AskedRoles({"worker": 1, "ps": 2}), ["There are more parameter servers"]),
        (AskedRoles({"worker": 17, "ps": 2}), ["gRPC traffic grows"]),
        (
            AskedRoles({"worker": 8, "ps": 1}, {"worker": 1, "ps": 0}, node_gpus=8),
            ["One replica with all GPUs"],
        ),
        (AskedRoles({"worker": 8, "ps": 1}, {"worker": 1, "ps": 0}, node_gpus=4), []),
    ],
)
def test_advice(asked, begins) -> None:
    said = advice(TF_PS, asked)
    assert len(said) == len(begins)
    assert all(text.startswith(begin) for text, begin in zip(said, begins, strict=True))
