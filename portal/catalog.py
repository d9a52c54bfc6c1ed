"""What an admin offers: images, sizes, default quotas; as the YAML file has it, checked.

The classes have the names and the shape of the file, `portal/catalog.yaml`, whose comments explain it.
"""

from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from django.conf import settings
from msgspec import Meta

from portal import pools, quantity
from portal.errors import ConfigurationError
from portal.pools import Pool

Count = Annotated[int, Meta(ge=0)]
MINUTE_S, YEAR_S = 60, 365 * 86400
CONTAINER_DISK_BYTES, LEAST_DISK_BYTES = 20 * 2**30, 2**28


class Scalar(str):
    """Anything but a list or a mapping, as text: a title may be a number, and a summary left empty."""


class Millicores(int):
    """Written as Kubernetes writes CPU: "500m", 2."""


class Bytes(int):
    """Written as Kubernetes writes memory: 2Gi."""


class Seconds(int):
    """Written as people write times: 24h, 90min."""


class CatalogPart(msgspec.Struct, frozen=True, kw_only=True):
    """A mapping of the file. Keys that it does not have are nothing to it."""


class Amounts(CatalogPart, frozen=True, kw_only=True):
    """CPU and memory."""

    cpu: Millicores
    memory: Bytes

    @property
    def cpu_millicores(self) -> int:
        return int(self.cpu)

    @property
    def memory_bytes(self) -> int:
        return int(self.memory)


class Image(CatalogPart, frozen=True, kw_only=True):
    reference: str
    title: Scalar
    summary: Scalar = Scalar()


class Images(CatalogPart, frozen=True, kw_only=True):
    """Those that are offered; when they are locked there are no others."""

    offered: tuple[Image, ...]
    locked: bool | None = False

    def lists(self, reference: str) -> bool:
        return any(image.reference == reference for image in self.offered)

    def allows(self, reference: str) -> bool:
        """Whether people may ask for this image."""
        return not self.locked or self.lists(reference)


class NotebookImages(Images, frozen=True, kw_only=True):
    default: str

    def __post_init__(self) -> None:
        if not self.lists(self.default):
            raise ValueError(f"The default {self.default!r} is not offered")


class Size(Amounts, frozen=True, kw_only=True):
    slug: Scalar
    title: Scalar


class NotebookSizes(CatalogPart, frozen=True, kw_only=True):
    """Slugs of the catalog's sizes."""

    offered: tuple[Scalar, ...]
    default: Scalar
    locked: bool | None = False

    def __post_init__(self) -> None:
        if self.default not in self.offered:
            raise ValueError(f"The default {self.default!r} is not offered")


class NotebookGpu(CatalogPart, frozen=True, kw_only=True):
    """How many GPUs a notebook may have; when that is locked, how many every notebook has."""

    max: Count
    locked: bool | None = False


class Notebooks(CatalogPart, frozen=True, kw_only=True):
    """What a notebook may be made of; what is locked cannot be typed freely."""

    images: NotebookImages
    sizes: NotebookSizes
    gpu: NotebookGpu


class TensorBoards(Amounts, frozen=True, kw_only=True):
    """What every TensorBoard is made of."""

    image: str


class Quota(Amounts, frozen=True, kw_only=True):
    """What a tenant may hold."""

    gpu: Count
    pods: Count
    nodeports: Count
    data_volume: Bytes
    log_volume: Bytes


