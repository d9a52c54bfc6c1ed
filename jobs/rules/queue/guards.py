"""The guards of the queue: images that cannot be pulled, and nodes on which trainings die. Pure."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from jobs.rules import reasons
from jobs.rules.admission import Fit
from jobs.rules.endings import NODE_FAULTS
from jobs.rules.queue.state import IMAGE_GUARDED, UNKNOWN
from jobs.rules.queue.times import seconds_of

THRICE = 3
# --- images ---
PULLS_WITHIN = timedelta(minutes=10)  # also between two tries
PULLS_COUNT_FOR = timedelta(hours=1)  # what nobody has tried for so long may be tried by all
PULLS_TOLD_FOR = timedelta(days=7)  # what is older says nothing of the registry today
IMAGE_FAILS = "image_fails"  # the code of a `Fit` that may start, and may fail as others did
# --- nodes ---
DEATHS_WITHIN = timedelta(minutes=30)
PEOPLE = 2
AVOIDED_FOR = timedelta(hours=1)
DEATHS_COUNT_FOR = DEATHS_WITHIN + AVOIDED_FOR
PART = 10  # one node of so many of a pool, at least one, is avoided at a time


@dataclass(frozen=True)
class PullFailure:
    """Pulls of one image by one pod.

    Attributes:
        at: when the last one failed. A kubelet waits five minutes at most before it tries again, so the
            last three of a pod are within ten minutes.
        count: how many failed.
        detail: what was said of the last one.
    """

    image: str
    tenant_id: str
    at: datetime
    count: int
    detail: str

    @property
    def since(self) -> datetime:
        """When the first of those that count may have failed: of several the last one's time alone is kept."""
        return self.at if self.count == 1 else self.at - PULLS_WITHIN


@dataclass(frozen=True)
class GuardedImage:
    """An image that one workload at a time may try.

    Attributes:
        tenant_id: in whose namespace; empty: in all.
        details: what was said last, by the id of the tenant in whose namespace: what one is told of a
            registry is nothing for others.
        tries_from: the next one may start then.
    """

    image: str
    tenant_id: str
    details: Mapping[str, str]
    tries_from: datetime

    def covers(self, images: Collection[str], tenant_id: str) -> bool:
        return self.image in images and self.tenant_id in ("", tenant_id)

    def wait_until(self, at: datetime, tenant_id: str) -> Fit:
        """What others of this namespace are told when one tries it then."""
        detail = self.details.get(tenant_id)
        window = f"ten minutes (“{detail}”)" if detail else "ten minutes"
        facts = {"image": self.image, "window": window, "at": f"{at:%H:%M} UTC"}
        return Fit("later", IMAGE_GUARDED, reasons.make(IMAGE_GUARDED, **facts).text)


Key = tuple[str, str]  # an image and the id of a tenant


def guarded_images(
    failures: Iterable[PullFailure],
    pulled: Mapping[Key, datetime],
    tried: Mapping[Key, datetime],
    now: datetime,
) -> list[GuardedImage]:
    """Images that failed to be pulled three times in ten minutes, and have not been pulled since.

    They count for each namespace, as some have a secret for the registry, and for all namespaces when
    two of them failed and none has pulled it since the first failure.

    Args:
        failures: of the last `PULLS_COUNT_FOR`.
        pulled: when a pod with this image last began to run.
        tried: when a workload with this image was last admitted.
    """
    since: dict[Key, list[PullFailure]] = defaultdict(list)
    for one in failures:
        key = one.image, one.tenant_id
        if key not in pulled or one.at > pulled[key]:
            since[key].append(one)
    failed = {key: ones for key, ones in since.items() if _is_thrice(ones)}
    spread = Counter(image for image, _ in failed)
    first: dict[str, datetime] = {}
    for (image, _), ones in failed.items():
        first[image] = min(first.get(image, now), *(one.since for one in ones))
    some_can = {image for (image, _), at in pulled.items() if image in first and at > first[image]}
    found: dict[Key, list[PullFailure]] = defaultdict(list)
    for (image, tenant_id), ones in failed.items():
        is_by_itself = spread[image] == 1 or image in some_can
        found[image, tenant_id if is_by_itself else ""] += ones
    guards = []
    for (image, tenant_id), ones in found.items():
        details = {one.tenant_id: one.detail for one in sorted(ones, key=lambda one: one.at)}
        tries = [
            at for (of, whose), at in tried.items() if of == image and tenant_id in ("", whose)
        ]
        tries_from = max(tries) + PULLS_WITHIN if tries else now
        guards.append(GuardedImage(image, tenant_id, details, tries_from))
    return guards


@dataclass(frozen=True)
class FailingImage:
    """An image whose last pulls failed, as one namespace sees it.

    Attributes:
        since: about when the first of them failed.
        detail: what was said of the last one in this namespace; empty: it failed in others alone.
    """

    image: str
    count: int
    since: datetime
    detail: str

    @property
    def text(self) -> str:
        """A sentence."""
        times = "once" if self.count == 1 else f"{self.count} times"
        said = f" (“{self.detail}”)" if self.detail else ""
        at = f"{self.since.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
        return f"{self.image} could not be pulled {times} since {at}{said}, and has not been pulled since."


def failing_image(
    failures: Iterable[PullFailure], pulled: Mapping[Key, datetime], image: str, tenant_id: str
) -> FailingImage | None:
    """Whether the last pulls of an image failed: in this namespace, or in two others while no pod began to run with it.

    Args:
        failures: of the last `PULLS_TOLD_FOR`.
        pulled: as `guarded_images`.
    """
    since = [
        one
        for one in failures
        if one.image == image
        and ((image, one.tenant_id) not in pulled or one.at > pulled[image, one.tenant_id])
    ]
    own = [one for one in since if one.tenant_id == tenant_id]
    is_pulled = any(of == image for of, _ in pulled)
    is_spread = len({one.tenant_id for one in since}) > 1 and not is_pulled
    counted = own or (since if is_spread else [])
    if not counted:
        return None
    detail = max(own, key=lambda one: one.at).detail if own else ""
    first = min(one.since for one in counted)
    return FailingImage(image, sum(one.count for one in counted), first, detail)


