"""A server that starts again in its pod loses no line of its log, on the embedded cluster."""

import pytest

from tests.e2e.portal import Rest
from tests.e2e.starts_again import check_that_every_container_is_read

pytestmark = pytest.mark.e2e


def test_each_line_of_a_server_that_starts_again_is_read(ada: Rest) -> None:
    check_that_every_container_is_read(ada)
