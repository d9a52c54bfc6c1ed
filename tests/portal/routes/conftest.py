"""The scene of the route tests: built once for each module, since every call is undone.

No call may speak to the network: the cluster, say, is the reconciler's to ask.
"""

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest
from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from portal.storage import get_store
from tests.portal.routes.scene import Scene
from tests.tools.no_sockets import without_sockets


@pytest.fixture(scope="module")
def scene(django_db_setup: None, django_db_blocker: Any) -> Iterator[Scene]:
    # An answer that a test closes ends a request, and would end the connection with the scene's transaction.
    stays = patch.object(BaseDatabaseWrapper, "close_if_unusable_or_obsolete")
    with django_db_blocker.unblock(), transaction.atomic(), stays:
        made = Scene()
        with without_sockets():
            yield made
        transaction.set_rollback(True)
        for things in made.things.values():
            get_store().delete(things.artifact.storage_key)
