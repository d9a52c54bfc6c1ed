"""Homeport's own image on the embedded cluster holds what its manifests start."""

import re
import tomllib
from pathlib import Path
from typing import Any

import yaml

from deploy.image import FILE, offer_image

ROOT = Path(__file__).resolve().parents[2]


def tables(file: Path) -> list[dict[str, Any]]:
    """The definitions of a file."""
    return list(tomllib.loads(file.read_text())["image"])


def by_reference(file: Path) -> dict[str, tuple[Path, dict[str, Any]]]:
    return {image["reference"]: (file, image) for image in tables(file)}


def requirements(file: Path, image: dict[str, Any]) -> str:
    """What is installed for a definition."""
    name = image.get("requirements")
    return (file.parent / name).read_text() if name else ""


def test_the_image_of_the_catalog_has_all_programs_that_manifests_start(tmp_path: Path):
    offer_image(tmp_path)
    image, _older = tables(tmp_path / "images" / FILE)
    catalog = yaml.safe_load((ROOT / "portal" / "catalog.yaml").read_text())
    assert image["reference"] == catalog["portal_image"]
    assert "aiohttp==" in Path(image["requirements"]).read_text()
    templates = (ROOT / "templates" / "manifests").glob("*.j2")
    started = {
        word for file in templates for word in re.findall(r'"(/opt/[^"]+\.py)"', file.read_text())
    }
    [mount] = image["mounts"]
    held = {f"{mount['path']}/{path.name}" for path in Path(mount["source"]).glob("*.py")}
    assert len(started) > 3
    assert started <= held


def test_node_halves_of_older_versions_find_images_where_they_look(tmp_path: Path):
    """Of the same requirements, so that nothing is installed anew."""
    offer_image(tmp_path)
    ours = ROOT / "deploy" / "onebox" / "src" / "onebox" / "images" / "images.toml"
    now = by_reference(ours) | by_reference(tmp_path / "images" / FILE)
    before = by_reference(ROOT / "deploy" / "onebox" / "images" / "images.toml")
    added = now.keys() - before.keys()
    labs = {"jax:0.10", "mpich:5.0", "openmpi:5.0", "torch:1.13-cpu"}
    newer = "ghcr.io/homeport/homeport:0.2.0"
    assert added == {"scratch:shell", newer} | {f"lab/{name}" for name in labs}
    assert all(requirements(*before[name]) == requirements(*now[name]) for name in before)
    homeport = "ghcr.io/homeport/homeport:0.1.0"
    [mount], [wanted] = before[homeport][1]["mounts"], now[homeport][1]["mounts"]
    assert {**mount, "source": str(ROOT / mount["source"])} == wanted
