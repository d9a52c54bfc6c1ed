"""What Homeport renders, object by object: taken by the cluster, and completed alike."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.contract.kube import Json
from tests.contract.script import script
from tests.contract.tape import Tape

GOLDEN = Path(__file__).resolve().parents[2] / "manifests" / "golden"
_PATHS = {
    "ConfigMap": ("configmaps", ""),
    "Deployment": ("deployments", "apps/v1"),
    "Job": ("jobs", "batch/v1"),
    "LimitRange": ("limitranges", ""),
    "NetworkPolicy": ("networkpolicies", "networking.k8s.io/v1"),
    "PersistentVolumeClaim": ("persistentvolumeclaims", ""),
    "Pod": ("pods", ""),
    "ResourceQuota": ("resourcequotas", ""),
    "Secret": ("secrets", ""),
    "Service": ("services", ""),
    "ServiceAccount": ("serviceaccounts", ""),
}


def _documents(tape: Tape, name: str) -> list[Json]:
    """The rendered objects, moved into the script's namespace."""
    text = (GOLDEN / f"{name}.yaml").read_text()
    found = [document for document in yaml.safe_load_all(text) if document]
    for document in found:
        if "namespace" in document["metadata"]:
            document["metadata"]["namespace"] = tape.ns
    return [document for document in found if document["kind"] in _PATHS]


def _make(tape: Tape, name: str) -> None:
    """Make them as Homeport does: in order, the rest owned by the first."""
    owner: Json | None = None
    for document in _documents(tape, name):
        plural, group = _PATHS[document["kind"]]
        if owner is not None:
            document["metadata"]["ownerReferences"] = [owner]
        reply = tape.post(tape.path(plural, group=group), document)
        if owner is None and document["kind"] in {"Job", "Deployment"} and reply.code == 201:
            owner = {
                "apiVersion": document["apiVersion"],
                "kind": document["kind"],
                "name": reply.name,
                "uid": reply.uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }


def _account(tape: Tape, name: str) -> None:
    """The account of the tenant, without which its pods are refused."""
    body = {"metadata": {"name": name}, "automountServiceAccountToken": False}
    tape.kube.must("POST", tape.path("serviceaccounts"), body)


@script
def a_tenant(tape: Tape) -> None:
    _make(tape, "tenant")


@script
def a_tenant_with_its_own_rules(tape: Tape) -> None:
    _make(tape, "tenant-lab")


@script
def a_training_of_one_worker(tape: Tape) -> None:
    _make(tape, "job-single")


@script
def a_training_with_parameter_servers(tape: Tape) -> None:
    _make(tape, "job-tf-ps")


@script
def a_notebook(tape: Tape) -> None:
    _make(tape, "notebook")


@script
def a_tensorboard(tape: Tape) -> None:
    _make(tape, "tensorboard")


@script
def a_rescue(tape: Tape) -> None:
    for document in _documents(tape, "rescue"):
        account = document["spec"]["serviceAccountName"]
        if account != "default":
            _account(tape, account)
    _make(tape, "rescue")
