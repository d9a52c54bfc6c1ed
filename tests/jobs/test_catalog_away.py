"""What goes on, and what is said, while the file of the catalog is away or cannot be used."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.urls import reverse

from tests.browsing import client_of
from tests.factories import make_job, make_service, make_tenant, make_user, submit_body
from tests.jobs.engine.kubelet import Life
from tests.jobs.engine.world import World
from tests.pools import set_pools

pytestmark = pytest.mark.django_db(transaction=True)


def gone(path: Path) -> None:
    path.unlink()


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def pointing_at_itself(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def wrong(path: Path) -> None:
    path.write_text("pools: 3")


AWAY = pytest.mark.parametrize("lose", [gone, a_folder, pointing_at_itself, wrong])
Lose = Callable[[Path], None]


@AWAY
async def test_the_reconciler_goes_on_and_starts_nothing(
    settings: Any, tmp_path: Path, lose: Lose
) -> None:
    set_pools(settings, tmp_path)
    world = World()
    world.sim.lives = {"worker-0": [Life("hang")]}
    runs = await world.submit(name="runs")
    await world.until(lambda row: row.state == "running", of=runs)
    good = Path(settings.CATALOG).read_bytes()
    lose(Path(settings.CATALOG))
    waits = await world.submit(name="waits")
    await world.rest(2)
    row = await world.row(waits)
    assert (row.state, row.reason_code) == ("queued", "catalog_wrong"), row.reason_text
    assert settings.CATALOG in row.reason_text
    world.about = runs
    await world.intend(desired="stop")
    await world.until(lambda row: row.state == "stopped", of=runs)
    settings.CATALOG = str(tmp_path / "again.yaml")
    Path(settings.CATALOG).write_bytes(good)
    await world.until(lambda row: row.state in {"starting", "running"}, of=waits)


@AWAY
def test_pages_are_there_and_what_needs_it_says_so(
    settings: Any, tmp_path: Path, lose: Lose
) -> None:
    alice, root = make_tenant(), make_user("root", role="admin")
    job, book = make_job(alice, state="running"), make_service(alice, state="running")
    set_pools(settings, tmp_path)
    lose(Path(settings.CATALOG))
    browser, admin = client_of(alice), client_of(root)
    browser.raise_request_exception = False
    for name in (
        "home",
        "nodes",
        "queue",
        "jobs",
        "notebooks",
        "account",
        "api-jobs",
        "api-notebooks",
        "api-nodes",
    ):
        assert browser.get(reverse(name)).status_code == 200, name
    for name, row in (("job", job), ("api-job", job), ("notebook", book), ("api-notebook", book)):
        assert browser.get(reverse(name, args=[row.pk])).status_code == 200, name
    for name in ("job-new", "notebook-new"):
        form = browser.get(reverse(name))
        assert form.status_code == 503, name
        assert "The catalog cannot be used" in form.content.decode()
        assert settings.CATALOG not in form.content.decode(), "which is the admins' to know"
    submit = browser.post(reverse("api-jobs"), submit_body(), "application/json")
    assert submit.status_code == 503
    assert submit.json()["errors"][0]["code"] == "catalog_wrong"
    for name in ("namespaces", "people", "scheduling", "health"):
        page = admin.get(reverse(name))
        assert page.status_code == 200, name
    assert settings.CATALOG in page.content.decode()
