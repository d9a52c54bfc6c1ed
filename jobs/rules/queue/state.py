"""What the decision of the queue takes and gives: plain integers.

Times are whole seconds since any one origin, `UNKNOWN` where nobody knows them. A `Size` is five whole
numbers in the order of `admission.RESOURCES`: GPUs, CPU in millicores, memory in bytes, pods, NodePorts.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

Size = tuple[int, int, int, int, int]

NOTHING: Size = (0, 0, 0, 0, 0)
UNKNOWN = 2**62  # seconds: later than all that is known
UNLIMITED: Size = (UNKNOWN,) * 5

LOW, NORMAL, HIGH = "low", "normal", "high"  # as a spec has them
ANY, PACK, SPREAD = "any", "pack", "spread"

IMAGE_GUARDED = "image_guarded"  # why: another one tries the image that cannot be pulled

GRACE_MOST_S = 600  # the longest grace of a role, the evaluator's
GONE_S = 60  # so long after its end or its grace a workload may still be seen


def add(one: Size, other: Size, times: int = 1) -> Size:
    """`one` and `times` of the other."""
    return (
        one[0] + other[0] * times,
        one[1] + other[1] * times,
        one[2] + other[2] * times,
        one[3] + other[3] * times,
        one[4] + other[4] * times,
    )


def total(sizes: Iterable[Size]) -> Size:
    """All together."""
    found = NOTHING
    for size in sizes:
        found = add(found, size)
    return found


def lacking(left: Size, wanted: Size) -> tuple[int, ...]:
    """The places in a `Size` of which there is less than wanted; what is not wanted never lacks."""
    return tuple(r for r in range(5) if wanted[r] > 0 and wanted[r] > left[r])


@dataclass(frozen=True, slots=True)
class NodeState:
    """A node. It belongs to one pool, the first that selects it.

    Attributes:
        free: what no pod has asked for, less what is admitted and will come here.
        domain: its value of the pool's topology key; empty: a domain of its own.
        is_open: takes new pods now.
        only_gpu: takes only pods that ask for a GPU.
        hold_from_s: from then on an admin wants it empty.
    """

    name: str
    pool: str
    free: Size
    domain: str = ""
    is_open: bool = True
    only_gpu: bool = False
    hold_from_s: int = UNKNOWN


@dataclass(frozen=True, slots=True)
class RunningWorkload:
    """What is admitted and not gone.

    Attributes:
        nodes: what it holds of each node.
        total: what it holds of its namespace's quota.
        ends_by_s: its room is free then: admission, start-up, deadline and grace. It was fixed at the
            admission; `UNKNOWN` without a deadline.
        gone_by_s: when it is being stopped, the end of its grace; else `UNKNOWN`.
        is_being_stopped: it has been told to end.
    """

    workload_id: str
    namespace: str
    nodes: tuple[tuple[str, Size], ...]
    total: Size
    admitted_at_s: int
    ends_by_s: int = UNKNOWN
    is_low: bool = False
    grace_s: int = 120
    gone_by_s: int = UNKNOWN

    @property
    def is_being_stopped(self) -> bool:
        return self.gone_by_s != UNKNOWN

    def ends_at_s(self, now_s: int) -> int:
        """When its room is free at the latest; `UNKNOWN` too when it has outstayed that."""
        at = min(self.ends_by_s, self.gone_by_s)
        if at == UNKNOWN or now_s > at + GONE_S:
            return UNKNOWN
        return max(at, now_s)


@dataclass(frozen=True, slots=True)
class RoleReplicas:
    """`count` equal replicas; `pool` where the role names one of its own, else the workload's."""

    count: int
    each: Size
    pool: str = ""


@dataclass(frozen=True, slots=True)
class QueuedWorkload:
    """A training, notebook or TensorBoard in the queue.

    Attributes:
        pools: where it may run, in the order to try; never split over them.
        rank: its place in its owner's own order; equal ones go by age.
        lasts_s: from admission to free room: start-up, deadline and grace; `UNKNOWN` without a deadline.
        not_before_s: it is backing off until then.
        obstacle: stable word for what else keeps it from starting (closed, guarded, can never fit).
        stops_from_s: it stops nobody before that (an hour after a withdrawal that followed a preemption).
        number: orders those that were queued in the same second.
        trials: images that could not be pulled, each as one word: of those with the same one starts in a
            look, and no other while nodes are emptied for it.
    """

    workload_id: str
    namespace: str
    queued_at_s: int
    roles: tuple[RoleReplicas, ...]
    pools: tuple[str, ...] = ("default",)
    priority: str = NORMAL
    rank: int = 0
    lasts_s: int = UNKNOWN
    not_before_s: int = 0
    obstacle: str = ""
    stops_from_s: int = 0
    placement: str = ANY
    number: int = 0
    trials: tuple[str, ...] = ()

    @property
    def total(self) -> Size:
        found = NOTHING
        for role in self.roles:
            found = add(found, role.each, role.count)
        return found


