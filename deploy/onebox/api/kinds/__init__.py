"""What is particular to each kind: defaults, rules, and what an update may change."""

from __future__ import annotations

from deploy.onebox.api.kinds.access import BindingStrategy, RoleStrategy
from deploy.onebox.api.kinds.cluster import (
    EventStrategy,
    LeaseStrategy,
    NamespaceStrategy,
    NodeStrategy,
    PriorityClassStrategy,
)
from deploy.onebox.api.kinds.configuration import ConfigMapStrategy, SecretStrategy
from deploy.onebox.api.kinds.job import JobStrategy
from deploy.onebox.api.kinds.limits import LimitRangeStrategy, QuotaStrategy
from deploy.onebox.api.kinds.network import EndpointSliceStrategy, NetworkPolicyStrategy
from deploy.onebox.api.kinds.pod import PodStrategy
from deploy.onebox.api.kinds.service import ServiceStrategy
from deploy.onebox.api.kinds.storage import ClaimStrategy, ClassStrategy, VolumeStrategy
from deploy.onebox.api.kinds.workload import DeploymentStrategy, ReplicaSetStrategy
from deploy.onebox.api.strategy import Strategy

STRATEGIES: dict[str, Strategy] = {
    "clusterrolebindings": BindingStrategy(),
    "clusterroles": RoleStrategy(),
    "configmaps": ConfigMapStrategy(),
    "deployments": DeploymentStrategy(),
    "endpointslices": EndpointSliceStrategy(),
    "events": EventStrategy(),
    "jobs": JobStrategy(),
    "leases": LeaseStrategy(),
    "limitranges": LimitRangeStrategy(),
    "namespaces": NamespaceStrategy(),
    "networkpolicies": NetworkPolicyStrategy(),
    "nodes": NodeStrategy(),
    "persistentvolumeclaims": ClaimStrategy(),
    "persistentvolumes": VolumeStrategy(),
    "pods": PodStrategy(),
    "priorityclasses": PriorityClassStrategy(),
    "replicasets": ReplicaSetStrategy(),
    "resourcequotas": QuotaStrategy(),
    "rolebindings": BindingStrategy(),
    "roles": RoleStrategy(),
    "secrets": SecretStrategy(),
    "serviceaccounts": Strategy(),
    "services": ServiceStrategy(),
    "storageclasses": ClassStrategy(),
}
