"""When a pass over rows looks again: as soon as somebody says that there is work, and every few seconds."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NoReturn

from django.db import DatabaseError

log = logging.getLogger(__name__)

_AGAIN_S = 10.0


async def keep_looking(
    look: Callable[[], Awaitable[None]], wanted: asyncio.Event, what: str
) -> NoReturn:
    """Until it is cancelled, or a look raises.

    Args:
        wanted: set by whoever has changed something.
        what: cannot be done while the database is away, as the log says then.
    """
    while True:
        with suppress(TimeoutError):
            await asyncio.wait_for(wanted.wait(), _AGAIN_S)
        wanted.clear()
        try:
            await look()
        except DatabaseError as error:
            log.warning("%s: %s", what, error)
