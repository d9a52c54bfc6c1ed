"""A catalog with pools, for tests."""

from pathlib import Path
from typing import Any

import yaml

from portal.catalog import get_catalog


def set_pools(settings: Any, folder: Path, *pools: dict[str, Any]) -> None:
    """The catalog as it was, with these pools and no others."""
    raw = yaml.safe_load(Path(settings.CATALOG).read_text())
    path = folder / f"catalog-{len(list(folder.iterdir()))}.yaml"
    path.write_text(yaml.safe_dump({**raw, "pools": list(pools)}))
    settings.CATALOG = str(path)
    get_catalog()  # an error of a test's own is told here
