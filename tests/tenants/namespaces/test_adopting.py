"""A namespace in the cluster whose row was lost: its record says whose it is, and adopting makes the row again."""

import io
import json
from typing import Any
from uuid import UUID, uuid4

import pytest
from asgiref.sync import sync_to_async
from django.core.management import CommandError, call_command
from pytest_django import Settings

from portal.cluster import labels
from tenants.actions import ensure_tenant
from tenants.models import AuditEntry, Team, Tenant, User
from tenants.namespaces.adopting import adopt, find_lost
from tenants.record import record_text
from tests.factories import make_job, make_tenant, make_user
from tests.tenants.conftest import Room

HERE = "http://portal.lab:8001"
NAME = "u-ada-1b2c3d4e"
RECORD: dict[str, Any] = {
    "version": 1,
    "portal": HERE,
    "user": {"id": str(UUID(int=7)), "username": "ada", "email": "ada@lab.example"},
    "team": {"id": str(UUID(int=8)), "name": "vision"},
    "is_open": False,
    "quota_cpu_millicores": 7500,
    "quota_memory_bytes": 2**34,
    "quota_gpu_count": 2,
    "quota_pods": 20,
    "quota_nodeports": 4,
    "data_volume_bytes": 10 * 2**30,
    "log_volume_bytes": 5 * 2**30,
}
USER = RECORD["user"]


@pytest.fixture(autouse=True)
def here(settings: Settings) -> None:
    settings.POD_PORTAL_URL = HERE


def namespace(
    name: str = NAME, *, text: str = "", owner: str = "", **changes: Any
) -> dict[str, Any]:
    """As the cluster has it; `changes` are of its record."""
    marks = {labels.MANAGED_BY: "homeport", labels.OWNER: owner or str(uuid4())}
    notes = {labels.RECORD: text or json.dumps({**RECORD, **changes})}
    return {"metadata": {"name": name, "labels": marks, "annotations": notes}}


def lost(*namespaces: dict[str, Any], chosen: tuple[str, ...] = ()) -> list[Any]:
    return find_lost(namespaces, chosen=chosen, portals=())


@pytest.mark.django_db
def test_the_rows_have_the_ids_that_the_cluster_knows():
    one = namespace()
    foreign = namespace("kube-system")
    foreign["metadata"]["labels"] = {}
    [found] = lost(one, foreign, namespace("u-network-check-a-1b2c3d4e"))
    tenant = adopt(found)
    assert str(tenant.pk) == one["metadata"]["labels"][labels.OWNER]
    assert (tenant.namespace, tenant.desired) == (NAME, "suspended")
    assert (tenant.owner.pk, tenant.owner.state, tenant.owner.role) == (
        UUID(int=7),
        "invited",
        "researcher",
    )
    assert (tenant.team, tenant.owner.team) == (Team.objects.get(pk=UUID(int=8)),) * 2
    assert json.loads(record_text(tenant)) == {
        **RECORD,
        "user": {**USER, "first_name": "", "last_name": ""},
    }
    assert AuditEntry.objects.filter(verb="adopt", object_id=str(tenant.pk)).exists()
    assert lost(one) == []


BROKEN = [
    ("{", "is broken: Input data was truncated"),
    ("[]", "is broken: Expected `object`, got `array`"),
    (json.dumps({**RECORD, "quota_pods": -1}), "is broken: Expected `int` >= 0"),
    (json.dumps({**RECORD, "quota_gpu_count": 2**31}), "is broken: Expected `int` <="),
    (json.dumps({**RECORD, "user": {"id": "7", "username": "ada"}}), "is broken: Invalid UUID"),
    (json.dumps({**RECORD, "user": {**USER, "username": "a b"}}), "names no person: Enter a valid"),
    (json.dumps({**RECORD, "user": {**USER, "email": "ada"}}), "names no person: Enter a valid"),
    (json.dumps({"version": 2}), "its record has version 2, and this Homeport reads 1"),
    (json.dumps({**RECORD, "portal": "http://other"}), "it is of another Homeport, http://other"),
]


@pytest.mark.django_db
@pytest.mark.parametrize(("text", "problem"), BROKEN)
def test_a_record_that_cannot_be_used_says_why(text: str, problem: str):
    [found] = lost(namespace(text=text))
    assert problem in found.problem


@pytest.mark.django_db
def test_what_the_cluster_says_of_a_namespace_counts_as_well():
    going, odd, bare = namespace("u-a"), namespace("u-b", owner="x"), namespace("u-c")
    going["metadata"]["deletionTimestamp"] = "2026-11-26T00:00:00Z"
    del bare["metadata"]["annotations"]
    problems = [one.problem for one in lost(going, odd, bare)]
    assert problems[0] == "it is being removed from the cluster"
    assert problems[1] == "its label homeport.dev/owner is no id"
    assert problems[2].startswith("it has no record of whose it is")


@pytest.mark.django_db
def test_of_two_namespaces_of_a_person_one_is_chosen():
    both = [namespace("u-a"), namespace("u-b")]
    assert {one.problem for one in lost(*both)} == {
        "is one of several of ada; name the one to adopt"
    }
    first, second = lost(*both, chosen=("u-b",))
    assert (first.problem, second.problem) == ("", "")
    adopt(second)
    [first] = lost(*both)
    assert "ada has another namespace, u-b; purge that one" in first.problem


