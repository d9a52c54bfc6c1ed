"""Recognises causes in the cluster's own words, so that a wait or an end is told in ours.

A family is a code of the table that a look at the pod alone gives (`placing`, `image_pull`, ...); a
pattern found in the cluster's message makes it a more specific code of the same family. Rules that
depend on what kind of trouble it is (give up, hand back, go on) ask for the family.

The messages are those of the scheduler, the kubelet, the container runtimes and the admission
plugins of Kubernetes 1.33 to 1.37; each pattern is tested with recorded ones
(`tests/jobs/rules/recorded.json` says where each was found).
"""

import re
from dataclasses import dataclass

from portal import quantity

# A node's part of a FailedScheduling message -> (code, words for one node, words for several).
# https://github.com/kubernetes/kubernetes/tree/master/pkg/scheduler/framework/plugins
_NODE_PARTS: tuple[tuple[str, str, str, str], ...] = (
    (
        r"Insufficient nvidia\.com/gpu",
        "gpu_taken",
        "has too few free GPUs",
        "have too few free GPUs",
    ),
    (
        r"Insufficient memory",
        "memory_taken",
        "has too little free memory",
        "have too little free memory",
    ),
    (r"Insufficient cpu", "cpu_taken", "has too little free CPU", "have too little free CPU"),
    (
        r"Insufficient ephemeral-storage",
        "disk_taken",
        "has too little free disk",
        "have too little free disk",
    ),
    (r"Too many pods", "pods_taken", "accepts no more pods", "accept no more pods"),
    (
        r"node\(s\) had volume node affinity conflict",
        "volume_elsewhere",
        "cannot use its volume",
        "cannot use its volume",
    ),
    (
        r"node\(s\) (?:were unschedulable|had untolerated taint \{node\.kubernetes\.io/\S*unschedulable.*\})",
        "nodes_closed",
        "is cordoned",
        "are cordoned",
    ),
    (
        r"node\(s\) had untolerated taint \{node\.kubernetes\.io/(?:not-ready|unreachable).*\}",
        "nodes_closed",
        "is not ready",
        "are not ready",
    ),
    (
        r"node\(s\) had untolerated taint(?:s| \{.*\})",
        "node_reserved",
        "is reserved for other work",
        "are reserved for other work",
    ),
    (
        r"node\(s\) didn't match Pod's node affinity/selector",
        "node_selector",
        "does not match the node selector",
        "do not match the node selector",
    ),
)
_NODE_COUNT = re.compile(
    r"0/(\d+) nodes are available: (.*?)\.?\s*(?:(?:no new claims|preemption:|minCount).*)?$",
    re.DOTALL,
)
# https://github.com/kubernetes/kubernetes/blob/v1.37.2/pkg/scheduler/framework/plugins/gangscheduling/gangscheduling.go
_GROUP = re.compile(r"minCount \((\d+)\) cannot be satisfied: (\d+) scheduled, \d+ remaining")
_PART = re.compile(r"(\d+) (.*?)(?=(?:, \d+ )|$)", re.DOTALL)
# https://github.com/kubernetes/kubernetes/blob/master/staging/src/k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go
_OVER_QUOTA = re.compile(r"exceeded quota: \S+, requested: (\S+), used: \S+, limited: (\S+)")


@dataclass(frozen=True)
class Pattern:
    """One cause: found in a message of this family, it is told as `code`."""

    family: str
    expression: str
    code: str

    def is_in(self, text: str) -> bool:
        return re.search(self.expression, text, re.IGNORECASE) is not None


