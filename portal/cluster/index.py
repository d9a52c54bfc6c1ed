"""Objects of one kind by namespace and by owner, updated per event."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Generic, TypeVar

from portal.cluster.objects import Watchable
from portal.cluster.watch import Change

T = TypeVar("T", bound=Watchable)


class Index(Generic[T]):
    """Answers in the time of the answer's size, not of the cluster's."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, dict[str, T]] = defaultdict(dict)
        self._by_owner: dict[str, dict[str, T]] = defaultdict(dict)

    def apply(self, change: Change[T]) -> None:
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
