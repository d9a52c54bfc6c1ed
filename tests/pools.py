"""Another catalog, for tests."""

from pathlib import Path
from typing import Any

import yaml

from portal.catalog import get_catalog


def set_pools(settings: Any, folder: Path, *pools: dict[str, Any]) -> None:
    """The catalog as it was, with these pools and no others."""
    set_catalog(settings, folder, pools=list(pools))


def set_catalog(settings: Any, folder: Path, **changes: Any) -> None:
    """The catalog as it was, with other values."""
    raw = yaml.safe_load(Path(settings.CATALOG).read_text())
    path = folder / f"catalog-{len(list(folder.iterdir()))}.yaml"
    path.write_text(yaml.safe_dump({**raw, **changes}))
    settings.CATALOG = str(path)
    get_catalog()  # an error of a test's own is told here
