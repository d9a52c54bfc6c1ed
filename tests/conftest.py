"""What holds for every test: Hypothesis judges what it finds, and not how long that took.

Other processes have the same cores, and one that stands still for a moment is no finding.

With --servers-only those tests run that a PostgreSQL or a Redis can change: they have a database, or
the channel layer.
"""

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import SyncToAsync
from channels.layers import get_channel_layer
from django.conf import settings as django_settings
from django.db import connections
from hypothesis import HealthCheck, settings

# Web servers and reconcilers of tests run apart, mostly without Redis; `serve` would refuse that.
os.environ.setdefault("ACCEPT_INSECURE", "no-redis")

settings.register_profile("homeport", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("homeport")

# pytest-django's own that give a test the database, and ours that do.
_OF_SERVERS = {"db", "transactional_db", "scene", "channel_layer"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--servers-only",
        action="store_true",
        help="only tests with a database or the channel layer",
    )


def pytest_configure() -> None:
    """pytest-django gives each worker a database in memory where the backend is Django's own SQLite."""
    database = django_settings.DATABASES["default"]
    if database["ENGINE"] == "portal.database.sqlite":
        database.setdefault("TEST", {})["NAME"] = ":memory:"


def uses_servers(item: pytest.Item) -> bool:
    """Whether a test has a database or the channel layer."""
    fixtures = set(getattr(item, "fixturenames", ()))
    return bool(fixtures & _OF_SERVERS) or item.get_closest_marker("django_db") is not None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--servers-only"):
        left_out = [item for item in items if not uses_servers(item)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if uses_servers(item)]


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None) -> Iterator[None]:
    """PostgreSQL drops no database with connections: also that of async tests' thread is closed."""
    yield
    SyncToAsync.single_thread_executor.submit(connections.close_all).result()


@pytest.fixture(autouse=True)
def _no_download_goes_on() -> Iterator[None]:
    """What a test has not closed is no download of the next one's people, who have the same keys."""
    yield
    if downloads := sys.modules.get("portal.web.downloads"):
        downloads.places._used.clear()


@pytest.fixture
def channel_layer() -> Any:
    """The layer by which processes tell each other, and pages, what is new."""
    return get_channel_layer()
