"""A reconciler on onebox's API half and the real database, with faults between the two.

One `FaultWorld` is one installation: tenants alice (about whom a test is) and bob (who must not
suffer), what they asked for, the cluster, and a reconciler that dies and starts again.
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from asgiref.sync import sync_to_async
from django.db.models import F
from django.utils import timezone

from jobs.models import UserSecret, Workload
from jobs.rules.states import Desired, WorkloadState
from portal.cluster import client, labels
from portal.cluster.cache import ClusterChanges
from portal.cluster.kinds import KINDS as ALL_KINDS
from portal.cluster.listwatch import ListWatch
from tenants.models import Tenant, TenantObject
from tests.factories import make_tenant
from tests.faults.box import FaultBox
from tests.faults.fault import Fault
from tests.faults.wire import WireFault
from tests.jobs.engine.kubelet import who_of
from tests.jobs.engine.simulation import Killed
from tests.jobs.engine.world import World

TENANTS_SAFETY_S = 60
QUIET_ROUNDS = 3
MOST_QUIET_S = 5
MOST_PASSES = 6  # of the tenants' part within a second
# Pods are told by what they are, the others are not ours, or not served here.
KINDS = sorted(ALL_KINDS.keys() - {"Pod", "Node", "Event", "StorageClass", "PodGroup"})

ENDED = {"succeeded", "failed", "stopped"}
Call = tuple[str, str]  # verb, kind


@dataclass
class FaultWorld(World):
    """See the module."""

    sim: FaultBox = field(default_factory=FaultBox)
    fault: Fault | None = None
    recorded: list[Call] = field(default_factory=list)
    answered: set[int] = field(default_factory=set)  # places in `recorded` of what was done
    _under_way: dict[int, int] = field(default_factory=dict)
    struck_at: float = 0.0  # when the fault struck last
    names: dict[str, str] = field(default_factory=dict)  # what differs from run to run
    alice: UUID | None = None
    looked_whole_at: float = float("-inf")
    quiet: int = 0  # rounds in which nothing has happened
    tenants_due_s: float | None = None
    fed: tuple[int, int] = (0, 0)  # which process, which version of the cluster
    began_s: float = 0.0  # when what the test is about was asked for
    before: dict[str, str] = field(default_factory=dict)  # claims that must stay, with their uids

    # --- life ---
    async def open(self, *, relayed: bool = False) -> None:
        await self.sim.open(relayed=relayed)
        client.fault = self._pass_by

    async def shut(self) -> None:
        client.fault = None
        await self.sim.shut()

    def _pass_by(self, point: Any, verb: str, obj: dict[str, Any]) -> None:
        if self.sim.is_killed:
            raise Killed  # what still runs of the dead process
        if point == "before":
            self._under_way[id(obj)] = len(self.recorded)
            self.recorded.append((verb, obj["kind"]))
        else:
            self.answered.add(self._under_way.pop(id(obj), -1))
        if self.fault is None:
            return
        before = self.fault.struck
        try:
            self.fault(point, verb, obj)
        finally:
            if self.fault.struck > before:
                self.struck_at = self.sim.seconds

    def arm(self, call: Call, nth: int, point: str, times: int = 1) -> None:
        """From now on the nth such call meets the fault."""
        if self.sim.box.relay is not None:
            self.fault = WireFault(*call, nth, point, times, relay=self.sim.box.relay)
        else:
            self.fault = Fault(*call, nth, point, times, end=self._die)

    def _die(self) -> None:
        self.sim.is_killed = True
        raise Killed

    def heal(self) -> None:
        """Whatever the fault did, it does so no more."""
        if self.fault is not None and self.fault.struck:
            self.struck_at = self.sim.seconds
        self.fault = None

    # --- time ---
    async def round(self, seconds: int = 1) -> None:
        """Some seconds of the cluster, then what the reconciler does within one.

        When nothing has happened for a while, the seconds until something is due pass at once.
        """
        seconds = max(seconds, self._quiet_s())
        before = (self.sim.version, len(self.recorded))
        try:
            await super().round(seconds)
            self.sim.settle()
            await self._tend()
            if self.shift is not None and not self.sim.is_killed:
                await self.shift._secrets.run_once()
        except Killed:
            assert self.sim.is_killed
        if self.sim.is_killed:
            await self._bury()
        is_quiet = before == (self.sim.version, len(self.recorded))
        self.quiet = self.quiet + 1 if is_quiet and self.shift is not None else 0

    def _quiet_s(self) -> int:
        if self.quiet < QUIET_ROUNDS or self.shift is None:
            return 1
        due_s = self.shift._workloads.next_due_s()
        waits = [] if due_s is None else [due_s]
        if self.tenants_due_s is not None:
            waits.append(self.tenants_due_s - self.sim.seconds)
        return int(min([MOST_QUIET_S, *waits]))

    async def _bury(self) -> None:
        """The dead process writes no more; another one starts in the next round."""
        await self._steps()
        self.shift = None

    async def _tend(self) -> None:
        """The tenants' part, as `LeaderRun._tend_tenants` calls it."""
        for _ in range(MOST_PASSES):
            if self.shift is None or self.sim.is_killed:
                return
            self.feed()
            shift = self.shift
            shift._take_changes()
            changes, shift._tenants_changes = shift._tenants_changes, ClusterChanges()
            everything = self.sim.seconds - self.looked_whole_at >= TENANTS_SAFETY_S
            again_s = await shift._tenants.run_once(changes, everything=everything)
            if everything:
                self.looked_whole_at = self.sim.seconds
            self.tenants_due_s = None if again_s is None else self.sim.seconds + again_s
            self.sim.settle()
            if again_s is None or again_s > 0.5:
                if not self._has_news():
                    return
            else:
                self.sim.pass_time(again_s)

    def _has_news(self) -> bool:
        self.feed()
        assert self.shift is not None
        return bool(self.shift._cache._changes)

    async def start(self) -> None:
        self.looked_whole_at = float("-inf")
        await super().start()

    async def wait(
        self, what: Callable[[], Awaitable[Any]], text: str, *, most_s: float = 120
    ) -> None:
        """Rounds until the condition holds.

        Raises:
            AssertionError: it did not within so many seconds; the text tells how things were.
        """
        until = self.sim.seconds + most_s
        while not await what():
            assert self.sim.seconds < until, f"{text}: not within {most_s:g} s\n{await self.tell()}"
            await self.round()

    def feed(self) -> None:
        """Brings the view up to date, reading only what has changed."""
        assert self.shift is not None
        if self.fed == (self.starts, self.sim.version):
            return
        self.fed = (self.starts, self.sim.version)
        super().feed()

    def _decode(self, watch: ListWatch[Any], obj: dict[str, Any]) -> Any:
        meta = obj["metadata"]
        known = watch.items.get((meta["namespace"], meta["name"]))
        if known is not None and known.metadata.resource_version == meta["resourceVersion"]:
            return known
        return super()._decode(watch, obj)

    # --- people ---
    async def person(self, name: str) -> None:
        """Somebody signs in for the first time."""
        tenant = await sync_to_async(make_tenant)(name, active=False)
        self.names[tenant.namespace] = name
        self.names[str(tenant.pk)] = f"{name}'s"
        if name == "alice":
            self.alice = tenant.pk
        else:
            self.sim.others.add(tenant.namespace)

    async def change_tenant(self, **columns: Any) -> None:
        """What an admin asks for of Alice's namespace."""
        more = {"revision": F("revision") + 1, "desired_at": timezone.now()}
        await Tenant.objects.filter(pk=self.alice).aupdate(**columns, **more)

    async def tenant(self, name: str = "alice") -> Tenant:
        found = Tenant.objects.select_related("owner")
        return await found.aget(owner__username=name)

    async def open_for(self, *names: str) -> None:
        async def are_open() -> bool:
            return (
                not await Tenant.objects.filter(owner__username__in=names)
                .exclude(state=Tenant.State.ACTIVE)
                .aexists()
            )

        await self.wait(are_open, f"{names} are provisioned")

    async def submit(self, kind: str = "training", *, owner: str = "alice", **changes: Any) -> Any:
        about = self.about
        row = await super().submit(kind, owner=owner, **changes)
        if owner != "alice":
            self.about = about
        self._note_row(row)
        return row

    def _tenant(self, owner: str) -> Tenant:
        return Tenant.objects.select_related("owner").get(owner__username=owner)

    def _note_row(self, row: Workload) -> None:
        from portal.cluster.names import short_id

        self.names[str(row.pk)] = "row"
        self.names[short_id(row.pk)] = "row"

    def record(self) -> None:
        """Forgets the calls made until now."""
        self.recorded.clear()
        self.answered.clear()
        self._under_way.clear()

    async def has_failed(self, why: str) -> bool:
        """Whether a workload of alice's has, for a reason with these words."""
        failed = {"tenant_id": self.alice, "state": "failed", "reason_text__contains": why}
        return await Workload.objects.filter(**failed).aexists()

    async def has_run(self, name: str) -> bool:
        return await Workload.objects.filter(name=name, state=WorkloadState.SUCCEEDED).aexists()

    async def drop(self, name: str) -> None:
        """Removes a training as if it had never been."""
        await Workload.objects.filter(name=name).aupdate(desired=Desired.DELETE)

        async def is_gone() -> bool:
            return not await Workload.objects.filter(name=name).aexists()

        await self.wait(is_gone, f"{name} is deleted")

    # --- what came of it ---
    async def picture(self) -> dict[str, Any]:
        """Everything that a run leaves, without what differs from run to run."""
        return {
            "objects": self._objects(),
            "born": dict(sorted(self.sim.born.items())),
            "rows": await self._rows(),
        }

    def _objects(self) -> list[str]:
        found = []
        for kind in KINDS:
            for obj in self.sim.of(kind):
                meta = obj["metadata"]
                if labels.OWNER not in meta.get("labels", {}) and kind != "PersistentVolume":
                    continue
                name = meta["name"]
                if kind == "PersistentVolume":
                    claim = obj["spec"]["claimRef"]
                    name = f"{claim['namespace']}/{claim['name']}"
                found.append(self._plain(f"{kind} {meta['namespace']}/{name} {_state(obj)}"))
        pods = [f"Pod {who_of(pod)} {pod['status'].get('phase')}" for pod in self.sim.of("Pod")]
        return sorted(found + pods)

    def _plain(self, text: str) -> str:
        for this, that in self.names.items():
            text = text.replace(this, that)
        return re.sub(r"pvc-[0-9a-f-]{36}", "pvc-UID", text)

    async def _rows(self) -> list[str]:
        found = [
            f"tenant {t.owner.username} {t.state} {t.reason_text}"
            async for t in Tenant.objects.select_related("owner")
        ]
        found += [
            self._plain(f"part {p.kind} {p.name} {p.state} {p.detail}")
            async for p in TenantObject.objects.filter(tenant_id=self.alice)
        ]
        found += [
            f"{w.kind} {w.state} {w.reason_code} {w.attempt}" async for w in Workload.objects.all()
        ]
        found += [
            f"secret {s.name} {s.state} {s.revisions}" async for s in UserSecret.objects.all()
        ]
        return sorted(found)

    def claims(self) -> dict[str, str]:
        """Namespace/name -> uid."""
        return {
            f"{c['metadata']['namespace']}/{c['metadata']['name']}": c["metadata"]["uid"]
            for c in self.sim.of("PersistentVolumeClaim")
        }

    async def words(self) -> str:
        """What Alice (or whose namespace the fault strikes in) and an admin read about what was asked
        for: reasons, parts, events.
        """
        target = self.fault.target if self.fault is not None else None
        other = await Tenant.objects.filter(namespace=target[2]).afirst() if target else None
        tenant = other or await self.tenant()
        texts = [f"{tenant.state}: {tenant.reason_text} {tenant.reason_next_step}"]
        texts += [part.detail async for part in TenantObject.objects.filter(tenant=tenant)]
        texts += [one.problem async for one in UserSecret.objects.filter(tenant=tenant)]
        async for row in Workload.objects.filter(tenant=tenant):
            texts.append(f"{row.state}: {row.reason_text} {row.reason_next_step}")
            if row.state in ENDED:  # the reason is that of its end
                texts += [e.message async for e in row.events.filter(is_warning=True)]
        return "\n".join(text for text in texts if text)

    async def tell(self) -> str:
        """How things are, for the message of a failure."""
        picture = await self.picture()
        rows = Workload.objects.all()
        notes = [f"{w.name} {w.state} {w.reason_text} {w.notes}" async for w in rows]
        return "\n".join([*picture["objects"], *picture["rows"], *notes, str(self.recorded)])


def _state(obj: dict[str, Any]) -> str:
    """What of an object must come out the same."""
    spec = obj.get("spec", {})
    found = {key: spec[key] for key in ("suspend", "replicas", "hard") if key in spec}
    if obj["kind"] == "PersistentVolume":
        found = {"policy": spec["persistentVolumeReclaimPolicy"], **obj["status"]}
        found.pop("lastPhaseTransitionTime", None)
    if "deletionTimestamp" in obj["metadata"]:
        found["leaving"] = True
    marks = obj["metadata"].get("labels", {})
    owner = marks.get(labels.OWNER, "")
    return f"{owner} {found}"
