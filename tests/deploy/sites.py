"""Overlays of deploy/kubernetes with the files of a site, as docs/cluster.md writes them."""

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
    """The overlay `production` of this copy with one more component, as an overlay of its own."""
    trial = folder / "deploy" / "kubernetes" / "overlays" / component
    trial.mkdir()
    if component == "pull-secret":
        logins = folder / "deploy" / "kubernetes" / "components" / component / "pull.json"
        logins.write_text('{"auths": {"registry.example": {"auth": "aG9tZXBvcnQ6eA=="}}}')
    (trial / "kustomization.yaml").write_text(
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
        f"resources: [../production]\ncomponents: [../../components/{component}]\n"
    )
    return trial
