"""Gets the image of a container: pull policy, events, progress and back-off.

Rules and words: pkg/kubelet/images/image_manager.go.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from onebox.node.backoff import INITIAL_S, Backoff
from onebox.node.client import Json
from onebox.node.images import ImageError, Images
from onebox.node.spec import ImageEnv

# How long ErrImagePull is shown before the wait is called ImagePullBackOff.
SHOW_ERROR_S = 1.0

Tell = Callable[[str, str, str], None]
"""tell(type, reason, message): records an event about the container."""


class PullError(Exception):
    """The image is not there; the container waits with this reason and message."""

    def __init__(self, reason: str, message: str, retry_at_s: float) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.retry_at_s = retry_at_s


def pull_policy(container: Json) -> str:
    """Give the policy, defaulted as upstream: Always for tag latest, else IfNotPresent."""
    policy = container.get("imagePullPolicy")
    if policy:
        return str(policy)
    image = str(container.get("image", ""))
    name = image.rpartition("/")[2]
    is_latest = "@" not in name and (":" not in name or name.endswith(":latest"))
    return "Always" if is_latest else "IfNotPresent"


@dataclass
class Puller:
    """The image of one container of one pod; remembers failures for the back-off."""

    images: Images
    tell: Tell
    on_progress: Callable[[str], None]
    backoff: Backoff = field(default_factory=Backoff)
    failed_at_s: float | None = None
    problem: ImageError | None = None

    async def obtain(self, container: Json) -> ImageEnv:
        """Return the image, pulling it when the policy says so.

        Raises:
            PullError: it cannot be had now.
        """
        image, policy = str(container["image"]), pull_policy(container)
        present = self.images.is_present(image)
        if present is not None and policy != "Always":
            self.tell("Normal", "Pulled", f'Container image "{image}" already present on machine')
            return present
        if policy == "Never":
            text = f'Container image "{image}" is not present with pull policy of Never'
            if lacking := self.images.lacking(image):
                text += f": it {lacking}"
            self.tell("Warning", "ErrImageNeverPull", text)
            self.tell("Warning", "Failed", "Error: ErrImageNeverPull")
            raise PullError("ErrImageNeverPull", text, time.monotonic() + INITIAL_S)
        self._check_back_off(image)
        return await self._pull(image)

    async def _pull(self, image: str) -> ImageEnv:
        self.tell("Normal", "Pulling", f'Pulling image "{image}"')
        began_s = time.monotonic()
        try:
            pulled = await self.images.ensure(image, self.on_progress)
        except ImageError as error:
            raise self._failed(image, error) from error
        self.failed_at_s = None
        took = f"{time.monotonic() - began_s:.3g}s"
        self.tell(
            "Normal",
            "Pulled",
            f'Successfully pulled image "{image}" in {took} ({took} including waiting). '
            f"Image size: {pulled.size_bytes} bytes.",
        )
        return pulled

    def _failed(self, image: str, error: ImageError) -> PullError:
        now_s = time.monotonic()
        before_s = now_s if self.failed_at_s is None else self.failed_at_s
        self.backoff.tried(before_s, now_s)
        self.failed_at_s, self.problem = now_s, error
        self.tell("Warning", "Failed", f'Failed to pull image "{image}": {error.message}')
        self.tell("Warning", "Failed", f"Error: {error.reason}")
        return PullError(error.reason, error.message, now_s + SHOW_ERROR_S)

    def _check_back_off(self, image: str) -> None:
        """Refuse while the next pull has to wait; the first refusal follows the error itself."""
        if self.failed_at_s is None or self.problem is None:
            return
        retry_at_s = self.failed_at_s + self.backoff.delay_s
        if time.monotonic() >= retry_at_s:
            return
        if self.problem.reason == "InvalidImageName":
            raise PullError(self.problem.reason, self.problem.message, retry_at_s)
        text = f'Back-off pulling image "{image}"'
        self.tell("Normal", "BackOff", text)
        self.tell("Warning", "Failed", "Error: ImagePullBackOff")
        why = f"{self.problem.reason}: {self.problem.message}"
        raise PullError("ImagePullBackOff", f"{text}: {why}", retry_at_s)


class Progress:
    """Passes the latest progress text on, at most once a second, and the last one always."""

    INTERVAL_S = 1.0

    def __init__(self, send: Callable[[str], None]) -> None:
        self._send = send
        self._latest = ""
        self._sent_at_s = -self.INTERVAL_S
        self._timer: asyncio.TimerHandle | None = None

    def __call__(self, text: str) -> None:
        """Take a progress text."""
        self._latest = text
        if self._timer is None:
            wait_s = self._sent_at_s + self.INTERVAL_S - time.monotonic()
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(wait_s, 0.0), self._flush)

    def _flush(self) -> None:
        self._timer = None
        self._sent_at_s = time.monotonic()
        self._send(self._latest)

    def close(self) -> None:
        """Send nothing more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
