"""Volumes: which files they hold, with which modes, and what cannot be mounted."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest

from onebox.node.downward import PodView
from onebox.node.environment import ConfigError
from onebox.node.projection import VolumeError
from onebox.node.spec import Mount
from onebox.node.subpath import make_sub_paths
from onebox.node.volumes import Volume, VolumeSetup, container_mounts, prepare_volumes
from onebox_tests.node_kubelet.pods import container, pod


def setup(folder: Path, *volumes: dict, objects: dict | None = None) -> VolumeSetup:
    made = pod(volumes=list(volumes))
    made["metadata"]["labels"] = {"role": "worker"}
    known = objects or {}

    async def find(kind: str, _namespace: str | None, name: str):
        return known.get((kind, name))

    async def issue(_pod: dict, source: dict) -> str:
        return f"token for {source.get('audience', 'the API')}"

    return VolumeSetup(made, folder, PodView(made, None, "127.0.0.1", {}), None, find, issue)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


CONFIG = {("configmaps", "c"): {"data": {"a.txt": "A", "b.txt": "B"}, "binaryData": {"x": "AAE="}}}
SECRET = {("secrets", "s"): {"data": {"key": base64.b64encode(b"hidden").decode()}}}


async def test_a_configmap_becomes_files(tmp_path: Path):
    volume = {"name": "v", "configMap": {"name": "c", "defaultMode": 0o640}}
    ready = await prepare_volumes(setup(tmp_path, volume, objects=CONFIG))
    root = Path(ready["v"].source)
    assert ready["v"].read_only
    assert (root / "a.txt").read_text() == "A"
    assert (root / "x").read_bytes() == b"\x00\x01"
    assert mode(root / "b.txt") == 0o640


async def test_items_choose_keys_paths_and_modes(tmp_path: Path):
    items = [{"key": "a.txt", "path": "deep/er/A", "mode": 0o400}]
    volume = {"name": "v", "configMap": {"name": "c", "items": items}}
    ready = await prepare_volumes(setup(tmp_path, volume, objects=CONFIG))
    root = Path(ready["v"].source)
    files = [p.relative_to(root) for p in root.rglob("*") if p.is_file()]
    assert files == [Path("deep/er/A")]
    assert mode(root / "deep/er/A") == 0o400


async def test_tokens_of_the_account_are_asked_for(tmp_path: Path):
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
        {"serviceAccountToken": {"path": "vault/token", "audience": "vault"}},
    ]
    ready = await prepare_volumes(setup(tmp_path, {"name": "v", "projected": {"sources": sources}}))
    root = Path(ready["v"].source)
    assert (root / "token").read_text() == "token for the API"
    assert (root / "vault" / "token").read_text() == "token for vault"


async def test_a_projected_volume_joins_its_sources(tmp_path: Path):
    sources = [
        {"configMap": {"name": "c", "items": [{"key": "a.txt", "path": "a"}]}},
        {"secret": {"name": "s"}},
        {"downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
    ]
    volume = {"name": "v", "projected": {"sources": sources}}
    ready = await prepare_volumes(setup(tmp_path, volume, objects={**CONFIG, **SECRET}))
    root = Path(ready["v"].source)
    texts = {p.name: p.read_text() for p in root.iterdir()}
    assert texts == {"a": "A", "key": "hidden", "l": 'role="worker"'}


async def test_a_second_try_writes_the_volume_anew(tmp_path: Path):
    volume = {"name": "v", "configMap": {"name": "c"}}
    await prepare_volumes(setup(tmp_path, volume, objects=CONFIG))
    fewer = {("configmaps", "c"): {"data": {"only": "1"}}}
    ready = await prepare_volumes(setup(tmp_path, volume, objects=fewer))
    assert os.listdir(ready["v"].source) == ["only"]


async def test_an_empty_dir_is_writable_by_all_and_one_in_memory_has_a_size(tmp_path: Path):
    ready = await prepare_volumes(
        setup(
            tmp_path,
            {"name": "scratch", "emptyDir": {}},
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
        )
    )
    assert mode(Path(ready["scratch"].source)) == 0o777
    assert ready["shm"] == Volume("shm", "tmpfs", 64 << 20)


BOUND = {"spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}}


async def test_a_claim_is_the_folder_of_its_volume(tmp_path: Path):
    data = tmp_path / "data"
    data.mkdir()
    objects = {
        ("persistentvolumeclaims", "d"): BOUND,
        ("persistentvolumes", "pv"): {"spec": {"hostPath": {"path": str(data)}}},
    }
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "d", "readOnly": True}}
    ready = await prepare_volumes(setup(tmp_path / "pod", volume, objects=objects))
    assert ready["v"] == Volume(str(data), read_only=True)


REFUSED = [
    ({"configMap": {"name": "no"}}, 'configmap "no" not found'),
    ({"secret": {"secretName": "no"}}, 'secret "no" not found'),
    ({"configMap": {"name": "c", "items": [{"key": "z", "path": "z"}]}}, 'no key "z"'),
    ({"configMap": {"name": "c", "items": [{"key": "a.txt", "path": "../z"}]}}, "inside"),
    ({"persistentVolumeClaim": {"claimName": "no"}}, 'claim "no" not found'),
    ({"persistentVolumeClaim": {"claimName": "open"}}, "not bound"),
    ({"hostPath": {"path": "/etc"}}, "hostPath are not offered"),
    ({"projected": {"sources": [{"clusterTrustBundle": {"path": "t"}}]}}, "not offered"),
]


@pytest.mark.parametrize(("source", "sentence"), REFUSED)
async def test_what_cannot_be_mounted_is_said(tmp_path: Path, source: dict, sentence: str):
    objects = {
        **CONFIG,
        ("persistentvolumeclaims", "open"): {"spec": {}, "status": {"phase": "Pending"}},
    }
    with pytest.raises(VolumeError, match=sentence) as error:
        await prepare_volumes(setup(tmp_path, {"name": "v", **source}, objects=objects))
    assert 'volume "v"' in str(error.value)


def test_mounts_carry_sub_paths_with_variables():
    spec = container(
        volumeMounts=[
            {"name": "d", "mountPath": "/data", "subPathExpr": "jobs/$(JOB)"},
            {"name": "d", "mountPath": "/all", "readOnly": True},
        ]
    )
    mounts = container_mounts(spec, {"d": Volume("/srv/d")}, {"JOB": "j1"})
    assert mounts == (
        Mount("/srv/d", "/data", sub_path="jobs/j1"),
        Mount("/srv/d", "/all", read_only=True),
    )
    with pytest.raises(ConfigError, match="subPathExpr"):
        container_mounts(spec, {"d": Volume("/srv/d")}, {})


def test_a_missing_sub_path_is_made_like_its_parent_and_no_link_is_followed(tmp_path: Path):
    root, outside = tmp_path / "volume", tmp_path / "outside"
    root.mkdir(mode=0o755)
    root.chmod(0o2770)
    outside.mkdir()
    (root / "link").symlink_to(outside)
    make_sub_paths(
        [
            Mount(str(root), "/a", sub_path="jobs/./one"),
            Mount(str(root), "/b", sub_path="link/two"),
            Mount(str(root), "/c"),
        ]
    )
    assert (root / "jobs" / "one").is_dir()
    assert (root / "jobs" / "one").stat().st_mode & 0o7777 == 0o2770
    assert not list(outside.iterdir())