def _is_thrice(failures: Iterable[PullFailure]) -> bool:
    """Whether three failed within ten minutes, at any time."""
    times = sorted(one.at for one in failures for _ in range(min(one.count, THRICE)))
    return any(last - first <= PULLS_WITHIN for first, last in zip(times, times[2:], strict=False))


@dataclass(frozen=True)
class NodeDeath:
    """An attempt of a training that ended because its node, or the cluster, took a replica away."""

    node: str
    attempt: tuple[str, int]  # the training's id, and which
    owner_id: str
    at: datetime
    reason_code: str


@dataclass(frozen=True)
class SuspiciousNode:
    """A node on which trainings of several people died.

    Attributes:
        until: it is suspicious until then.
        deaths, people: how many trainings died within half an hour, and of how many people.
        is_avoided: nothing new starts there; else too much of its pool is avoided already.
    """

    name: str
    pool: str
    until: datetime
    deaths: int
    people: int
    is_avoided: bool


def suspicious_nodes(
    deaths: Iterable[NodeDeath],
    pools: Mapping[str, str],
    closed: Collection[str],
    used_again: Mapping[str, datetime],
    now: datetime,
) -> list[SuspiciousNode]:
    """Nodes on which trainings of two people died three times in 30 minutes, for an hour from then on.

    Those on which one died last are avoided: of each pool a tenth, at least one node, but never its last
    open one. Those that are closed anyhow are avoided too, and take no other's place.

    Args:
        deaths: of the last `DEATHS_COUNT_FOR`.
        pools: each node's, of all that there are.
        closed: nodes that take nothing new as it is.
        used_again: since when an admin trusts a node again: what was before does not count.
    """
    on: dict[str, dict[tuple[str, int], NodeDeath]] = defaultdict(dict)
    for one in sorted(deaths, key=lambda one: one.at):
        if one.node in used_again and one.at <= used_again[one.node]:
            continue
        if one.reason_code in NODE_FAULTS and one.node in pools:
            on[one.node].setdefault(one.attempt, one)
    told = [found for name, ones in on.items() if (found := _suspicion(list(ones.values()), now))]
    sizes, avoided = Counter(pools.values()), Counter[str]()
    still_open = Counter(pool for name, pool in pools.items() if name not in closed)
    nodes = []
    # What still kills comes first: by its first death, that would be forgotten before the deaths end.
    told.sort(key=lambda one: (-one[0].at.timestamp(), one[0].node))
    for last, near in told:
        pool, is_closed = pools[last.node], last.node in closed
        has_place = avoided[pool] < max(1, sizes[pool] // PART) and still_open[pool] > 1
        if has_place and not is_closed:
            avoided[pool] += 1
            still_open[pool] -= 1
        people = len({one.owner_id for one in near})
        until = last.at + AVOIDED_FOR
        is_avoided = is_closed or has_place
        nodes.append(SuspiciousNode(last.node, pool, until, len(near), people, is_avoided))
    return nodes


def _suspicion(
    deaths: Sequence[NodeDeath], now: datetime
) -> tuple[NodeDeath, list[NodeDeath]] | None:
    """The last death that made the node suspicious, with those near it; `deaths`: the latest one last."""
    for last in reversed(deaths):
        near = [one for one in deaths if last.at - DEATHS_WITHIN <= one.at <= last.at]
        is_enough = len(near) >= THRICE and len({one.owner_id for one in near}) >= PEOPLE
        if is_enough and now < last.at + AVOIDED_FOR:
            return last, near
    return None


@dataclass(frozen=True)
class Guards:
    """What both say at one moment."""

    images: Sequence[GuardedImage] = field(default_factory=tuple)
    nodes: Sequence[SuspiciousNode] = field(default_factory=tuple)

    @property
    def avoided(self) -> frozenset[str]:
        """Names of nodes."""
        return frozenset(one.name for one in self.nodes if one.is_avoided)

    def of(self, images: Collection[str], tenant_id: str) -> list[GuardedImage]:
        """Those of a workload with these images, the one that is tried last first."""
        found = [one for one in self.images if one.covers(images, tenant_id)]
        return sorted(found, key=lambda one: one.tries_from, reverse=True)

    def wait_of(self, images: Collection[str], tenant_id: str, now: datetime) -> Fit | None:
        """Why such a workload may not start now; None: it may try."""
        found = self.of(images, tenant_id)
        if not found or found[0].tries_from <= now:
            return None
        return found[0].wait_until(found[0].tries_from, tenant_id)

    def tried(self, images: Collection[str], tenant_id: str, now_s: int) -> Fit:
        """What such a workload is told when another one tries its image from now on."""
        at = datetime.fromtimestamp(now_s, UTC) + PULLS_WITHIN
        return self.of(images, tenant_id)[0].wait_until(at, tenant_id)

    def trials_of(self, images: Collection[str], tenant_id: str) -> tuple[str, ...]:
        """See `QueuedWorkload.trials`."""
        return tuple(f"{one.image} {one.tenant_id}" for one in self.of(images, tenant_id))

    def look_at_s(self, now: datetime) -> int:
        """When time alone changes something, in seconds; `UNKNOWN`: never."""
        times = [one.tries_from for one in self.images] + [one.until for one in self.nodes]
        return min((seconds_of(at) for at in times if at > now), default=UNKNOWN)
