"""Provisioning: a row becomes a namespace with all its parts, and stays one."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db.models import F

from jobs.archive.purged import forget_of_tenant
from portal.cluster import client as client_module
from tenants.models import Tenant, TenantObject
from tenants.quota.rules import change_quota
from tenants.reconcile.controller import TenantController
from tests.factories import make_tenant, make_user
from tests.portal.cluster.fake_api import Trouble
from tests.tenants.conftest import DirectWriter, Room

REPAIRED = [
    ("ResourceQuota", "homeport"),
    ("LimitRange", "homeport"),
    ("NetworkPolicy", "homeport-boundary"),
    ("ServiceAccount", "homeport"),
    ("RoleBinding", "homeport-web"),
]
ENFORCE = "pod-security.kubernetes.io/enforce"
PARTS = [
    "Namespace",
    "RoleBinding",
    "RoleBinding",
    "ResourceQuota",
    "LimitRange",
    "NetworkPolicy",
    "ServiceAccount",
    "PersistentVolumeClaim",
    "PersistentVolumeClaim",
]


async def test_a_new_tenant_becomes_active_with_all_its_parts(room: Room):
    await room.until_active()
    rows = await room.rows()
    assert [row.kind for row in rows.values()] == PARTS
    assert {row.state for row in rows.values()} == {"ready"}
    assert room.tenant.reason_text == ""
    assert room.tenant.observed_hard["cpu"] == room.tenant.quota_cpu_millicores
    assert room.tenant.observed_used["gpu"] == 0
    made = [write for write in room.writes() if write.startswith("POST")]
    assert made[0] == "POST namespaces"
    assert made[1:3] == ["POST rolebindings"] * 2
    assert made[3] == "POST resourcequotas"
    assert len(made) == 9


async def test_nothing_is_done_before_the_view_has_seen_the_cluster(room: Room):
    room.view.pods.watch.synced.clear()
    assert await room.one_pass() is None
    assert room.writes() == []
    room.view.pods.watch.synced.set()


async def test_it_is_active_only_when_the_quota_is_confirmed(room: Room):
    room.api.confirms_quota = False
    await room.until(lambda r: len(r.writes()) >= 9)
    await room.until(lambda r: "ResourceQuota" in r.tenant.reason_text)
    assert room.tenant.state == "provisioning"
    assert "not confirmed" in room.tenant.reason_text
    quota = room.api.find("ResourceQuota", room.namespace, "homeport")
    room.api.change(
        "ResourceQuota", room.namespace, "homeport", {"status": {"hard": quota["spec"]["hard"]}}
    )
    await room.until_active()


def phase_of_claims(room: Room, phase: str) -> None:
    for name in ("data", "log"):
        change = {"status": {"phase": phase}}
        room.api.change("PersistentVolumeClaim", room.namespace, name, change)


def put_class(room: Room, **more: str) -> None:
    room.api.put({"kind": "StorageClass", "metadata": {"name": "glusterfs"}, **more})


async def test_a_claim_that_waits_says_what_for(room: Room):
    room.api.binds_claims = False
    put_class(room)
    await room.until(lambda r: "waits for a volume of class glusterfs" in r.tenant.reason_text)
    phase_of_claims(room, "Pending")
    claim = room.api.find("PersistentVolumeClaim", room.namespace, "data")
    about = {"kind": "PersistentVolumeClaim", "namespace": room.namespace, "name": "data"}
    room.api.put(
        {
            "kind": "Event",
            "metadata": {"name": "data.1", "namespace": room.namespace},
            "involvedObject": {**about, "uid": claim["metadata"]["uid"]},
            "type": "Warning",
            "reason": "ProvisioningFailed",
            "message": "no brick has 10Gi left",
        }
    )
    await room.until(lambda r: "no brick has 10Gi left" in r.tenant.reason_text)
    phase_of_claims(room, "Bound")
    await room.until_active()


@pytest.mark.parametrize("has_class", [False, True])
async def test_what_the_class_of_a_claim_says_is_told(room: Room, has_class: bool):
    """It is missing, or it waits for a pod: then a claim binds on first use."""
    room.api.binds_claims = False
    if has_class:
        put_class(room, volumeBindingMode="WaitForFirstConsumer")
    await room.until(lambda r: len(r.writes()) >= 9)
    phase_of_claims(room, "Pending")
    if has_class:
        await room.until_active()
        detail = (await room.rows())["PersistentVolumeClaim/data"].detail
        assert detail == "binds on first use"
    else:
        await room.until(lambda r: "no StorageClass 'glusterfs'" in r.tenant.reason_text)


async def test_while_a_namespace_is_going_nothing_is_made_in_it(room: Room):
    await room.until_active()
    now = datetime.now(UTC).isoformat()
    why = {"type": "NamespaceContentRemaining", "status": "True", "message": "pods are left"}
    status = {"phase": "Terminating", "conditions": [why]}
    gone = {"metadata": {"deletionTimestamp": now}, "status": status}
    room.api.change("Namespace", "", room.namespace, gone)
    room.api.remove("ResourceQuota", room.namespace, "homeport")
    await room.until(lambda r: "is being deleted" in r.tenant.reason_text)
    assert "pods are left" in room.tenant.reason_text
    assert room.tenant.state == "provisioning"
    rows = await room.rows()
    assert rows["ResourceQuota/homeport"].detail == "waiting for the namespace"
    assert not room.api.has("ResourceQuota", room.namespace, "homeport")


@pytest.mark.parametrize(
    ("kind", "name", "change"),
    [
        *((kind, name, None) for kind, name in REPAIRED),  # deleted
        ("ResourceQuota", "homeport", {"spec": {"hard": {"pods": "900"}}}),
        ("ResourceQuota", "homeport", {"spec": {"hard": {"count/secrets": "0"}}}),
        ("LimitRange", "homeport", {"spec": {"limits": []}}),
        ("NetworkPolicy", "homeport-boundary", {"spec": {"egress": [{}]}}),
        (
            "NetworkPolicy",
            "homeport-boundary",
            {"spec": {"podSelector": {"matchLabels": {"a": "b"}}}},
        ),
        ("ServiceAccount", "homeport", {"automountServiceAccountToken": True}),
        ("RoleBinding", "homeport-web", {"subjects": []}),
        ("Namespace", "", {"metadata": {"labels": {ENFORCE: None}}}),
    ],
)
async def test_what_somebody_deletes_or_changes_is_put_right(
    room: Room, kind: str, name: str, change: dict[str, Any] | None
):
    await room.until_active()
    where = (kind, room.namespace, name) if name else (kind, "", room.namespace)

    def shown() -> list[Any]:
        if not room.api.has(*where):
            return []
        found = room.api.find(*where)
        keys = ("spec", "automountServiceAccountToken", "subjects")
        return [found["metadata"]["labels"], *(found.get(key) for key in keys)]

    wanted = shown()
    if change is None:
        room.api.remove(*where)
    else:
        room.api.change(*where, change)

    def is_repaired(_room: Room) -> bool:
        return shown() == wanted

    assert shown() != wanted
    await room.until(is_repaired)
    await room.until_active()
    rows = await room.rows()
    assert rows[f"{kind}/{where[2]}"].repaired_count == 1
    assert sum(row.repaired_count for row in rows.values()) == 1


async def test_the_label_by_which_we_watch_is_put_back(room: Room):
    await room.until_active()
    label = "app.kubernetes.io/managed-by"
    change = {"metadata": {"labels": {label: None}}}
    quota = room.api.find("ResourceQuota", room.namespace, "homeport")
    room.api.change("ResourceQuota", room.namespace, "homeport", change)
    # A watch with a selector tells this as a deletion; the fake server cannot by itself.
    room.api.log.append((room.api.version, "DELETED", "resourcequotas", quota))

    def is_back(r: Room) -> bool:
        found = r.api.find("ResourceQuota", r.namespace, "homeport")
        return bool(found["metadata"]["labels"].get(label) == "homeport")

    await room.until(is_back)
    await room.until_active()
    found = room.api.find("ResourceQuota", room.namespace, "homeport")
    assert found["metadata"]["uid"] == quota["metadata"]["uid"]


async def test_what_the_watch_tells_late_is_repaired_once(
    room: Room, monkeypatch: pytest.MonkeyPatch
):
    await room.until_active()
    watch, late = room.view.quotas.watch, []
    much = {"spec": {"hard": {"pods": "999"}}}
    room.api.change("ResourceQuota", room.namespace, "homeport", much)
    async with asyncio.timeout(15):
        while room.view.quotas.get(room.namespace, "homeport").spec.hard["pods"] != "999":
            await asyncio.sleep(0.01)

    def patches() -> int:
        return len(room.api.requests("PATCH", "/resourcequotas/homeport"))

    before, take = patches(), watch._take
    monkeypatch.setattr(watch, "_take", late.extend)
    for _ in range(4):
        await room.one_pass()
        await asyncio.sleep(0.3)  # longer than it waits before it tries anything again
    assert patches() == before + 1
    monkeypatch.undo()
    take(late)
    await room.until_active()
    assert (await room.rows())["ResourceQuota/homeport"].repaired_count == 1
    # The same again is another change.
    room.api.change("ResourceQuota", room.namespace, "homeport", much)
    await room.until(lambda _: patches() == before + 2)


@pytest.mark.parametrize(
    "marks",
    [
        {"team": "x"},
        {
            "app.kubernetes.io/managed-by": "homeport",
            "homeport.dev/owner": "00000000-0000-0000-0000-000000000000",
        },
    ],
    ids=["somebody's", "another tenant's"],
)
async def test_a_foreign_namespace_of_the_same_name_is_left_alone(
    room: Room, marks: dict[str, str]
):
    foreign = {"kind": "Namespace", "metadata": {"name": room.namespace, "labels": marks}}
    foreign = room.api.put(foreign)
    await room.until(lambda r: "Homeport did not create" in r.tenant.reason_text)
    for _ in range(5):
        await room.one_pass()
    assert room.api.find("Namespace", "", room.namespace) == foreign
    assert set(room.writes()) <= {"POST namespaces"}
    rows = await room.rows()
    assert rows["Namespace/" + room.namespace].state == "refused"
    assert rows["ResourceQuota/homeport"].state == "missing"


async def test_what_the_cluster_refuses_is_said_and_tried_again_rarely(room: Room):
    body = {"kind": "Status", "reason": "Forbidden", "message": "homeport may not do that"}
    room.api.trouble.append(Trouble("POST limitranges", "status", status=403, body=body, times=2))
    await room.until(lambda r: "homeport may not do that" in r.tenant.reason_text)
    assert (await room.rows())["LimitRange/homeport"].state == "refused"
    # The parts after it are there all the same.
    assert room.api.has("PersistentVolumeClaim", room.namespace, "log")
    await room.until_active()


async def test_rights_that_the_cluster_has_not_heard_of_yet_are_waited_for(room: Room):
    message = (
        'limitranges is forbidden: User "system:serviceaccount:homeport:reconciler" cannot create '
        'resource "limitranges" in API group "" in the namespace "u-x"'
    )
    body = {"kind": "Status", "reason": "Forbidden", "message": message}
    room.api.trouble.append(Trouble("POST limitranges", "status", status=403, body=body, times=2))
    await room.until(lambda r: "not yet" in r.tenant.reason_text)
    assert (await room.rows())["LimitRange/homeport"].state == "missing"
    await room.until_active()


async def test_nothing_is_made_before_we_have_our_rights(room: Room):
    body = {"kind": "Status", "reason": "InternalError", "message": "later"}
    broken = Trouble("POST rolebindings", "status", status=500, body=body, times=-1)
    room.api.trouble.append(broken)
    await room.until(lambda r: len(r.writes()) >= 3)
    assert set(room.writes()) == {"POST namespaces", "POST rolebindings"}
    assert (await room.rows())[
        "LimitRange/homeport"
    ].detail == "waiting for Homeport's permissions in the namespace"
    broken.times = 0
    await room.until_active()


async def test_a_binding_of_another_role_is_told(room: Room):
    await room.until_active()
    other = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
    room.api.change("RoleBinding", room.namespace, "homeport-web", {"roleRef": other})
    await room.until(lambda r: "it names the role edit" in r.tenant.reason_text)
    room.api.remove("RoleBinding", room.namespace, "homeport-web")
    await room.until_active()


async def test_a_quarrel_about_a_part_does_not_become_a_storm(room: Room):
    await room.until_active()
    began = len(room.writes())
    for _ in range(30):
        if room.api.has("LimitRange", room.namespace, "homeport"):
            room.api.remove("LimitRange", room.namespace, "homeport")
        await room.one_pass()
        await asyncio.sleep(0.02)
    assert len(room.writes()) - began <= 5


async def test_a_reconciler_that_starts_in_the_middle_goes_on(
    room: Room, monkeypatch: pytest.MonkeyPatch
):
    """The process dies after each single creation; the next one finishes, without doubles."""
    for nth in range(1, 10):
        name = f"alice{nth}"
        room.tenant = await sync_to_async(make_tenant)(name, active=False)

        def crash(point: str, verb: str, obj: dict[str, Any], left: list[int] = [nth]) -> None:  # noqa: B006
            if point == "after" and verb == "create":
                left[0] -= 1
                if left[0] == 0:
                    raise asyncio.CancelledError

        monkeypatch.setattr(client_module, "fault", crash)
        with pytest.raises(asyncio.CancelledError):
            await room.until_active()
        monkeypatch.setattr(client_module, "fault", None)
        writer = DirectWriter()
        room.reconciler = TenantController(room.view, room.cluster, writer, forget_of_tenant)
        await room.until_active()
        mine = [key for key in room.api.objects if room.namespace in key[1:]]
        assert len(mine) == 9
        assert {row.repaired_count for row in (await room.rows()).values()} == {0}


async def test_one_odd_tenant_does_not_stop_the_others(
    room: Room, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    odd = await sync_to_async(make_tenant)("mallory", active=False)
    sync = room.reconciler._provisioner.sync

    async def stumbles(tenant: Tenant, *rest: Any) -> Any:
        if tenant.pk == odd.pk:
            raise ZeroDivisionError("a bug")
        return await sync(tenant, *rest)

    monkeypatch.setattr(room.reconciler._provisioner, "sync", stumbles)
    await room.until_active()
    assert "a bug" in caplog.text


async def test_one_whose_row_cannot_be_written_does_not_stop_the_others(
    room: Room, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    odd = await sync_to_async(make_tenant)("mallory", active=False)
    reconcile, looks = room.reconciler._reconcile, 0

    async def twice_the_same(tenant: Tenant) -> Any:
        nonlocal looks
        found = await reconcile(tenant)
        if tenant.pk != odd.pk:
            return found
        looks += 1
        return replace(found, objects=[*found.objects, found.objects[0]])

    with monkeypatch.context() as changed:
        changed.setattr(room.reconciler, "_reconcile", twice_the_same)
        await room.until_active()
    assert "mallory" in caplog.text
    assert not await TenantObject.objects.filter(tenant=odd).aexists(), "nothing by halves"
    assert looks <= 3, "it backs off"
    await room.until(lambda r: r.reconciler.counts()["active"] == 2)
    await odd.arefresh_from_db()
    assert odd.state == "active"


async def test_a_setting_that_cannot_be_used_is_shown(room: Room, settings: Any):
    settings.CLUSTER_CIDRS = ["ten"]
    await room.one_pass()
    await room.refresh()
    assert "CLUSTER_CIDRS: 'ten' is no network" in room.tenant.reason_text
    assert room.writes() == []


async def change(room: Room, **quota: int) -> None:
    """An admin changes the quota."""

    def act() -> None:
        tenant = Tenant.objects.get(pk=room.tenant.pk)
        change_quota(by=make_user("root", role="admin"), tenant=tenant, quota=quota)

    await sync_to_async(act)()


def hard(room: Room) -> dict[str, Any]:
    quota = room.api.find("ResourceQuota", room.namespace, "homeport")
    found: dict[str, Any] = quota["spec"]["hard"]
    return found


async def test_the_clusters_quota_follows_the_row(room: Room):
    await room.until_active()
    used = {"requests.cpu": "6", "requests.nvidia.com/gpu": "2", "pods": "3"}
    room.api.change("ResourceQuota", room.namespace, "homeport", {"status": {"used": used}})
    await room.until(lambda r: r.tenant.observed_used.get("gpu") == 2)
    before = len(room.writes())
    await change(room, cpu=500, gpu=1, nodeports=2)  # also less than what is used
    await room.until(lambda r: r.tenant.observed_hard.get("cpu") == 500)
    await room.until_active()
    wanted = {"requests.cpu": "500m", "requests.nvidia.com/gpu": "1", "services.nodeports": "2"}
    assert hard(room).items() >= {**wanted, "requests.memory": "16Gi"}.items()
    record = f"PATCH {room.namespace}"
    assert sorted(room.writes()[before:]) == ["PATCH homeport", record]  # in one look or two
    assert (room.tenant.reason_text, room.tenant.observed_used["gpu"]) == ("", 2)
    # It was wished for: nobody's change was put right.
    rows = await room.rows()
    assert rows["ResourceQuota/homeport"].repaired_count == 0


async def test_a_change_beside_somebody_elses_is_made_all_the_same(room: Room):
    await room.until_active()
    much = {"spec": {"hard": {"pods": "999"}}}
    room.api.change("ResourceQuota", room.namespace, "homeport", much)
    await change(room, pods=7)
    await room.until(lambda r: r.tenant.observed_hard.get("pods") == 7)
    assert hard(room)["pods"] == "7"


async def test_a_larger_volume_is_asked_for_and_a_smaller_one_is_not(room: Room):
    await room.until_active()
    await Tenant.objects.filter(pk=room.tenant.pk).aupdate(
        data_volume_bytes=20 * 2**30, log_volume_bytes=2**30, revision=F("revision") + 1
    )

    def is_larger(r: Room) -> bool:
        claim = r.api.find("PersistentVolumeClaim", r.namespace, "data")
        return bool(claim["spec"]["resources"]["requests"]["storage"] == "20Gi")

    await room.until(is_larger)
    await room.until_active()
    claim = room.api.find("PersistentVolumeClaim", room.namespace, "log")
    assert claim["spec"]["resources"]["requests"]["storage"] == "10Gi"
    assert "cannot shrink" in (await room.rows())["PersistentVolumeClaim/log"].detail
