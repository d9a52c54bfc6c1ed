"""The option `--as`: the same tests where pods run in another way (deploy/onebox/tests/onebox_tests/ways.py)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from onebox_tests import ways

# As everywhere: Hypothesis judges what it finds, and not how long that took.
settings.register_profile("onebox", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("onebox")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--as", dest="way", choices=ways.WAYS, help="how pods run")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    way = config.getoption("way", None)
    if way is None or os.environ.get(ways.BEGUN):
        return None
    if way == "user" and os.getuid() != 0:
        print("These tests run as an ordinary user already.")
        return 0
    words = [word for word in config.invocation_params.args if not word.startswith("--junitxml")]
    junit = config.getoption("xmlpath")
    return ways.run(way, words, Path(junit) if junit else None)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("way", None) in {"plain", "docker"}:
        lost = [item for item in items if ways.is_lost(item.path, item.name)]
        config.hook.pytest_deselected(items=lost)
        items[:] = [item for item in items if item not in lost]
