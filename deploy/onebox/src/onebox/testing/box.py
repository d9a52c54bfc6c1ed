"""A cluster without machines: onebox's API and controllers in this process, on a clock that the test turns.

    box = Box(Clock(), live=scripted({"job": [Life(5, code=1), Life(5)]}))
    box.add_node("node")
    box.api.create("pods", "default", {...})
    box.advance(10)

The test says how pods live, by a script or by hand. `serve` lets clients speak to it over HTTP, and
`restart` is what a kill and a new start do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from onebox.api.bootstrap import PROVISIONER, ensure_first_objects
from onebox.api.controllers import Controller, Runtime, all_controllers
from onebox.api.controllers.nodelife import NodeLifecycle
from onebox.api.controllers.objects import Key, find_condition, name_of, namespace_of, uid_of
from onebox.api.controllers.scheduler import Scheduler
from onebox.api.registry import Api
from onebox.api.server import Access, Server
from onebox.api.store import Store, clone
from onebox.api.timestamps import format_time
from onebox.testing.relay import Relay

Obj = dict[str, Any]
Make = Callable[[Api], Sequence[Controller]]
TOKEN = "the-token-of-the-tests"
ENDED = ("Succeeded", "Failed")


class KilledError(BaseException):
    """The process died here; no `except Exception` may survive it."""


class Clock:
    """The present moment; stands still until somebody sets `now`."""

    def __init__(self, now: datetime = datetime(2026, 11, 20, 12, tzinfo=UTC)) -> None:
        self.began = self.now = now

    def __call__(self) -> datetime:
        return self.now

    def seconds(self) -> float:
        """How long it is since this clock was made."""
        return (self.now - self.began).total_seconds()


@dataclass(frozen=True)
class Life:
    """How a pod lives: it is ready at once, and ends after so many seconds with this exit code.

    Attributes:
        runs_s: None: it does not end by itself.
    """

    runs_s: float | None = None
    code: int = 0


class Box:
    """Store, API and controllers of one cluster.

    Args:
        home: the folder of a state that outlives a restart; None: it is in memory.
        make: the controllers of a cluster that begins empty; None: what a cluster begins with, and
            all controllers but the one that would find that no node sends heartbeats.
        live: what machines do whenever time has passed, such as `scripted(...)`; None: nothing.

    Attributes:
        api: to look at objects and to change them without a client.
        has_room: whether the scheduler places pods as it does; otherwise it places none.
        relay: between clients and the API, where `serve` was asked for one.
    """

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        home: Path | None = None,
        make: Make | None = None,
        live: Callable[[Box], None] | None = None,
    ) -> None:
        self.clock = clock or Clock()
        self.has_room = True
        self.relay: Relay | None = None
        self._path = home / "state.db" if home is not None else None
        self.make = make
        self._live = live
        self._server: Server | None = None
        self._commits_left: int | None = None
        self._open()

    def _open(self) -> None:
        self.store = Store(self._path)
        self.api = Api(self.store, clock=self.clock)
        self._commit = self.store.commit
        self.store.commit = self._commit_or_die  # type: ignore[method-assign]
        if self.make is None:
            ensure_first_objects(self.api)
        controllers = (self.make or self._all_but_heartbeats)(self.api)
        self.runtime = Runtime(self.api, controllers, monotonic_s=self.clock.seconds)
        self.runtime.start()

    def _all_but_heartbeats(self, api: Api) -> list[Controller]:
        return [
            _MoodyScheduler(api, self) if isinstance(one, Scheduler) else one
            for one in all_controllers(api)
            if not isinstance(one, NodeLifecycle)
        ]

    def _commit_or_die(self, writes: Any) -> Any:
        if self._commits_left is not None:
            if self._commits_left == 0:
                raise KilledError
            self._commits_left -= 1
        return self._commit(writes)

    def close(self) -> None:
        """End the controllers and the store."""
        self.runtime.stop()
        self.store.close()

    # --- life and death ---
    def restart(self) -> None:
        """End everything at once and start anew from what is on disk."""
        self.close()
        self._commits_left = None
        self._open()
        self.settle()

    def settle_or_die_after(self, commits: int) -> bool:
        """Settle, but be killed before write number `commits`; True if that happened."""
        self._commits_left = commits
        try:
            self.settle()
        except KilledError:
            self.restart()
            return True
        finally:
            self._commits_left = None
        return False

    # --- clients ---
    async def serve(self, *, relayed: bool = False) -> str:
        """Answer clients that have `TOKEN`, in the running event loop; the address for them."""
        self._server = Server(self.api, Access({TOKEN: "admin"}))
        address = f"http://127.0.0.1:{await self._server.start(0, None)}"
        if relayed:
            self.relay = Relay(address)
            await self.relay.open()
            address = self.relay.url
        return address

    async def stop_serving(self) -> None:
        """End what `serve` began."""
        if self.relay is not None:
            await self.relay.close()
        if self._server is not None:
            await self._server.stop()

    # --- time ---
    def settle(self) -> None:
        """Let the controllers do all that they can do now."""
        self.runtime.run_until_idle()

    def advance(self, seconds: float) -> None:
        """Let time pass, with every timer on its way, and then the machines act."""
        until = self.clock.now + timedelta(seconds=seconds)
        self.settle()
        while (due_s := self.runtime.next_due_s()) is not None:
            due = self.clock.now + timedelta(seconds=due_s)
            if due > until:
                break
            # A clock of whole microseconds must not stop just before the moment.
            self.clock.now = due + timedelta(microseconds=1)
            self.settle()
        self.clock.now = max(until, self.clock.now)
        self.settle()
        if self._live is not None:
            self._live(self)
            self.settle()

    # --- what machines do ---
    def add_node(self, name: str, **resources: str) -> None:
        """Join a node that is ready, with 64 CPUs and more, or what is said."""
        room = {"cpu": "64", "memory": "256Gi", "pods": "110", **resources}
        ready = {"type": "Ready", "status": "True"}
        status = {"allocatable": room, "capacity": room, "conditions": [ready]}
        self.api.create("nodes", None, {"metadata": {"name": name}, "status": status})
        self.settle()

    def set_status(self, pod: Obj, **fields: Any) -> Obj:
        """Patch a pod's status as the node does."""
        where = (namespace_of(pod), name_of(pod))
        current = clone(self.api.get("pods", *where))
        current.setdefault("status", {}).update(fields)
        return self.api.update("pods", *where, current, subresource="status")

    def _on_node(self, pod: Obj) -> Obj:
        current = self.api.get("pods", namespace_of(pod), name_of(pod))
        if current["spec"].get("nodeName"):
            return current
        return self.api.bind(namespace_of(pod), name_of(pod), "box")

    def run(self, pod: Obj, *, ready: bool = True, ip: str = "10.244.0.9") -> Obj:
        """Start a pod, on a node of the name `box` if it is on none."""
        pod = self._on_node(pod)
        conditions = clone(pod.get("status", {})).get("conditions", [])
        old = find_condition(conditions, "Ready")
        new = {
            "type": "Ready",
            "status": "True" if ready else "False",
            "lastTransitionTime": format_time(self.clock()),
        }
        conditions = [c for c in conditions if c is not old] + [new]
        return self.set_status(pod, phase="Running", conditions=conditions, podIP=ip)

    def finish(self, pod: Obj, code: int = 0, **fields: Any) -> Obj:
        """End all containers of a pod with an exit code."""
        pod = self._on_node(pod)
        moment = format_time(self.clock())
        ended = {"exitCode": code, "startedAt": moment, "finishedAt": moment}
        statuses = [
            {
                "name": container["name"],
                "image": container.get("image", ""),
                "imageID": "",
                "ready": False,
                "restartCount": 0,
                "state": {"terminated": ended},
            }
            for container in pod["spec"]["containers"]
        ]
        phase = "Failed" if code else "Succeeded"
        return self.set_status(pod, phase=phase, containerStatuses=statuses, **fields)

    def remove(self, pod: Obj) -> None:
        """Do what the node does at the end of a deletion."""
        if self.api.find("pods", namespace_of(pod), name_of(pod)) is not None:
            self.api.delete("pods", namespace_of(pod), name_of(pod), grace_s=0, uid=uid_of(pod))

    def provision(self) -> None:
        """Make volumes for claims that have none, and remove those that may go."""
        for claim in self.api.list("persistentvolumeclaims"):
            spec, meta = claim["spec"], claim["metadata"]
            name = f"pvc-{meta['uid']}"
            is_made = self.api.find("persistentvolumes", None, name) is not None
            if spec.get("volumeName") or is_made or "deletionTimestamp" in meta:
                continue
            reference = {key: meta[key] for key in ("name", "namespace", "uid")}
            volume = {
                "capacity": spec["resources"]["requests"],
                "accessModes": spec["accessModes"],
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": spec.get("storageClassName", ""),
                "claimRef": {"kind": "PersistentVolumeClaim", "apiVersion": "v1", **reference},
                "hostPath": {"path": f"/volumes/{name}"},
            }
            marks = {"pv.kubernetes.io/provisioned-by": PROVISIONER}
            body = {"metadata": {"name": name, "annotations": marks}, "spec": volume}
            self.api.create("persistentvolumes", None, body)
        for volume in self.api.list("persistentvolumes"):
            is_released = volume.get("status", {}).get("phase") == "Released"
            if is_released and volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete":
                self.api.delete("persistentvolumes", None, volume["metadata"]["name"])


