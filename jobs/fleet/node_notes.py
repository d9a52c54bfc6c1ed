"""What there is to say about a node, in words with a next step: from its labels, taints, conditions.

Pure. Works for the nodes of any cluster: Kubernetes' own conditions, those that add-ons report by the
same convention (true means trouble), and what a node says of itself under `homeport.dev/`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobs.rules.queue.guards import SuspiciousNode
from portal import pools
from portal.pools import Pool

SIMULATED = "homeport.dev/simulated-gpu"
# Taints that Kubernetes itself sets for what the conditions (or `unschedulable`) already say.
_SAID_ALREADY = "node.kubernetes.io/"


@dataclass(frozen=True)
class NodeNote:
    """One thing about a node.

    Attributes:
        tone: `bad` (nothing new runs here, or something is broken), `warn`, or `info`.
        title: a few words.
        text: what the node itself says; may be empty.
        next_step: what an admin can do; empty when there is nothing to do.
        since: ISO time; None when it is not known.
    """

    tone: str
    title: str
    text: str = ""
    next_step: str = ""
    since: str | None = None

    @property
    def since_at(self) -> datetime | None:
        return datetime.fromisoformat(self.since) if self.since else None


# condition -> title, next step; said when the condition is True
_TROUBLES: dict[str, Callable[[], tuple[str, str]]] = {
    "MemoryPressure": lambda: (
        _("Short of memory"),
        _("Its pods may be evicted. Stop a workload here, or find what uses memory besides pods."),
    ),
    "DiskPressure": lambda: (
        _("Short of disk space"),
        _("Images and pods may be evicted. Free space on its disk, or add a larger one."),
    ),
    "PIDPressure": lambda: (
        _("Too many processes"),
        _("Find the pod that starts them, and stop it."),
    ),
    "NetworkUnavailable": lambda: (
        _("Network not set up"),
        _("Look at the pods of the network add-on on this node."),
    ),
    "homeport.dev/FoldersOfNobody": lambda: (
        _("Volume folders without an owner"),
        _("Check them; copy what is still needed to its owner, and remove the rest."),
    ),
    "homeport.dev/CPUOvercommitted": lambda: (_("More CPU offered than exists"), ""),
}
# said when the condition is False
_MISSING: dict[str, Callable[[], tuple[str, str]]] = {
    "homeport.dev/Isolation": lambda: (
        _("Pods not fully isolated"),
        _("Admit only people who trust each other."),
    ),
    "homeport.dev/Limits": lambda: (_("Limits of pods not fully enforced"), ""),
}


def notes_on(
    node: Any,
    selector: Mapping[str, str],
    known: Sequence[Pool] = (),
    suspicious: SuspiciousNode | None = None,
    hold: Any = None,
) -> list[NodeNote]:
    """All notes on a row of `jobs.models.Node`, the worst first.

    Args:
        selector: labels that a node must have for people's pods.
        known: the pools of the catalog.
        suspicious: what the guard of the queue says of it.
        hold: a row of `jobs.scheduling.models.NodeHold`, when it is held.
    """
    found = [
        *([suspicion_note(suspicious)] if suspicious else ()),
        *_closed(node),
        *_held(hold),
        *_left_out(node, selector),
        *_gpus(node),
        *_conditions(node),
        *_taints(node, pools.pool_of(node.labels, known)),
        *_simulated(node),
    ]
    return sorted(found, key=lambda note: ("bad", "warn", "info").index(note.tone))


def suspicion_note(found: SuspiciousNode) -> NodeNote:
    """Until when the node is avoided, and why; or that it would be."""
    facts = {"deaths": found.deaths, "people": found.people, "until": f"{found.until:%H:%M} UTC"}
    why = _(
        "%(deaths)s trainings of %(people)s people ended here within 30 minutes because their node failed "
        "them."
    )
    if found.is_avoided:
        title, then = _("Avoided until %(until)s"), _("Nothing new starts here; what runs goes on.")
        step = _("Look at the machine. An admin may use it again before that.")
    else:
        title = _("Suspicious until %(until)s")
        then = _(
            "It is used all the same: at most a tenth of a pool is avoided at a time, and never all of it."
        )
        step = _("Look at the machine, and cordon it if it is broken.")
    return NodeNote("warn", title % facts, f"{why % facts} {then}", step)


def is_simulated(node: Any) -> bool:
    """Whether the node says that its GPUs are not real ones."""
    return bool(node.labels.get(SIMULATED) == "true")


def _closed(node: Any) -> Iterator[NodeNote]:
    ready = next((c for c in node.conditions if c["type"] == "Ready"), None)
    if not node.is_ready:
        status = ready["status"] if ready else "Unknown"
        since = ready.get("since") if ready else None
        text = ready["message"] if ready else ""
        if status == "False":
            step = _("No pods start here. Read the kubelet's log on this machine.")
            yield NodeNote("bad", _("Not ready"), text, step, since)
        else:
            step = _("Check that the machine runs and reaches the API server.")
            yield NodeNote("bad", _("Not responding"), text, step, since)
    if not node.is_schedulable:
        text = _("Running pods continue; no new ones start here.")
        step = _("After the maintenance: kubectl uncordon %(node)s") % {"node": node.name}
        yield NodeNote("warn", _("Cordoned"), text, step)


def _held(hold: Any) -> Iterator[NodeNote]:
    if hold is not None:
        at = f"{hold.from_at:%Y-%m-%d %H:%M}"
        title = _("Held from %(at)s UTC by %(who)s") % {"at": at, "who": hold.held_by}
        step = _("Only what ends before by its deadline still starts here.")
        yield NodeNote("warn", title, hold.reason, step)


def _left_out(node: Any, selector: Mapping[str, str]) -> Iterator[NodeNote]:
    lacking = [f"{key}={value}" for key, value in selector.items() if node.labels.get(key) != value]
    if lacking:
        title = _("People's pods do not run here")
        text = _("The node lacks a label of NODE_SELECTOR: %(labels)s.") % {
            "labels": ", ".join(lacking)
        }
        step = _(
            "If the label tells of a mount, look on this node whether the file system is mounted."
        )
        yield NodeNote("warn", title, text, step)


def _gpus(node: Any) -> Iterator[NodeNote]:
    capacity, allocatable = node.capacity.get("gpu", 0), node.allocatable.get("gpu", 0)
    broken = capacity - allocatable
    if broken > 0:
        title = _("%(n)s of %(all)s GPUs out of service") % {"n": broken, "all": capacity}
        step = _("Check nvidia-smi and the kernel's log there, and the device plugin's pod.")
        yield NodeNote("bad", title, "", step)
    over = node.requested.get("gpu", 0) - allocatable
    if over > 0:
        title = ngettext(
            "Pods request %(n)s GPU more than exists",
            "Pods request %(n)s GPUs more than exist",
            over,
        ) % {"n": over}
        step = _("One of them waits for a GPU that is gone; stop it, or repair the GPU.")
        yield NodeNote("bad", title, "", step)


def _conditions(node: Any) -> Iterator[NodeNote]:
    for condition in node.conditions:
        kind, status = condition["type"], condition["status"]
        text, since = condition["message"], condition.get("since")
        if kind == "Ready":
            continue
        if kind in _MISSING:
            if status == "False":
                title, step = _MISSING[kind]()
                yield NodeNote("warn", title, text, step, since)
        elif status == "True":
            yield _trouble(kind, text, since)


def _trouble(kind: str, text: str, since: str | None) -> NodeNote:
    if kind not in _TROUBLES:
        # By convention (node-problem-detector) a condition that is true is a problem.
        return NodeNote("warn", kind, text, _("Ask the administrators of the cluster."), since)
    title, step = _TROUBLES[kind]()
    tone = "info" if kind == "homeport.dev/CPUOvercommitted" else "warn"
    return NodeNote(tone, title, text, step, since)


def _taints(node: Any, pool: Pool) -> Iterator[NodeNote]:
    taints = [(taint["key"], taint["value"], taint["effect"]) for taint in node.taints]
    foreign, only_gpu = pools.closing(taints, pool)
    for key, value, effect in foreign:
        if not key.startswith(_SAID_ALREADY):
            taint = taint_text({"key": key, "value": value, "effect": effect})
            title = _("Reserved: %(taint)s") % {"taint": taint}
            text = _("Pods of Homeport do not tolerate this taint, so none are scheduled here.")
            yield NodeNote("info", title, text)
    if only_gpu:
        yield NodeNote("info", _("Reserved for pods with GPUs"))


def _simulated(node: Any) -> Iterator[NodeNote]:
    if is_simulated(node):
        text = node.about.get("gpu_note") or _("Programs see GPU numbers, but no device.")
        yield NodeNote("info", _("Simulated GPUs"), text)


def taint_text(taint: Mapping[str, str]) -> str:
    """`key=value:NoSchedule`, as kubectl writes it."""
    value = f"={taint['value']}" if taint["value"] else ""
    return f"{taint['key']}{value}:{taint['effect']}"
