"""The submit body: what it becomes, and what is refused that JSON alone does not show.

What becomes of each value of each field is in tests/recorded (`given/bodies.yaml`).
"""

import json
import re

import pytest
from msgspec.structs import replace
from rest_framework import serializers

from jobs.kinds import base
from jobs.kinds.training.fields import ResourcesSerializer
from jobs.kinds.training.kind import TRAINING
from jobs.kinds.training.serializer import TrainingSerializer
from jobs.kinds.training.spec import RunPolicy, TrainingSpec
from jobs.models import Bundle
from jobs.pod.protocol.placeholders import DEFAULT_FLAGS
from jobs.rules import other_words
from jobs.rules.requests import RoleRequest
from jobs.rules.restarts import RestartPolicy
from jobs.rules.topologies import TOPOLOGIES, Topology
from portal.catalog import Image, Images, get_catalog
from portal.errors import Refused
from tenants.models import Tenant
from tests.factories import make_tenant, submit_body
from tests.recorded import GIVEN

pytestmark = pytest.mark.django_db
PS = {"worker": {"count": 2}, "ps": {}}


@pytest.fixture
def alice() -> Tenant:
    return make_tenant("alice")


def accepted(tenant: Tenant, **changes: object) -> TrainingSpec:
    return TRAINING.read(submit_body(**changes), tenant=tenant, user=tenant.owner)


def refused(tenant: Tenant, **changes: object) -> dict[str, str]:
    with pytest.raises(Refused) as caught:
        TRAINING.read(submit_body(**changes), tenant=tenant, user=tenant.owner)
    assert all(
        error.text.endswith(".") or "quantity" in error.text for error in caught.value.errors
    )
    return {error.field: error.code for error in caught.value.errors}


def test_defaults_are_those_of_the_public_surface(alice: Tenant) -> None:
    given = accepted(alice)
    assert given.topology == "single"
    assert given.replicas["worker"] == RoleRequest(1, 1000, 2**30, 0)
    assert given.run_policy == RunPolicy()
    run = given.run_policy
    assert (run.retries, run.deadline_s, run.starting_deadline_s) == (0, None, 300)
    assert (run.clean_policy, run.ttl_s, given.shm_bytes) == ("running", 86400, None)
    assert (given.cluster_flags, run.success_policy) == ((), None)


def sources(body: serializers.Serializer) -> set[str]:
    return {field.source for field in body.fields.values()}


def test_a_body_has_the_fields_of_the_spec() -> None:
    own = {*TrainingSpec.__struct_fields__} - {"run_policy", "log_folder"}
    run = {f"run_policy.{name}" for name in RunPolicy.__struct_fields__}
    assert sources(TrainingSerializer()) == own | run
    assert sources(ResourcesSerializer()) == {*RoleRequest.__struct_fields__}


def test_a_spec_is_written_as_the_body_that_asks_for_it(alice: Tenant) -> None:
    body = json.loads((GIVEN / "training.json").read_text())
    for changes in ({}, {name: body[name] for name in {*body} - {"source"}}):
        spec = accepted(alice, **changes)
        written = json.loads(json.dumps(TrainingSerializer(spec).data))
        assert accepted(alice, **written) == spec


@pytest.mark.parametrize(
    ("given", "seconds"), [(90, 90), ("90", 90), ("8h", 28800), ("2h 30min", 9000), ("1d", 86400)]
)
def test_a_time_is_seconds_or_has_units(alice: Tenant, given: object, seconds: int) -> None:
    asked = accepted(alice, deadline_s=given, starting_deadline_s=given, ttl_s=given).run_policy
    assert (asked.deadline_s, asked.starting_deadline_s, asked.ttl_s) == (seconds,) * 3


@pytest.mark.parametrize("policy", list(RestartPolicy))
@pytest.mark.parametrize("retries", [0, 3])
def test_a_restart_policy_that_contradicts_the_retries_is_refused(
    alice: Tenant, policy: RestartPolicy, retries: int
) -> None:
    asked = {"restart_policy": policy.value, "retries": retries}
    if (policy, retries) in {(RestartPolicy.NEVER, 3), (RestartPolicy.EXIT_CODE, 0)}:
        assert refused(alice, **asked) == {"restart_policy": "contradiction"}
        return
    run = accepted(alice, **asked).run_policy
    assert (run.restart_policy, run.retries) == (policy, retries)


