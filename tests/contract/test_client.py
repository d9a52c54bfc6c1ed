"""Homeport's own client: what it makes of a cluster's answers."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from portal.cluster import labels, preflight
from portal.cluster.client import Cluster as Client
from portal.cluster.errors import Conflict, Forbidden, Invalid, NotFound, QuotaExceeded
from tests.contract.bodies import config_map, container, pod, quota
from tests.contract.clusters import Cluster
from tests.contract.kube import Json
from tests.contract.tape import Tape


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[Client]:
    made = await Client.connect(str(cluster.kubeconfig))
    yield made
    await made.close()


def _ours(tape: Tape, name: str = "c", owner: str = "7", spec_hash: str = "one") -> Json:
    made = config_map(name)
    made["metadata"] |= {
        "namespace": tape.ns,
        "labels": {labels.OWNER: owner},
        "annotations": {labels.SPEC_HASH: spec_hash},
    }
    return made


async def test_what_was_made_before_is_adopted(client: Client, tape: Tape) -> None:
    first = await client.create_or_adopt(_ours(tape))
    again = await client.create_or_adopt(_ours(tape))
    assert again["metadata"]["uid"] == first["metadata"]["uid"]


async def test_what_others_made_is_a_conflict(client: Client, tape: Tape) -> None:
    await client.create(_ours(tape, owner="8"))
    with pytest.raises(Conflict, match="was not created by Homeport"):
        await client.create_or_adopt(_ours(tape))
    await client.create(_ours(tape, "d", spec_hash="two"))
    with pytest.raises(Conflict, match="another plan"):
        await client.create_or_adopt(_ours(tape, "d"))


async def test_a_delete_tells_gone_from_another(client: Client, tape: Tape) -> None:
    made = await client.create(_ours(tape))
    uid = made["metadata"]["uid"]
    other = "00000000-0000-0000-0000-000000000000"
    assert await client.delete("ConfigMap", tape.ns, "c", uid=other) == "other"
    assert await client.delete("ConfigMap", tape.ns, "c", uid=uid) == "deleted"
    assert await client.delete("ConfigMap", tape.ns, "c", uid=uid) == "gone"


async def test_a_quota_is_told_from_other_refusals(client: Client, tape: Tape) -> None:
    tape.kube.must("POST", tape.path("resourcequotas"), quota(pods="0"))
    tape.kube.until(tape.path("resourcequotas", "q"), lambda q: q.get("status", {}).get("hard"))
    body = pod()
    body["metadata"]["namespace"] = tape.ns
    with pytest.raises(QuotaExceeded):
        await client.create(body)
    body["spec"]["containers"] = [container(securityContext={"privileged": True})]
    with pytest.raises(Forbidden) as refused:
        await client.create(body)
    assert not isinstance(refused.value, QuotaExceeded)


async def test_what_is_invalid_missing_or_changed_is_told(client: Client, tape: Tape) -> None:
    with pytest.raises(Invalid):
        await client.create(_ours(tape, "Not_A_Name"))
    with pytest.raises(NotFound):
        await client.get("ConfigMap", tape.ns, "none")
    made = await client.create(_ours(tape))
    patch = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}}
    await client.merge_patch("ConfigMap", tape.ns, "c", {**patch, "data": {"a": "2"}})
    with pytest.raises(Conflict):
        await client.merge_patch("ConfigMap", tape.ns, "c", {**patch, "data": {"a": "3"}})


async def test_a_list_says_of_each_object_what_it_is(client: Client, tape: Tape) -> None:
    await client.create(_ours(tape))
    found = await client.list("ConfigMap", tape.ns)
    assert "c" in {item["metadata"]["name"] for item in found}
    assert {(item["apiVersion"], item["kind"]) for item in found} == {("v1", "ConfigMap")}


async def test_the_questions_before_the_start_are_answered(client: Client, tape: Tape) -> None:
    answers = await preflight.look(client, "contract-none", tape.ns)
    assert answers.is_complete
    assert not answers.is_old
    assert answers.storage_class.state == "no"
    assert answers.pod_security.state == "yes"
    assert answers.metrics.state == "no"
