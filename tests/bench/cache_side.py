"""One reader of all pods, as a program: `python -m tests.bench.cache_side ours|informer KUBECONFIG EVENTS`.

`ours` is all that Homeport keeps of a cluster (`ClusterCache`), `informer` the official client's
SharedInformer of pods. Prints a line when the list is there and one when so many changes (0: none is
waited for) were taken over, each with the seconds (of the clock, of the processor) and the memory that it took.
"""

import asyncio
import gc
import json
import os
import resource
import sys
import threading
import time
from typing import Any

from tests.bench.processes import rss_bytes


class Marks:
    """What each of both parts took."""

    def __init__(self) -> None:
        # Else it is chance whether all that was imported is looked through again while it lists, a tenth of our time.
        gc.collect()
        self._bytes = rss_bytes(os.getpid())
        self._began = time.perf_counter()
        self._began_cpu = _cpu()

    def tell(self, objects: int) -> None:
        """Prints what was used since the last mark."""
        now, cpu, size = time.perf_counter(), _cpu(), rss_bytes(os.getpid())
        told = {
            "objects": objects,
            "seconds": now - self._began,
            "cpu_s": cpu - self._began_cpu,
            "bytes": size - self._bytes,
        }
        print(json.dumps(told), flush=True)

    def begin(self) -> None:
        """What comes is counted from here."""
        self._began, self._began_cpu = time.perf_counter(), _cpu()


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def ours(kubeconfig: str, events: int) -> None:
    from portal.cluster.cache import ClusterCache
    from portal.cluster.client import Cluster

    cluster = await Cluster.connect(kubeconfig)
    view = ClusterCache(cluster)
    marks, seen, done = Marks(), 0, asyncio.Event()
    running = asyncio.create_task(view.run())
    await view.wait_synced()
    marks.tell(len(view.pods))
    take = view.pods.watch._on_changes

    def count(changes: Any) -> None:
        nonlocal seen
        if not seen:
            marks.begin()
        take(changes)
        seen += len(changes)
        if seen >= events:
            marks.tell(seen)
            done.set()

    view.pods.watch._on_changes = count
    if events:
        await done.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await cluster.close()


def informer(kubeconfig: str, events: int) -> None:
    from kubernetes import client, config
    from kubernetes.informer import MODIFIED, SharedInformer

    config.load_kube_config(kubeconfig)
    shared = SharedInformer(client.CoreV1Api().list_pod_for_all_namespaces)
    seen, done = 0, threading.Event()

    def count(_: Any) -> None:
        nonlocal seen
        if not seen:
            marks.begin()
        seen += 1
        if seen >= events:
            marks.tell(seen)
            done.set()

    shared.add_event_handler(MODIFIED, count)
    marks = Marks()
    shared.start()
    while not shared._resource_version:
        time.sleep(0.001)
    marks.tell(len(shared.cache.list()))
    if events:
        done.wait()
    os._exit(0)  # its thread waits for more


if __name__ == "__main__":
    if sys.argv[1] == "ours":
        asyncio.run(ours(sys.argv[2], int(sys.argv[3])))
    else:
        informer(sys.argv[2], int(sys.argv[3]))
