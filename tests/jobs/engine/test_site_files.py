"""Files of the installation in each namespace: made, used by every pod, renewed, and away."""

import json
from pathlib import Path
from typing import Any

import pytest

from jobs.kinds.manifests import AUTHORITIES, PULL_SECRET
from tests.jobs.engine.kubelet import Life
from tests.jobs.engine.world import World
from tests.tools.authority import Authority

pytestmark = pytest.mark.django_db(transaction=True)


def logins(folder: Path) -> str:
    return json.dumps({"auths": {"registry.lab": {"auth": folder.name}}})


def authorities(folder: Path) -> str:
    return "# Főtanúsítvány\r\n" + Authority(folder).pem.decode()


# Setting, what it holds, and where that is in the cluster.
FILES: list[Any] = [
    ("PORTAL_PULL_SECRET_FILE", logins, "Secret", PULL_SECRET, "stringData", ".dockerconfigjson"),
    ("POD_AUTHORITIES_FILE", authorities, "ConfigMap", AUTHORITIES, "data", "authorities.pem"),
]


@pytest.mark.parametrize(("setting", "content", "kind", "name", "part", "key"), FILES)
async def test_each_namespace_has_the_latest(
    settings: Any,
    tmp_path: Path,
    setting: str,
    content: Any,
    kind: str,
    name: str,
    part: str,
    key: str,
) -> None:
    file = tmp_path / "file"
    setattr(settings, setting, str(file))
    world = World()
    world.sim.lives = {"worker-0": [Life("hang"), Life("hang")]}

    def made() -> list[str]:
        found = [one for one in world.sim.of(kind) if one["metadata"]["name"] == name]
        return [one[part][key] for one in found]

    await world.start()
    first = await world.submit()
    # Without the file nothing starts, and nothing is given up.
    for _ in range(5):
        await world.round()
    assert not world.sim.of("Pod")
    one, two = content(tmp_path / "one"), content(tmp_path / "two")
    file.write_bytes(one.encode())
    await world.until(lambda now: now.state == "running", of=first, rounds=200)
    for pod in world.sim.of("Pod"):
        used = (pod["spec"].get("imagePullSecrets", []), pod["spec"]["volumes"])
        assert {"name": name} in used[0] or {
            "name": "authorities",
            "configMap": {"name": name},
        } in used[1]
    assert made() == [one]
    file.write_bytes(two.encode())
    second = await world.submit(name="second")
    await world.until(lambda now: now.state == "running", of=second, rounds=200)
    assert made() == [two]