@pytest.mark.parametrize(
    ("topology", "asked", "wrong"),
    [
        ("single", {"parallelism": 2}, "parallelism"),
        ("tf-ps", {"max_failed": 0}, "max_failed"),
        ("jax", {"indexes": "0"}, "indexes"),
        ("jax", {"cluster_flags": True}, "cluster_flags"),
        ("tf-multiworker", {"sparse_spec": True}, "sparse_spec"),
        ("tf-ps", {"sparse_spec": True, "replicas": {**PS, "chief": {}}}, "sparse_spec"),
        ("tf-ps", {"sparse_spec": True, "replicas": {**PS, "evaluator": {}}}, "sparse_spec"),
        ("tf-ps", {"sparse_spec": True, "addresses": "ip"}, "addresses"),
        ("tf-ps", {"sparse_spec": "true", "replicas": PS}, None),
        ("jax", {"sparse_spec": False}, None),
        ("array", {"cluster_flags": True}, "cluster_flags"),
        ("array", {"indexes": "0,6"}, "indexes"),
        ("array", {"indexes": "0-3,5", "parallelism": 100, "max_failed": 0}, None),
        ("array", {"indexes": None, "parallelism": None, "cluster_flags": False}, None),
        ("torch-ddp", {"indexes": None, "max_failed": None, "cluster_flags": []}, None),
    ],
)
def test_a_field_that_the_topology_has_not_contradicts_it(
    alice: Tenant, topology: str, asked: dict[str, object], wrong: str | None
) -> None:
    workers = {"replicas": {"worker": {"count": 6}}} if topology == "array" else {}
    body = {"topology": topology, **workers, **asked}
    if wrong is None:
        assert accepted(alice, **body).topology == topology
    else:
        assert refused(alice, **body) == {wrong: "contradiction"}


