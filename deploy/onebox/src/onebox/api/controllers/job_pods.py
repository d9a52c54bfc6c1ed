"""The pods of a Job as they are created: name, index, labels, environment, finalizer. Pure.

Rules of k8s.io/kubernetes/pkg/controller/job/indexed_job_utils.go.
"""

from __future__ import annotations

from onebox.api.controllers.job_facts import FAILURES, IGNORED_FAILURES, INDEX, TRACKING
from onebox.api.controllers.job_plan import NewPod
from onebox.api.controllers.objects import (
    annotations_of,
    controller_reference,
    finalizers_of,
    labels_of,
    name_of,
    spec_of,
)
from onebox.api.resources import Obj
from onebox.api.store import clone

INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
LONGEST_PREFIX = 58  # 63 for a name, less the five characters that generateName appends


def render_pod(job: Obj, new: NewPod) -> Obj:
    """Make the pod; the caller creates it in the Job's namespace."""
    template = clone(spec_of(job).get("template") or {})
    template.setdefault("metadata", {})
    metadata: Obj = {
        "generateName": f"{name_of(job)}-",
        "labels": dict(labels_of(template)),
        "annotations": dict(annotations_of(template)),
        "finalizers": [*(f for f in finalizers_of(template) if f != TRACKING), TRACKING],
        "ownerReferences": [controller_reference(job)],
    }
    spec = spec_of(template)
    if new.index is not None:
        _mark_index(name_of(job), metadata, spec, new)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _mark_index(job_name: str, metadata: Obj, spec: Obj, new: NewPod) -> None:
    suffix = f"-{new.index}-"
    metadata["generateName"] = job_name[: LONGEST_PREFIX - len(suffix)] + suffix
    metadata["labels"][INDEX] = metadata["annotations"][INDEX] = str(new.index)
    if new.failures is not None:
        metadata["annotations"][FAILURES] = str(new.failures)
    if new.ignored_failures:
        metadata["annotations"][IGNORED_FAILURES] = str(new.ignored_failures)
    spec["hostname"] = f"{job_name}-{new.index}"
    for kind in ("initContainers", "containers"):
        for container in spec.get(kind) or ():
            _add_index_variable(container)


def _add_index_variable(container: Obj) -> None:
    env = container.setdefault("env", [])
    if any(variable.get("name") == INDEX_VARIABLE for variable in env):
        return
    source = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}}
    env.append({"name": INDEX_VARIABLE, "valueFrom": source})
