"""What a pod may write to the machine's disk, how much it wrote, and the kubelet's words for too much."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from onebox.node.localdisk import (
    Bounds,
    Folders,
    Used,
    find_excess,
    folder_bytes,
    read_bounds,
    used_bytes,
)
from onebox_tests.node_kubelet.pods import container, pod

MIB = 1 << 20


def limited(name: str, limit: str | None, **more: object) -> dict[str, object]:
    limits = {"memory": "1Gi"} if limit is None else {"ephemeral-storage": limit}
    return container(name, resources={"limits": limits}, **more)


DISKS = [
    {"name": "workspace", "emptyDir": {"sizeLimit": "2Mi"}},
    {"name": "home", "emptyDir": {}},
    {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
    {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
]
VOLUMES = {"workspace": "2Mi", "home": ""}


@pytest.mark.parametrize(
    ("given", "bounds"),
    [
        (pod(container("main")), Bounds()),
        (pod(container("main", resources={"limits": None})), Bounds()),
        (
            pod(limited("main", "3Mi"), volumes=DISKS),
            Bounds(VOLUMES, {"main": "3Mi"}, 3 * MIB),
        ),
        (  # one without a limit: all together have none
            pod(limited("main", "3Mi"), limited("other", None)),
            Bounds({}, {"main": "3Mi"}),
        ),
        (  # what runs before and what runs beside
            pod(
                limited("main", "3Mi"),
                init=(limited("fetch", "1Mi"), limited("gate", "2Mi", restartPolicy="Always")),
            ),
            Bounds({}, {"main": "3Mi", "fetch": "1Mi", "gate": "2Mi"}, 5 * MIB),
        ),
        (
            pod(limited("main", "3Mi"), init=(limited("fetch", "9Mi"),)),
            Bounds({}, {"main": "3Mi", "fetch": "9Mi"}, 9 * MIB),
        ),
    ],
)
def test_bounds_are_read_from_the_pod(given: dict[str, object], bounds: Bounds) -> None:
    assert read_bounds(given) == bounds


def test_a_pod_that_names_no_amount_is_not_watched() -> None:
    assert not read_bounds(pod(container("main"), volumes=[{"name": "x", "emptyDir": {}}]))


@pytest.mark.parametrize(
    ("volumes", "logs", "words"),
    [
        ((2 * MIB, 0), 0, ""),
        ((2 * MIB + 1, 0), 0, 'Usage of EmptyDir volume "workspace" exceeds the limit "2Mi". '),
        (
            (0, 5 * MIB),
            1,
            "Pod ephemeral local storage usage exceeds the total limit of containers 5Mi. ",
        ),
        ((0, 0), 4 * MIB, 'Container main exceeded its local ephemeral storage limit "3Mi". '),
    ],
)
def test_the_first_bound_that_is_exceeded_is_told(
    volumes: tuple[int, int], logs: int, words: str
) -> None:
    bounds = Bounds(VOLUMES, {"main": "3Mi", "gate": "2Mi"}, 5 * MIB)
    used = Used(dict(zip(VOLUMES, volumes, strict=True)), {"main": logs, "gate": 0})
    assert find_excess(bounds, used) == words


def test_a_folder_is_measured_without_links_and_each_file_once(tmp_path: Path) -> None:
    assert folder_bytes(tmp_path / "none") == 0
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    (inside / "deep").mkdir(parents=True)
    outside.mkdir()
    before = folder_bytes(inside)
    (inside / "deep" / "file").write_bytes(b"x" * MIB)
    (outside / "large").write_bytes(b"x" * 8 * MIB)
    os.link(inside / "deep" / "file", inside / "second name")
    os.symlink(outside, inside / "link")
    with (inside / "sparse").open("wb") as file:
        file.truncate(64 * MIB)
    assert MIB <= folder_bytes(inside) - before < MIB + 64 * 1024


def test_what_lies_on_disk_without_namespaces_counts_too(tmp_path: Path) -> None:
    """A container's own files with its log; what should be in memory with the pod."""
    bounds = Bounds({"workspace": ""}, {"main": "2Mi"}, 2 * MIB)
    names = ("volumes/workspace", "logs/main", "stage/1/root", "stage/1/tmp", "stage/memory")
    for name in names:
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "file").write_bytes(b"x" * MIB)
    volumes, logs, stage = (tmp_path / name for name in ("volumes", "logs", "stage"))
    apart = used_bytes(bounds, Folders(volumes, logs))
    assert (apart.containers["main"] // MIB, apart.memory_bytes) == (1, 0)
    own = [("main", stage / "1"), ("of before", stage / "2")]
    used = used_bytes(bounds, Folders(volumes, logs, own, stage / "memory"))
    assert used.containers["main"] // MIB == 3
    assert used.memory_bytes // MIB == 1
    alone = Bounds({}, {}, 2 * MIB)
    assert "total limit of containers 2Mi" in find_excess(alone, Used({}, {}, 2 * MIB + 1))
