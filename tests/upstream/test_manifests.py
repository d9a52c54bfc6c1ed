"""An API server takes every object of deploy/kubernetes as it is written, and Pod Security every pod."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.sites import COMPONENTS, OVERLAYS, site, with_component
from tests.tools.kubectls import Said, ask, current_kubectl
from tests.tools.manifests import Object, objects, pods
from tests.upstream.conftest import Upstream

pytestmark = pytest.mark.upstream
DRY_RUN = ("apply", "--dry-run=server", "--validate=strict", "-f", "-")
NAMESPACES = ("homeport", "homeport-storage")


class Admin:
    """kubectl of an administrator, who applies documents."""

    def __init__(self, kubeconfig: Path) -> None:
        self._command = [current_kubectl(), f"--kubeconfig={kubeconfig}"]

    def __call__(self, *words: str, documents: list[Object] | None = None) -> Said:
        stdin = yaml.safe_dump_all(documents) if documents else None
        return ask([*self._command, *words], stdin=stdin, timeout_s=120)


@pytest.fixture(scope="module")
def admin(upstream: Upstream) -> Iterator[Admin]:
    """With the namespaces, without which nothing in them is tried; those that were not there go again."""
    kubectl = Admin(upstream.kubeconfig)
    made = [name for name in NAMESPACES if not kubectl("get", "namespace", name).is_done]
    try:
        for name in made:
            assert kubectl("create", "namespace", name).is_done
        yield kubectl
    finally:
        for name in made:
            kubectl("delete", "namespace", name, "--ignore-not-found")


def without_crds(documents: list[Object]) -> list[Object]:
    """Those of kinds that this API server has."""
    foreign = ("monitoring.coreos.com", "gateway.networking.k8s.io")
    return [one for one in documents if not one["apiVersion"].startswith(foreign)]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_object_is_accepted(admin: Admin, overlay: str, tmp_path: Path) -> None:
    documents = without_crds(objects(site(tmp_path, overlay)))
    said = admin(*DRY_RUN, documents=documents)
    assert said.is_done, said.errors
    assert said.out.count("(server dry run)") == len(documents)
    assert "would violate PodSecurity" not in said.errors
    broken: Any = json.loads(json.dumps(next(d for d in documents if d["kind"] == "Deployment")))
    broken["spec"]["template"]["spec"]["containers"][0]["resource"] = {}
    assert "unknown field" in admin(*DRY_RUN, documents=[broken]).errors


@pytest.mark.parametrize("component", COMPONENTS)
def test_components_are_accepted(admin: Admin, component: str, tmp_path: Path) -> None:
    site(tmp_path, "production")
    documents = [
        one
        for one in without_crds(objects(with_component(tmp_path, component)))
        # This cluster has a class of that name with other parameters, which cannot be changed.
        if (one["kind"], one["metadata"]["name"]) != ("StorageClass", "glusterfs")
    ]
    said = admin(*DRY_RUN, documents=documents)
    assert said.is_done, said.errors


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_pod_is_restricted(admin: Admin, overlay: str, tmp_path: Path) -> None:
    documents = objects(site(tmp_path, overlay))
    [own] = [
        one
        for one in documents
        if (one["kind"], one["metadata"]["name"]) == ("Namespace", "homeport")
    ]
    name = f"restricted-{overlay}"
    assert admin("create", "namespace", name).is_done
    try:
        levels = [f"{key}={value}" for key, value in own["metadata"]["labels"].items()]
        assert admin("label", "namespace", name, *levels).is_done
        specs = list(pods(documents).values())
        for spec in specs:
            spec.pop("serviceAccountName", None)  # there is none of that name in this namespace
        made = [pod(f"pod-{number}", name, spec) for number, spec in enumerate(specs)]
        said = admin("create", "--dry-run=server", "-f", "-", documents=made)
        assert said.is_done, said.errors
        specs[0]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
        said = admin("create", "--dry-run=server", "-f", "-", documents=made[:1])
        assert 'violates PodSecurity "restricted' in said.errors
    finally:
        admin("delete", "namespace", name, "--wait=false")


def pod(name: str, namespace: str, spec: Object) -> Object:
    spec = {"restartPolicy": "Always", **spec}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }
