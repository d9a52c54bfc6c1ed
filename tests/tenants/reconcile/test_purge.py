"""A purge: the namespace goes, the volumes go or stay as was chosen, and nobody else's are touched."""

import io
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db.models import F
from django.utils import timezone

from jobs.archive import purged
from jobs.models import Artifact, Bundle, LogSegment, ReplicaArchive, Workload
from portal.storage import get_store
from portal.storage.folder import FolderStore
from tenants.models import AuditEntry, Tenant
from tenants.reconcile import purge as purge_module
from tests.factories import make_job, make_tenant
from tests.portal.cluster.fake_api import Trouble
from tests.tenants.conftest import Room


async def purge(room: Room, data: str = "keep") -> None:
    await room.want("purged", purge_data=data)


def volumes(room: Room) -> dict[str, dict[str, Any]]:
    """Claim -> volume, of this tenant's."""
    found = {}
    for (plural, _, _), obj in room.api.objects.items():
        claim = obj.get("spec", {}).get("claimRef", {})
        if plural == "persistentvolumes" and claim.get("namespace") == room.namespace:
            found[claim["name"]] = obj
    return found


def destroyed(room: Room) -> list[str]:
    return [
        f"{asked.path.split('/')[3]} {asked.path.rpartition('/')[2]}"
        for asked in room.api.asked
        if asked.method == "DELETE"
    ]


async def test_with_keep_the_volumes_stay_and_say_whose_they_were(room: Room):
    await room.until_active()
    room.api.change(
        "PersistentVolume",
        "",
        volumes(room)["log"]["metadata"]["name"],
        {"spec": {"persistentVolumeReclaimPolicy": "Delete"}},
    )
    uid = room.api.find("Namespace", "", room.namespace)["metadata"]["uid"]
    await purge(room, "keep")
    await room.until(lambda r: r.tenant.state == "gone")
    assert not room.api.has("Namespace", "", room.namespace)
    (asked,) = room.api.requests("DELETE")
    assert asked.path.endswith(f"/namespaces/{room.namespace}")
    assert asked.body["preconditions"] == {"uid": uid}
    kept = volumes(room)
    assert set(kept) == {"data", "log"}
    for claim, volume in kept.items():
        meta = volume["metadata"]
        assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
        assert meta["labels"]["homeport.dev/owner"] == str(room.tenant.pk)
        assert meta["labels"]["homeport.dev/namespace"] == room.namespace
        assert meta["annotations"]["homeport.dev/kept-of"] == f"alice: {claim} of {room.namespace}"
    assert room.tenant.gone_at is not None
    assert room.tenant.reason_text == ""
    assert await room.rows() == {}
    assert await AuditEntry.objects.filter(verb="purged", actor_name="homeport").acount() == 1


async def test_with_delete_volumes_of_earlier_claims_go_too_and_foreign_ones_stay(room: Room):
    await room.until_active()
    first = volumes(room)["data"]["metadata"]["name"]
    room.api.remove("PersistentVolumeClaim", room.namespace, "data")
    await room.until(lambda r: r.api.has("PersistentVolumeClaim", r.namespace, "data"))
    await room.until_active()
    foreign = {"persistentVolumeReclaimPolicy": "Retain", "claimRef": {"namespace": "u-other"}}
    room.api.put({"kind": "PersistentVolume", "metadata": {"name": "theirs"}, "spec": foreign})
    assert room.api.has("PersistentVolume", "", first)
    await purge(room, "delete")
    await room.until(lambda r: r.tenant.state == "gone")
    assert not room.api.has("PersistentVolume", "", first)
    assert volumes(room) == {}
    # Their provisioner removes them: Homeport only says that it may.
    assert destroyed(room) == [f"namespaces {room.namespace}"]
    assert room.api.find("PersistentVolume", "", "theirs")["spec"] == foreign


