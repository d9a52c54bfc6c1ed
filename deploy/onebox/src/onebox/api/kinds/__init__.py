"""What is particular to each kind: defaults, rules, and what an update may change."""

from __future__ import annotations

from onebox.api.kinds.access import BindingStrategy, RoleStrategy
from onebox.api.kinds.cluster import (
    EventStrategy,
    LeaseStrategy,
    NamespaceStrategy,
    NodeStrategy,
    PriorityClassStrategy,
)
from onebox.api.kinds.configuration import ConfigMapStrategy, SecretStrategy
from onebox.api.kinds.job import JobStrategy
from onebox.api.kinds.limits import LimitRangeStrategy, QuotaStrategy
from onebox.api.kinds.network import EndpointSliceStrategy, NetworkPolicyStrategy
from onebox.api.kinds.pod import PodStrategy
from onebox.api.kinds.service import ServiceStrategy
from onebox.api.kinds.storage import ClaimStrategy, ClassStrategy, VolumeStrategy
from onebox.api.kinds.workload import DeploymentStrategy, ReplicaSetStrategy
from onebox.api.strategy import Strategy

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
