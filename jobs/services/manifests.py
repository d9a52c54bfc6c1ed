"""A notebook or TensorBoard as Kubernetes objects: the values that `templates/manifests/service.yaml.j2`
renders.

What is rendered at admission is stored with the row and never rendered again; `completed` adds at
the moment of creation what must not be stored: the root's uid and the secrets. Pure except for
reading template files and settings.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from jobs.manifests import PodSettings, with_owner
from jobs.models import Service
from jobs.rules.requests import GATE_CPU_MILLICORES, GATE_MEMORY_BYTES
from portal import quantity
from portal.cluster import labels, names
from portal.cluster.manifests import Object, render
from tenants.manifests import GATE_PORT

APP_PORT = 8890  # on 127.0.0.1, of JupyterLab and TensorBoard alike
GRACE_S = 30
STARTS_MAX = 999  # names count starts up to here, then from 1 again
TEMPLATE_VERSION = "service-1"
SERVICE_LABEL = "homeport.dev/service"  # notebook | tensorboard; tells them from trainings


@dataclass(frozen=True)
class Wanted:
    """What was asked for, as plain data; columns as in `jobs.models.Service`."""

    service_id: UUID
    kind: str
    name: str
    namespace: str
    image: str
    cpu_millicores: int
    memory_bytes: int
    gpu_count: int
    log_dirs: Sequence[Mapping[str, str]]
    start_count: int
    prefix: str


@dataclass(frozen=True)
class ServiceManifest:
    """Variables of `service.yaml.j2`."""

    owner: str
    namespace: str
    kube_name: str
    template_version: str
    labels: Mapping[str, str]
    selector: Mapping[str, str]
    kind: str
    is_notebook: bool
    image: str
    start_count: int
    prefix: str
    resources: Mapping[str, str]
    gpu_count: int
    gate_cpu: str
    gate_memory: str
    gate_port: int
    app_port: int
    has_tls: bool
    app_secret: str
    log_dirs: str
    shm: str
    grace_s: int
    pods: PodSettings


def wanted_of(service: Service) -> Wanted:
    """The request of a row, for its latest start."""
    return Wanted(
        service_id=service.pk,
        kind=service.kind,
        name=service.name,
        namespace=service.tenant.namespace,
        image=service.image,
        cpu_millicores=service.cpu_millicores,
        memory_bytes=service.memory_bytes,
        gpu_count=service.gpu_count,
        log_dirs=service.log_dirs,
        start_count=service.start_count,
        prefix=service.path_prefix,
    )


def kube_name(name: str, service_id: UUID, start_count: int) -> str:
    """NAME of the objects of one start; another one's than those of the start before."""
    return names.job_name(name, service_id, (start_count - 1) % STARTS_MAX + 1)


def render_service(wanted: Wanted, *, pods: PodSettings, has_tls: bool) -> list[Object]:
    """All objects of one start: the root first, then what it will own, without secret values.

    Args:
        wanted: the request.
        pods: from `jobs.manifests.pod_settings()`.
        has_tls: whether the gate speaks HTTPS.

    Raises:
        ConfigurationError: see portal/cluster/manifests.py.
    """
    base = kube_name(wanted.name, wanted.service_id, wanted.start_count)
    is_notebook = wanted.kind == Service.Kind.NOTEBOOK
    selector = {
        labels.OWNER: str(wanted.service_id),
        SERVICE_LABEL: wanted.kind,
        labels.ROLE: wanted.kind,
        labels.ATTEMPT: str(wanted.start_count),
    }
    resources = {
        "cpu": quantity.cpu_text(wanted.cpu_millicores),
        "memory": quantity.memory_text(wanted.memory_bytes),
    }
    if wanted.gpu_count:
        resources["nvidia.com/gpu"] = str(wanted.gpu_count)
    context = ServiceManifest(
        owner=str(wanted.service_id),
        namespace=wanted.namespace,
        kube_name=base,
        template_version=TEMPLATE_VERSION,
        labels=selector,
        selector=selector,
        kind=wanted.kind,
        is_notebook=is_notebook,
        image=wanted.image,
        start_count=wanted.start_count,
        prefix=wanted.prefix,
        resources=resources,
        gpu_count=wanted.gpu_count,
        gate_cpu=quantity.cpu_text(GATE_CPU_MILLICORES),
        gate_memory=quantity.memory_text(GATE_MEMORY_BYTES),
        gate_port=GATE_PORT,
        app_port=APP_PORT,
        has_tls=has_tls,
        app_secret="app_token" if is_notebook else "portal_token",
        log_dirs=json.dumps([dict(row) for row in wanted.log_dirs], ensure_ascii=False),
        # Data loaders of PyTorch pass batches through it; the runtime's own 64 MiB are too little.
        shm=quantity.memory_text(wanted.memory_bytes // 2),
        grace_s=GRACE_S,
        pods=pods,
    )
    return render("service.yaml.j2", context)


def completed(document: Object, *, root: Object, secrets: Mapping[str, str]) -> Object:
    """A stored document of what the root owns, as it is sent: with its owner and the secrets.

    Args:
        document: from `render_service`, not the root.
        root: the root as the cluster has it.
        secrets: see jobs/services/tokens.py.
    """
    sent = with_owner(document, root)
    if sent["kind"] == "Secret":
        sent["stringData"] = dict(secrets)
    return sent
