"""Exports for Kubeflow's training operator pass its own CRDs, on upstream's API server."""

import subprocess
from pathlib import Path

import pytest

from jobs.kinds.training.export import FORMS, Export
from portal.cluster.manifests import to_yaml
from tests.jobs.kinds.training.test_export import OPERATED
from tests.tools import kubeflow
from tests.tools.kubectls import current_kubectl
from tests.tools.waiting import wait_for
from tests.upstream.conftest import Upstream

pytestmark = [pytest.mark.upstream, pytest.mark.django_db]


def kubectl(kubeconfig: Path, *words: str, stdin: str = "", code: int = 0) -> str:
    command = [current_kubectl(), f"--kubeconfig={kubeconfig}", *words]
    done = subprocess.run(
        command, input=stdin, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == code, f"{words}: {done.stderr}\n{stdin}"
    return done.stdout + done.stderr


def test_jobs_of_the_operators_pass_their_crds(upstream: Upstream) -> None:
    crds = kubeflow.source() / "manifests/base/crds"
    names = ("tfjobs", "pytorchjobs")
    files = [word for name in names for word in ("-f", str(crds / f"kubeflow.org_{name}.yaml"))]
    namespace = OPERATED[0][0].tenant.namespace
    try:
        kubectl(upstream.kubeconfig, "create", *files)
        kubectl(upstream.kubeconfig, "create", "namespace", namespace)
        found = ("api-resources", "--api-group=kubeflow.org", "--cached=false", "-o", "name")
        wait_for(
            "the kinds are served",
            lambda: all(name in kubectl(upstream.kubeconfig, *found) for name in names),
        )
        apply = ("apply", "--dry-run=server", "--validate=strict", "-f", "-")
        for training, name, _types, _fields in OPERATED:
            text = to_yaml(FORMS[name].build(Export(training, FORMS[name])))
            kubectl(upstream.kubeconfig, *apply, stdin=text)
            broken = text.replace("  runPolicy:", "  runPolicies:")
            assert "unknown field" in kubectl(upstream.kubeconfig, *apply, stdin=broken, code=1)
    finally:
        kubectl(upstream.kubeconfig, "delete", "--ignore-not-found", *files)
        kubectl(upstream.kubeconfig, "delete", "namespace", namespace, "--ignore-not-found")
