"""What preflight says of a cluster: facts in, lines out, each red one with what to do. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from jobs.rules.check_results import CheckFound

IN_TREE = "kubernetes.io/glusterfs"
FOLDER = "homeport.dev/folder"  # of a mount that all nodes have, or of one node alone
STATIC = "kubernetes.io/no-provisioner"
ABANDONED = timedelta(minutes=30)  # its pods end then by themselves
KEY_MIN = 50
CLOCKS_S = 2.0
PORTS_FEW = 100
_TRIED = (
    *("Image", "Claim", "Volume", "Quotas", "DNS", "Policies"),
    *("NodePort from here", "NODE_CIDRS", "Clocks"),
)
WAY_OUT = (
    "No data is copied: set these volumes to Retain; mount their vol_... on every node; make a new volume "
    "with hostPath of that mount and a claimRef; remove the old claim and volume; claim again with "
    "volumeName; make the class anew (docs/storage.md)."
)


@dataclass(frozen=True)
class TrialFacts:
    """What two pods in a namespace of their own found.

    Attributes:
        problem: why it could not be tried to its end; the rest is what was found until then.
        server, client: what jobs/preflight/pod.py says of itself; empty: it did not come so far.
        peers: node, or NODE_HOST -> the address that a pod on another node sees of who comes by its NodePort; empty: no answer.
        gates: of these, whether the gate's NodePort answers there under the policies, where it did before.
        other: whether that of a port beside the gate does; None: it did not before either.
        gpus: what nvidia-smi says; gpus_why: why it could not be asked.
        quota: `yes`: more than the quota is refused; or `no`, `unknown`.
        places: nodes of server and client.
    """

    problem: str = ""
    next_step: str = ""
    image: str = ""
    pull_s: float | None = None
    bound_s: float | None = None
    claim_bytes: int = 0
    places: tuple[str, ...] = ()
    server: dict[str, Any] = field(default_factory=dict)
    client: dict[str, Any] = field(default_factory=dict)
    peers: dict[str, str] = field(default_factory=dict)
    gates: dict[str, bool] = field(default_factory=dict)
    other: bool | None = None
    clock_s: float | None = None
    quota: str = "unknown"
    gpus: str = ""
    gpus_why: str = ""


@dataclass(frozen=True)
class ClusterFacts:
    """What was read of the cluster and the settings.

    Attributes:
        missing: rights that who runs it lacks; accounts: that the installed accounts lack, and what should bound them.
        volumes: those of the built-in GlusterFS, in words.
        unlabelled: nodes that lack a label of NODE_SELECTOR.
        key: of the installation, `right`, `wrong`, `short`, or `unknown`.
        left: why the namespace of the trial could not be removed, and what to do.
    """

    version: str = ""
    is_old: bool = False
    missing: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    is_installed: bool = False
    pod_security: str = "unknown"
    class_name: str = ""
    provisioner: str = ""  # empty: there is no such class
    volumes: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    selector: str = ""
    unlabelled: tuple[str, ...] = ()
    portal_host: str = ""
    node_host: str = ""
    key: str = "unknown"
    ports_free: int = 0
    gpu_nodes: tuple[str, ...] = ()
    is_in_pod: bool = False
    left: tuple[str, ...] = ()
    trial: TrialFacts = TrialFacts()


def is_taken_over(setting: str) -> bool:
    """Whether a setting of the installation holds on an administrator's machine, too: not the files of web's pod.

    That of the registry's login says that there is one; where there is an installation nobody reads the file.
    """
    is_path = setting in ("HOMEPORT_HOME", "STATIC_ROOT", "CATALOG")
    is_path |= setting.endswith(("_FILE", "_KUBECONFIG"))
    return not is_path or setting == "PORTAL_PULL_SECRET_FILE"


def not_abandoned(run: str, made_at: str, now: datetime) -> str:
    """Why a namespace with the name of the trial's is left alone; empty: a run that was killed left it.

    Args:
        run: which one has made it, by its label; empty: none.
        made_at: ISO time with its zone.
    """
    if not run:
        return "is there already, and no preflight has made it"
    age = now - datetime.fromisoformat(made_at)
    is_young = age < ABANDONED
    minutes = max(0, int(age.total_seconds() // 60))
    return f"is of another preflight, which began {minutes} minutes ago" if is_young else ""


def made_for(volume: Mapping[str, Any], claim: Mapping[str, Any]) -> bool:
    """Whether a class made the volume for this claim; one that was there before it keeps what it says."""
    meta, of = volume["metadata"], volume["spec"].get("claimRef") or {}
    is_newer = meta["creationTimestamp"] >= claim["metadata"]["creationTimestamp"]
    return bool(of.get("uid") == claim["metadata"]["uid"] and is_newer)


def lines_before(facts: ClusterFacts) -> list[CheckFound]:
    """Those that are known before anything is tried in pods, in the order in which they are told."""
    if facts.missing:
        return list(_api(facts))
    return [*_api(facts), *_cluster(facts), *_names(facts)]


def lines_after(facts: ClusterFacts) -> list[CheckFound]:
    """All others, and in one line what was not tried."""
    if facts.missing:
        return []
    found = [*_storage(facts), *_pods(facts), *_network(facts)]
    told = {check.name for check in found}
    if untold := [name for name in _TRIED if name not in told]:
        found.append(_skip("Not tried", _listed(untold, len(_TRIED))))
    if facts.left:
        found.append(CheckFound("Clearing up", "failed", facts.left[0], " ".join(facts.left[1:])))
    return found


def _is(name: str, is_good: bool, good: str, bad: str, next_step: str = "") -> CheckFound:
    if is_good:
        return CheckFound(name, "passed", good)
    return CheckFound(name, "failed", bad, next_step)


def _skip(name: str, why: str) -> CheckFound:
    return CheckFound(name, "skipped", why)


def _listed(names: Sequence[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _api(facts: ClusterFacts) -> Iterator[CheckFound]:
    step = "Homeport needs Kubernetes 1.33 or newer: upgrade the cluster."
    version = facts.version or "it does not say its version"
    yield _is("Kubernetes", bool(facts.version) and not facts.is_old, version, version, step)
    text = f"missing: {_listed(facts.missing)}"
    step = "Run it with the kubeconfig of a cluster administrator; without these rights nothing else is tried."
    yield _is("Rights", not facts.missing, "those of an administrator", text, step)


def _cluster(facts: ClusterFacts) -> Iterator[CheckFound]:
    if facts.is_installed:
        text = f"missing: {_listed(facts.accounts)}"
        good = "Homeport's accounts have what they need"
        step = "kubectl apply -f deploy/cluster/, or -k your overlay once more."
        yield _is("Accounts", not facts.accounts, good, text, step)
        yield from _key(facts.key)
    if facts.pod_security == "unknown":
        yield _skip("Pod Security", "it could not be tried")
    else:
        bad = "a privileged pod is admitted to a namespace that says restricted"
        step = "Switch on the admission plugin PodSecurity of the API server."
        good = "privileged pods are refused"
        yield _is("Pod Security", facts.pod_security == "yes", good, bad, step)


def _key(key: str) -> Iterator[CheckFound]:
    name = "Secret key"
    step = "Put back the HOMEPORT_SECRET_KEY that Homeport worked with, or list it in HOMEPORT_SECRET_KEY_FALLBACKS."
    if key == "unknown":
        yield _skip(name, "nothing in the cluster tells yet by which key Homeport works")
    elif key == "short":
        bad = f"it is missing, or shorter than {KEY_MIN} characters"
        step = "Write HOMEPORT_SECRET_KEY=$(openssl rand -hex 40) to secret.env, and apply again."
        yield _is(name, False, "", bad, step)
    else:
        bad = "Homeport worked in this cluster with another one: what runs would bring no log"
        yield _is(name, key == "right", "the one that Homeport works with", bad, step)


def _storage(facts: ClusterFacts) -> Iterator[CheckFound]:
    name, class_name = "StorageClass", facts.class_name
    if facts.volumes and facts.provisioner != IN_TREE:
        bad = f"volumes of {IN_TREE}, which no kubelet mounts any more: {_listed(facts.volumes)}"
        yield _is("Old volumes", False, "", bad, WAY_OUT)
    if not facts.provisioner:
        step = "Make it (docs/storage.md), or name another one in STORAGE_CLASS."
        yield _is(name, False, "", f"there is none named {class_name!r}", step)
    elif facts.provisioner == IN_TREE:
        told = f"; its volumes: {_listed(facts.volumes)}" if facts.volumes else ""
        bad = f"{class_name} is of {IN_TREE}, which left Kubernetes in 1.26{told}"
        yield _is(name, False, "", bad, WAY_OUT)
    else:
        is_alone = facts.provisioner != FOLDER or len(facts.nodes) < 2 or _is_shared(facts.trial)
        bad = f"{class_name} is a folder of one node, and there are {len(facts.nodes)} nodes"
        step = "Use a class that all nodes share (docs/cluster.md, Storage), or keep one node."
        yield _is(name, is_alone, f"{class_name} of {facts.provisioner}", bad, step)
    if facts.unlabelled:
        bad = f"{_listed(facts.unlabelled)}: not {facts.selector}, so no pod of people's runs there"
        if facts.provisioner == FOLDER:
            step = "Mount the volume on these nodes; the guard sets the label (docs/storage.md)."
            yield _is("Mounts", False, "", bad, step)
        else:
            step = "Label them, unless NODE_SELECTOR is to leave them out."
            yield CheckFound("Mounts", "warned", bad, step)
    elif facts.provisioner == FOLDER and len(facts.nodes) > 1:
        bad = "people's pods may run on nodes where the volume is not mounted, and write to their disks"
        step = (
            "Let a guard label the nodes and set NODE_SELECTOR, as components/storage-gluster does."
        )
        yield _is("Mounts", bool(facts.selector), f"each node has {facts.selector}", bad, step)


def _is_shared(trial: TrialFacts) -> bool:
    """Whether pods on two nodes saw each other's files."""
    folders = [one.get("folder") or {} for one in (trial.server, trial.client)]
    return len(set(trial.places)) > 1 and all(one.get("is_seen") for one in folders)


