"""Claims and volumes: provisioned, bound, kept or removed by their class."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from onebox.testing import OneBox
from onebox.testing.kube import Json, Kube, Space, shell

CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
VOLUMES = "/api/v1/persistentvolumes"


@pytest.fixture
def storage_class(kube: Kube) -> Iterator[str]:
    body = {
        "metadata": {"name": "short-lived"},
        "provisioner": "homeport.dev/folder",
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    kube.create(CLASSES, body)
    yield "short-lived"
    kube.delete(f"{CLASSES}/short-lived")


def claim(space: Space, name: str, storage_class: str | None = None) -> None:
    spec: Json = {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "5Gi"}},
    }
    if storage_class is not None:
        spec["storageClassName"] = storage_class
    space.kube.create(
        space.path("persistentvolumeclaims"), {"metadata": {"name": name}, "spec": spec}
    )


def bound(space: Space, name: str) -> Json:
    """The volume of a claim, once they are bound."""
    found = space.kube.wait(
        space.path("persistentvolumeclaims", name),
        lambda c: (c.get("status") or {}).get("phase") == "Bound",
    )
    return space.kube.get(f"{VOLUMES}/{found['spec']['volumeName']}")


def writer(name: str) -> Json:
    return {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]}


def test_the_default_class_gives_a_folder_that_outlives_its_claim(space: Space, box: OneBox):
    claim(space, "c")
    volume = bound(space, "c")
    folder = Path(volume["spec"]["hostPath"]["path"])
    assert folder.parent == box.home / "node" / "volumes"
    status = folder.stat()
    assert stat.S_IMODE(status.st_mode) == 0o2770
    if os.getuid() == 0:
        assert (status.st_uid, status.st_gid) == (1000, 100)
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert volume["metadata"]["annotations"]["homeport.dev/size-enforced"] == "false"
    assert volume["spec"]["claimRef"]["name"] == "c"
    mounts = [{"name": "v", "mountPath": "/v"}]
    space.output("p", shell("echo kept > /v/file", volumeMounts=mounts), **writer("c"))
    space.kube.delete(space.path("pods", "p"))
    space.kube.delete(space.path("persistentvolumeclaims", "c"))
    space.kube.wait_gone(space.path("persistentvolumeclaims", "c"))
    path = f"{VOLUMES}/{volume['metadata']['name']}"
    space.kube.wait(path, lambda v: v["status"]["phase"] == "Released")
    assert (folder / "file").read_text() == "kept\n"
    space.kube.delete(path)


def test_a_class_that_waits_and_deletes_does_both(space: Space, storage_class: str):
    claim(space, "c", storage_class)
    space.wait_event("c", "WaitForFirstConsumer")
    mounts = [{"name": "v", "mountPath": "/v"}]
    space.output("p", shell("echo gone soon > /v/file", volumeMounts=mounts), **writer("c"))
    volume = bound(space, "c")
    folder = Path(volume["spec"]["hostPath"]["path"])
    assert (folder / "file").exists()
    space.kube.delete(space.path("pods", "p"))
    space.kube.delete(space.path("persistentvolumeclaims", "c"))
    space.kube.wait_gone(f"{VOLUMES}/{volume['metadata']['name']}")
    assert not folder.exists()


def test_a_claim_in_use_waits_for_its_pod(space: Space):
    claim(space, "c")
    mounts = [{"name": "v", "mountPath": "/v"}]
    space.pod("p", shell("sleep 1000", volumeMounts=mounts), **writer("c"))
    space.wait_pod("p", "Running")
    space.kube.delete(space.path("persistentvolumeclaims", "c"))
    assert space.kube.find(space.path("persistentvolumeclaims", "c")) is not None
    space.kube.delete(space.path("pods", "p"), grace_s=0)
    space.kube.wait_gone(space.path("persistentvolumeclaims", "c"))


def disk_pod(script: str, limit: str, volume_limit: str | None = None) -> Json:
    """A pod that may write so much, runs a script and then goes on for an hour."""
    source = {} if volume_limit is None else {"sizeLimit": volume_limit}
    main = {
        "name": "main",
        "image": "scratch:shell",
        "command": ["sh", "-c", f"{script}; sleep 3600"],
        "resources": {
            "requests": {"ephemeral-storage": "0"},
            "limits": {"ephemeral-storage": limit},
        },
        "volumeMounts": [{"name": "v", "mountPath": "/workspace"}],
    }
    volumes = [{"name": "v", "emptyDir": source}]
    return {"restartPolicy": "Never", "containers": [main], "volumes": volumes}


FILL = "head -c 3000000 /dev/zero > /workspace/x"
EXCEEDED = {
    "volume": (disk_pod(FILL, "1Gi", "1Mi"), 'volume "v" exceeds the limit "1Mi"'),
    "pod": (disk_pod(FILL, "1Mi"), "total limit of containers 1Mi"),
    "log": (disk_pod("yes | head -c 3000000", "1Mi"), "total limit of containers 1Mi"),
}

OWN_FILES = "head -c 700000000 /dev/zero > /var/tmp/x"


def test_a_pod_that_writes_more_than_it_may_is_ended_and_no_other(space: Space) -> None:
    made = {**EXCEEDED, "neighbour": (disk_pod(FILL, "1Gi", "1Gi"), "")}
    for name, (spec, _words) in made.items():
        space.kube.create(space.path("pods"), {"metadata": {"name": name}, "spec": spec})
    for name, (_spec, words) in EXCEEDED.items():
        ended = space.kube.wait(
            space.path("pods", name), lambda p: (p.get("status") or {}).get("phase") == "Failed"
        )
        assert ended["status"]["reason"] == "Evicted"
        assert words in ended["status"]["message"]
    assert space.kube.get(space.path("pods", "neighbour"))["status"]["phase"] == "Running"


def test_a_containers_own_folders_are_bounded_and_no_other_pod_is_ended(space: Space) -> None:
    """With namespaces by their size, without them as everything else on disk."""
    isolation = "homeport.dev/Isolation"
    found = {c["type"]: c for c in space.kube.get("/api/v1/nodes/onebox")["status"]["conditions"]}
    is_plain = found[isolation]["reason"] == "PlainProcesses"
    made = {"own": disk_pod(OWN_FILES, "600Mi"), "neighbour": disk_pod(FILL, "1Gi")}
    for name, spec in made.items():
        space.kube.create(space.path("pods"), {"metadata": {"name": name}, "spec": spec})
    if is_plain:
        ended = space.kube.wait(space.path("pods", "own"), lambda p: _phase(p) == "Failed")
        assert ended["status"]["reason"] == "Evicted"
        assert "total limit of containers 600Mi" in ended["status"]["message"]
    else:
        space.wait_pod("own", "Running")
        assert "No space left on device" in space.first_line("own")
        assert _phase(space.kube.get(space.path("pods", "own"))) == "Running"
    assert _phase(space.kube.get(space.path("pods", "neighbour"))) == "Running"


def _phase(pod: Json) -> str:
    return str((pod.get("status") or {}).get("phase"))