@dataclass(frozen=True, slots=True)
class NamespaceState:
    """A namespace.

    Attributes:
        team: a namespace without one is a team of its own; then its own name.
        hard: its quota.
        left: of the quota, less what normal and high hold; may be negative.
        low_left: of the quota and what `low` may borrow, less what all hold.
        held: by its normal and high workloads.
        usage: its average dominant share, in parts of `order.WHOLE`.
        admitted: of the last QUEUE_AGING: when, and the dominant share that it asked for.
    """

    name: str
    team: str
    hard: Size = UNLIMITED
    left: Size = UNLIMITED
    low_left: Size = UNLIMITED
    held: Size = NOTHING
    weight: int = 1
    usage: int = 0
    admitted: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class TeamState:
    """A team; `low_left` is what its `low` workloads may still take when borrowing is `team`."""

    name: str
    weight: int = 1
    usage: int = 0
    low_left: Size = UNLIMITED


@dataclass(frozen=True, slots=True)
class Reservation:
    """Room on nodes that is kept for the first in line of their pool.

    Attributes:
        room: what it needs of each node.
        starts_at_s: the promise: it starts then at the latest; `UNKNOWN` where unlimited work must end.
    """

    workload_id: str
    room: tuple[tuple[str, Size], ...]
    starts_at_s: int


@dataclass(frozen=True, slots=True)
class RoomClaim:
    """Nodes that are being emptied by preemption for one workload.

    Attributes:
        until_s: so long it may last: a minute more than the longest grace of those that are stopped.
    """

    workload_id: str
    room: tuple[tuple[str, Size], ...]
    until_s: int


@dataclass(frozen=True, slots=True)
class QueueState:
    """All that one look knows.

    Attributes:
        capacity: of all nodes together; shares are parts of it.
        pods_started: in the last ten seconds.
    """

    now_s: int
    capacity: Size
    nodes: tuple[NodeState, ...]
    running: tuple[RunningWorkload, ...]
    queued: tuple[QueuedWorkload, ...]
    namespaces: dict[str, NamespaceState]
    teams: dict[str, TeamState]
    reservations: tuple[Reservation, ...] = ()
    claims: tuple[RoomClaim, ...] = ()
    pods_started: int = 0


@dataclass(frozen=True, slots=True)
class QueueRules:
    """The admin's switches, neutral by default.

    Attributes:
        fair_share: off, teams and namespaces tie and the oldest goes first.
        reserves: off only to compare.
        most: admissions and preemptions in one look.
        most_pods: in ten seconds; what is larger than that starts alone.
    """

    aging_s: int = 6 * 3600
    fair_share: bool = False
    reserves: bool = True
    most: int = 10
    most_pods: int = 200


@dataclass(frozen=True, slots=True)
class Start:
    """An admission: the replicas found room on these nodes, and must keep off `avoid`."""

    workload_id: str
    nodes: tuple[tuple[str, Size], ...]
    ends_by_s: int
    avoid: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Preemption:
    """A `low` workload to stop with grace, and for whom; nobody where an admin holds `node`."""

    workload_id: str
    beneficiary: str
    node: str = ""


@dataclass(frozen=True, slots=True)
class Why:
    """Why one still waits.

    Attributes:
        code: quota, behind, low_holds (its quota, by `low` of its namespace), nodes, claim, `IMAGE_GUARDED`, or
            what `QueuedWorkload.obstacle` says.
        resources: places in a `Size` of what the quota lacks; of `nodes` only by what `low` holds.
        behind: the workload of the own namespace that goes first.
    """

    code: str
    resources: tuple[int, ...] = ()
    behind: str = ""


@dataclass(slots=True)
class Decided:
    """What one look decides; who is in neither `starts` nor `why` was not reached by `most`.

    Attributes:
        reservations: all that hold from now on, and so `claims`.
        ended: reservations that ended and whose owner still waits, with the cause: node, quota or
            obstacle (its owner may not start now).
        moved: reservations whose promise moved back, by what was then: a pod of others, or one that
            has outstayed its end.
        look_at_s: time alone changes something then; `UNKNOWN`: nothing does.
    """

    starts: list[Start] = field(default_factory=list)
    preemptions: list[Preemption] = field(default_factory=list)
    reservations: list[Reservation] = field(default_factory=list)
    claims: list[RoomClaim] = field(default_factory=list)
    why: dict[str, Why] = field(default_factory=dict)
    ended: list[tuple[str, str]] = field(default_factory=list)
    moved: list[str] = field(default_factory=list)
    look_at_s: int = UNKNOWN
