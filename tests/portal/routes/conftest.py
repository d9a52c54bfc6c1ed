"""The scene of the route tests: built once for each module, since every call is undone."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction

from portal.storage import get_store
from tests.portal.routes.scene import Scene


@pytest.fixture(scope="module")
def scene(django_db_setup: None, django_db_blocker: Any) -> Iterator[Scene]:
    with django_db_blocker.unblock(), transaction.atomic():
        made = Scene()
        yield made
        transaction.set_rollback(True)
        for things in made.things.values():
            get_store().delete(things.artifact.storage_key)