# The first that is found counts, so the specific ones stand before the general ones.
PATTERNS: tuple[Pattern, ...] = (
    # --- scheduling, apart from the parts about nodes above ---
    Pattern("placing", r"unbound immediate PersistentVolumeClaims", "volume_unbound"),
    Pattern("placing", r'persistentvolumeclaim "[^"]*" not found', "volume_missing"),
    Pattern("placing", r"persistentvolumeclaim .* bound to non-existent", "volume_missing"),
    Pattern("placing", r"no nodes available to schedule pods", "nodes_closed"),
    # --- what the API server refuses to create ---
    Pattern("quota_refused", r"exceeded quota:", "quota_exceeded"),
    Pattern("quota_refused", r"(?:maximum|minimum) \S+ usage per (?:Pod|Container)", "limit_range"),
    Pattern("quota_refused", r"violates PodSecurity", "pod_security"),
    Pattern("quota_refused", r"failed quota: .* must specify", "quota_unspecified"),
    # --- images ---
    Pattern("image_pull", r"toomanyrequests|rate limit", "image_rate_limit"),
    Pattern("image_pull", r"no match for platform|exec format error", "image_platform"),
    Pattern("image_pull", r"no space left on device", "image_no_space"),
    Pattern("image_pull", r"x509:|certificate signed by unknown", "registry_certificate"),
    Pattern(
        "image_pull",
        r"unauthorized|authentication required|access denied|no basic auth|403 Forbidden"
        r"|denied: (?!requested)",
        "image_denied",
    ),
    Pattern(
        "image_pull",
        r"not found|manifest unknown|does not exist|denied: requested access",
        "image_missing",
    ),
    Pattern(
        "image_pull",
        r"no such host|connection refused|i/o timeout|deadline exceeded|TLS handshake timeout"
        r"|network is unreachable|server misbehaving|50[234] ",
        "registry_unreachable",
    ),
    # --- volumes ---
    Pattern("volume", r'secret "user-[^"]*" not found', "secret_gone"),
    Pattern("volume", r'(?:secret|configmap) "[^"]*" not found', "volume_source_missing"),
    Pattern(
        "volume",
        r"transport endpoint is not connected|stale (?:NFS )?file handle|mount failed|"
        r"exit status 32|connection timed out|glusterfs|no route to host",
        "volume_server",
    ),
    Pattern("volume", r"multi-attach error", "volume_attached"),
    Pattern(
        "volume", r"timed out waiting for the condition|context deadline exceeded", "volume_slow"
    ),
    # --- containers that cannot be made ---
    Pattern("container_config", r'secret "?user-\S* not found', "secret_gone"),
    Pattern("container_config", r"(?:secret|configmap) \S+ not found", "volume_source_missing"),
    Pattern(
        "container_config",
        r"runAsNonRoot and image (?:will run as root|has non-numeric)",
        "image_root",
    ),
    Pattern(
        "container_config", r"device plugin|nvidia-container-cli|unresolvable CDI", "gpu_device"
    ),
    Pattern("container_config", r"no such file or directory", "start_missing"),
    # Of a volume that was there when the pod came.
    Pattern(
        "container_config",
        r"transport endpoint is not connected|stale (?:NFS )?file handle",
        "volume_server",
    ),
    # --- probes ---
    Pattern("probe", r"connection refused", "probe_refused"),
    Pattern("probe", r"deadline exceeded|i/o timeout|Client\.Timeout", "probe_slow"),
    Pattern("probe", r"statuscode: \d+", "probe_status"),
    # --- evictions ---
    Pattern("evicted", r"ephemeral[- ](?:local )?storage|emptyDir", "evicted_disk"),
    Pattern("evicted", r"low on resource: (?:inodes|imagefs|nodefs)", "evicted_disk"),
    Pattern("evicted", r"low on resource: memory", "evicted_memory"),
    Pattern("evicted", r"low on resource: pids", "evicted_pids"),
    # --- pods that the node refuses ---
    Pattern("disrupted", r"UnexpectedAdmissionError|device plugin", "gpu_device"),
    Pattern(
        "disrupted",
        r"Node didn't have enough resource|OutOf(?:cpu|memory|pods|nvidia)",
        "node_full",
    ),
    Pattern("disrupted", r"node (?:is )?shutting down|NodeShutdown", "node_shutdown"),
)

_FAMILIES = {
    **{pattern.code: pattern.family for pattern in PATTERNS},
    **{code: "placing" for _, code, _, _ in _NODE_PARTS},
    "volume_source_missing": "volume",
    "volume_server": "volume",
    "gpu_device": "container_config",
    "secret_gone": "container_config",
}


def family_of(code: str) -> str:
    """The general code that a specific one belongs to; other codes are their own family."""
    return _FAMILIES.get(code, code)


def find_code(family: str, text: str) -> str:
    """The most specific code of a family for a message; the family's own when none is known."""
    if family == "placing":
        nodes = _node_parts(text)
        if nodes:
            return max(nodes, key=lambda part: part[0])[1]
    for pattern in PATTERNS:
        if pattern.family == family and pattern.is_in(text):
            return pattern.code
    return family


def is_over_quota(text: str) -> bool:
    """Whether a refusal says that more is asked for than the whole quota has, used up or not."""
    match = _OVER_QUOTA.search(text)
    if match is None:
        return False
    asked, limits = (dict(one.split("=") for one in part.split(",")) for part in match.groups())
    both = asked.keys() & limits.keys()
    return any(quantity.parse(asked[one]) > quantity.parse(limits[one]) for one in both)


def plain(family: str, text: str) -> str:
    """A message as people read it: FailedScheduling and a group's part by part, others as they are."""
    if family != "placing":
        return text
    nodes = _node_parts(text)
    if group := _GROUP.search(text):
        least, room = group.groups()
        together = f"{least} pods are placed together or not at all, and there is room for {room}"
        return f"{together}; {plain(family, text[: group.start()])}" if nodes else f"{together}."
    if not nodes:
        return text
    total = _NODE_COUNT.search(text)
    assert total is not None
    words = ", ".join(f"{count} {said}" for count, _, said in nodes)
    return (
        f"of {total.group(1)} nodes {words}" if total.group(1) != "1" else f"the node {nodes[0][2]}"
    )


def _node_parts(text: str) -> list[tuple[int, str, str]]:
    """(number of nodes, code, words) of each part of a FailedScheduling message."""
    match = _NODE_COUNT.search(text)
    if match is None:
        return []
    found = []
    for number, said in _PART.findall(match.group(2)):
        count = int(number)
        for expression, code, one, several in _NODE_PARTS:
            if re.fullmatch(expression, said.strip().rstrip(".")):
                found.append((count, code, one if count == 1 else several))
                break
        else:
            found.append((count, "placing", said.strip()))
    return found