def test_an_array_has_as_many_workers_as_the_catalog_says(
    alice: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    for most, count in ((1000, 1001), (3, 4)):
        limited = replace(get_catalog(), max_array=most)
        monkeypatch.setattr(base, "get_catalog", lambda limited=limited: limited)
        body = {"topology": "array", "replicas": {"worker": {"count": count}}}
        assert refused(alice, **body) == {"replicas.worker.count": "out_of_range"}


@pytest.mark.parametrize("name", ["a", "2layer net", "A.b_c-d 9", "x" * 80])
def test_names_are_kept_as_typed(alice: Tenant, name: str) -> None:
    assert accepted(alice, name=name).name == name


@pytest.mark.parametrize(("text", "code"), [("x" * 5000, "too_long"), ("\ud800", "invalid")])
def test_variables_have_limits(alice: Tenant, text: str, code: str) -> None:
    assert refused(alice, env={"A": text}) == {"env.A": code}


def test_yaml_in_a_value_is_just_text(alice: Tenant) -> None:
    text = '1"\n    securityContext: {privileged: true}\n- {{ x }}'
    assert accepted(alice, env={"EVIL": text}).env == {"EVIL": text}


@pytest.mark.parametrize("given", [{}, {"ps": {}}, {"worker": {}, "ps": {}, "master": {}}, [], 7])
def test_roles_are_exactly_those_of_the_topology(alice: Tenant, given: object) -> None:
    assert set(refused(alice, topology="tf-ps", replicas=given)) == {"replicas"}


def test_an_optional_role_with_no_replica_is_left_out(alice: Tenant) -> None:
    pair = {"worker": {"count": 2}, "ps": {}}
    for count in (0, "0"):
        given = {**pair, "chief": {"count": count, "cpu": "no"}, "evaluator": {"count": count}}
        assert [*accepted(alice, topology="tf-ps", replicas=given).replicas] == ["worker", "ps"]
    both = {"evaluator": {}, "chief": {}, **pair}
    policy = {"topology": "tf-ps", "success_policy": "chief"}
    found = accepted(alice, replicas=both, **policy).replicas
    assert [*found] == ["chief", "worker", "ps", "evaluator"]
    assert refused(alice, replicas=pair, **policy) == {"success_policy": "invalid_choice"}
    two = refused(alice, topology="tf-ps", replicas={**both, "chief": {"count": 2}})
    assert two == {"replicas.chief.count": "out_of_range"}


def test_a_cluster_of_parameter_servers_and_workers(alice: Tenant) -> None:
    given = accepted(
        alice,
        topology="tf-ps",
        replicas={"worker": {"count": 2, "cpu": "500m", "gpu": 1}, "ps": {}},
        cluster_flags=True,
    )
    assert given.replicas["worker"].count == 2
    assert given.replicas["worker"].gpu_count == 1
    assert given.cluster_flags == DEFAULT_FLAGS


def test_words_of_others_are_answered_with_ours() -> None:
    for text in other_words.TOPOLOGIES.values():
        named = set(re.findall(r"\b(?:tf-\w+|torch-\w+|mpi|jax|array|single)\b", text)) - {
            *other_words.TOPOLOGIES
        }
        assert named <= {*TOPOLOGIES}
        assert named or "operators" in text


@pytest.mark.parametrize("topology", TOPOLOGIES.values(), ids=lambda topology: topology.name)
def test_what_the_topology_sets_cannot_be_chosen(alice: Tenant, topology: Topology) -> None:
    for name in (*topology.env, "TF_CONFIG"):
        given = {"topology": topology.name, "env": {name: "x"}}
        assert refused(alice, **given) == {f"env.{name}": "forbidden_name"}
    free = {"RANK": "x", "PET_NNODES": "x", "NUM_PROCESSES": "x"}
    assert accepted(alice, env=free).env == free


def test_an_upload_of_somebody_else_is_not_there(alice: Tenant) -> None:
    mallory = make_tenant("mallory")
    bundle = Bundle.objects.create(tenant=alice, file_name="a.py", sha256="0" * 64, size_bytes=1)
    assert accepted(alice, source={"bundle": str(bundle.pk)}).source is not None
    assert refused(mallory, source={"bundle": str(bundle.pk)}) == {"source.bundle": "not_found"}


def test_parts_of_a_repository_that_are_not_given_are_not_kept(alice: Tenant) -> None:
    git = {"git": "https://host/r.git"}
    assert accepted(alice, source={**git, "ref": None, "path": ""}).source == git
    whole = {**git, "ref": "r" * 200, "path": "sub/dir", "into": "code/r"}
    assert accepted(alice, source={**whole, "path": "sub/dir/"}).source == whole
    for into in ("/code", "..", "code/./r", "x" * 201):
        assert refused(alice, source={**git, "into": into}) == {"source.into": "invalid_path"}


def test_what_git_reads_otherwise_is_refused(alice: Tenant) -> None:
    git = {"git": "https://host/r.git"}
    assert refused(alice, source={"git": "HTTPS://host/r.git"}) == {"source.git": "invalid_url"}
    assert refused(alice, source={**git, "ref": "tag"}) == {"source.ref": "invalid"}
    for ref in ("refs/heads/tag", "refs/tags/tag", "tags", "Tag"):
        assert accepted(alice, source={**git, "ref": ref}).source == {**git, "ref": ref}


def test_a_page_about_code_is_no_code(alice: Tenant) -> None:
    page = "https://github.com/org/repo/tree/main/examples"
    with pytest.raises(Refused) as caught:
        TRAINING.read(submit_body(source={"git": page}), tenant=alice, user=alice.owner)
    line = "--git https://github.com/org/repo.git --ref main --source-path examples"
    assert line in caught.value.errors[0].text
    for repository in ("https://github.com/o/r", "https://github.com/o/r/pull/17"):
        with pytest.raises(Refused) as caught:
            TRAINING.read(submit_body(source={"url": repository}), tenant=alice, user=alice.owner)
        assert "homeport submit --git https://github.com/o/r.git" in caught.value.errors[0].text
    for url in (
        "https://github.com/o/r/blob/main/t.py",
        "https://host/a.rar",
        "https://host/a.tar.zst",
    ):
        assert refused(alice, source={"url": url}) == {"source.url": "invalid_url"}
    for url in ("https://host/a/b/tree/c/t.py", "https://github.com/o/r/raw/main/t.py"):
        assert accepted(alice, source={"url": url}).source == {"url": url}
    release = "https://github.com/o/r/archive/refs/heads/main.zip"
    assert accepted(alice, source={"url": release}).source == {"url": release}


def test_words_that_are_no_topology_are_refused(alice: Tenant) -> None:
    for unknown in (*other_words.TOPOLOGIES, "PyTorch", "SINGLE", "x" * 300):
        assert refused(alice, topology=unknown) == {"topology": "invalid_choice"}
    assert refused(alice, source={"svn": "https://x/y"}) == {"source": "invalid"}


@pytest.mark.parametrize(
    "image",
    [
        "169.254.169.254/x",
        "localhost:8790/x",
        "localhost/x",
        "a.localhost/x",
        "10.96.0.1/x:1",
        "2130706433:80/x",
        "127.1:5000/a/b",
        "0x7f.0x1/x",
    ],
)
def test_a_registry_is_no_address_unless_the_catalog_lists_one(
    alice: Tenant, image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert refused(alice, image=image) == {"image": "image_not_offered"}
    catalog = get_catalog()
    other = Image(reference=image.rpartition("/")[0] + "/other", title="")
    listed = replace(catalog, images=Images(offered=(other,)))
    monkeypatch.setattr(base, "get_catalog", lambda: listed)
    assert accepted(alice, image=image).image == image


def test_a_role_that_runs_a_program_of_ours_has_no_command(alice: Tenant) -> None:
    given = {"launcher": {"command": ["mpirun", "x"]}, "worker": {"count": 2}}
    asked = accepted(alice, topology="mpi", replicas=given)
    assert asked.command_of("launcher") == ("mpirun", "x")
    given["worker"]["command"] = ["python"]
    found = refused(alice, topology="mpi", replicas=given)
    assert found == {"replicas.worker.command": "contradiction"}


def test_fewer_workers_than_all_where_that_can_be(
    alice: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(least: object, topology: str = "torch-ddp", **more: object) -> dict[str, object]:
        return {"topology": topology, "replicas": {"worker": {"count": 2, "min": least}}, **more}

    assert accepted(alice, **asked("2")).least == {"worker": 2}
    assert accepted(alice, **asked(None, addresses="ip")).run_policy.addresses == "ip"
    for wrong in (asked(3), asked(0), asked(1, "jax")):
        assert refused(alice, **wrong) == {"replicas.worker.min": "contradiction"}
    assert refused(alice, **asked(1, addresses="ip")) == {"addresses": "contradiction"}
    taken = asked(1, env={"PET_MAX_RESTARTS": "3"})
    assert refused(alice, **taken) == {"env.PET_MAX_RESTARTS": "forbidden_name"}
    by_ip = replace(get_catalog(), addresses="ip")
    monkeypatch.setattr(base, "get_catalog", lambda: by_ip)
    assert accepted(alice).run_policy.addresses == "ip"
    assert accepted(alice, **asked(1)).run_policy.addresses == "names"


def test_servers_without_a_master_need_a_time_limit_and_no_command(alice: Tenant) -> None:
    asked = {"topology": "tf-ingraph", "replicas": {"worker": {"count": 2}, "ps": {"count": 0}}}
    given = accepted(alice, **asked, command=[])
    assert (given.command, given.run_policy.deadline_s) == ((), 8 * 3600)
    assert accepted(alice, **asked, deadline_s=60).run_policy.deadline_s == 60
    assert refused(alice, **asked, deadline_s=None) == {"deadline_s": "required"}
    driven = {**asked, "replicas": {**asked["replicas"], "master": {}}}
    assert accepted(alice, **driven).run_policy.deadline_s is None
    assert refused(alice, **driven, command=[]) == {"command": "required"}
