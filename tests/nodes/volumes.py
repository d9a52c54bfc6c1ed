"""The class `glusterfs` on real nodes, as its component makes it, without the rest of Homeport."""

import json
import os

from deploy.testcluster.nodes.cluster import NodeCluster
from tests.e2e.portal import ROOT
from tests.nodes.pods import Pods
from tests.tools.waiting import wait_for

# Of nodes where the volume is mounted.
SELECTOR = {"homeport.dev/gluster": "ready"}


def install_volumes(cluster: NodeCluster, pods: Pods) -> None:
    """Ends when all nodes have the volume, and the label of it."""
    home = cluster.home / "volumes"
    home.mkdir()
    place = os.path.relpath(ROOT / "deploy/kubernetes/components/storage-gluster", home)
    # Homeport's own settings, which the component adds to, are not installed here.
    settings = {
        "name": "homeport",
        "namespace": "homeport",
        "literals": ["LISTEN=0.0.0.0"],
        "options": {"annotations": {"config.kubernetes.io/local-config": "true"}},
    }
    site = {"configMapGenerator": [settings], "components": [place]}
    (home / "kustomization.yaml").write_text(json.dumps(site))
    pods.must("apply", "-k", str(home))
    selector = ",".join(f"{key}={value}" for key, value in SELECTOR.items())
    wait_for(
        "all nodes have the volume",
        lambda: len(pods.get("nodes", "-l", selector)["items"]) == len(cluster.nodes),
        timeout_s=90,
    )