def _names(facts: ClusterFacts) -> Iterator[CheckFound]:
    portal, node = facts.portal_host.lower(), facts.node_host.lower()
    if not portal:
        yield _skip("Host names", "PUBLIC_URL is not set")
    else:
        step = "Give nodes a name of their own, in DNS and in NODE_HOST."
        bad = f"portal and notebooks are both at {portal}: browsers would send one's cookies to the other"
        yield _is("Host names", portal != node, f"{portal}, and notebooks at {node}", bad, step)
    free = facts.ports_free
    step = "Widen --service-node-port-range of the API server, or stop what nobody uses."
    yield _is("NodePorts", free >= PORTS_FEW, f"{free} free", f"only {free} free", step)


def _pods(facts: ClusterFacts) -> Iterator[CheckFound]:
    trial = facts.trial
    if trial.problem:
        yield CheckFound("Pods", "failed", trial.problem, trial.next_step)
    if trial.pull_s is not None:
        where = " and ".join(dict.fromkeys(trial.places))
        words = f"{trial.image} runs on {where}, pulled and started in {trial.pull_s:.0f} s"
        yield CheckFound("Image", "passed", words)
    if trial.bound_s is not None:
        yield CheckFound("Claim", "passed", f"bound after {trial.bound_s:.0f} s")
    elif facts.provisioner == STATIC:
        words = "not tried, to use up none of the volumes that an administrator made for people"
        yield _skip("Claim", words)
    folders = [found for one in (trial.server, trial.client) if (found := one.get("folder"))]
    problems = [f"{one['problem']} (user {one['uid']})" for one in folders if "problem" in one]
    if problems:
        step = "The class has to give what it makes to user 1000 or group 100, writable."
        if "No space left" in problems[0]:
            step = "Delete what nobody needs on the volume, or give its servers larger disks."
        yield CheckFound("Volume", "failed", "; ".join(problems), step)
    elif folders:
        is_shared = all(one["is_seen"] for one in folders)
        bad = "what one pod writes the other does not see: it is no shared volume on both nodes"
        step = "Mount the shared volume on every node, or use a class that gives ReadWriteMany."
        yield _is("Volume", is_shared, "written and seen by both pods, as user 1000", bad, step)
        if (size := folders[0]["bytes"]) > trial.claim_bytes * 1.1:
            words = f"not enforced: the claim has {trial.claim_bytes} bytes, the volume {size}"
            yield CheckFound(
                "Size", "warned", words, "Set quotas of the storage (docs/storage.md)."
            )
        else:
            yield CheckFound("Size", "passed", "the volume is as large as its claim")
    if trial.quota != "unknown":
        step = "Switch on the admission plugin ResourceQuota of the API server."
        bad = "more than a quota allows is admitted"
        yield _is("Quotas", trial.quota == "yes", "more than they allow is refused", bad, step)
    if not facts.gpu_nodes:
        yield _skip("GPUs", "no node offers nvidia.com/gpu")
    elif trial.gpus:
        is_good = trial.gpus.startswith("GPU ")
        step = "Install NVIDIA's driver and container toolkit on the node."
        yield _is("GPUs", is_good, trial.gpus.splitlines()[0], trial.gpus[:300], step)
    else:
        why = f": {trial.gpus_why}" if trial.gpus_why else ""
        yield _skip("GPUs", f"{len(facts.gpu_nodes)} nodes offer some; not tried{why}")


