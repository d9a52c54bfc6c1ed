"""A pod reaches nothing of the portal but its own door, whatever it calls itself, and no more of that than its part."""

import pytest

from portal.server.pods_pace import LEAST_WAITING, PER_S
from tests.e2e.pods_door import flood_every_route, try_everything
from tests.e2e.portal import Portal, Rest

pytestmark = pytest.mark.e2e


def test_a_pod_gets_nothing_but_its_own_door(portal: Portal, ada: Rest) -> None:
    try_everything(portal, ada, "http://10.244.0.1:8000")


def test_a_flood_by_one_token_is_refused_on_every_route(
    portal: Portal, ada: Rest, lin: Rest
) -> None:
    for path, (seconds, said) in flood_every_route(portal, ada, lin).items():
        most = (PER_S + 1) * (seconds + 1) + LEAST_WAITING
        assert sum(said.values()) - said.get("429", 0) <= most, (path, said)
        assert said["429"] > 0, (path, said)
        # Answered by what each is, and not by what a flood does to the portal.
        assert set(said) <= {"200", "400", "404", "409", "410", "413", "429"}, (path, said)