@pytest.mark.django_db
def test_who_came_back_meanwhile_keeps_account_and_gets_the_namespace():
    """By user name, once nothing else is theirs; what could not be made, as the name was taken, is no home."""
    ada = make_user("Ada")
    home = ensure_tenant(user=ada)
    [found] = lost(namespace())
    assert f"Ada has another namespace, {home.namespace}" in found.problem
    Tenant.objects.filter(pk=home.pk).update(namespace=NAME)
    job = make_job(home)
    [found] = lost(namespace())
    assert found.problem == "another row has its name, and work of its own"
    job.delete()
    [found] = lost(namespace())
    assert (
        found.problem == f"Ada has a newer account than that; name {NAME} if it is the same person"
    )
    [found] = lost(namespace(), chosen=(NAME,))
    assert adopt(found).owner == ada
    assert Tenant.objects.get().pk == UUID(found.owner)
    # The next one does not take a name that is in use.
    Tenant.objects.update(state="gone", namespace=f"u-ada-{ada.pk.hex[:8]}-2")
    assert ensure_tenant(user=ada).namespace == f"u-ada-{ada.pk.hex[:8]}-3"


def put_lost(room: Room, kind: str, namespace: str, owner: str = "", **more: Any) -> dict[str, Any]:
    """An object of ours that no row knows; `more` is of the object."""
    marks = {labels.MANAGED_BY: "homeport", labels.OWNER: owner or str(uuid4())}
    meta = {"name": f"lost-{kind.lower()}", "namespace": namespace, "labels": marks}
    meta |= {"creationTimestamp": "2026-11-26T00:00:00Z", **more.pop("metadata", {})}
    return room.api.put({"kind": kind, "metadata": meta, **more})


def gate(port: int) -> dict[str, Any]:
    return {"type": "NodePort", "ports": [{"port": 8888, "nodePort": port}]}


async def told(*arguments: str) -> str:
    out = io.StringIO()
    await sync_to_async(call_command)("adopt", *arguments, stdout=out)
    return out.getvalue()


async def test_a_lost_database_gets_its_namespaces_back(
    room: Room, tmp_path: Any, settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    settings.KUBECONFIG = room.api.kubeconfig(tmp_path)
    await room.until_active()
    before = room.tenant
    # A record follows its row, and what people change is no repair.
    team = await Team.objects.acreate(name="vision")
    await Tenant.objects.filter(pk=before.pk).aupdate(team=team)

    def recorded_team(_: Room) -> bool:
        seen = room.api.find("Namespace", "", before.namespace)["metadata"]["annotations"]
        return bool((json.loads(seen[labels.RECORD])["team"] or {}).get("name") == "vision")

    await room.one_pass()
    await room.until(recorded_team)
    assert (await room.rows())[f"Namespace/{before.namespace}"].repaired_count == 0
    assert "that no row knows: 0" in await told()
    await sync_to_async(Tenant.objects.all().delete)()
    await sync_to_async(User.objects.all().delete)()
    other = namespace("u-eve-1b2c3d4e", portal="http://other")
    room.api.put({"kind": "Namespace", **other})
    put_lost(room, "Job", before.namespace)
    served = put_lost(room, "Deployment", "u-eve-1b2c3d4e")
    owned = {"name": "owned", "ownerReferences": [{"uid": served["metadata"]["uid"]}]}
    put_lost(room, "Service", "u-eve-1b2c3d4e", metadata=owned, spec=gate(30123))
    put_lost(room, "Service", before.namespace, spec=gate(30200))
    waits = {"name": "waits", "namespace": before.namespace, "labels": {}}
    pending = {"status": {"phase": "Pending"}}
    room.api.put({"kind": "PersistentVolumeClaim", "metadata": waits, **pending})
    put_lost(room, "PersistentVolumeClaim", "elsewhere", metadata={"labels": {}}, **pending)
    listed = await told()
    assert "Claims that no row knows: 3" in listed
    assert f"{before.namespace}  data, of volume pv-" in listed
    assert f"{before.namespace}  waits, without a volume, Pending" in listed
    assert f"{before.namespace}  of alice, who is new" in listed
    assert "Nothing was adopted." in listed
    adopted = await told("--yes")
    assert f"Adopted {before.namespace} of alice." in adopted
    assert "u-eve-1b2c3d4e  of ada, who is new" in adopted
    assert "Volumes that no row knows: 0" in adopted
    assert "Claims that no row knows: 0" in adopted
    assert "TensorBoards that no row knows: 2" in adopted
    since = "since 2026-11-26T00:00:00Z"
    assert f"u-eve-1b2c3d4e  Deployment lost-deployment, {since}, NodePort 30123" in adopted
    assert "Services without a root that no row knows: 1" in adopted
    assert f"{before.namespace}  Service lost-service, {since}, NodePort 30200" in adopted
    uids = [room.api.find("PersistentVolumeClaim", before.namespace, n) for n in ("data", "log")]
    await room.until_active()
    assert (room.tenant.pk, room.tenant.quota) == (before.pk, before.quota)
    assert uids == [
        room.api.find("PersistentVolumeClaim", before.namespace, n) for n in ("data", "log")
    ]
    with pytest.raises(CommandError, match=r"u-x: no namespace of Homeport's"):
        await told("--yes", "u-x")
    with pytest.raises(CommandError, match="not all of them"):
        await told("--yes", "u-eve-1b2c3d4e")
    # Roots end after a question only, and never those of somebody else.
    monkeypatch.setattr("builtins.input", lambda: "")
    with pytest.raises(CommandError, match=r"No root was deleted\."):
        await told("--delete-roots")
    monkeypatch.setattr("builtins.input", lambda: "1")
    assert "Deleted 1." in await told("--delete-roots")
    assert not room.api.has("Job", before.namespace, "lost-job")
    assert room.api.has("Deployment", "u-eve-1b2c3d4e", "lost-deployment")


@pytest.mark.django_db
def test_a_cluster_that_is_away_is_told(settings: Settings, tmp_path: Any):
    settings.KUBECONFIG = str(tmp_path / "none")
    make_tenant()
    with pytest.raises(CommandError, match="The cluster cannot be read or changed"):
        call_command("adopt")
