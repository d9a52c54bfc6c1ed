"""Rows about the cache of the cluster: M9 and M10 of performance.md.

What Homeport keeps of a cluster, beside the official client's SharedInformer, each in a process of its own
on the same 10,000 pods and the same 5,000 changes of them.
"""

import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path

from deploy.testcluster.ports import free_port
from tests.bench.page_rows import Cluster, fake_cluster
from tests.bench.processes import ROOT
from tests.bench.results import Result, Sides, at_least, at_most
from tests.bench.world import kubeconfig

PODS, EVENTS = 10_000, 5_000
_LONGEST_S = 300.0

Mark = Mapping[str, float]


async def side(title: str, cluster: Cluster, kubeconfig: Path) -> tuple[Mark, Mark]:
    """The list and the changes of one side.

    Raises:
        AssertionError: it ended early, or saw another number of pods.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.bench.cache_side",
        title,
        str(kubeconfig),
        str(EVENTS),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(_LONGEST_S):
            listed = _read(await process.stdout.readline(), PODS)
            await asyncio.to_thread(cluster.control, f"modify?events={EVENTS}")
            changed = _read(await process.stdout.readline(), EVENTS)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
    return listed, changed


def _read(line: bytes, objects: int) -> Mark:
    assert line, "it ended without a word"
    mark: dict[str, float] = json.loads(line)
    assert mark["objects"] == objects, f"{mark['objects']} objects in place of {objects}"
    return mark


async def cache(folder: Path, repeats: int) -> list[Result]:
    """M9 and M10."""
    sync, memory, events = Sides(), Sides(), Sides()
    for _ in range(repeats):
        found = {}
        for title in ("ours", "informer"):
            # One server for each: changes are made once.
            with fake_cluster(folder, free_port(), PODS) as cluster:
                found[title] = await side(title, cluster, kubeconfig(folder, cluster.port))
        (our_list, our_changes), (its_list, its_changes) = found["ours"], found["informer"]
        sync.add(our_list["seconds"], its_list["seconds"])
        memory.add(our_list["bytes"] / PODS / 1024, its_list["bytes"] / PODS / 1024)
        events.add(EVENTS / our_changes["cpu_s"], EVENTS / its_changes["cpu_s"])
    return [
        sync.result(
            "M9", "first list of 10,000 pods, portal / SharedInformer", at_most(1 / 30), "s", "its"
        ),
        memory.result(
            "M9", "memory of a pod, portal / SharedInformer", at_most(1 / 15), "KiB", "its"
        ),
        events.result(
            "M10",
            "changes taken over per s of CPU, portal with indices / SharedInformer",
            at_least(15),
            "1/s",
            "its",
        ),
    ]