async def test_a_namespace_that_is_not_ours_is_left_alone_with_its_volumes(room: Room):
    await room.until_active()
    room.api.change(
        "Namespace", "", room.namespace, {"metadata": {"labels": {"homeport.dev/owner": "x"}}}
    )
    await purge(room, "delete")
    await room.until(lambda r: "is not the one that Homeport created" in r.tenant.reason_text)
    assert room.tenant.state == "deleting"
    assert room.tenant.reason_next_step
    assert destroyed(room) == []
    assert len(volumes(room)) == 2


async def test_a_namespace_that_somebody_removed_before_is_no_obstacle(room: Room):
    await room.until_active()
    await Tenant.objects.filter(pk=room.tenant.pk).aupdate(desired="purged", purge_data="delete")
    room.api.remove("Namespace", "", room.namespace)
    await purge(room, "delete")
    await room.until(lambda r: r.tenant.state == "gone")
    assert volumes(room) == {}
    assert destroyed(room) == []


async def test_it_waits_for_pods_that_are_still_ending(room: Room):
    await room.until_active()
    room.run_pod()
    await room.until(lambda r: r.view.pods.get(r.namespace, "p") is not None)
    await purge(room)
    await room.until(lambda r: "pods that are still ending" in r.tenant.reason_text)
    assert destroyed(room) == []
    # A pod on a node that is lost does not hold it up for ever.
    late = timezone.now() - timedelta(minutes=6)
    await Tenant.objects.filter(pk=room.tenant.pk).aupdate(desired_at=late)
    await room.until(lambda r: r.tenant.state == "gone")


async def test_a_volume_that_is_not_removed_is_named(room: Room):
    await room.until_active()
    room.api.removes_volumes = False
    await purge(room, "delete")
    await room.until(lambda r: "its data is being removed" in r.tenant.reason_text)
    assert room.tenant.state == "deleting"
    assert "kubectl delete pv" in room.tenant.reason_next_step
    for volume in list(volumes(room).values()):
        room.api.remove("PersistentVolume", "", volume["metadata"]["name"])
    await room.until(lambda r: r.tenant.state == "gone")


async def test_what_holds_it_up_may_have_any_name_of_kubernetes(room: Room):
    await room.until_active()
    names = ["a" * 252 + end for end in "bc"]
    for name in names:
        meta = {"name": name, "namespace": room.namespace, "finalizers": ["example.org/hold"]}
        room.api.put({"kind": "ConfigMap", "metadata": meta})
    message = "Some resources are remaining: configmaps. has 2 resource instances"
    why = {"type": "NamespaceContentRemaining", "status": "True", "message": message}
    gone = {"deletionTimestamp": timezone.now().isoformat()}
    status = {"phase": "Terminating", "conditions": [why]}
    room.api.change("Namespace", "", room.namespace, {"metadata": gone, "status": status})
    await purge(room)
    await room.until(lambda r: "is held by the finalizer" in r.tenant.reason_text)
    rows = await room.rows()
    assert list(rows) == [f"ConfigMap/{name}" for name in names]
    for row in rows.values():
        row.clean_fields(exclude=["tenant"])  # what SQLite takes PostgreSQL may not


async def test_the_account_for_purging_is_used_and_no_other(
    room: Room, settings: Any, tmp_path: Path
):
    await room.until_active()
    settings.PURGE_KUBECONFIG = str(tmp_path / "none")
    await purge(room)
    await room.until(lambda r: "account for purging cannot be used" in r.tenant.reason_text)
    assert destroyed(room) == []
    folder = tmp_path / "purger"
    folder.mkdir()
    path = Path(room.api.kubeconfig(folder))
    path.write_text(path.read_text().replace("secret-token", "purge-token"))
    settings.PURGE_KUBECONFIG = str(path)
    before = len(room.api.asked)
    await Tenant.objects.filter(pk=room.tenant.pk).aupdate(revision=F("revision") + 1)
    await room.until(lambda r: r.tenant.state == "gone")
    asked = [a for a in room.api.asked[before:] if "watch" not in a.query]
    assert {a.headers["Authorization"] for a in asked} == {"Bearer purge-token"}


