"""A migrated SQLite database for tests that are about databases, made once; a Redis that is chosen within a test."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from channels.layers import channel_layers

from tests.portal.databases import migrate, sqlite


@pytest.fixture(scope="session")
def migrated(tmp_path_factory, django_db_blocker) -> Path:
    """One of this code, to copy; nobody is in it."""
    path = tmp_path_factory.mktemp("migrated") / "homeport.sqlite3"
    with django_db_blocker.unblock(), sqlite(path):
        migrate()
    return path


@pytest.fixture
def layer_at(settings: Any) -> Iterator[Callable[[str], None]]:
    """`layer_at(url)`: messages go by this Redis from now on."""
    layer = "channels_redis.pubsub.RedisPubSubChannelLayer"

    def choose(url: str) -> None:
        settings.CHANNEL_LAYERS = {"default": {"BACKEND": layer, "CONFIG": {"hosts": [url]}}}
        channel_layers.backends.clear()

    yield choose
    channel_layers.backends.clear()
