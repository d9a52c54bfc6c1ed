"""Pull policies, back-off and progress."""

from __future__ import annotations

import asyncio
import time

import pytest

from onebox.node.images import ImageError
from onebox.node.pulls import Progress, Puller, PullError, pull_policy
from onebox.node.spec import ImageEnv
from onebox_tests.node_kubelet.pods import container

POLICIES = [
    ("python:3.11-slim", None, "IfNotPresent"),
    ("python", None, "Always"),
    ("python:latest", None, "Always"),
    ("registry:5000/python", None, "Always"),
    ("registry:5000/python:1", None, "IfNotPresent"),
    ("python@sha256:abc", None, "IfNotPresent"),
    ("python", "Never", "Never"),
]


@pytest.mark.parametrize(("image", "given", "wanted"), POLICIES)
def test_the_policy_defaults_by_the_tag(image: str, given: str | None, wanted: str):
    assert pull_policy({"image": image, "imagePullPolicy": given}) == wanted


class Shelf:
    """Images of which some are present and some can be pulled."""

    def __init__(self, present: set[str], pullable: set[str]) -> None:
        self.present, self.pullable, self.pulled = present, pullable, 0

    def is_present(self, reference: str) -> ImageEnv | None:
        return ImageEnv(reference, "sha256:1", {}) if reference in self.present else None

    def lacking(self, reference: str) -> str:
        return ""

    async def ensure(self, reference: str, on_progress) -> ImageEnv:
        self.pulled += 1
        on_progress("half way")
        if reference not in self.pullable:
            raise ImageError("ErrImagePull", f"{reference} is not known")
        self.present.add(reference)
        return ImageEnv(reference, "sha256:1", {}, size_bytes=7)


def puller(shelf: Shelf) -> tuple[Puller, list[str]]:
    told: list[str] = []
    made = Puller(shelf, lambda _type, reason, message: told.append(f"{reason}: {message}"), print)
    made.on_progress = told.append
    return made, told


async def test_a_present_image_is_not_pulled():
    shelf = Shelf({"a:1"}, set())
    made, told = puller(shelf)
    await made.obtain(container(image="a:1"))
    assert shelf.pulled == 0
    assert told == ['Pulled: Container image "a:1" already present on machine']


async def test_a_pull_tells_its_progress():
    made, told = puller(Shelf(set(), {"a:1"}))
    assert (await made.obtain(container(image="a:1"))).size_bytes == 7
    assert told[:2] == ['Pulling: Pulling image "a:1"', "half way"]
    assert told[2].startswith('Pulled: Successfully pulled image "a:1" in ')


async def test_a_failed_pull_backs_off_and_is_tried_again(monkeypatch: pytest.MonkeyPatch):
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    shelf = Shelf(set(), set())
    made, told = puller(shelf)
    with pytest.raises(PullError) as first:
        await made.obtain(container(image="a:1"))
    assert (first.value.reason, first.value.retry_at_s) == ("ErrImagePull", now + 1)
    now += 1
    with pytest.raises(PullError) as second:
        await made.obtain(container(image="a:1"))
    assert (second.value.reason, second.value.retry_at_s) == ("ImagePullBackOff", 1010.0)
    assert "a:1 is not known" in second.value.message
    assert shelf.pulled == 1
    now = 1010.0
    shelf.pullable.add("a:1")
    await made.obtain(container(image="a:1"))
    assert shelf.pulled == 2
    assert 'BackOff: Back-off pulling image "a:1"' in told


async def test_never_means_never():
    made, told = puller(Shelf(set(), {"a:1"}))
    with pytest.raises(PullError) as error:
        await made.obtain(container(image="a:1", imagePullPolicy="Never"))
    assert error.value.reason == "ErrImageNeverPull"
    assert "pull policy of Never" in told[0]


async def test_progress_comes_at_most_once_in_an_interval(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Progress, "INTERVAL_S", 0.1)
    sent: list[str] = []
    progress = Progress(sent.append)
    began_s = time.monotonic()
    for number in range(100):
        progress(f"{number}")
        await asyncio.sleep(0.0015)
    async with asyncio.timeout(10):
        while sent[-1] != "99":
            await asyncio.sleep(0.01)
    assert 2 <= len(sent) <= (time.monotonic() - began_s) / Progress.INTERVAL_S + 2
    progress("never shown")
    progress.close()
    await asyncio.sleep(0.12)
    assert sent[-1] == "99"
