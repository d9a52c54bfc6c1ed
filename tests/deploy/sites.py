"""Overlays of deploy/kubernetes with the files of a site, as docs/cluster.md writes them."""

import shutil
from pathlib import Path

from tests.tools.manifests import blocks, checkout, run

SMALL = "deploy/kubernetes/overlays/small"
PRODUCTION = "deploy/kubernetes/overlays/production"
# Overlay -> the section of the page, and how many of its blocks write files.
OVERLAYS = {"small": ("Small: one node", 3), "production": ("Production: servers of your own", 4)}
COMPONENTS = (
    *("gateway-api", "monitoring", "pull-secret"),
    *("storage-existing", "storage-gluster", "storage-nfs", "storage-static"),
)


def site(folder: Path, overlay: str = "small") -> Path:
    """The folder of the overlay in a copy of the checkout, ready for `kubectl apply -k`."""
    checkout(folder)
    title, count = OVERLAYS[overlay]
    for command in blocks(title)[:count]:
        run(folder, command)
    return folder / "deploy" / "kubernetes" / "overlays" / overlay


def with_component(folder: Path, component: str) -> Path:
    """The overlay `production` of this copy, copied, with one more component; a Gateway is in place of the Ingress."""
    overlays = folder / "deploy" / "kubernetes" / "overlays"
    trial = shutil.copytree(overlays / "production", overlays / component)
    if component == "pull-secret":
        logins = folder / "deploy" / "kubernetes" / "components" / component / "pull.json"
        logins.write_text('{"auths": {"registry.example": {"auth": "aG9tZXBvcnQ6eA=="}}}')
    ingress, backup, named = (
        f"  - ../../components/{one}\n" for one in ("ingress", "backup", component)
    )
    old, new = (ingress, named) if component == "gateway-api" else (backup, backup + named)
    text = (trial / "kustomization.yaml").read_text()
    assert text.count(old) == 1
    (trial / "kustomization.yaml").write_text(text.replace(old, new))
    return trial
