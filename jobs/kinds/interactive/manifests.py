"""What is served behind a gate as Kubernetes objects: the values that `templates/manifests/served.yaml.j2`
renders.

What is rendered at admission is stored with the row and never rendered again; `complete` adds at
the moment of creation what must not be stored: the root's uid and the secrets. Pure except for
reading template files and settings.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from jobs.kinds.interactive import tokens
from jobs.kinds.interactive.spec import GATE
from jobs.kinds.manifests import (
    Grant,
    Manifest,
    PodPlace,
    PodSettings,
    amounts,
    kube_name,
    pod_settings,
    with_owner,
)
from jobs.kinds.spec import WorkloadSpec, spec_of
from jobs.kinds.state import WorkloadRow
from jobs.models import Workload
from portal import quantity, signing
from portal.cluster import labels, manifests
from portal.cluster.manifests import Object
from tenants.manifests import GATE_PORT

APP_PORT = 8890  # on 127.0.0.1, of JupyterLab and TensorBoard alike
GRACE_S = 30
TEMPLATE_VERSION = "service-2"
SERVICE_LABEL = "homeport.dev/service"  # the kind; tells them from trainings


@dataclass(frozen=True)
class Served:
    """What a kind serves behind a gate, as its pod is told.

    Attributes:
        word: what people call it.
        launcher: modules of `jobs/pod`: the first is started in the user's container, the others are
            what it imports.
        writable, readable: the volumes, `data` and `log`, that must be so before it starts.
        ready_path: below its prefix, answered when it is ready.
        app_secret: the file of the Secret that it may read: `app_token`, which it asks of its gate, or
            `portal_token`, by which it speaks to the portal.
        working_dir: where it starts.
        environment: its own variables.
        tells_usage: whether it tells what it uses, by the file `usage_token`.
    """

    word: str
    launcher: tuple[str, ...]
    writable: tuple[str, ...]
    readable: tuple[str, ...]
    ready_path: str
    app_secret: str
    working_dir: str
    environment: Callable[[Workload, PodSettings], Mapping[str, str]]
    tells_usage: bool = False

    def render(self, workload: Workload, attempt: int, grant: Grant) -> list[Object]:
        """Of the latest start, which has one attempt and no deadline. See `WorkloadKind.render`."""
        pods = pod_settings(workload.tenant, workload.spec.get("secrets"), grant=grant)
        documents = render_served(self, workload, pods=pods, has_tls=tokens.has_gate_tls())
        for secret in _secrets(documents):
            secret["metadata"]["annotations"][labels.KEY] = signing.key_mark()
        return documents


@dataclass(frozen=True, kw_only=True)
class ServedManifest(Manifest):
    """Variables of `served.yaml.j2`."""

    selector: Mapping[str, str]
    served: Served
    image: str
    generation: int
    prefix: str
    resources: Mapping[str, str]
    gpu_count: int
    gate_cpu: str
    gate_memory: str
    gate_port: int
    app_port: int
    has_tls: bool
    app_env: Mapping[str, str]
    spec: Mapping[str, Any]  # what of the request is its kind's own, as the row keeps it
    shm: str
    grace_s: int
    place: PodPlace


def render_served(
    served: Served, workload: Workload, *, pods: PodSettings, has_tls: bool
) -> list[Object]:
    """All objects of the latest start: the root first, then what it will own, without secret values.

    Args:
        workload: its row, which need not be saved.
        has_tls: whether the gate speaks HTTPS.

    Raises:
        ConfigurationError: see portal/cluster/manifests.py.
    """
    context = served_manifest(served, workload, pods=pods, has_tls=has_tls)
    return manifests.render("served.yaml.j2", context)


def served_manifest(
    served: Served, workload: Workload, *, pods: PodSettings, has_tls: bool
) -> ServedManifest:
    """What a template is rendered of; see `render_served`."""
    spec = spec_of(workload, WorkloadSpec)
    asked = spec.replicas[workload.kind]
    selector = {
        labels.OWNER: str(workload.pk),
        SERVICE_LABEL: workload.kind,
        labels.ROLE: workload.kind,
        labels.ATTEMPT: str(workload.attempt),
    }
    return ServedManifest(
        owner=str(workload.pk),
        namespace=workload.tenant.namespace,
        kube_name=kube_name(workload.name, workload.pk, workload.attempt),
        template_version=TEMPLATE_VERSION,
        labels=selector,
        selector=selector,
        served=served,
        image=spec.image,
        generation=workload.generation,
        prefix=workload.path_prefix,
        resources=amounts(asked.cpu_millicores, asked.memory_bytes, asked.gpu_count),
        gpu_count=asked.gpu_count,
        gate_cpu=quantity.cpu_text(GATE.cpu),
        gate_memory=quantity.memory_text(GATE.memory),
        gate_port=GATE_PORT,
        app_port=APP_PORT,
        has_tls=has_tls,
        app_env=served.environment(workload, pods),
        spec=workload.spec,
        # Data loaders of PyTorch pass batches through it; the runtime's own 64 MiB are too little.
        shm=quantity.memory_text(asked.memory_bytes // 2),
        grace_s=GRACE_S,
        pods=pods,
        place=pods.place_of(workload.kind),
    )


def complete(row: WorkloadRow, document: Object, root: Object | None) -> Object:
    """A stored document as it is sent: with its owner, and in the Secret what the gate may know."""
    assert root is not None, "nothing of it is made without its root"
    sent = with_owner(document, root)
    if sent["kind"] == "Secret":
        key = signing_key([document])
        sent["stringData"] = tokens.gate_secrets(UUID(row.id), row.observed_generation, key)
    return sent


def signing_key(plan: Sequence[Object] | None) -> str:
    """The signing key with which a start was planned: its gate has what was derived from that."""
    marks = [one["metadata"]["annotations"].get(labels.KEY, "") for one in _secrets(plan or ())]
    return signing.key_of(marks[0] if marks else "")


def _secrets(documents: Sequence[Object]) -> list[Object]:
    return [one for one in documents if one["kind"] == "Secret"]
