"""What is asked of a cluster before it is trusted, with every answer that it may give."""

import pytest

from portal.cluster import preflight
from portal.cluster.client import Cluster
from portal.cluster.preflight import CheckResult
from tests.portal.cluster.fake_api import FakeApi, Trouble


async def test_a_cluster_that_has_everything(api: FakeApi, cluster: Cluster) -> None:
    api.has_metrics = True
    api.put({"kind": "Namespace", "metadata": {"name": "u-alice"}})
    api.put(
        {
            "kind": "StorageClass",
            "metadata": {"name": "nfs"},
            "provisioner": "nfs.csi.k8s.io",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
    )
    found = await preflight.look(cluster, "nfs", "u-alice")
    assert (found.version, found.is_old, found.is_complete) == ("v1.33.0", False, True)
    assert found.storage_class == CheckResult("yes", "nfs.csi.k8s.io, WaitForFirstConsumer")
    assert (found.pod_security.state, found.metrics.state) == ("yes", "yes")
    assert not api.has("Pod", "u-alice", "homeport-preflight")
    asked = [a for a in api.requests("POST") if not a.path.endswith("reviews")]
    assert [(a.path, a.query) for a in asked] == [
        ("/api/v1/namespaces/u-alice/pods", {"dryRun": "All"})
    ]


async def test_a_cluster_that_lacks_everything(api: FakeApi, cluster: Cluster) -> None:
    api.honours_pod_security = False
    api.version_name = "v1.32.4+k3s1"
    found = await preflight.look(cluster, "nfs", "u-alice")
    answers = (found.storage_class, found.pod_security, found.metrics)
    assert [answer.state for answer in answers] == ["no", "no", "no"]
    assert found.is_old


async def test_a_quota_that_refuses_the_pod_means_that_nothing_before_it_did(
    api: FakeApi, cluster: Cluster
) -> None:
    body = {"reason": "Forbidden", "message": "exceeded quota: homeport", "code": 403}
    api.trouble.append(Trouble("POST /pods", "status", status=403, body=body))
    found = await preflight.look(cluster, "nfs", "u-alice")
    assert found.pod_security.state == "no"


@pytest.mark.parametrize(("status", "times"), [(403, -1), (503, -1)])
async def test_what_cannot_be_asked_is_unknown_with_the_reason(
    api: FakeApi, cluster: Cluster, status: int, times: int
) -> None:
    body = {"reason": "No", "message": "may not be asked", "code": status}
    api.trouble += [
        Trouble("GET /nfs", "status", times, status=status, body=body),
        Trouble("POST /pods", "status", times, status=status, body=body),
    ]
    found = await preflight.look(cluster, "nfs", "u-alice")
    assert found.storage_class == CheckResult("unknown", "may not be asked")
    assert found.pod_security == CheckResult("unknown", "may not be asked")
    assert not found.is_complete


async def test_without_a_namespace_pod_security_is_not_tried(
    api: FakeApi, cluster: Cluster
) -> None:
    found = await preflight.look(cluster, "nfs", "")
    assert found.pod_security == CheckResult()
    assert not [asked for asked in api.requests("POST") if asked.path.endswith("/pods")]


@pytest.mark.parametrize(
    ("version", "is_old"),
    [("v1.33.0", False), ("v1.32.9", True), ("v2.0.0", False), ("odd", False), ("", False)],
)
def test_versions_are_compared_as_numbers(version: str, is_old: bool) -> None:
    assert preflight.is_older(version, preflight.OLDEST) is is_old
