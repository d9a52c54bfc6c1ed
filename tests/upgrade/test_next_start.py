"""`make run` of the earlier version, stopped; today's on the same HOMEPORT_HOME."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.e2e.portal import ROOT, Portal, new_home
from tests.e2e.test_services import Service
from tests.upgrade.old import FIRST, Old
from tests.upgrade.parts import LAB, NODE_PORTS, offer_lab

pytestmark = pytest.mark.e2e

TRAIN = """
import os
for number in range(200):
    print("step", number, flush=True)
os.makedirs(os.environ["ARTIFACTS_DIR"], exist_ok=True)
open(os.environ["ARTIFACTS_DIR"] + "/model.bin", "wb").write(bytes(range(256)) * 300)
"""
LAB_S = 300  # JupyterLab is pulled first


@pytest.fixture
def home(old: Old, database: dict[str, str]) -> Iterator[Portal]:
    made = Portal(
        new_home("upgrade"),
        environment={**database, "ONEBOX_ARGS": f"--node-port-range {NODE_PORTS}"},
        checkout=old.checkout,
        python=old.python,
    )
    made.home.mkdir()
    offer_lab(made.home)
    try:
        yield made
    finally:
        made.kill_everything()
        shutil.rmtree(made.home.parent, ignore_errors=True)


@pytest.mark.parametrize("old", [FIRST], ids=str, indirect=True)
def test_todays_start_finds_what_the_earlier_version_left(home: Portal) -> None:
    home.start()
    ada = home.sign_in("ada")
    namespace = ada.tenant()["namespace"]
    notebook = Service(ada, "notebook", name="with files", image=LAB)
    job = ada.submit(name="trained before", command=["python", "-c", TRAIN])
    ada.wait(job, "succeeded")
    log = ada.text(f"jobs/{job['id']}/logs/?download=1")
    listed = ada.get(f"jobs/{job['id']}/artifacts/")["results"]
    notebook.wait("running", timeout_s=LAB_S)
    kept = {"type": "file", "format": "text", "content": "still here"}
    assert notebook.enter().put("api/contents/kept.txt", kept).status_code == 201
    notebook.do("stop")
    notebook.wait("stopped", timeout_s=120)
    before = ada.get(f"jobs/{job['id']}/")
    assert home.stop() == 0

    home.checkout, home.python = ROOT, sys.executable
    if "DATABASE_URL" in home.environment:
        migrate(home)
    home.start()
    again = home.sign_in("ada")
    assert again.get("me/")["tenant"]["namespace"] == namespace
    after = again.get(f"jobs/{job['id']}/")
    del before["revision"]  # counts what was written since, too
    assert {key: after[key] for key in before} == before
    page = home.session("ada").get(f"{home.url}/trainings/{job['id']}/", timeout=30)
    assert "trained before" in page.text
    assert again.text(f"jobs/{job['id']}/logs/?download=1") == log
    assert re.findall(r"step (\d+)", log) == [str(number) for number in range(200)]
    assert again.get(f"jobs/{job['id']}/artifacts/")["results"] == listed
    [model] = [row for row in listed if row["path"].endswith("model.bin")]
    answer = again.call("GET", f"jobs/{job['id']}/artifacts/{model['id']}/")
    assert answer.content == bytes(range(256)) * 300
    ada.token = again.token
    assert notebook.get()["state"] == "stopped"
    notebook.do("start")
    notebook.wait("running", timeout_s=LAB_S)
    assert notebook.enter().get("api/contents/kept.txt").json()["content"] == "still here"
    again.wait(again.submit(name="trained after", command=["true"]), "succeeded")
    assert home.stop() == 0


def migrate(home: Portal) -> None:
    """What `make run` leaves to people where the database is a server."""
    subprocess.run(
        [sys.executable, "manage.py", "migrate"],
        cwd=ROOT,
        env={
            **{k: v for k, v in os.environ.items() if k != "DJANGO_SETTINGS_MODULE"},
            "HOMEPORT_HOME": str(home.home),
            **home.environment,
        },
        check=True,
        timeout=120,
    )