def _network(facts: ClusterFacts) -> Iterator[CheckFound]:
    trial = facts.trial
    if trial.client:
        yield from _from_pods(trial, trial.client)
    yield from _node_ports(facts)
    told = (trial.client.get("clock_s"), trial.clock_s)
    if clocks := [abs(one) for one in told if one is not None]:
        apart_s = max(clocks)
        step = "Let NTP set the clocks of nodes and of this machine."
        text = f"at most {apart_s:.1f} s apart"
        yield _is("Clocks", apart_s <= CLOCKS_S, text, f"{apart_s:.1f} s apart", step)
    if len(set(trial.places)) == 1:
        yield _skip(
            "Two nodes", "there is one node for people's pods: nothing between nodes was tried"
        )


def _from_pods(trial: TrialFacts, client: Mapping[str, Any]) -> Iterator[CheckFound]:
    step = "Look at the DNS pods of the cluster, and whether policies let port 53 through."
    yield _is("DNS", not client["dns"], "names are found", client["dns"], step)
    step = (
        "Look at POD_PORTAL_URL, S3_POD_ENDPOINT and their Services; a server at a private address has to be "
        "in POD_EGRESS_CIDRS; docs/cluster.md, Policies."
    )
    for name, is_reached in client["needed"].items():
        yield _is(f"{name} from pods", is_reached, "reached", "not reached", step)
    open_ones = [name for name, is_open in client["closed"].items() if is_open]
    open_ones += ["a port of a pod beside its gate"] if trial.other else []
    step = "Use a network plugin that enforces NetworkPolicy: until then people's namespaces are not apart."
    opened_s = client["opened_s"]
    if open_ones and trial.other is False:
        bad = f"enforced, but pods reach {_listed(open_ones)}"
        step = "Add the networks of these addresses to CLUSTER_CIDRS."
        yield CheckFound("Policies", "failed", bad, step)
    elif open_ones:
        yield CheckFound(
            "Policies", "failed", f"not enforced: pods reach {_listed(open_ones)}", step
        )
    elif opened_s is None:
        bad = "a pod does not reach another one of its namespace"
        yield CheckFound("Policies", "failed", bad, "Look at the network plugin of the nodes.")
    elif not trial.server.get("api") and trial.other is None:
        yield CheckFound(
            "Policies", "warned", "nothing was open before they held, so nothing shows it"
        )
    else:
        words = f"enforced; what they allow opens after {opened_s:.0f} s"
        yield CheckFound("Policies", "passed", f"{words}; closed: {', '.join(client['closed'])}")


