"""One reader of all pods in a process of its own: Homeport's view, or the official client's informer.

`python -m tests.scale.cluster.peers view|informer KUBECONFIG COUNT` prints one line of JSON: seconds
until these many pods were there, and how much resident memory they brought.
"""

import asyncio
import gc
import json
import os
import sys
import time
from typing import Any

from tests.bench.processes import cpu_s, rss_bytes

_PATIENCE_S = 600.0


def _told(began_s: float, began_cpu_s: float, before: int, count: int) -> dict[str, Any]:
    took_s, used_s = time.monotonic() - began_s, cpu_s(os.getpid()) - began_cpu_s
    gc.collect()
    rss = rss_bytes(os.getpid())
    return {
        "took_s": took_s,
        "cpu_s": used_s,
        "objects": count,
        "rss_bytes": rss,
        "grown_bytes": rss - before,
    }


async def view(kubeconfig: str) -> dict[str, Any]:
    """Homeport's watch of pods, with its index."""
    from portal.cluster.client import Cluster
    from portal.cluster.informer import Index
    from portal.cluster.listwatch import ListOptions, ListWatch
    from portal.cluster.objects import KubePod

    cluster = await Cluster.connect(kubeconfig)
    index: Index[KubePod] = Index()

    def take(changes: Any) -> None:
        for change in changes:
            index.apply(change)

    watch = ListWatch(cluster, ListOptions("Pod", KubePod), take)
    before, began_s, began_cpu_s = rss_bytes(os.getpid()), time.monotonic(), cpu_s(os.getpid())
    task = asyncio.create_task(watch.run())
    await asyncio.wait_for(watch.synced.wait(), _PATIENCE_S)
    told = _told(began_s, began_cpu_s, before, len(watch.items))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await cluster.close()
    return told


def informer(kubeconfig: str, count: int) -> dict[str, Any]:
    """The official client's SharedInformer of pods."""
    from kubernetes import client, config
    from kubernetes.informer import SharedInformer

    config.load_kube_config(kubeconfig)
    core = client.CoreV1Api()
    following = SharedInformer(core.list_pod_for_all_namespaces)
    before, began_s, began_cpu_s = rss_bytes(os.getpid()), time.monotonic(), cpu_s(os.getpid())
    following.start()
    while len(following.cache.list()) < count:
        assert time.monotonic() - began_s < _PATIENCE_S
        time.sleep(0.05)
    told = _told(began_s, began_cpu_s, before, len(following.cache.list()))
    following.stop()
    return told


def main() -> None:
    kind, kubeconfig, count = sys.argv[1:]
    told = asyncio.run(view(kubeconfig)) if kind == "view" else informer(kubeconfig, int(count))
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()
    os._exit(0)  # the informer's threads do not end by themselves


if __name__ == "__main__":
    main()
