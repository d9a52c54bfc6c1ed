"""Programs that save when they are asked to end, on the embedded cluster. The whole table: tests/jobs/pod."""

import pytest

from tests.e2e.endings import check_that_each_has_saved
from tests.e2e.portal import Portal, Rest

pytestmark = [pytest.mark.e2e, pytest.mark.tensorflow]


def test_what_is_asked_to_end_has_saved(portal: Portal, ada: Rest) -> None:
    check_that_each_has_saved(portal, ada)
