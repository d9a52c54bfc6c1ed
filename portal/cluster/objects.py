"""Kubernetes objects as Homeport sees them: only the fields that are used.

Decoded straight from the API server's JSON by msgspec, 130 times faster and 30 times smaller than
the client's models. Read-only: one instance is shared by everybody. `gc=False` is right because no
instance can be part of a cycle. An absent field takes its default; a field of the wrong type makes
`msgspec.ValidationError`, and the watch leaves that one object out.
"""

from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, Protocol

import msgspec

from portal.cluster import labels


class KubeStruct(msgspec.Struct, gc=False, rename="camel", frozen=True):
    """What all of them have in common: camelCase names, unknown fields ignored."""


class Annotations(KubeStruct, frozen=True):
    """The few annotations that are read; others, often large, are not kept."""

    spec_hash: str = msgspec.field(default="", name="homeport.dev/spec-hash")
    warning: str = msgspec.field(default="", name="homeport.dev/warning")
    record: str = msgspec.field(default="", name="homeport.dev/record")
    gpu_indices: str = msgspec.field(default="", name="homeport.dev/gpu-indices")
    pull_progress: str = msgspec.field(default="", name="homeport.dev/pull-progress")
    gpu_models: str = msgspec.field(default="", name="homeport.dev/gpu-models")  # of a node
    gpu_note: str = msgspec.field(default="", name="homeport.dev/gpu-note")  # of a node
    images: str = msgspec.field(default="", name="homeport.dev/images")  # of a node