def _node_ports(facts: ClusterFacts) -> Iterator[CheckFound]:
    trial, name = facts.trial, "NodePort from here"
    tried = " and ".join(trial.peers)
    deaf = [node for node, peer in trial.peers.items() if not peer]
    if deaf:
        step = "Open ports 30000 to 32767 of the nodes to people's browsers; NODE_HOST leads to a node."
        yield CheckFound(name, "failed", f"no answer by {_listed(deaf)}", step)
    elif trial.peers:
        yield CheckFound(name, "passed", f"reached by {tried}")
    closed = [node for node, is_open in trial.gates.items() if not is_open]
    if facts.is_in_pod:
        words = "only where people's browsers are: this is a pod, whose address is not theirs"
        yield _skip("NODE_CIDRS", words)
    elif closed:
        seen = ", ".join(sorted({trial.peers[node] for node in closed}))
        bad = f"notebooks would not open through {_listed(closed)}: there people come from {seen}"
        step = "Add that to NODE_CIDRS where it is a node's, to CLIENT_CIDRS where it is theirs."
        yield CheckFound("NODE_CIDRS", "failed", bad, step)
    elif trial.gates:
        yield CheckFound(
            "NODE_CIDRS", "passed", f"notebooks open through {' and '.join(trial.gates)}"
        )
