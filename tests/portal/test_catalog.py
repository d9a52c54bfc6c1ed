"""What a catalog that cannot be used is told: where it is wrong, and how."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from portal.catalog import Catalog, get_catalog
from portal.errors import ConfigurationError


@pytest.fixture
def changed(settings: Any, tmp_path: Path) -> Any:
    """`changed("sizes", 0, "cpu", to="x")` is the built-in catalog with another value there, as it is read."""
    raw = yaml.safe_load(Path(settings.CATALOG).read_text())

    def change(*keys: Any, to: Any) -> Catalog:
        part = raw
        for key in keys[:-1]:
            part = part[key]
        part[keys[-1]] = to
        path = tmp_path / "catalog.yaml"
        path.write_text(yaml.safe_dump(raw))
        settings.CATALOG = str(path)
        return get_catalog()

    return change


def test_the_catalog_that_comes_with_homeport_is_read() -> None:
    catalog = get_catalog()
    assert [size.memory_bytes for size in catalog.sizes] == [2 * 2**30, 4 * 2**30, 8 * 2**30]
    assert catalog.tensorboard.cpu_millicores == 500
    assert type(catalog.tensorboard.cpu_millicores) is int
    assert list(catalog.notebook_sizes) == ["small", "medium", "large"]
    assert catalog.notebooks.images.lists(catalog.notebooks.images.default)


def pool(name: str = "a100", **more: Any) -> dict[str, Any]:
    return {"name": name, "node_selector": {"gpu": "a100"}, **more}


@pytest.mark.parametrize(
    ("keys", "to", "said"),
    [
        (("sizes", 0, "cpu"), "lots", "'lots' is not a quantity"),
        (("sizes", 0, "cpu"), "lots", "`$.sizes[0].cpu`"),
        (("default_quota", "log_volume"), None, "`$.default_quota.log_volume`"),
        (("images", "offered", 1, "title"), [], "`$.images.offered[1].title`"),
        (("notebooks", "gpu", "max"), "many", "`$.notebooks.gpu.max`"),
        (("notebooks", "gpu", "max"), -1, "`$.notebooks.gpu.max`"),
        (("max_duration",), {"training": "soon"}, "'soon' is no time"),
        (("max_duration",), {"training": "0s"}, "max_duration.training is not between 1min and"),
        (("max_duration",), {"jobs": "8h"}, "unknown field `jobs`"),
        (("notebooks", "images", "default"), "other", "The default 'other' is not offered"),
        (("notebooks", "images", "default"), "other", "`$.notebooks.images`"),
        (("notebooks", "sizes", "default"), "huge", "`$.notebooks.sizes`"),
        (("notebooks", "sizes", "offered"), ["small", "huge"], "names 'huge', which is no size"),
        (("tensorboard",), {"image": "x", "cpu": 1}, "missing required field `memory`"),
        (("pools",), [{"name": "a"}], "missing required field `node_selector` - at `$.pools[0]`"),
        (("pools",), [pool(team="vision")], "unknown field `team` - at `$.pools[0]`"),
        (("pools",), [pool("A 100")], "`$.pools[0].name`"),
        (("pools",), [pool("default")], "which is all nodes that no pool selects"),
        (("pools",), [pool(), pool()], "pools names 'a100' twice"),
        (("pools",), [pool(node_selector={})], "needs a node_selector: labels of its nodes"),
        (("pools",), [pool(node_selector={"a b": "c"})], "`$.pools[0].node_selector`"),
        (("pools",), [pool(teams=[])], "is for no team; leave teams out for all"),
        (("pools",), [pool(topology_key="")], "`$.pools[0].topology_key`"),
        (("pools",), [pool(tolerations=[{"value": "x"}])], "without key needs the operator Exists"),
        (
            ("pools",),
            [pool(tolerations=[{"key": "a", "operator": "Exists", "value": "x"}])],
            "`$.pools[0].tolerations[0]`",
        ),
        (
            ("pools",),
            [pool(f"p{n}", node_selector={f"{n}": "", f"{n}.x": ""}) for n in range(7)],
            "multiply to more than 64",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place(
    changed: Any, keys: tuple[Any, ...], to: Any, said: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        changed(*keys, to=to)
    assert said in str(caught.value)
    assert "compare it with portal/catalog.yaml" in str(caught.value)


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"sizes: [", b"a: \xff", b"a: 2026-13-01", b"a: !!bool foo"]
)
def test_what_is_no_catalog_at_all_is_no_traceback(
    settings: Any, tmp_path: Path, text: bytes
) -> None:
    path = tmp_path / "catalog.yaml"
    path.write_bytes(text)
    settings.CATALOG = str(path)
    with pytest.raises(ConfigurationError, match="cannot be used"):
        get_catalog()


def test_texts_may_be_numbers_or_empty(changed: Any) -> None:
    assert changed("images", "offered", 0, "title", to=2026).images.offered[0].title == "2026"
    assert changed("images", "offered", 0, "summary", to=None).images.offered[0].summary == ""
    assert changed("images", "locked", to=None).images.allows("any/other:1")


def test_amounts_are_taken_as_kubernetes_writes_them_and_numbers_in_quotes(changed: Any) -> None:
    assert changed("sizes", 0, "cpu", to=0.5).sizes[0].cpu_millicores == 500
    assert changed("sizes", 0, "cpu", to="1500m").sizes[0].cpu_millicores == 1500
    assert changed("max_gpu_per_replica", to="3").max_gpu_per_replica == 3
    assert changed("default_quota", "memory", to="1.5Gi").default_quota.memory_bytes == 3 * 2**29


def test_locked_images_are_the_only_ones(changed: Any) -> None:
    assert get_catalog().images.allows("any/other:1")
    images = changed("images", "locked", to=True).images
    assert not images.allows("any/other:1")
    assert images.allows(images.offered[0].reference)


def test_sizes_of_notebooks_come_in_the_order_of_the_catalog(changed: Any) -> None:
    assert list(changed("notebooks", "sizes", "offered", to=["large", "small"]).notebook_sizes) == [
        "small",
        "large",
    ]
