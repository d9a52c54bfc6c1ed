"""Container images without a registry or a daemon: an OCI archive of layers that are folders.

A node's containerd imports it (`ctr images import`). People's pods run on Debian with its Python, a
layer that debootstrap makes once in the user's cache; what PyPI has comes on top of it.
https://github.com/opencontainers/image-spec/blob/v1.1.0/image-layout.md
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from deploy import image as homeport
from deploy.testcluster import binaries
from deploy.testcluster.binaries import NoBinariesError
from deploy.testcluster.nodes import products

PAUSE = "registry.k8s.io/pause:3.10"
PYTHON = "docker.io/library/python:3.11-slim"
LOCAL_PATH = "docker.io/rancher/local-path-provisioner:v0.0.30"
NOTEBOOK = "quay.io/jupyter/tensorflow-notebook:2026-11-01"  # here without TensorFlow itself
_MEDIA = "application/vnd.oci.image"
_DEBIAN = "bookworm"
_INCLUDED = "python3,python3-venv,ca-certificates"
# Of no use in a container, and half of it.
_LEFT_OUT = (
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "var/cache/apt",
    "var/lib/apt/lists",
)
_SITE = "usr/local/lib/python3.11/dist-packages"  # where Debian's Python looks first
_CHECKOUT = Path(__file__).resolve().parents[3]
_POD_PROGRAMS = "jobs/pod"
_PINNED = _CHECKOUT / "deploy/onebox/src/onebox/images/requirements/tensorflow-notebook.txt"
_OF_NOTEBOOKS = ("jupyterlab", "tensorboard", "setuptools", "ipykernel")


@dataclass(frozen=True)
class Layer:
    """A compressed tar file, whose digest its content alone decides.

    Attributes:
        digest: of the file; `plain_digest`: of what is compressed.
    """

    file: Path
    digest: str
    plain_digest: str


@dataclass(frozen=True)
class Image:
    """A reference, its layers with the lowest first, and its config, such as {"Entrypoint": ["/pause"]}."""

    reference: str
    layers: Sequence[Layer]
    config: Mapping[str, object] = field(default_factory=dict)


def pack(folder: Path, target: Path) -> Layer:
    """Write a folder's content as the layer `target`."""
    plain = hashlib.sha256()
    with (
        gzip.GzipFile(target, "wb", compresslevel=1, mtime=0) as packed,
        tarfile.open(fileobj=_Summed(packed, plain), mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path in sorted(folder.rglob("*")):
            if "__pycache__" not in path.parts:
                _add(tar, path, path.relative_to(folder))
    with target.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Layer(target, f"sha256:{digest}", f"sha256:{plain.hexdigest()}")


class _Summed(io.RawIOBase):
    """Passes on what is written, and sums it."""

    def __init__(self, file: gzip.GzipFile, digest: hashlib._Hash) -> None:
        self._file, self._digest = file, digest

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self._digest.update(data)
        return self._file.write(data)


def _add(tar: tarfile.TarFile, path: Path, name: Path) -> None:
    info = tar.gettarinfo(path, str(name))
    if info is None:  # a socket
        return
    info.mtime = 0
    if info.isreg():
        with path.open("rb") as file:
            tar.addfile(info, file)
    else:
        tar.addfile(info)


def write(target: Path, images: Sequence[Image]) -> Path:
    """Write an archive of images; what they have in common is in it once."""
    blobs: dict[str, bytes] = {}

    def described(kind: str, content: bytes) -> dict[str, object]:
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        blobs[digest] = content
        return {"mediaType": f"{_MEDIA}.{kind}", "digest": digest, "size": len(content)}

    def manifest(image: Image) -> dict[str, object]:
        config = {
            "architecture": "amd64",
            "os": "linux",
            "config": image.config,
            "rootfs": {"type": "layers", "diff_ids": [one.plain_digest for one in image.layers]},
        }
        content = {
            "schemaVersion": 2,
            "mediaType": f"{_MEDIA}.manifest.v1+json",
            "config": described("config.v1+json", json.dumps(config).encode()),
            "layers": [
                {
                    "mediaType": f"{_MEDIA}.layer.v1.tar+gzip",
                    "digest": layer.digest,
                    "size": layer.file.stat().st_size,
                }
                for layer in image.layers
            ],
        }
        named = {"annotations": {"io.containerd.image.name": image.reference}}
        return described("manifest.v1+json", json.dumps(content).encode()) | named

    index = {"schemaVersion": 2, "manifests": [manifest(image) for image in images]}
    files = {layer.digest: layer.file for image in images for layer in image.layers}
    with tarfile.open(target, "w") as tar:
        _put(tar, "oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}).encode())
        _put(tar, "index.json", json.dumps(index).encode())
        for digest, content in blobs.items():
            _put(tar, _blob(digest), content)
        for digest, file in files.items():
            tar.add(file, _blob(digest))
    return target


def _blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _put(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    tar.addfile(info, io.BytesIO(content))


def archives(folder: Path, say: Callable[[str], None] = print) -> tuple[Path, Path]:
    """The images of a node: of pods' namespaces, of people's pods, and Homeport's own for pods; and,
    in a second archive, the large one of notebooks.

    Args:
        folder: what follows the checkout is written there; the rest is made once.

    Raises:
        NoBinariesError: something cannot be fetched.
    """
    debian, helpers, notebook = layers(say)
    programs = folder / "programs"
    pause = _one_program(folder / "pause", binaries.program(products.COREDNS, "pause", say))
    name = "local-path-provisioner"
    local_path = _one_program(
        folder / name, binaries.program(products.LOCAL_PATH, name, say), "usr/bin"
    )
    shutil.copytree(
        _CHECKOUT / _POD_PROGRAMS,
        programs / "opt/homeport" / _POD_PROGRAMS,
        ignore=shutil.ignore_patterns("__pycache__"),
        dirs_exist_ok=True,
    )
    ours = pack(programs, folder / "programs.layer")
    environ = {"Env": ["PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"]}
    small = write(
        folder / "images.tar",
        [
            Image(PAUSE, [pause], {"Entrypoint": ["/pause"]}),
            # Its pods that make folders need a shell, which the published one has.
            Image(LOCAL_PATH, [debian, local_path], environ),
            Image(PYTHON, [debian], environ),
            *(Image(name, [debian, helpers, ours], environ) for name in homeport.REFERENCES),
        ],
    )
    large = Image(NOTEBOOK, [debian, notebook], environ)
    return small, write(folder / "notebook.tar", [large])


def _one_program(folder: Path, program: Path, below: str = "") -> Layer:
    """A layer that is nothing else, as it is in the images that it is published in."""
    (folder / below).mkdir(parents=True, exist_ok=True)
    shutil.copy2(program, folder / below / program.name)
    return pack(folder, folder.with_suffix(".layer"))


def layers(say: Callable[[str], None] = print) -> tuple[Layer, Layer, Layer]:
    """Of Debian with Python, of what Homeport's helpers import, and of JupyterLab; made once.

    Raises:
        NoBinariesError: something cannot be fetched.
    """
    requirements = homeport.FOLDER / "requirements.txt"
    return (
        debian(say),
        _made(
            "helpers", requirements.read_text(), lambda to: _install(to, "-r", requirements), say
        ),
        _made(
            "notebook",
            f"{_OF_NOTEBOOKS} {_PINNED.read_text()}",
            lambda to: _install(to, "-c", _PINNED, *_OF_NOTEBOOKS),
            say,
        ),
    )


def debian(say: Callable[[str], None] = print) -> Layer:
    """Debian with its Python.

    Raises:
        NoBinariesError: it cannot be fetched.
    """
    return _made("debian", f"{_DEBIAN} {_INCLUDED} {_LEFT_OUT}", _debian, say)


def _made(name: str, said: str, fill: Callable[[Path], None], say: Callable[[str], None]) -> Layer:
    """A layer of the cache, which is made anew when what is said of it has changed."""
    digest = hashlib.sha256(said.encode()).hexdigest()[:8]
    target = binaries.cache_root() / f"layer-{name}-{digest}"
    if not target.exists():
        unfinished = target.with_name(f".{target.name}.{os.getpid()}")
        (unfinished / "root").mkdir(parents=True)
        say(f"making the layer {name} of pods' images (once) ...")
        try:
            fill(unfinished / "root")
            layer = asdict(pack(unfinished / "root", unfinished / "layer"))
            (unfinished / "layer.json").write_text(json.dumps(layer, default=str))
            shutil.rmtree(unfinished / "root")
            unfinished.rename(target)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    told = json.loads((target / "layer.json").read_text())
    return Layer(target / "layer", told["digest"], told["plain_digest"])


def _debian(root: Path) -> None:
    packages = products.packages()
    command = ["sh", str(packages / "usr/sbin/debootstrap"), "--variant=minbase"]
    command += [f"--include={_INCLUDED}", _DEBIAN, str(root)]
    environ = os.environ | {"DEBOOTSTRAP_DIR": str(packages / "usr/share/debootstrap")}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoBinariesError(f"debootstrap made no base image:\n{done.stdout[-1000:]}")
    for name in _LEFT_OUT:
        shutil.rmtree(root / name, ignore_errors=True)
    (root / "usr/local/bin/python").symlink_to("/usr/bin/python3")


def _install(root: Path, *what: str | Path) -> None:
    command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python-version=3.11"]
    command += ["--only-binary=:all:", "--target", str(root / _SITE), *map(str, what)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoBinariesError(f"packages of an image cannot be installed:\n{done.stderr[-1000:]}")
