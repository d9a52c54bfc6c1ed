"""What an admin does to an installation while work runs on its cluster: the portal alone is stopped and started."""

import re
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from onebox.testing.kube import Kube
from tests.e2e.portal import Rest, new_home
from tests.tools.waiting import wait_for
from tests.upgrade.old import OURS
from tests.upgrade.parts import Parts

pytestmark = pytest.mark.e2e

LINES = 600
COUNT = f"import time\nfor n in range({LINES}): print('count', n, flush=True); time.sleep(.1)"
COUNTING: dict[str, Any] = {
    "command": ["python", "-c", COUNT],
    "replicas": {"worker": {"cpu": "1", "memory": "256Mi"}},
}
MAKE_BOB = (
    "from tenants.models import User; from tenants.actions import ensure_tenant; "
    "from tests.e2e.portal import PASSWORD; "
    "ensure_tenant(user=User.objects.create_user('bob', password=PASSWORD))"
)


@pytest.fixture
def parts() -> Iterator[Parts]:
    made = Parts(new_home("operations"))
    made.home.mkdir()
    try:
        made.start_old(OURS)
        yield made
    finally:
        made.kill_everything()
        if made.box is not None:
            made.box.kill()
        shutil.rmtree(made.home.parent, ignore_errors=True)


def log_is_whole(person: Rest, job: dict[str, Any]) -> None:
    """It ended well, and what is kept has each line once and in order."""
    person.wait(job, "succeeded", timeout_s=180)
    kept = person.text(f"jobs/{job['id']}/logs/?download=1")
    assert [int(n) for n in re.findall(r"count (\d+)$", kept, re.MULTILINE)] == list(range(LINES))


def claims(parts: Parts, namespace: str) -> set[str]:
    found = Kube(parts.kubeconfig).items(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims")
    return {claim["metadata"]["uid"] for claim in found}


def test_a_lost_database_is_restored_and_what_came_since_is_adopted(parts: Parts) -> None:
    ada = parts.sign_in("ada")
    namespace = ada.tenant()["namespace"]
    training = ada.submit(name="goes on", **COUNTING)
    ada.wait(training, "running")
    backup = str(parts.home.parent / "night.backup")
    assert "is whole" in parts.run("manage.py", "backup", backup)
    parts.run("manage.py", "shell", "-v0", "-c", MAKE_BOB)
    bob = parts.sign_in("bob")
    home = bob.tenant()
    orphans = [(who, who.submit(name="unknown", **COUNTING)) for who in (ada, bob)]
    for who, job in orphans:
        who.wait(job, "running")
    volumes = claims(parts, home["namespace"])
    assert len(volumes) == 2

    parts.end_portal()
    for path in parts.home.glob("homeport.sqlite3*"):
        path.unlink()
    parts.run("manage.py", "restore", backup)
    parts.serve()
    listed = parts.run("manage.py", "adopt")
    assert f"{home['namespace']}  of bob, who is new" in listed
    assert "Volumes that no row knows: 2" in listed
    assert "TensorBoards that no row knows: 2" in listed
    parts.run("manage.py", "adopt", "--yes")
    again = parts.run("manage.py", "adopt")
    assert "Namespaces that no row knows: 0" in again
    assert "Volumes that no row knows: 0" in again

    root = parts.sign_in("root")

    def adopted() -> Any:
        rows = root.get("tenants/")["results"]
        return next(row for row in rows if row["namespace"] == home["namespace"])

    wait_for("bob's namespace is active", lambda: adopted()["state"] == "active")
    assert adopted()["id"] == home["id"]
    assert claims(parts, home["namespace"]) == volumes
    assert "Deleted 2." in parts.run("manage.py", "adopt", "--delete-roots", typed="2\n")
    # What the backup knew ends as it would have; its token is from before the restore, as is ada's.
    log_is_whole(ada, training)
    assert ada.tenant()["namespace"] == namespace
    gone = {job["id"] for _, job in orphans}
    wait_for(
        "the pods are gone",
        lambda: not any(parts.pods(name, gone) for name in (namespace, home["namespace"])),
        timeout_s=90,
    )
    parts.end_portal()
