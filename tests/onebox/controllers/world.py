"""A cluster without machines: the real Api and controllers, a clock that the test turns.

The test plays the node: it says which pods run, end or become ready.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from onebox.api.controllers.objects import find_condition, name_of, namespace_of, uid_of
from onebox.api.controllers.runtime import Controller, Runtime
from onebox.api.registry import Api
from onebox.api.store import Store, clone
from onebox.api.timestamps import format_time

Obj = dict[str, Any]
Make = Callable[[Api], Sequence[Controller]]


class KilledError(BaseException):
    """The process died here; no `except Exception` may survive it."""


class Clock:
    """The present moment; stands still until the test advances it."""

    def __init__(self) -> None:
        self.began = self.now = datetime(2026, 11, 20, 10, 0, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def seconds(self) -> float:
        return (self.now - self.began).total_seconds()


class World:
    """Store, Api and controllers; `restart` is what a kill and a new start do."""

    def __init__(self, home: Path, make: Make) -> None:
        self.path = home / "state.db"
        self.make = make
        self.clock = Clock()
        self.commits_left: int | None = None
        self._open()

    def _open(self) -> None:
        self.store = Store(self.path)
        self.api = Api(self.store, clock=self.clock)
        self._commit = self.store.commit
        self.store.commit = self._commit_or_die  # type: ignore[method-assign]
        if self.api.find("namespaces", None, "ada") is None:
            self.api.create("namespaces", None, {"metadata": {"name": "ada"}})
        self.runtime = Runtime(self.api, self.make(self.api), monotonic_s=self.clock.seconds)
        self.runtime.start()

    def _commit_or_die(self, writes: Any) -> Any:
        if self.commits_left is not None:
            if self.commits_left == 0:
                raise KilledError
            self.commits_left -= 1
        return self._commit(writes)

    def close(self) -> None:
        self.runtime.stop()
        self.store.close()

    def restart(self) -> None:
        """End everything at once and start anew from what is on disk."""
        self.close()
        self.commits_left = None
        self._open()
        self.settle()

    def settle(self) -> None:
        """Let the controllers do all that they can do now."""
        self.runtime.run_until_idle()

    def settle_or_die_after(self, commits: int) -> bool:
        """Settle, but be killed before write number `commits`; True if that happened."""
        self.commits_left = commits
        try:
            self.settle()
        except KilledError:
            self.restart()
            return True
        finally:
            self.commits_left = None
        return False

    def advance(self, seconds: float) -> None:
        """Let time pass, with every timer on its way."""
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

    def pods(self, **labels: str) -> list[Obj]:
        """The pods of the namespace, by name."""
        return [
            pod
            for pod in self.api.list("pods", "ada")
            if all(pod["metadata"].get("labels", {}).get(k) == v for k, v in labels.items())
        ]

    def active(self) -> list[Obj]:
        """Pods that neither ended nor are being deleted."""
        return [
            pod
            for pod in self.pods()
            if "deletionTimestamp" not in pod["metadata"]
            and pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")
        ]

    def events(self, reason: str | None = None) -> list[str]:
        """Messages of the Events, of one reason."""
        found = self.api.list("events", "ada")
        return [e["message"] for e in found if reason in (None, e["reason"])]

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
        """Put a pod on a node and start it."""
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
        statuses = [
            {
                "name": container["name"],
                "image": container.get("image", ""),
                "imageID": "",
                "ready": False,
                "restartCount": 0,
                "state": {
                    "terminated": {"exitCode": code, "startedAt": moment, "finishedAt": moment}
                },
            }
            for container in pod["spec"]["containers"]
        ]
        phase = "Failed" if code else "Succeeded"
        return self.set_status(pod, phase=phase, containerStatuses=statuses, **fields)

    def remove(self, pod: Obj) -> None:
        """Do what the node does at the end of a deletion."""
        self.api.delete("pods", namespace_of(pod), name_of(pod), grace_s=0, uid=uid_of(pod))


def pod_spec(**fields: Any) -> Obj:
    """The smallest useful pod spec."""
    container = {"name": "main", "image": "python:3.11-slim", "command": ["true"]}
    return {"containers": [container], **fields}
