"""What an admin offers: images, sizes, default quotas, read from one YAML file."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from django.conf import settings

from portal import quantity


class CatalogError(ValueError):
    """The catalog file cannot be used; the text names the file, the place and the way out."""


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
    return Catalog(
        images=tuple(
            Image(str(row["reference"]), str(row["title"]), str(row.get("summary", "")))
            for row in raw["images"]["offered"]
        ),
        images_locked=bool(raw["images"].get("locked", False)),
        sizes=tuple(
            Size(
                str(row["slug"]),
                str(row["title"]),
                quantity.cpu_millicores(row["cpu"]),
                quantity.memory_bytes(row["memory"]),
            )
            for row in raw["sizes"]
        ),
        max_gpu_per_replica=int(raw["max_gpu_per_replica"]),
        max_replicas_per_role=int(raw["max_replicas_per_role"]),
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


@lru_cache(maxsize=1)
def _load(path: str, mtime_ns: int) -> Catalog:
    del mtime_ns  # part of the cache key only: a changed file is read again
    try:
        return parse(yaml.safe_load(Path(path).read_text()))
    except (KeyError, TypeError, ValueError, yaml.YAMLError) as error:
        raise CatalogError(
            f"the catalog {path} cannot be used: {type(error).__name__} {error}; "
            "compare it with portal/catalog.yaml"
        ) from error


def get_catalog() -> Catalog:
    """The catalog as the file says now.

    Raises:
        CatalogError: the file cannot be used.
    """
    path = settings.CATALOG
    return _load(path, Path(path).stat().st_mtime_ns)
