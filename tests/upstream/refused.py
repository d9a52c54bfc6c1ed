"""Calls that Homeport's accounts must not be able to do, and what is said to those who try."""

from dataclasses import dataclass, field
from typing import Any

from deploy.cluster import rights
from tests.upstream.powerhouse import LABELS, OURS, POD_SPEC, THEIRS, core, obj, pod, volume

ALL = tuple(rights.ACCOUNTS)
RBAC = "/apis/rbac.authorization.k8s.io/v1"
WEBHOOKS = "admissionregistration.k8s.io/v1"
ADMISSION = f"/apis/{WEBHOOKS}"
ROLE_GROUP = "rbac.authorization.k8s.io"
TOKEN = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
PRIVILEGED = {**POD_SPEC["containers"][0], "securityContext": {"privileged": True}}
ANYTHING = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}


@dataclass(frozen=True)
class Call:
    """One call that has to be refused.

    Attributes:
        by: the accounts that try it.
        words: what the refusal says besides 403, by account; where the policy refuses what a role
            would allow, its words.
    """

    name: str
    method: str
    path: str
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    by: tuple[str, ...] = ALL
    words: dict[str, str] = field(default_factory=dict)


def binding(role: str, subject: dict[str, str]) -> dict[str, Any]:
    return obj(
        f"{ROLE_GROUP}/v1",
        "RoleBinding",
        "tried",
        roleRef={"apiGroup": ROLE_GROUP, "kind": "ClusterRole", "name": role},
        subjects=[subject],
    )


def account(name: str) -> dict[str, str]:
    return {"kind": "ServiceAccount", "name": name, "namespace": rights.NAMESPACE}


def namespace(name: str, **changes: str) -> dict[str, Any]:
    made = obj("v1", "Namespace", name)
    labels = {key: text for key, text in {**LABELS, **changes}.items() if text}
    return {**made, "metadata": {"name": name, "labels": labels}}


def labels(**changes: str | None) -> dict[str, Any]:
    return {"metadata": {"labels": changes}}


ELSEWHERE = f"the namespace {THEIRS} does not carry its labels"
KEEP = "leave them their labels and the Pod Security level restricted"
PSA = "pod-security.kubernetes.io/enforce"
LEVEL = "Security level restricted"
NOT_HELD = "not currently held"
NOTHING_ELSE = "and nothing else"
OWNER = "homeport.dev/owner"
US, WEB = account("reconciler"), account("web")
EVE = {"kind": "User", "name": "eve", "apiGroup": ROLE_GROUP}
NAMED = "u-eve-0123abcd"


def named(label: str, text: str) -> dict[str, Any]:
    """A namespace as ours are called, with another label or without it."""
    return namespace(NAMED, **{label: text})


