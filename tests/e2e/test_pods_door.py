"""A pod reaches nothing of the portal but its own door, whatever it calls itself."""

import pytest

from tests.e2e.pods_door import try_everything
from tests.e2e.portal import Portal, Rest

pytestmark = pytest.mark.e2e


def test_a_pod_gets_nothing_but_its_own_door(portal: Portal, ada: Rest) -> None:
    try_everything(portal, ada, "http://10.244.0.1:8000")
