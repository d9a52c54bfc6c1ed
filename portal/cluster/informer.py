"""All objects of one kind, kept by a list and a watch, and found by namespace and by owner."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from portal.cluster.client import Cluster
from portal.cluster.listwatch import ListOptions, ListWatch, ReconnectGate, WatchEvent, WatchTiming
from portal.cluster.objects import Watchable, is_same

T = TypeVar("T", bound=Watchable)


class Index(Generic[T]):
    """Answers in the time of the answer's size, not of the cluster's."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, dict[str, T]] = defaultdict(dict)
        self._by_owner: dict[str, dict[str, T]] = defaultdict(dict)

    def apply(self, change: WatchEvent[T]) -> None:
        old, new = change.old, change.new
        if old is not None and (new is None or _place(old) != _place(new)):
            self._drop(old)
        if new is not None:
            meta = new.metadata
            self._by_namespace[meta.namespace][meta.name] = new
            owner = meta.owner
            if owner:
                self._by_owner[owner][meta.uid] = new

    def _drop(self, old: T) -> None:
        meta = old.metadata
        for table, key, inner in (
            (self._by_namespace, meta.namespace, meta.name),
            (self._by_owner, meta.owner, meta.uid),
        ):
            if key in table:
                table[key].pop(inner, None)
                if not table[key]:
                    del table[key]

    def in_namespace(self, namespace: str) -> Mapping[str, T]:
        """Name -> object; "" holds the cluster-scoped ones."""
        return self._by_namespace.get(namespace, {})

    def of_owner(self, owner: str) -> list[T]:
        """What carries our label with this id, in any namespace."""
        return list(self._by_owner.get(owner, {}).values())

    def count_of_owner(self, owner: str) -> int:
        """How many `of_owner` would give."""
        return len(self._by_owner.get(owner, ()))


def _place(seen: Watchable) -> tuple[str, str]:
    """Where it stands among those of its name: made anew under it, it may be somebody else's."""
    return seen.metadata.owner, seen.metadata.uid


class Informer(Generic[T]):
    """All objects of one kind: the watch that brings them and the index that finds them."""

    def __init__(
        self,
        cluster: Cluster,
        options: ListOptions[T],
        note: Callable[[WatchEvent[T]], None],
        *,
        timing: WatchTiming,
        gate: ReconnectGate,
    ) -> None:
        self._index: Index[T] = Index()
        self._note = note
        self.watch = ListWatch(cluster, options, self._take, timing, gate)

    def _take(self, changes: Sequence[WatchEvent[T]]) -> None:
        for change in changes:
            self._index.apply(change)
            old, new = change.old, change.new
            if old is None or new is None or not is_same(old, new):
                self._note(change)

    def __len__(self) -> int:
        return len(self.watch.items)

    def get(self, namespace: str, name: str) -> T | None:
        """The object of this name, or None; namespace "" for cluster-scoped kinds."""
        return self.watch.items.get((namespace, name))

    def in_namespace(self, namespace: str) -> Mapping[str, T]:
        """Name -> object; do not keep it over an await."""
        return self._index.in_namespace(namespace)

    def of_owner(self, owner: str) -> list[T]:
        """What carries our owner label with this id."""
        return self._index.of_owner(owner)

    def count_of_owner(self, owner: str) -> int:
        """How many carry our owner label with this id."""
        return self._index.count_of_owner(owner)
