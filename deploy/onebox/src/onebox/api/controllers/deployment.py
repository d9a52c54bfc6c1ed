"""The Deployment controller: one ReplicaSet per pod template, Recreate and RollingUpdate.

Decisions are in `deployment_plan` and `deployment_status`; this module writes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from onebox.api.controllers import deployment_plan as plan
from onebox.api.controllers import deployment_status as progress
from onebox.api.controllers.matching import meets_selector
from onebox.api.controllers.objects import (
    Key,
    annotations_of,
    find_condition,
    find_controller,
    is_controlled_by,
    is_deleting,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    uid_of,
)
from onebox.api.controllers.ownership import Claim, claim_owned
from onebox.api.controllers.podstate import is_terminal
from onebox.api.controllers.replicaset import wanted_replicas
from onebox.api.controllers.runtime import Controller, RetryLaterError
from onebox.api.resources import Obj
from onebox.api.status import StatusError
from onebox.api.store import clone

COMPONENT = "deployment-controller"


class DeploymentController(Controller):
    """Rolls out Deployments."""

    name = COMPONENT
    kinds = ("deployments", "replicasets", "pods")

    def keys(self, event: str, plural: str, obj: Obj) -> Iterable[Key]:
        """A Deployment wakes itself, a ReplicaSet its owner; the end of a pod lets Recreate go on."""
        namespace = namespace_of(obj)
        if plural == "deployments":
            return (key_of(obj),)
        if plural == "pods":
            return self._owner_of_ended_pod(event, obj)
        ref = find_controller(obj)
        if ref is not None:
            is_ours = ref.get("kind") == "Deployment"
            return ((namespace, str(ref["name"])),) if is_ours else ()
        return [
            key_of(deployment)
            for deployment in self.api.list("deployments", namespace)
            if meets_selector(spec_of(deployment).get("selector"), labels_of(obj))
        ]

    def _owner_of_ended_pod(self, event: str, pod: Obj) -> Iterable[Key]:
        ref = find_controller(pod)
        if ref is None or ref.get("kind") != "ReplicaSet":
            return ()
        if event != "DELETED" and not is_terminal(pod):
            return ()
        replicaset = self.api.find("replicasets", namespace_of(pod), str(ref["name"]))
        owner = find_controller(replicaset) if replicaset else None
        if owner is None or owner.get("kind") != "Deployment":
            return ()
        return ((namespace_of(pod), str(owner["name"])),)

    def sync(self, key: Key) -> float | None:
        """Bring one Deployment a step further."""
        deployment = self.api.find("deployments", *key)
        if deployment is None:
            return None
        replicasets = claim_owned(self.api, Claim(deployment, "replicasets"))
        new = plan.find_new(deployment, replicasets)
        olds = [rs for rs in replicasets if new is None or uid_of(rs) != uid_of(new)]
        if is_deleting(deployment):
            return self._write_status(deployment, new, olds)
        if new is not None:
            new = self._annotate(deployment, new, olds)
        if spec_of(deployment).get("paused"):
            self._scale_paused(deployment, new, olds)
        elif plan.is_recreate(deployment):
            new = self._recreate(deployment, new, olds)
        else:
            new = self._roll(deployment, new, olds)
        if plan.REVISION in annotations_of(new or {}):
            self._set_revision(deployment, annotations_of(new or {})[plan.REVISION])
        return self._write_status(deployment, new, olds)

    def _recreate(self, deployment: Obj, new: Obj | None, olds: Sequence[Obj]) -> Obj | None:
        """Old pods must all have ended before the first new one is created."""
        scaled = [self._scale(deployment, rs, 0) for rs in olds if wanted_replicas(rs)]
        if scaled or self._old_pods_run(deployment, new, olds):
            return new
        if new is None:
            return self._create_new(deployment, olds)
        return self._scale(deployment, new, wanted_replicas(deployment))

    def _old_pods_run(self, deployment: Obj, new: Obj | None, olds: Sequence[Obj]) -> bool:
        if any(plan.actual_of(rs) for rs in olds):
            return True
        selector = spec_of(deployment).get("selector")
        for pod in self.api.list("pods", namespace_of(deployment)):
            if is_terminal(pod) or not meets_selector(selector, labels_of(pod)):
                continue
            if any(is_controlled_by(pod, rs) for rs in olds):
                return True
        return False

    def _roll(self, deployment: Obj, new: Obj | None, olds: Sequence[Obj]) -> Obj | None:
        if new is None:
            return self._create_new(deployment, olds)
        wanted = plan.replicas_of_new(deployment, new, olds)
        if wanted != wanted_replicas(new):
            return self._scale(deployment, new, wanted)
        keep = plan.replicas_of_olds(deployment, new, olds)
        for rs in olds:
            if name_of(rs) in keep:
                self._scale(deployment, rs, keep[name_of(rs)])
        return self._scale(deployment, new, wanted)  # refreshes the size annotations

    def _scale_paused(self, deployment: Obj, new: Obj | None, olds: Sequence[Obj]) -> None:
        """A paused Deployment rolls nothing out, but its only running ReplicaSet is scaled."""
        every = [*olds, *([new] if new else [])]
        running = [rs for rs in every if wanted_replicas(rs)]
        target = running or ([new] if new else every[-1:])
        if len(target) == 1:
            self._scale(deployment, target[0], wanted_replicas(deployment))

    def _annotate(self, deployment: Obj, new: Obj, olds: Sequence[Obj]) -> Obj:
        changed = clone(new)
        annotations = plan.new_annotations(deployment, annotations_of(new), olds)
        changed["metadata"]["annotations"] = annotations
        min_ready_s = spec_of(deployment).get("minReadySeconds") or 0
        if min_ready_s != (spec_of(new).get("minReadySeconds") or 0):
            changed["spec"]["minReadySeconds"] = min_ready_s
        return self.api.update("replicasets", namespace_of(new), name_of(new), changed)

    def _set_revision(self, deployment: Obj, revision: str) -> None:
        current = clone(self.api.get("deployments", *key_of(deployment)))
        current["metadata"].setdefault("annotations", {})[plan.REVISION] = revision
        # Through the status, as upstream: the generation counts what users want.
        self.api.update("deployments", *key_of(deployment), current, subresource="status")

    def _create_new(self, deployment: Obj, olds: Sequence[Obj]) -> Obj | None:
        collisions = int(status_of(deployment).get("collisionCount") or 0)
        replicaset = plan.render_replicaset(deployment, olds, collisions)
        namespace = namespace_of(deployment)
        try:
            new = self.api.create("replicasets", namespace, replicaset)
        except StatusError as error:
            return self._creation_failed(deployment, replicaset, error)
        if wanted_replicas(new):
            text = f"Scaled up replica set {name_of(new)} from 0 to {wanted_replicas(new)}"
            self.api.event(deployment, "Normal", "ScalingReplicaSet", text, COMPONENT)
        if progress.deadline_s(deployment) is not None:
            text = f'Created new replica set "{name_of(new)}"'
            self._set_progress(deployment, ("True", "NewReplicaSetCreated", text))
        return new

    def _creation_failed(self, deployment: Obj, wanted: Obj, error: StatusError) -> Obj | None:
        existing = self.api.find("replicasets", namespace_of(deployment), name_of(wanted))
        if existing is not None:
            if is_controlled_by(existing, deployment) and plan.has_template_of(
                existing, deployment
            ):
                return existing
            # Somebody else's name: the next attempt hashes with a higher collision count.
            current = clone(self.api.get("deployments", *key_of(deployment)))
            count = int(status_of(current).get("collisionCount") or 0) + 1
            current.setdefault("status", {})["collisionCount"] = count
            self.api.update("deployments", *key_of(deployment), current, subresource="status")
            raise RetryLaterError(f"the name {name_of(wanted)} is taken")
        text = f'Failed to create new replica set "{name_of(wanted)}": {error.message}'
        self._set_progress(deployment, ("False", "ReplicaSetCreateError", text))
        self.api.event(deployment, "Warning", "ReplicaSetCreateError", text, COMPONENT)
        raise RetryLaterError(text)

    def _set_progress(self, deployment: Obj, value: tuple[str, str, str]) -> None:
        current = clone(self.api.get("deployments", *key_of(deployment)))
        status = current.setdefault("status", {})
        progress.put_condition(status, progress.PROGRESSING, value, self.api.clock())
        self.api.update("deployments", *key_of(deployment), current, subresource="status")

    def _scale(self, deployment: Obj, replicaset: Obj, replicas: int) -> Obj:
        key = key_of(replicaset)
        current = self.api.get("replicasets", *key)
        before = wanted_replicas(current)
        changed = clone(current)
        changed["spec"]["replicas"] = replicas
        annotations = {**annotations_of(current), **plan.size_annotations(deployment)}
        changed["metadata"]["annotations"] = annotations
        written = self.api.update("replicasets", *key, changed)
        if before != replicas:
            direction = "up" if replicas > before else "down"
            text = f"Scaled {direction} replica set {key[1]} from {before} to {replicas}"
            self.api.event(deployment, "Normal", "ScalingReplicaSet", text, COMPONENT)
        return written

    def _write_status(self, deployment: Obj, new: Obj | None, olds: Sequence[Obj]) -> float | None:
        key, now = key_of(deployment), self.api.clock()
        current = self.api.get("deployments", *key)
        present = [rs for old in olds if (rs := self.api.find("replicasets", *key_of(old)))]
        new = self.api.find("replicasets", *key_of(new)) if new else None
        status = progress.count_status(current, new, present, now)
        progress.judge_pause(current, status, now)
        if not spec_of(current).get("paused"):
            self._note_found(current, new, status)
            progress.judge_progress(current, new, status, now)
        progress.carry_failure(status, new, present)
        changed = {**current, "status": status}
        self.api.update("deployments", *key, changed, subresource="status")
        if progress.is_complete(current, status) and not is_deleting(current):
            self._forget(current, present)
        left_s = progress.progress_left_s(current, status, now)
        # One second more, because the times in conditions are whole seconds.
        return left_s + 1 if left_s else None

    def _note_found(self, deployment: Obj, new: Obj | None, status: Obj) -> None:
        if new is None or progress.deadline_s(deployment) is None:
            return
        if find_condition(status.get("conditions"), progress.PROGRESSING) is None:
            text = f'Found new replica set "{name_of(new)}"'
            value = ("True", "FoundNewReplicaSet", text)
            progress.put_condition(status, progress.PROGRESSING, value, self.api.clock())

    def _forget(self, deployment: Obj, olds: Sequence[Obj]) -> None:
        for rs in plan.forgotten(deployment, olds):
            self.api.delete("replicasets", *key_of(rs), propagation="Background", uid=uid_of(rs))
