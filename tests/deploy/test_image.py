"""Homeport's own image on the embedded cluster holds what its manifests start."""

import re
import tomllib
from pathlib import Path

import yaml

from deploy.image import FILE, offer_image

ROOT = Path(__file__).resolve().parents[2]


def test_the_image_of_the_catalog_has_all_programs_that_manifests_start(tmp_path: Path):
    offer_image(tmp_path)
    [image] = tomllib.loads((tmp_path / "images" / FILE).read_text())["image"]
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