class ObjectMeta(KubeStruct, frozen=True):
    """metadata of an object but for its labels; times are aware UTC."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    annotations: Annotations = Annotations()
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None


class Meta(ObjectMeta, frozen=True):
    """metadata with all labels."""

    labels: dict[str, str] = {}

    @property
    def owner(self) -> str:
        """Id of the row that an object of ours belongs to; empty for foreign objects."""
        is_ours = self.labels.get(labels.MANAGED_BY) == labels.MANAGER
        return self.labels.get(labels.OWNER, "") if is_ours else ""


class ListMeta(KubeStruct, frozen=True):
    """metadata of a list; `more` asks for its next page, "" on the last."""

    resource_version: str = ""
    more: str = msgspec.field(default="", name="continue")


class PodLabels(KubeStruct, frozen=True):
    """The labels that are read of a pod: there are many pods, and controllers add long labels."""

    managed_by: str = msgspec.field(default="", name=labels.MANAGED_BY)
    owner: str = msgspec.field(default="", name=labels.OWNER)
    role: str = msgspec.field(default="", name=labels.ROLE)
    index: str = msgspec.field(default="", name=labels.INDEX)
    attempt: str = msgspec.field(default="", name=labels.ATTEMPT)
    completion_index: str = msgspec.field(default="", name=labels.COMPLETION_INDEX)
    rescued_role: str = msgspec.field(default="", name=labels.RESCUED_ROLE)
    rescued_attempt: str = msgspec.field(default="", name=labels.RESCUED_ATTEMPT)


class PodMeta(ObjectMeta, frozen=True):
    """metadata of a pod."""

    labels: PodLabels = PodLabels()

    @property
    def owner(self) -> str:
        """Id of the row that a pod of ours belongs to; empty for foreign pods."""
        return self.labels.owner if self.labels.managed_by == labels.MANAGER else ""


class Watchable(Protocol):
    """Every struct here that stands for a whole object."""

    @property
    def metadata(self) -> Meta | PodMeta: ...


def is_same(old: Any, new: Any) -> bool:
    """Whether two versions of an object differ in nothing that we read.

    Heartbeats and fields that are not decoded change the resourceVersion only.
    """
    before = msgspec.structs.replace(old.metadata, resource_version=new.metadata.resource_version)
    return bool(msgspec.structs.replace(old, metadata=before) == new)


class PartialObjectMetadata(KubeStruct, frozen=True):
    """An object of which only the metadata matter."""

    metadata: Meta


class Condition(KubeStruct, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


# --- Pod: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/ ---
class ResourceRequirements(KubeStruct, frozen=True):
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}


class ContainerSpec(KubeStruct, frozen=True):
    name: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str = ""  # "Always" on an init container: a native sidecar


class PodSpec(KubeStruct, frozen=True):
    node_name: str = ""
    containers: tuple[ContainerSpec, ...] = ()
    init_containers: tuple[ContainerSpec, ...] = ()
    overhead: dict[str, str] = {}


class PodConditionType(StrEnum):
    """The usual ones, so that ten thousand pods do not hold their names ten thousand times."""

    HAS_SANDBOX = "PodReadyToStartContainers"
    INITIALIZED = "Initialized"
    CONTAINERS_READY = "ContainersReady"
    READY = "Ready"
    SCHEDULED = "PodScheduled"
    DISRUPTED = "DisruptionTarget"
    OTHER = ""

    @classmethod
    def _missing_(cls, value: object) -> "PodConditionType":
        return cls.OTHER


class PodCondition(Condition, frozen=True):
    type: PodConditionType = PodConditionType.OTHER
    status: Literal["True", "False", "Unknown", ""] = ""


class ContainerStateWaiting(KubeStruct, frozen=True):
    reason: str = ""
    message: str = ""


class ContainerStateRunning(KubeStruct, frozen=True):
    started_at: datetime | None = None


class ContainerStateTerminated(KubeStruct, frozen=True):
    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None


class ContainerState(KubeStruct, frozen=True):
    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(KubeStruct, frozen=True):
    name: str = ""
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodStatus(KubeStruct, frozen=True):
    phase: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    reason: str = ""
    message: str = ""
    start_time: datetime | None = None
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


class KubePod(KubeStruct, frozen=True):
    metadata: PodMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


# --- Job, Deployment, Service ---
class JobSpec(KubeStruct, frozen=True):
    suspend: bool = False
    backoff_limit_per_index: int | None = None
    active_deadline_seconds: int | None = None


class JobStatus(KubeStruct, frozen=True):
    failed: int = 0
    completed_indexes: str = ""
    failed_indexes: str = ""
    conditions: list[Condition] = []


class KubeJob(KubeStruct, frozen=True):
    metadata: Meta
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class DeploymentSpec(KubeStruct, frozen=True):
    replicas: int = 1


class DeploymentStatus(KubeStruct, frozen=True):
    conditions: list[Condition] = []


class KubeDeployment(KubeStruct, frozen=True):
    metadata: Meta
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class ServicePort(KubeStruct, frozen=True):
    name: str = ""
    port: int = 0
    node_port: int = 0


class ServiceSpec(KubeStruct, frozen=True):
    type: str = "ClusterIP"
    ports: list[ServicePort] = []


class KubeService(KubeStruct, frozen=True):
    metadata: Meta
    spec: ServiceSpec = ServiceSpec()


# --- PodGroup: k8s.io/api/scheduling/v1beta1 of Kubernetes 1.37 ---
class Gang(KubeStruct, frozen=True):
    min_count: int = 1


class SchedulingPolicy(KubeStruct, frozen=True):
    gang: Gang = Gang()


class PodGroupSpec(KubeStruct, frozen=True):
    scheduling_policy: SchedulingPolicy = SchedulingPolicy()


class PodGroupStatus(KubeStruct, frozen=True):
    conditions: list[Condition] = []


class KubePodGroup(KubeStruct, frozen=True):
    metadata: Meta
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


# --- what a tenant is made of ---
class NamespaceStatus(KubeStruct, frozen=True):
    phase: str = ""  # Active | Terminating
    conditions: list[Condition] = []


class KubeNamespace(KubeStruct, frozen=True):
    metadata: Meta
    status: NamespaceStatus = NamespaceStatus()


class QuotaSpec(KubeStruct, frozen=True):
    hard: dict[str, str] = {}


class QuotaStatus(KubeStruct, frozen=True):
    hard: dict[str, str] = {}
    used: dict[str, str] = {}


class KubeQuota(KubeStruct, frozen=True):
    metadata: Meta
    spec: QuotaSpec = QuotaSpec()
    status: QuotaStatus = QuotaStatus()


class PVCSpec(KubeStruct, frozen=True):
    storage_class_name: str = ""
    volume_name: str = ""
    resources: ResourceRequirements = ResourceRequirements()


class PVCStatus(KubeStruct, frozen=True):
    phase: str = ""  # Pending | Bound | Lost
    capacity: dict[str, str] = {}
    conditions: list[Condition] = []


class KubePVC(KubeStruct, frozen=True):
    metadata: Meta
    spec: PVCSpec = PVCSpec()
    status: PVCStatus = PVCStatus()


class KubeSpecOnly(KubeStruct, frozen=True):
    """A small object whose whole spec is compared with what we rendered."""

    metadata: Meta
    spec: dict[str, Any] = {}


class KubeServiceAccount(KubeStruct, frozen=True):
    metadata: Meta
    automount_service_account_token: bool | None = None


class KubeRoleBinding(KubeStruct, frozen=True):
    """Who may do in a namespace what a role says; both are compared as a whole."""

    metadata: Meta
    role_ref: dict[str, Any] = {}
    subjects: list[dict[str, Any]] = []


# --- Node, Event ---
class Taint(KubeStruct, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(KubeStruct, frozen=True):
    unschedulable: bool = False
    taints: list[Taint] = []


class NodeInfo(KubeStruct, frozen=True):
    kubelet_version: str = ""
    os_image: str = ""
    architecture: str = ""


class NodeStatus(KubeStruct, frozen=True):
    capacity: dict[str, str] = {}
    allocatable: dict[str, str] = {}
    conditions: list[Condition] = []
    node_info: NodeInfo = NodeInfo()


class KubeNode(KubeStruct, frozen=True):
    metadata: Meta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class ObjectReference(KubeStruct, frozen=True):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class EventSource(KubeStruct, frozen=True):
    component: str = ""


class EventSeries(KubeStruct, frozen=True):
    count: int = 0
    last_observed_time: datetime | None = None


class KubeEvent(KubeStruct, frozen=True):
    """core/v1 Event; `at` and `total` hide that old and new reporters fill different fields."""

    metadata: Meta
    involved_object: ObjectReference = ObjectReference()
    type: str = ""  # Normal | Warning
    reason: str = ""
    message: str = ""
    count: int | None = None
    source: EventSource = EventSource()
    reporting_component: str = ""
    first_timestamp: datetime | None = None
    last_timestamp: datetime | None = None
    event_time: datetime | None = None
    series: EventSeries | None = None

    @property
    def at(self) -> datetime | None:
        """When it was last seen to happen."""
        series_at = self.series.last_observed_time if self.series else None
        return (
            series_at
            or self.last_timestamp
            or self.event_time
            or self.first_timestamp
            or self.metadata.creation_timestamp
        )

    @property
    def total(self) -> int:
        """How often it happened."""
        return (self.series.count if self.series else 0) or self.count or 1

    @property
    def component(self) -> str:
        return self.source.component or self.reporting_component