# What tells a cluster how to be one: group and version, path, kind, name, fields.
SLICES = f"namespaces/{OURS}/endpointslices"
NEW: tuple[tuple[str, str, str, str, str, dict[str, Any]], ...] = (
    ("a validating webhook", WEBHOOKS, "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", "tried", {}),
    ("a mutating webhook", WEBHOOKS, "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", "tried", {}),
    ("a new kind of object", "apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition", "a.example.org", {}),
    ("another API server", "apiregistration.k8s.io/v1", "apiservices", "APIService", "v1.example.org", {}),
    ("a storage class", "storage.k8s.io/v1", "storageclasses", "StorageClass", "tried", {"provisioner": "x"}),
    ("a priority above all", "scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", "tried", {"value": 1000000}),
    ("lead a service elsewhere", "discovery.k8s.io/v1", SLICES, "EndpointSlice", "tried", {"addressType": "IPv4", "endpoints": []}),
)  # fmt: skip
CALLS = (
    # --- data ---
    Call("delete a claim", "DELETE", core("persistentvolumeclaims/data", OURS)),
    Call("delete all claims", "DELETE", core("persistentvolumeclaims", OURS)),
    Call("delete a volume", "DELETE", core("persistentvolumes/ours")),
    Call("delete all volumes", "DELETE", core("persistentvolumes")),
    Call("make a volume", "POST", core("persistentvolumes"), volume("tried", OURS, "log")),
    Call(
        "take somebody else's volume",
        "PATCH",
        core("persistentvolumes/theirs"),
        {"spec": {"persistentVolumeReclaimPolicy": "Delete"}},
        words={"purge": "only those of Homeport's namespaces"},
    ),
    Call(
        "give a person's volume away",
        "PATCH",
        core("persistentvolumes/ours"),
        {"spec": {"claimRef": {"namespace": THEIRS}}},
        words={"purge": "whose they are stays"},
    ),
    # --- namespaces ---
    Call(
        "delete a foreign namespace",
        "DELETE",
        core(f"namespaces/{THEIRS}"),
        words={"purge": "only Homeport's own"},
    ),
    Call(
        "delete Homeport's own namespace",
        "DELETE",
        core(f"namespaces/{rights.NAMESPACE}"),
        words={"purge": "only Homeport's own"},
    ),
    Call("delete a person's namespace", "DELETE", core(f"namespaces/{OURS}"), by=ALL[:2]),
    *(
        Call(name, "POST", core("namespaces"), body, words={"reconciler": words})
        for name, body, words in (
            ("a namespace of another name", namespace("not-ours"), "named u-NAME-ID only"),
            ("a namespace without a label", named(OWNER, ""), "with Homeport's labels"),
            ("a namespace without Pod Security", named(PSA, "baseline"), LEVEL),
            ("a namespace with an old Pod Security", named(f"{PSA}-version", "v1.20"), LEVEL),
        )
    ),
    *(
        Call(
            name, "PATCH", core(f"namespaces/{OURS}"), labels(**change), words={"reconciler": KEEP}
        )
        for name, change in (
            ("Pod Security off", {PSA: "privileged"}),
            ("Pod Security removed", {PSA: None}),
            ("our label removed", {"app.kubernetes.io/managed-by": None}),
            ("a namespace given to another", {OWNER: "somebody"}),
        )
    ),
    Call(
        "a foreign namespace taken",
        "PATCH",
        core(f"namespaces/{THEIRS}"),
        labels(**LABELS),
        words={"reconciler": "change namespaces of Homeport only"},
    ),
    Call(
        "finalize a namespace",
        "PUT",
        core(f"namespaces/{OURS}/finalize"),
        {**namespace(OURS), "spec": {"finalizers": []}},
    ),
    # --- things of others ---
    Call("read all secrets", "GET", core("secrets")),
    Call("list a person's secrets", "GET", core("secrets", OURS)),
    Call("read a foreign secret", "GET", core("secrets/keys", THEIRS)),
    Call("read a secret of Homeport's own", "GET", core("secrets/keys", rights.NAMESPACE)),
    Call("a pod in kube-system", "POST", core("pods", "kube-system"), pod()),
    Call("a pod in a foreign namespace", "POST", core("pods", THEIRS), pod()),
    Call("write a foreign object", "POST", core("configmaps", THEIRS), obj("v1", "ConfigMap", "x")),
    Call(
        "change a foreign deployment",
        "PATCH",
        f"/apis/apps/v1/namespaces/{THEIRS}/deployments/app",
        {"spec": {"replicas": 1}},
    ),
    Call(
        "delete a foreign deployment",
        "DELETE",
        f"/apis/apps/v1/namespaces/{THEIRS}/deployments/app",
    ),
    Call("read foreign logs", "GET", core("pods/one/log", THEIRS)),
    # --- rights ---
    Call(
        "make oneself an admin",
        "POST",
        f"{RBAC}/clusterrolebindings",
        {**binding("cluster-admin", US), "kind": "ClusterRoleBinding"},
    ),
    *(
        Call(
            name,
            "POST",
            f"{RBAC}/namespaces/{where}/rolebindings",
            binding(role, subject),
            words={"reconciler": words},
        )
        for name, where, role, subject, words in (
            ("bind cluster-admin in a person's namespace", OURS, "cluster-admin", US, NOT_HELD),
            ("bind edit in a person's namespace", OURS, "edit", US, NOT_HELD),
            ("rights in a foreign namespace", THEIRS, "homeport-tenant", US, ELSEWHERE),
            ("rights for somebody else", OURS, "homeport-tenant", EVE, NOTHING_ELSE),
            ("the reconciler's rights for web", OURS, "homeport-tenant", WEB, NOTHING_ELSE),
        )
    ),
    Call(
        "more rights for one's own role",
        "PATCH",
        f"{RBAC}/clusterroles/homeport-tenant",
        {"rules": [ANYTHING]},
    ),
    Call(
        "a role of one's own",
        "POST",
        f"{RBAC}/namespaces/{OURS}/roles",
        obj(f"{ROLE_GROUP}/v1", "Role", "tried", rules=[ANYTHING]),
    ),
    Call("be a user", "GET", core("nodes"), headers={"Impersonate-User": "admin"}),
    Call(
        "be of a group",
        "GET",
        core("nodes"),
        headers={"Impersonate-User": "me", "Impersonate-Group": "system:masters"},
    ),
    Call("a token of purge", "POST", core("serviceaccounts/purge/token", "homeport"), TOKEN),
    Call(
        "a token of a person's account", "POST", core("serviceaccounts/homeport/token", OURS), TOKEN
    ),
    Call(
        "a token of the cluster's own",
        "POST",
        core("serviceaccounts/namespace-controller/token", "kube-system"),
        TOKEN,
    ),
    # --- pods ---
    Call("exec", "POST", f"{core('pods/one/exec', OURS)}?command=id&stdout=1"),
    Call("attach", "POST", f"{core('pods/one/attach', OURS)}?stdout=1"),
    Call("port-forward", "POST", core("pods/one/portforward", OURS)),
    Call("proxy to a pod", "GET", core("pods/one/proxy/", OURS)),
    Call("proxy to a service", "GET", core("services/kubernetes/proxy/", "default")),
    Call(
        "a container in a running pod",
        "PATCH",
        core("pods/one/ephemeralcontainers", OURS),
        {"spec": {"ephemeralContainers": [{**POD_SPEC["containers"][0], "name": "x"}]}},
    ),
    Call(
        "place a pod",
        "POST",
        core("pods/one/binding", OURS),
        obj("v1", "Binding", "one", target={"kind": "Node", "name": "bare"}),
    ),
    Call(
        "say how a pod is", "PATCH", core("pods/one/status", OURS), {"status": {"phase": "Failed"}}
    ),
    Call("delete all pods", "DELETE", core("pods", OURS)),
    Call(
        "a privileged pod",
        "POST",
        core("pods", OURS),
        pod(containers=[PRIVILEGED]),
        words={"reconciler": "PodSecurity"},
    ),
    # --- the cluster ---
    Call("a node's kubelet", "GET", core("nodes/bare/proxy/pods")),
    Call("close a node", "PATCH", core("nodes/bare"), {"spec": {"unschedulable": True}}),
    Call("delete a node", "DELETE", core("nodes/bare")),
    *(
        Call(name, "POST", f"/apis/{version}/{path}", obj(version, kind, called, **more))
        for name, version, path, kind, called, more in NEW
    ),
    Call(
        "delete the policy that holds us",
        "DELETE",
        f"{ADMISSION}/validatingadmissionpolicies/homeport-accounts",
    ),
    Call(
        "let go of the policy that holds us",
        "PATCH",
        f"{ADMISSION}/validatingadmissionpolicybindings/homeport-accounts",
        {"spec": {"validationActions": ["Warn"]}},
    ),
    # --- what only another of our accounts needs ---
    Call("change a volume", "PATCH", core("persistentvolumes/ours"), labels(a="b"), by=ALL[:2]),
    Call("read a log", "GET", core("pods/one/log", OURS), by=ALL[1:]),
    Call("see all pods", "GET", core("pods"), by=("web",)),
    Call("see all nodes", "GET", core("nodes"), by=("web", "purge")),
    Call("read a person's secret", "GET", core("secrets/keys", OURS), by=("web", "purge")),
    Call("a pod of a person", "POST", core("pods", OURS), pod(), by=("web", "purge")),
    Call("delete a pod of a person", "DELETE", core("pods/one", OURS), by=("web", "purge")),
    Call("make a namespace", "POST", core("namespaces"), namespace(NAMED), by=("web", "purge")),
    Call("lift a quota", "DELETE", core("resourcequotas/homeport", OURS)),
)
