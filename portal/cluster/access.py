"""Whether our account may do what Homeport does, and whether it may do far more than that.

The cluster is asked once for all rules of the account in a namespace. What the account of the
reconciler needs is written here as `deploy/cluster` grants it (docs/cluster.md); a test compares.
https://kubernetes.io/docs/reference/kubernetes-api/authorization-resources/self-subject-rules-review-v1/
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from portal.cluster.client import Cluster
from portal.cluster.errors import ClusterError, NotFound

_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
_NOWHERE = "default"  # what may be done everywhere may be done there, too

_WATCHED = ("list", "watch")
_MADE = ("get", "create", "patch")
_MADE_AND_REMOVED = (*_MADE, "delete")
_KEPT_AS_MADE = ("get", "create", "delete")
# plural.group -> verbs
EVERYWHERE: dict[str, tuple[str, ...]] = {
    "namespaces": (*_MADE, *_WATCHED),
    "rolebindings.rbac.authorization.k8s.io": (*_MADE, *_WATCHED),
    "clusterroles.rbac.authorization.k8s.io": ("bind",),
    "nodes": _WATCHED,
    "pods": _WATCHED,
    "events": _WATCHED,
    "configmaps": _WATCHED,
    "limitranges": _WATCHED,
    "persistentvolumeclaims": _WATCHED,
    "resourcequotas": _WATCHED,
    "serviceaccounts": _WATCHED,
    "services": _WATCHED,
    "deployments.apps": _WATCHED,
    "jobs.batch": _WATCHED,
    "networkpolicies.networking.k8s.io": _WATCHED,
    "persistentvolumes": ("list",),
    "storageclasses.storage.k8s.io": ("get",),
}
IN_NAMESPACES: dict[str, tuple[str, ...]] = {
    "limitranges": _MADE,
    "persistentvolumeclaims": _MADE,
    "resourcequotas": _MADE,
    "serviceaccounts": _MADE,
    "networkpolicies.networking.k8s.io": _MADE_AND_REMOVED,
    "deployments.apps": _MADE_AND_REMOVED,
    "jobs.batch": _MADE_AND_REMOVED,
    "configmaps": _KEPT_AS_MADE,
    "pods": _KEPT_AS_MADE,
    "secrets": _KEPT_AS_MADE,
    "services": _KEPT_AS_MADE,
}
# Of deploy/kubernetes/components/pod-groups, without which trainings are placed pod by pod.
POD_GROUPS: dict[str, tuple[str, ...]] = {
    "podgroups.scheduling.k8s.io": (*_MADE_AND_REMOVED, *_WATCHED)
}
# With any of these an account can take over the cluster, or lose people's data.
TOO_MUCH: dict[str, tuple[str, ...]] = {
    "secrets": ("list",),
    "namespaces": ("delete",),
    "persistentvolumes": ("delete",),
    "persistentvolumeclaims": ("delete",),
    "pods/exec": ("create",),
    "nodes/proxy": ("get",),
    "serviceaccounts/token": ("create",),
    "users": ("impersonate",),
    "clusterroles.rbac.authorization.k8s.io": ("escalate",),
    "clusterrolebindings.rbac.authorization.k8s.io": ("create",),
}


@dataclass(frozen=True)
class AccountAccess:
    """What the account may do.

    Attributes:
        state: `yes`: the cluster told it; `no`: the cluster does not limit accounts, as the one on a
            single machine; `unknown`: it could not be asked.
        missing, excess: such as "create jobs.batch".
        detail: why it could not be asked, or what the cluster says of not limiting accounts.
    """

    state: str = "unknown"
    missing: tuple[str, ...] = ()
    excess: tuple[str, ...] = ()
    detail: str = ""


async def look(cluster: Cluster, namespace: str) -> AccountAccess:
    """Asks for the account's rules.

    Args:
        namespace: one that Homeport made; empty: there is none yet.
    """
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace or _NOWHERE},
    }
    try:
        status = (await cluster.review(_REVIEWS, body)).get("status") or {}
    except NotFound:
        return AccountAccess("no")
    except ClusterError as error:
        return AccountAccess(detail=error.message)
    rules = status.get("resourceRules") or []
    said = str(status.get("evaluationError") or "")
    if said and _may(rules, "*", "*.*"):
        return AccountAccess("no", detail=said)
    needed = [*pairs(EVERYWHERE), *(pairs(IN_NAMESPACES) if namespace else ())]
    excess = tuple(_text(pair) for pair in pairs(TOO_MUCH) if _may(rules, *pair))
    missing = tuple(_text(pair) for pair in needed if not _may(rules, *pair))
    if missing and status.get("incomplete"):
        # Another authorizer may allow it, and cannot tell.
        return AccountAccess(excess=excess, detail=said)
    return AccountAccess("yes", missing, excess)


def pairs(table: Mapping[str, Sequence[str]]) -> Iterable[tuple[str, str]]:
    """(verb, resource) of each right."""
    return ((verb, resource) for resource, verbs in table.items() for verb in verbs)


def _text(pair: tuple[str, str]) -> str:
    return " ".join(pair)


def _may(rules: Sequence[Mapping[str, Any]], verb: str, resource: str) -> bool:
    """Whether one of the rules gives a verb on `plural/subresource.group`."""
    plural, _, group = resource.partition(".")
    _, _, subresource = plural.partition("/")
    wanted = {plural, "*", *({f"*/{subresource}"} if subresource else ())}
    return any(
        {verb, "*"} & set(rule.get("verbs") or ())
        and {group, "*"} & set(rule.get("apiGroups") or ())
        and wanted & set(rule.get("resources") or ())
        # `bind` is given for our own two roles; everything else is needed for any name.
        and (verb == "bind" or not rule.get("resourceNames"))
        for rule in rules
    )
