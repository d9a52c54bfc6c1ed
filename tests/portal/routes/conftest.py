"""The scene of the route tests: built once for each module, since every call is undone.

No call may speak to the network: the cluster, say, is the reconciler's to ask.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction

from portal.storage import get_store
from tests.portal.routes.scene import Scene
from tests.tools.no_sockets import without_sockets


@pytest.fixture(scope="module")
def scene(django_db_setup: None, django_db_blocker: Any) -> Iterator[Scene]:
    with django_db_blocker.unblock(), transaction.atomic():
        made = Scene()
        with without_sockets():
            yield made
        transaction.set_rollback(True)
        for things in made.things.values():
            get_store().delete(things.artifact.storage_key)
