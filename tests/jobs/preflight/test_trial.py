"""What a preflight takes from an installation, and its namespace: removed with all that was made for it, alone."""

import pytest
from django.utils import timezone

from jobs.engine.network import UnknownError
from jobs.preflight import trial
from jobs.preflight.gather import installed_settings, takes_pods
from jobs.preflight.trial import NAMESPACE, Trial
from portal.cluster.client import Cluster
from tests.portal.cluster.conftest import api, cluster  # noqa: F401  (fixtures)
from tests.portal.cluster.fake_api import FakeApi


async def test_what_a_run_makes_goes_with_it_and_another_one_leaves_it_alone(
    api: FakeApi,  # noqa: F811
    cluster: Cluster,  # noqa: F811
) -> None:
    first, second = Trial(cluster, has_claim=True), Trial(cluster, has_claim=True)
    assert await first.frame() == ()
    assert api.has("PersistentVolumeClaim", NAMESPACE, "data")
    meta = {"creationTimestamp": timezone.now().isoformat()}
    api.change("Namespace", "", NAMESPACE, {"metadata": meta})
    assert "is of another preflight" in (await second.frame())[0]
    await second.remove()
    assert api.has("Namespace", "", NAMESPACE)
    await first.remove()
    assert not api.objects  # nor the volume, whose class retains


async def test_a_namespace_that_does_not_go_is_told(
    api: FakeApi,  # noqa: F811
    cluster: Cluster,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trial, "_REMOVAL_S", 0.2)
    left = Trial(cluster, has_claim=False)
    assert await left.frame() == ()
    assert not api.has("PersistentVolumeClaim", NAMESPACE, "data")
    api.empties_namespaces = False
    with pytest.raises(UnknownError, match="does not go"):
        await left.remove()
    assert "does not go" in (await Trial(cluster, has_claim=False).frame())[0]


async def test_nothing_but_settings_comes_from_the_cluster_to_an_administrators_process(
    api: FakeApi,  # noqa: F811
    cluster: Cluster,  # noqa: F811
) -> None:
    data = {"NODE_HOST": "node.lab", "PYTHONWARNINGS": "x", "BROWSER": "x", "CATALOG": "/x.yaml"}
    sources = [{"configMapRef": {"name": "homeport"}}]
    spec = {"template": {"spec": {"containers": [{"name": "web", "envFrom": sources}]}}}
    own = {"namespace": "homeport"}
    api.put({"kind": "ConfigMap", "metadata": {"name": "homeport", **own}, "data": data})
    api.put({"kind": "Deployment", "metadata": {"name": "web", **own}, "spec": spec})
    assert await installed_settings(cluster) == {"NODE_HOST": "node.lab"}


@pytest.mark.parametrize(
    ("taint", "is_taken"),
    [
        ({"key": "nvidia.com/gpu", "effect": "NoSchedule"}, True),
        ({"key": "nvidia.com/gpu", "value": "present", "effect": "NoExecute"}, False),
        ({"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}, False),
        ({"key": "full", "value": "yes", "effect": "PreferNoSchedule"}, True),
    ],
)
def test_nodes_whose_taint_peoples_pods_tolerate_count(
    taint: dict[str, str], is_taken: bool
) -> None:
    status = {"conditions": [{"type": "Ready", "status": "True"}]}
    assert takes_pods({"spec": {"taints": [taint]}, "status": status}) is is_taken
