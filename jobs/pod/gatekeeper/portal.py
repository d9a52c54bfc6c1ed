"""The one question that a gate asks the portal: which of these people may be inside?"""

import json
import logging
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import aiohttp

from jobs.pod.gatekeeper import refusals
from jobs.pod.gatekeeper.config import Config

log = logging.getLogger("gate")

TIMEOUT_S = 10.0
MAX_ANSWER_BYTES = 256 * 1024
_GONE = frozenset({"not_found", "deleted", "stopped"})


@dataclass(frozen=True)
class Answer:
    """What the portal said."""

    start: int  # of the service, now
    allowed: frozenset[str]
    now: float  # the portal's time, seconds since 1970


Ask = Callable[[list[str]], Awaitable[Answer]]


@dataclass(frozen=True)
class Portal:
    """The portal's door for this gate."""

    session: aiohttp.ClientSession
    config: Config

    async def ask(self, subjects: list[str]) -> Answer:
        """One question.

        Raises:
            GateRefusal: see `understand`; or no answer.
        """
        url = f"{self.config.portal_url}/internal/v1/services/{self.config.service_id}/gate/"
        try:
            async with self.session.post(
                url,
                json={"start": self.config.start, "subjects": subjects},
                headers={"Authorization": f"Bearer {self.config.portal_token}"},
                timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
                allow_redirects=False,
            ) as response:
                status = response.status
                body = await _read(response)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            log.warning("the portal does not answer: %s", error or type(error).__name__)
            raise refusals.uncertain(self.config.word) from error
        return understand(status, body, self.config.word)


async def _read(response: aiohttp.ClientResponse) -> bytes:
    body = b""
    async for data in response.content.iter_any():
        body += data
        if len(body) > MAX_ANSWER_BYTES:
            break
    return body


def understand(status: int, body: bytes, word: str) -> Answer:
    """The answer.

    Raises:
        GateRefusal: 410 for a 404 or 410 in the portal's own words: there is no such service, or it
            is not to run any more. 503 for all else: a proxy's 404 is no word of the portal.
    """
    try:
        fields: Any = json.loads(body)
        if status in (404, 410) and fields["errors"][0]["code"] in _GONE:
            raise refusals.gone(word)
        if status == 200:
            found = Answer(
                start=int(fields["start"]),
                allowed=frozenset(str(subject) for subject in fields["allowed"]),
                now=float(fields["now"]),
            )
            if math.isfinite(found.now):
                return found
    except (ValueError, KeyError, IndexError, TypeError, OverflowError):
        pass
    log.warning("the portal does not answer: answered %d", status)
    raise refusals.uncertain(word)
