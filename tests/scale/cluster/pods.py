"""Makes the workers' pods of trainings in place of upstream's Job controller and scheduler.

They make some fifty pods a second on a machine with nothing else to do, in six requests each; on a
small machine ten thousand take the better part of an hour. Here a pod is one request, on a node from
the start, and otherwise as the Job controller makes it, which adopts all of them afterwards.
https://kubernetes.io/docs/concepts/workloads/controllers/job/#completion-mode
"""

import random
import string
from collections.abc import Iterator
from typing import Any

from tests.scale.cluster.kube import Admin

_GPU = "nvidia.com/gpu"
_LETTERS = string.ascii_lowercase + string.digits


class Nodes:
    """Hands out nodes: those that hold GPUs fill one after the other, the rest take turns."""

    def __init__(self, count: int, gpu_each: int) -> None:
        self._count = count
        self._gpu_each = gpu_each
        self._gpus = 0
        self._turn = 0

    def next(self, gpu: int) -> str:
        """Name of the node for a pod that asks for so many GPUs.

        Raises:
            AssertionError: there are not that many GPUs.
        """
        if gpu:
            self._gpus += gpu
            number = (self._gpus - 1) // self._gpu_each
            assert number < self._count, "more GPUs are asked for than there are"
        else:
            self._turn += 1
            number = self._turn % self._count
        return node_name(number)


def node_name(number: int) -> str:
    return f"gpu-{number:04}"


def make(admin: Admin, nodes: Nodes) -> int:
    """The pods of all Jobs that may run; how many."""
    jobs = admin.get("/apis/batch/v1/jobs")["items"]
    count = 0
    for job in jobs:
        pods = list(_pods(job, nodes))
        admin.create(f"/api/v1/namespaces/{job['metadata']['namespace']}/pods", pods)
        count += len(pods)
    return count


def _pods(job: dict[str, Any], nodes: Nodes) -> Iterator[dict[str, Any]]:
    meta, template = job["metadata"], job["spec"]["template"]
    asked = template["spec"]["containers"][0]["resources"]["requests"]
    for index in range(job["spec"]["completions"]):
        suffix = "".join(random.choices(_LETTERS, k=5))
        mark = {"batch.kubernetes.io/job-completion-index": str(index)}
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{meta['name']}-{index}-{suffix}",
                "generateName": f"{meta['name']}-{index}-",
                "labels": {**template["metadata"]["labels"], **mark},
                "annotations": {**mark, "batch.kubernetes.io/job-index-failure-count": "0"},
                "finalizers": ["batch.kubernetes.io/job-tracking"],
                "ownerReferences": [
                    {
                        "apiVersion": "batch/v1",
                        "kind": "Job",
                        "name": meta["name"],
                        "uid": meta["uid"],
                        "controller": True,
                        "blockOwnerDeletion": True,
                    }
                ],
            },
            "spec": {
                **template["spec"],
                "hostname": f"{meta['name']}-{index}",
                "nodeName": nodes.next(int(asked.get(_GPU, "0"))),
            },
        }