class MaxDurations(CatalogPart, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """For how long what is of a kind may run at most; None: as long as it likes."""

    training: Seconds | None = None
    notebook: Seconds | None = None
    tensorboard: Seconds | None = None

    def __post_init__(self) -> None:
        for kind, most_s in msgspec.structs.asdict(self).items():
            if most_s is not None and not MINUTE_S <= most_s <= YEAR_S:
                raise ValueError(
                    f"max_duration.{kind} is not between 1min and 365d; none: no limit"
                )


class Catalog(CatalogPart, frozen=True, kw_only=True):
    images: Images
    sizes: tuple[Size, ...]
    max_gpu_per_replica: Count
    max_replicas_per_role: Count
    container_disk: Bytes = Bytes(CONTAINER_DISK_BYTES)
    max_array: Annotated[int, Meta(ge=1, le=1000)] = (
        1000  # names of pods have room for three digits
    )
    notebooks: Notebooks
    tensorboard: TensorBoards
    default_quota: Quota
    portal_image: str
    run_as_uid: Count
    run_as_gid: Count
    addresses: Literal["names", "ip"] = "names"
    pools: tuple[Pool, ...] = ()
    borrowing: Literal["none", "team", "cluster"] = "none"
    max_duration: MaxDurations = MaxDurations()

    def __post_init__(self) -> None:
        pools.check(self.pools)
        if self.container_disk < LEAST_DISK_BYTES:
            raise ValueError("container_disk is less than 256Mi, in which no program starts")
        unknown = set(self.notebooks.sizes.offered) - {size.slug for size in self.sizes}
        if unknown:
            raise ValueError(f"notebooks.sizes.offered names {min(unknown)!r}, which is no size")

    @property
    def container_disk_text(self) -> str:
        """As Kubernetes writes it."""
        return quantity.memory_text(int(self.container_disk))

    @property
    def notebook_sizes(self) -> dict[str, Size]:
        """Those that notebooks are offered, by their slugs, in the order of the catalog."""
        offered = self.notebooks.sizes.offered
        return {size.slug: size for size in self.sizes if size.slug in offered}


def _seconds(given: Any) -> int:
    return quantity.duration_s(str(given))


_QUANTITIES = {
    Millicores: quantity.cpu_millicores,
    Bytes: quantity.memory_bytes,
    Seconds: _seconds,
}


def _read(kind: type[Any], given: Any) -> int | str:
    """What the file has, as one of our own classes.

    Raises:
        ValueError: it is nothing of the kind.
    """
    if kind is Scalar:
        if isinstance(given, list | dict):
            raise ValueError("Expected text")
        return Scalar("" if given is None else given)
    amount: int = kind(_QUANTITIES[kind](given))
    return amount


@lru_cache(maxsize=1)
def _load(path: str, mtime_ns: int) -> Catalog:
    del mtime_ns  # part of the cache key only: a changed file is read again
    try:
        # Not strict: a number may stand in quotes.
        return msgspec.yaml.decode(
            Path(path).read_bytes(), type=Catalog, strict=False, dec_hook=_read
        )
    except (
        msgspec.DecodeError,
        KeyError,
        ValueError,
    ) as error:  # YAML's scalars raise the last two
        text = f"the catalog {path} cannot be used: {error}; compare it with portal/catalog.yaml"
        raise ConfigurationError(text, is_catalog=True) from error


def get_catalog() -> Catalog:
    """The catalog as the file says now.

    Raises:
        ConfigurationError: the file cannot be read or used: an editor may have put it aside for a moment, or its
            key may have left the ConfigMap.
    """
    path = settings.CATALOG
    try:
        return _load(path, Path(path).stat().st_mtime_ns)
    except OSError as error:
        text = f"the catalog {path} cannot be read: {error.strerror}"
        raise ConfigurationError(text, is_catalog=True) from error


def borrowing() -> str:
    """`none`, `team` or `cluster`, and `none` while the file cannot be used: pages have to say that, and not fail."""
    try:
        return get_catalog().borrowing
    except ConfigurationError:
        return "none"


def max_duration_s(kind: str) -> int | None:
    """For how long one may run that starts now; None: as long as it likes, or the file cannot be used.

    Args:
        kind: training, notebook or tensorboard.
    """
    try:
        most_s: Seconds | None = getattr(get_catalog().max_duration, kind)
    except ConfigurationError:
        return None
    return None if most_s is None else int(most_s)


def container_disk_text() -> str:
    """As much as a container may write to its node's disk; as the catalog has it that is built in, while the file
    cannot be used."""
    try:
        return get_catalog().container_disk_text
    except ConfigurationError:
        return quantity.memory_text(CONTAINER_DISK_BYTES)


def known_pools() -> tuple[Pool, ...]:
    """Those of the catalog; none while the file cannot be used, which the health page tells."""
    try:
        return get_catalog().pools
    except ConfigurationError:
        return ()
