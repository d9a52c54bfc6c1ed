"""What an image needs of the machine: named where it is missing, at the pull and at each start."""

from __future__ import annotations

import sys

import pytest

from onebox.node.images import Images
from onebox.node.pulls import Puller, PullError
from onebox.node.sandbox import ImageEnv

from .wheels import SLIM, define

pytestmark = pytest.mark.usefixtures("cache")

RUNNING = ".".join(map(str, sys.version_info[:3]))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ('python = "3.99"', f"needs Python 3.99; this node runs {RUNNING}"),
        (
            'host_files = [{ path = "/no/such/torch", install = "apt-get install x" }]',
            "needs what this machine does not have; install it: apt-get install x",
        ),
        (
            'mounts = [{ source = "no/such/folder", path = "/opt/x" }]',
            "contains a folder of this machine as /opt/x, and the folder is not there",
        ),
    ],
)
@pytest.mark.parametrize("policy", ["Always", "IfNotPresent", "Never"])
async def test_what_an_image_needs_and_is_not_there_is_named(home, more, words, policy):
    images = Images(home)
    await images.ensure(SLIM, lambda _line: None)  # the same environment: both require nothing
    define(home, "", f"{more}\n")
    await assert_lacking(images, policy, words)


@pytest.mark.parametrize(
    ("field", "words"),
    [
        (
            'host_files = [{{ path = "{path}", install = "apt-get install x" }}]',
            "apt-get install x",
        ),
        (
            'mounts = [{{ source = "{path}", path = "/opt/x" }}]',
            "contains a folder of this machine",
        ),
    ],
)
@pytest.mark.parametrize("policy", ["Always", "IfNotPresent", "Never"])
async def test_what_was_removed_after_the_pull_is_missed_at_the_next_start(
    home, field, words, policy
):
    needed = home / "needed"
    needed.mkdir()
    define(home, "", field.format(path=needed))
    images = Images(home)
    image = await images.ensure("test/hello:1", lambda _line: None)
    assert image.image_id != (await images.ensure(SLIM, lambda _line: None)).image_id
    assert (await pull(images, policy)).image_id == image.image_id
    needed.rmdir()
    await assert_lacking(images, policy, words)
    assert words in images.all_lacks()["docker.io/test/hello:1"]
    needed.mkdir()  # installed again, it works without a restart
    assert images.all_lacks()["docker.io/test/hello:1"] == ""
    assert (await pull(images, policy)).image_id == image.image_id


async def pull(images: Images, policy: str) -> ImageEnv:
    """Have the image for a container, with its events told to nobody."""
    container = {"image": "test/hello:1", "imagePullPolicy": policy}
    return await Puller(images, lambda *_: None, lambda _line: None).obtain(container)


async def assert_lacking(images: Images, policy: str, words: str) -> None:
    with pytest.raises(PullError) as caught:
        await pull(images, policy)
    assert caught.value.reason == ("ErrImageNeverPull" if policy == "Never" else "ErrImagePull")
    assert words in caught.value.message
