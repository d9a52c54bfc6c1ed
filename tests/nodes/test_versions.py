"""One version up and back, with work running: between them is a migration that says that the version before may go on with it.

In a pytest call of its own: it is installed with the earlier image.
"""

from collections.abc import Iterator

import pytest

from deploy.testcluster.nodes.cluster import NodeCluster
from tests.e2e.test_gate import enter
from tests.e2e.test_services import Service
from tests.image.build import archive
from tests.nodes import counting
from tests.nodes.installed import IMAGE
from tests.nodes.site import EARLIER, Site, lives, two_nodes
from tests.nodes.test_inside import SMALL, START_S
from tests.tools.waiting import wait_for
from tests.upgrade.conftest import or_skip
from tests.upgrade.old import NoHistoryError, unpack
from tests.upgrade.test_running_cluster import Follower

# The one before usage.0003, which adds two tables.
COMMIT = "cad8c85"
NEW = "[X] 0003_utilisation"


@pytest.fixture
def earlier(cluster: NodeCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("earlier")
    try:
        unpack(COMMIT, folder)
    except NoHistoryError as error:
        or_skip(error)
    image = archive(EARLIER, folder)
    with two_nodes(cluster, tmp_path_factory.mktemp("site"), image) as made:
        yield made


def test_one_version_up_and_back_touches_no_pod_and_no_line(earlier: Site) -> None:
    site, ada = earlier, earlier.ada

    def migrations() -> str:
        words = ("exec", "deployment/web", "--", "python", "manage.py", "showmigrations", "usage")
        return site.pods.must("-n", "homeport", *words)

    counts = counting.of(site, "back")
    job = counts.job
    notebook = Service(ada, "notebook", name="kept", cpu="100m", memory="512Mi")
    notebook.wait("running", timeout_s=START_S)
    viewer = Follower(ada, job["id"])
    wait_for("lines come", lambda: len(viewer.lines) > 20)
    before = lives(site.pods_of(job["id"], notebook.id))
    assert NEW not in migrations()

    for image in (IMAGE, EARLIER):
        site.use_image(image)
        assert (NEW in migrations()) is (image == IMAGE)  # the earlier one does not know it
        seen = len(viewer.lines)
        wait_for("lines come again", lambda least=seen + 50: len(viewer.lines) > least)
        assert enter(notebook).status() == 200
        new = ada.submit(name="new one", command=["true"], replicas={"worker": SMALL})
        ada.wait(new, "succeeded", timeout_s=START_S)
        assert lives(site.pods_of(job["id"], notebook.id)) == before

    counts.end()
    wait_for("its log has ended", lambda: viewer.is_over)
    count = viewer.numbers("worker-0")
    assert (count, viewer.skipped) == (list(range(len(count))), 0)
    assert viewer.breaks >= 2
