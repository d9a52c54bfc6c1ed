"""Faults that the transport itself has to find out: a relay makes them, where `tests.faults.fault`
raises above it.
"""

from dataclasses import dataclass
from typing import Any, Literal

from onebox.testing.relay import Relay
from portal.cluster.kinds import get_kind
from tests.faults.fault import ALWAYS, SAID, Fault

_METHODS = {"create": "POST", "patch": "PATCH", "delete": "DELETE"}


@dataclass
class WireFault(Fault):
    """Strikes at the same calls as a `Fault`, but by way of a relay."""

    relay: Relay | None = None

    def __call__(self, point: Literal["before", "after"], verb: str, obj: dict[str, Any]) -> None:
        if point == "before" and self._counts(verb, obj):
            assert self.relay is not None
            assert self.times != ALWAYS
            self.struck += 1
            meta, kind = obj["metadata"], get_kind(obj["kind"])
            name = None if verb == "create" else meta["name"]
            path = kind.path(meta.get("namespace"), name)
            self.relay.order(_METHODS[verb], path, meta["name"], self.point, SAID)
