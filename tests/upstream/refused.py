"""Calls that Homeport's accounts must not be able to do, and what is said to those who try."""

from dataclasses import dataclass, field
from typing import Any

from deploy.cluster import rights
from tests.upstream.powerhouse import LABELS, OURS, POD_SPEC, THEIRS, core, obj, pod, volume

ALL = tuple(rights.ACCOUNTS)
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
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
NAMED = "u-eve-0123abcd"
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
    Call(
        "a namespace of another name",
        "POST",
        core("namespaces"),
        namespace("not-ours"),
        words={"reconciler": "named u-NAME-ID only"},
    ),
    Call(
        "a namespace without a label",
        "POST",
        core("namespaces"),
        namespace(NAMED, **{"homeport.dev/owner": ""}),
        words={"reconciler": "with Homeport's labels"},
    ),
    Call(
        "a namespace without Pod Security",
        "POST",
        core("namespaces"),
        namespace(NAMED, **{PSA: "baseline"}),
        words={"reconciler": "Security level restricted"},
    ),
    Call(
        "a namespace with an old Pod Security",
        "POST",
        core("namespaces"),
        namespace(NAMED, **{f"{PSA}-version": "v1.20"}),
        words={"reconciler": "Security level restricted"},
    ),
    Call(
        "Pod Security off",
        "PATCH",
        core(f"namespaces/{OURS}"),
        labels(**{PSA: "privileged"}),
        words={"reconciler": KEEP},
    ),
    Call(
        "Pod Security removed",
        "PATCH",
        core(f"namespaces/{OURS}"),
        labels(**{PSA: None}),
        words={"reconciler": KEEP},
    ),
    Call(
        "our label removed",
        "PATCH",
        core(f"namespaces/{OURS}"),
        labels(**{"app.kubernetes.io/managed-by": None}),
        words={"reconciler": KEEP},
    ),
    Call(
        "a namespace given to another",
        "PATCH",
        core(f"namespaces/{OURS}"),
        labels(**{"homeport.dev/owner": "somebody"}),
        words={"reconciler": KEEP},
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
        {**binding("cluster-admin", account("reconciler")), "kind": "ClusterRoleBinding"},
    ),
    Call(
        "bind cluster-admin in a person's namespace",
        "POST",
        f"{RBAC}/namespaces/{OURS}/rolebindings",
        binding("cluster-admin", account("reconciler")),
        words={"reconciler": "not currently held"},
    ),
    Call(
        "bind edit in a person's namespace",
        "POST",
        f"{RBAC}/namespaces/{OURS}/rolebindings",
        binding("edit", account("reconciler")),
        words={"reconciler": "not currently held"},
    ),
    Call(
        "rights in a foreign namespace",
        "POST",
        f"{RBAC}/namespaces/{THEIRS}/rolebindings",
        binding("homeport-tenant", account("reconciler")),
        words={"reconciler": ELSEWHERE},
    ),
    Call(
        "rights for somebody else",
        "POST",
        f"{RBAC}/namespaces/{OURS}/rolebindings",
        binding("homeport-tenant", {"kind": "User", "name": "eve", "apiGroup": ROLE_GROUP}),
        words={"reconciler": "and nothing else"},
    ),
    Call(
        "the reconciler's rights for web",
        "POST",
        f"{RBAC}/namespaces/{OURS}/rolebindings",
        binding("homeport-tenant", account("web")),
        words={"reconciler": "and nothing else"},
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
    Call(
        "a validating webhook",
        "POST",
        f"{ADMISSION}/validatingwebhookconfigurations",
        obj("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "tried"),
    ),
    Call(
        "a mutating webhook",
        "POST",
        f"{ADMISSION}/mutatingwebhookconfigurations",
        obj("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "tried"),
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
    Call(
        "a new kind of object",
        "POST",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        obj("apiextensions.k8s.io/v1", "CustomResourceDefinition", "a.example.org"),
    ),
    Call(
        "another API server",
        "POST",
        "/apis/apiregistration.k8s.io/v1/apiservices",
        obj("apiregistration.k8s.io/v1", "APIService", "v1.example.org"),
    ),
    Call(
        "a storage class",
        "POST",
        "/apis/storage.k8s.io/v1/storageclasses",
        obj("storage.k8s.io/v1", "StorageClass", "tried", provisioner="x"),
    ),
    Call(
        "a priority above all",
        "POST",
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        obj("scheduling.k8s.io/v1", "PriorityClass", "tried", value=1000000),
    ),
    Call(
        "lead a service elsewhere",
        "POST",
        f"/apis/discovery.k8s.io/v1/namespaces/{OURS}/endpointslices",
        obj("discovery.k8s.io/v1", "EndpointSlice", "tried", addressType="IPv4", endpoints=[]),
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
