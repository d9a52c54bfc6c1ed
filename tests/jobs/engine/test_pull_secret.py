"""The logins of PORTAL_PULL_SECRET_FILE in each namespace: made, used by every pod, renewed, and away."""

import json
from pathlib import Path
from typing import Any

import pytest

from jobs.kinds.manifests import PULL_SECRET
from tests.jobs.engine.kubelet import Life
from tests.jobs.engine.world import World

pytestmark = pytest.mark.django_db(transaction=True)


def logins(password: str) -> str:
    return json.dumps({"auths": {"registry.lab": {"username": "homeport", "password": password}}})


def made(world: World) -> list[str]:
    found = [one for one in world.sim.of("Secret") if one["metadata"]["name"] == PULL_SECRET]
    assert all(one["type"] == "kubernetes.io/dockerconfigjson" for one in found)
    return [one["stringData"][".dockerconfigjson"] for one in found]


async def test_each_namespace_has_the_latest(settings: Any, tmp_path: Path) -> None:
    file = tmp_path / "logins"
    settings.PORTAL_PULL_SECRET_FILE = str(file)
    world = World()
    world.sim.lives = {"worker-0": [Life("hang"), Life("hang")]}
    await world.start()
    first = await world.submit()
    # Without the file nothing starts, and nothing is given up.
    for _ in range(5):
        await world.round()
    assert not world.sim.of("Pod")
    file.write_text(logins("one"))
    await world.until(lambda now: now.state == "running", of=first, rounds=200)
    for pod in world.sim.of("Pod"):
        assert pod["spec"]["imagePullSecrets"] == [{"name": PULL_SECRET}]
    assert made(world) == [logins("one")]
    file.write_text(logins("two"))
    second = await world.submit(name="second")
    await world.until(lambda now: now.state == "running", of=second, rounds=200)
    assert made(world) == [logins("two")]