async def test_without_an_account_that_may_purge_it_says_which_setting_names_one(
    room: Room, settings: Any, tmp_path: Path
):
    await room.until_active()
    body = {"kind": "Status", "reason": "Forbidden", "message": "reconciler cannot delete it"}
    room.api.trouble.append(Trouble("DELETE ", "status", -1, status=403, body=body))
    await purge(room)
    await room.until(lambda r: "reconciler cannot delete it" in r.tenant.reason_text)
    assert "Set PURGE_KUBECONFIG" in room.tenant.reason_next_step
    settings.PURGE_KUBECONFIG = room.api.kubeconfig(tmp_path)
    await room.until(lambda r: "this permission" in r.tenant.reason_next_step)


async def test_a_reconciler_that_was_replaced_destroys_nothing(
    room: Room, monkeypatch: pytest.MonkeyPatch
):
    await room.until_active()
    write = room.writer.commit
    checks: list[str] = []

    async def commit(do: Any) -> Any:
        if "is_to_be_purged" in repr(do):
            checks.append("asked")
            raise RuntimeError("another reconciler took over")
        return await write(do)

    monkeypatch.setattr(room.writer, "commit", commit)
    await purge(room, "delete")
    await room.until(lambda _: checks)
    assert destroyed(room) == []


@pytest.mark.parametrize("data", ["keep", "delete"])
async def test_what_the_object_store_keeps_goes_with_the_data(room: Room, data: str):
    await room.until_active()
    store = get_store()

    def fill(tenant: Tenant, sha256: str) -> list[str]:
        job = make_job(tenant, state="failed")
        made: list[Any] = [
            Bundle.objects.create(tenant=tenant, file_name="a", sha256=sha256, size_bytes=1),
            Artifact.objects.create(
                workload=job, path="a", size_bytes=1, mtime_ns=0, storage_key=f"{tenant.pk}/jobs/a"
            ),
        ]
        for attempt in (1, 2):
            row = ReplicaArchive.objects.create(
                workload=job, role="worker", index=0, attempt=attempt
            )
            key = f"{tenant.pk}/jobs/log{attempt}"
            made += [
                LogSegment.objects.create(
                    archive=row, number=1, start_byte=0, size_bytes=1, sha256="", storage_key=key
                )
            ]
        for row in made:
            store.put_file(row.storage_key, io.BytesIO(b"x"))
        return [row.storage_key for row in made]

    ours = await sync_to_async(fill)(room.tenant, "a" * 64)
    theirs = await sync_to_async(fill)(await sync_to_async(make_tenant)("bob"), "b" * 64)
    troubles = iter([OSError("no room to list")])

    late = f"{room.tenant.pk}/late"
    uploads_late = iter([late])

    def failing(prefix: str) -> None:
        for trouble in troubles:
            raise trouble
        FolderStore.delete_prefix(store, prefix)
        for key in uploads_late:
            store.put_file(key, io.BytesIO(b"x"))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "delete_prefix", failing)
        patch.setattr(purge_module, "FAILED_AGAIN_S", 0.2)
        patch.setattr(purged, "_BATCH", 1)
        await purge(room, data)
        if data == "delete":
            await room.until(lambda r: "no room to list" in r.tenant.reason_text)
        await room.until(lambda r: r.tenant.state == "gone")
    is_kept = data == "keep"
    assert not store.exists(late)
    assert [store.exists(key) for key in ours] == [is_kept] * 4
    assert all(store.exists(key) for key in theirs)
    for table, count in ((Bundle, 1), (Artifact, 1), (ReplicaArchive, 2), (LogSegment, 2)):
        assert await table.objects.acount() == count * (1 + is_kept), table
    assert await Workload.objects.acount() == 2
