"""What an admin offers: images, sizes, default quotas, read from one YAML file."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from django.conf import settings

from portal import quantity
from portal.errors import ConfigurationError


@dataclass(frozen=True)
class Image:
    reference: str
    title: str
    summary: str


@dataclass(frozen=True)
class Size:
    slug: str
    title: str
    cpu_millicores: int
    memory_bytes: int


@dataclass(frozen=True)
class Notebooks:
    """What a notebook may be made of; what is locked cannot be typed freely."""

    images: tuple[Image, ...]
    default_image: str
    images_locked: bool
    sizes: tuple[Size, ...]
    default_size: str
    sizes_locked: bool
    max_gpu: int
    gpu_locked: bool  # then every notebook has `max_gpu` of them

    def offers(self, reference: str) -> bool:
        """Whether people may ask for this image."""
        return not self.images_locked or any(i.reference == reference for i in self.images)

    def size(self, slug: str) -> Size | None:
        """The size of this name, None when it is not offered."""
        return next((size for size in self.sizes if size.slug == slug), None)


@dataclass(frozen=True)
class TensorBoards:
    """What every TensorBoard is made of."""

    image: str
    cpu_millicores: int
    memory_bytes: int


@dataclass(frozen=True)
class Quota:
    """What a tenant may hold; cpu in millicores, memory and volumes in bytes."""

    cpu_millicores: int
    memory_bytes: int
    gpu_count: int
    pods: int
    nodeports: int
    data_volume_bytes: int
    log_volume_bytes: int


@dataclass(frozen=True)
class Catalog:
    images: tuple[Image, ...]
    images_locked: bool
    sizes: tuple[Size, ...]
    max_gpu_per_replica: int
    max_replicas_per_role: int
    notebooks: Notebooks
    tensorboards: TensorBoards
    default_quota: Quota
    portal_image: str
    run_as_uid: int
    run_as_gid: int

    def offers(self, reference: str) -> bool:
        """Whether people may ask for this image."""
        return not self.images_locked or any(i.reference == reference for i in self.images)


def parse(raw: dict[str, Any]) -> Catalog:
    """The catalog of a loaded YAML document.

    Raises:
        KeyError, TypeError, ValueError: something is missing or of the wrong kind.
    """
    quota = raw["default_quota"]
    sizes = tuple(
        Size(
            str(row["slug"]),
            str(row["title"]),
            quantity.cpu_millicores(row["cpu"]),
            quantity.memory_bytes(row["memory"]),
        )
        for row in raw["sizes"]
    )
    board = raw["tensorboard"]
    return Catalog(
        images=_images(raw["images"]),
        images_locked=bool(raw["images"].get("locked", False)),
        sizes=sizes,
        max_gpu_per_replica=int(raw["max_gpu_per_replica"]),
        max_replicas_per_role=int(raw["max_replicas_per_role"]),
        notebooks=_notebooks(raw["notebooks"], sizes),
        tensorboards=TensorBoards(
            str(board["image"]),
            quantity.cpu_millicores(board["cpu"]),
            quantity.memory_bytes(board["memory"]),
        ),
        default_quota=Quota(
            quantity.cpu_millicores(quota["cpu"]),
            quantity.memory_bytes(quota["memory"]),
            quantity.count(quota["gpu"]),
            quantity.count(quota["pods"]),
            quantity.count(quota["nodeports"]),
            quantity.memory_bytes(quota["data_volume"]),
            quantity.memory_bytes(quota["log_volume"]),
        ),
        portal_image=str(raw["portal_image"]),
        run_as_uid=int(raw["run_as_uid"]),
        run_as_gid=int(raw["run_as_gid"]),
    )


def _images(raw: dict[str, Any]) -> tuple[Image, ...]:
    return tuple(
        Image(str(row["reference"]), str(row["title"]), str(row.get("summary", "")))
        for row in raw["offered"]
    )


def _notebooks(raw: dict[str, Any], sizes: tuple[Size, ...]) -> Notebooks:
    chosen = [str(slug) for slug in raw["sizes"]["offered"]]
    found = Notebooks(
        images=_images(raw["images"]),
        default_image=str(raw["images"]["default"]),
        images_locked=bool(raw["images"].get("locked", False)),
        sizes=tuple(size for size in sizes if size.slug in chosen),
        default_size=str(raw["sizes"]["default"]),
        sizes_locked=bool(raw["sizes"].get("locked", False)),
        max_gpu=quantity.count(raw["gpu"]["max"]),
        gpu_locked=bool(raw["gpu"].get("locked", False)),
    )
    unknown = set(chosen) - {size.slug for size in sizes}
    if unknown:
        raise ValueError(f"notebooks.sizes.offered names {min(unknown)!r}, which is no size")
    if found.size(found.default_size) is None:
        raise ValueError(f"notebooks.sizes.default {found.default_size!r} is not offered")
    if not any(image.reference == found.default_image for image in found.images):
        raise ValueError(f"notebooks.images.default {found.default_image!r} is not offered")
    return found


@lru_cache(maxsize=1)
def _load(path: str, mtime_ns: int) -> Catalog:
    del mtime_ns  # part of the cache key only: a changed file is read again
    try:
        return parse(yaml.safe_load(Path(path).read_text()))
    except (KeyError, TypeError, ValueError, yaml.YAMLError) as error:
        raise ConfigurationError(
            f"the catalog {path} cannot be used: {type(error).__name__} {error}; "
            "compare it with portal/catalog.yaml"
        ) from error


def get_catalog() -> Catalog:
    """The catalog as the file says now.

    Raises:
        ConfigurationError: the file cannot be used.
    """
    path = settings.CATALOG
    return _load(path, Path(path).stat().st_mtime_ns)
