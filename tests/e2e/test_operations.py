"""What an admin does to an installation while work runs on its cluster: the portal alone is stopped and started."""

import html
import re
from collections.abc import Iterator
from typing import Any

import pytest

from onebox.testing.kube import Kube
from tests.e2e.portal import Rest, new_home
from tests.e2e.test_services import Service
from tests.tools.waiting import wait_for
from tests.upgrade.old import OURS
from tests.upgrade.parts import LAB, Parts, started

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
    with started(Parts(new_home("operations")), OURS) as made:
        yield made


def log_is_whole(person: Rest, job: dict[str, Any]) -> None:
    """It ended well, and what is kept has each line once and in order."""
    person.wait(job, "succeeded", timeout_s=180)
    kept = person.text(f"jobs/{job['id']}/logs/?download=1")
    assert [int(n) for n in re.findall(r"count (\d+)$", kept, re.MULTILINE)] == list(range(LINES))


def is_on_the_health_page(parts: Parts, words: str) -> None:
    """Soon."""
    root, url = parts.session("root"), f"{parts.url}/admin/health/"

    def look() -> bool:
        text = html.unescape(root.get(url, timeout=30).text)
        return words in " ".join(text.split())

    wait_for(f"the health page says {words}", look, interval_s=1)


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
    unknown = f"1 that this Homeport's database does not know: {home['namespace']}"
    is_on_the_health_page(parts, unknown)
    listed = parts.run("manage.py", "adopt")
    assert f"{home['namespace']}  of bob, who is new" in listed
    assert "Volumes that no row knows: 2" in listed
    assert "Claims that no row knows: 2" in listed
    assert "TensorBoards that no row knows: 2" in listed
    assert "Services without a root that no row knows: 0" in listed
    parts.run("manage.py", "adopt", "--yes")
    again = parts.run("manage.py", "adopt")
    assert "Namespaces that no row knows: 0" in again
    assert "Volumes that no row knows: 0" in again
    assert "Claims that no row knows: 0" in again

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


def test_another_secret_key_while_work_runs(parts: Parts) -> None:
    """What the key of before has signed stays good: sessions, tokens of pods, the way through a gate."""
    ada = parts.sign_in("ada")
    browser = parts.session("ada")
    namespace = ada.tenant()["namespace"]
    notebook = Service(ada, "notebook", name="stays", image=LAB)
    notebook.wait("running", timeout_s=300)
    notebook.enter().get("api/contents")
    training = ada.submit(name="goes on", **COUNTING)
    ada.wait(training, "running")
    before = parts.pods(namespace, {training["id"], notebook.id})
    parts.end_portal()
    old = (parts.home / "secret_key").read_text().strip()
    parts.environment |= {
        "HOMEPORT_SECRET_KEY": "another key of fifty characters and more, for the test",
        "HOMEPORT_SECRET_KEY_FALLBACKS": old,
    }
    parts.serve()
    page = browser.get(f"{parts.url}/trainings/", allow_redirects=False, timeout=30)
    assert page.status_code == 200
    assert notebook.enter().get("api/contents").ok  # a new ticket, for a gate of the old key
    later = Service(ada, "notebook", name="of the new key", image=LAB)
    later.wait("running", timeout_s=120)
    assert later.enter().get("api/contents").ok
    assert parts.pods(namespace, {training["id"], notebook.id}) == before
    log_is_whole(ada, training)  # its pods bring their log by the token of before
    # Without the old key a session of it is void: what is asked above is not good by itself.
    parts.end_portal()
    parts.environment["HOMEPORT_SECRET_KEY_FALLBACKS"] = ""
    parts.serve()
    again = parts.session("ada")
    assert again.get(f"{parts.url}/trainings/", allow_redirects=False).status_code == 200
    with pytest.raises(AssertionError):
        notebook.enter()
    strange = "1 workload that runs was started under a HOMEPORT_SECRET_KEY that is not known"
    is_on_the_health_page(parts, strange)
    assert later.enter().get("api/contents").ok
    parts.end_portal()
