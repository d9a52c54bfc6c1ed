"""One side of the cache rows, as a program: `python -m tests.bench.cache_side ours|informer SERVER EVENTS`.

`ours` is all that Homeport keeps of a cluster (`ClusterCache`), `informer` the official client's
SharedInformer of pods. Prints a line when the list is there and one when so many changes were taken over,
each with the seconds (of the clock, of the processor) and the memory that it took.
"""

import asyncio
import json
import os
import resource
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from tests.bench.processes import rss_bytes


class Marks:
    """What each of both parts took."""

    def __init__(self) -> None:
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


async def ours(server: str, events: int) -> None:
    from portal.cluster.cache import ClusterCache
    from portal.cluster.client import Cluster
    from tests.bench.world import kubeconfig

    with tempfile.TemporaryDirectory() as folder:
        path = kubeconfig(Path(folder), int(server.rpartition(":")[2]))
        cluster = await Cluster.connect(str(path))
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
    await done.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await cluster.close()


def informer(server: str, events: int) -> None:
    from kubernetes import client
    from kubernetes.informer import MODIFIED, SharedInformer

    configuration = client.Configuration()
    configuration.host = server
    # Its Watch makes a client of the default configuration.
    client.Configuration.set_default(configuration)
    api = client.CoreV1Api(client.ApiClient(configuration))
    shared = SharedInformer(api.list_pod_for_all_namespaces)
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
    done.wait()
    os._exit(0)  # its thread waits for more


if __name__ == "__main__":
    if sys.argv[1] == "ours":
        asyncio.run(ours(sys.argv[2], int(sys.argv[3])))
    else:
        informer(sys.argv[2], int(sys.argv[3]))