class _MoodyScheduler(Scheduler):
    """The real one, but it does not place anything while the box has no room."""

    def __init__(self, api: Api, box: Box) -> None:
        super().__init__(api)
        self._box = box

    def sync(self, key: Key) -> float | None:
        return super().sync(key) if self._box.has_room else None


def scripted(lives: Mapping[str, Sequence[Life]]) -> Callable[[Box], None]:
    """What machines do where pods live by a script; claims get their volumes.

    Args:
        lives: of the successive pods of an owner, by its name (or of the pod that has none); the
            last one is that of all that follow, and who is not named runs on.
    """
    chosen: dict[str, Life] = {}
    began: dict[str, datetime] = {}
    born: dict[str, int] = {}

    def life_of(pod: Obj) -> Life:
        uid = uid_of(pod)
        if uid not in chosen:
            owner = next(iter(pod["metadata"].get("ownerReferences", [])), pod["metadata"])["name"]
            script = lives.get(owner) or [Life()]
            chosen[uid] = script[min(born.get(owner, 0), len(script) - 1)]
            born[owner] = born.get(owner, 0) + 1
        return chosen[uid]

    def live(box: Box) -> None:
        box.provision()
        box.settle()
        for pod in box.api.list("pods"):
            phase, uid = pod.get("status", {}).get("phase"), uid_of(pod)
            if "deletionTimestamp" in pod["metadata"]:
                box.remove(pod)
            elif phase == "Pending" and pod["spec"].get("nodeName"):
                began[uid] = box.clock()
                box.run(pod)
            elif phase == "Running":
                life = life_of(pod)
                lived_s = (box.clock() - began.setdefault(uid, box.clock())).total_seconds()
                if life.runs_s is not None and lived_s >= life.runs_s:
                    box.finish(pod, life.code)

    return live
