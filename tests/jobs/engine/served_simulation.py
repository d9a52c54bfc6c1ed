"""The simulated cluster of the reconciler's tests, with pods that serve instead of ending.

Adds to `Sim`: Deployments that can be scaled to none, NodePorts, and lives of services:
`serve`, `mute` (runs, never answers), `crash` (ends again and again), `quit` (serves, then is shut down
from inside), `once` (serves, ends once, serves again), `image`, `unplaced`, `evict`, `full` (a volume).
"""

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from asgiref.sync import sync_to_async

from jobs.models import Service
from portal.cluster.client import Object
from tenants.models import Tenant
from tests.factories import make_service, make_tenant
from tests.jobs.engine.simulation import ENDED, START, Life, Sim
from tests.jobs.engine.world import World


@dataclass
class ServiceSim(Sim):
    """See the module; trainings live as in `Sim`."""

    ports: int = 30000

    def __post_init__(self) -> None:
        super().__post_init__()
        quota = self.store["ResourceQuota", "u-alice", "homeport"]
        quota["status"]["hard"]["services.nodeports"] = "3"

    def _create(self, obj: Object) -> Object:
        made = super()._create(obj)
        if obj["kind"] == "Service" and obj["spec"].get("type") == "NodePort":
            self.ports += 1
            stored = self.store["Service", obj["metadata"]["namespace"], obj["metadata"]["name"]]
            stored["spec"]["ports"][0]["nodePort"] = self.ports
        return made

    def _deployment(self, deployment: Object) -> None:
        if deployment["spec"]["replicas"]:
            super()._deployment(deployment)

    def _live(self, pod: Object, life: Life) -> None:
        if pod["spec"]["containers"][0]["name"] != "app":
            super()._live(pod, life)
            return
        status = pod["status"]
        age = pod["metadata"].setdefault("age", 0)
        pod["metadata"]["age"] = age + 1
        if life.kind == "full":
            text = json.dumps({"reason": "volume_full", "text": "the log volume (/log) is full"})
            ended = {"exitCode": 65, "reason": "Error", "message": text}
            status["initContainerStatuses"] = [
                {"name": "prepare", "state": {"terminated": {**ended, "startedAt": self.stamp()}}}
            ]
            return
        if "initContainerStatuses" not in status:
            began = {"startedAt": self.stamp()}
            status["phase"] = "Running"
            status["conditions"] = [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": self.stamp()}
            ]
            status["initContainerStatuses"] = [
                {"name": "prepare", "state": {"terminated": {"exitCode": 0, **began}}},
                {"name": "gate", "state": {"running": began}},
            ]
            return
        self._app(pod, life, age)

    def _app(self, pod: Object, life: Life, age: int) -> None:
        status = pod["status"]
        if life.kind == "image":
            waiting = {"reason": "ErrImagePull", "message": "no such tag"}
            status["containerStatuses"] = [{"name": "app", "state": {"waiting": waiting}}]
            return
        before = next(iter(status.get("containerStatuses", [])), None)
        if before is None:
            self._run(pod, 0, None)
        elif life.kind == "crash":
            self._run(pod, before["restartCount"] + 1, life.code)
        elif life.kind in {"quit", "once"} and age == 8:
            self._run(pod, 1, 0 if life.kind == "quit" else 1)
        elif life.kind == "evict" and age == 8:
            status["phase"] = "Failed"
            status["conditions"] = [
                {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
            ]
        elif life.kind != "mute":
            self._ready(pod)

    def _run(self, pod: Object, restarts: int, code: int | None) -> None:
        status: dict[str, Any] = {
            "name": "app",
            "restartCount": restarts,
            "state": {"running": {"startedAt": self.stamp()}},
        }
        if code is not None:
            reason = "Error" if code else "Completed"
            ended = {"exitCode": code, "reason": reason, "message": "Traceback: the last words"}
            status["lastState"] = {"terminated": ended}
        pod["status"]["containerStatuses"] = [status]
        pod["status"]["conditions"] = [
            c for c in pod["status"]["conditions"] if c["type"] != "Ready"
        ]

    def _ready(self, pod: Object) -> None:
        conditions = pod["status"]["conditions"]
        if not any(c["type"] == "Ready" for c in conditions):
            conditions.append(
                {"type": "Ready", "status": "True", "lastTransitionTime": self.stamp()}
            )

    def live_pods(self) -> list[Object]:
        return [pod for pod in self.of("Pod") if pod["status"]["phase"] not in ENDED]


@dataclass
class ServiceWorld(World):
    """A `World` whose rows of interest are services."""

    service_id: Any = None

    def __post_init__(self) -> None:
        self.sim = ServiceSim()

    async def ask_for(self, **changes: Any) -> Service:
        """One more service, and its tenant if there is none yet."""

        def made() -> Service:
            tenant = Tenant.objects.filter(namespace="u-alice").first()
            if tenant is None:
                tenant = make_tenant("alice")
                Tenant.objects.filter(pk=tenant.pk).update(namespace="u-alice")
                tenant.refresh_from_db()
            self.submitted += 1
            at = START + timedelta(seconds=self.sim.seconds, milliseconds=self.submitted)
            return make_service(tenant, requested_at=at, **changes)

        service = await sync_to_async(made)()
        self.service_id = service.pk
        return service

    async def service(self) -> Service:
        services = Service.objects.select_related("tenant", "owner")
        found = await services.filter(pk=self.service_id).afirst()
        return found  # type: ignore[return-value]

    async def change(self, **columns: Any) -> None:
        """What people (or hands in the database) write."""
        await Service.objects.filter(pk=self.service_id).aupdate(**columns)

    async def settle(self, what: Any, *, rounds: int = 60, seconds: int = 1) -> Service:
        """Rounds until the service is as wanted.

        Raises:
            AssertionError: it never was; the text tells what it was.
        """
        for _ in range(rounds):
            service = await self.service()
            if service is None or what(service):
                return service
            await self.round(seconds)
        service = await self.service()
        things = self.sim.live_things()
        raise AssertionError(f"{service.state} {service.reason_text} {service.memo} {things}")

    async def said(self) -> list[str]:
        """The reconciler's own events about it."""
        service = await self.service()
        return [event.reason async for event in service.events.filter(source="homeport")]
