"""All or nothing by the cluster, too: the PodGroup of an attempt, which all its pods name.

Nothing of it is stored. The root in the cluster says whether the attempt has one: what is made after it names
the group if the root's pods do. So all pods of an attempt do or none does, whenever the cluster begins to serve it.
https://github.com/kubernetes/enhancements/tree/master/keps/sig-scheduling/4671-gang-scheduling
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass

from jobs.kinds.registry import KINDS
from jobs.kinds.state import WorkloadRow
from portal.cluster.manifests import Object, render

_DEFAULT = "default-scheduler"


@dataclass(frozen=True)
class GroupManifest:
    """Variables of `pod_group.yaml.j2`; of fewer pods than `least` none is placed."""

    owner: str
    namespace: str
    name: str
    least: int


def group_of(row: WorkloadRow, documents: Sequence[Object]) -> Object | None:
    """The group of the pods of an attempt; None: each of them is placed by itself, or by a scheduler of its own.

    Blocking: it reads a template.
    """
    least = KINDS[row.kind].together(row)
    pods = [pod for document in documents if (pod := _pod(document))]
    if least is None or any(pod.get("schedulerName", _DEFAULT) != _DEFAULT for pod in pods):
        return None
    context = GroupManifest(row.id, row.namespace, row.kube_name, least)
    return render("pod_group.yaml.j2", context)[0]


def naming(document: Object, group: Object) -> Object:
    """A copy of a document whose pods, if it has any, name the group."""
    named = copy.deepcopy(document)
    if pod := _pod(named):
        pod["schedulingGroup"] = {"podGroupName": group["metadata"]["name"]}
    return named


def is_named(root: Object) -> bool:
    """Whether the pods of a root, as the cluster has it, name a group; a cluster without groups drops that."""
    return bool(_pod(root).get("schedulingGroup"))


def loosened(uid: str) -> Object:
    """The change by which pods of the group of this uid are placed one by one."""
    return {"metadata": {"uid": uid}, "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}}}


def _pod(document: Object) -> Object:
    """The spec of the pods that a document makes; empty: it makes none."""
    pod: Object = document.get("spec", {}).get("template", {}).get("spec", {})
    return pod
