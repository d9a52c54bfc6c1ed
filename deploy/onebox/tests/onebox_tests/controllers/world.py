"""The box of the controllers' tests: chosen controllers, a state on disk, one namespace.

The test plays the node: it says which pods run, end or become ready.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from onebox.testing import Box
from onebox.testing.box import ENDED, Clock, Make, Obj

BEGAN = datetime(2026, 11, 20, 10, tzinfo=UTC)


class World(Box):
    """See the module."""

    def __init__(self, home: Path, make: Make) -> None:
        super().__init__(Clock(BEGAN), home=home, make=make)
        self.api.create("namespaces", None, {"metadata": {"name": "ada"}})
        self.settle()

    def pods(self, **labels: str) -> list[Obj]:
        """The pods of the namespace, by name."""
        return [
            pod
            for pod in self.api.list("pods", "ada")
            if all(pod["metadata"].get("labels", {}).get(k) == v for k, v in labels.items())
        ]

    def active(self) -> list[Obj]:
        """Pods that neither ended nor are being deleted."""
        return [
            pod
            for pod in self.pods()
            if "deletionTimestamp" not in pod["metadata"]
            and pod.get("status", {}).get("phase") not in ENDED
        ]

    def events(self, reason: str | None = None) -> list[str]:
        """Messages of the Events, of one reason."""
        found = self.api.list("events", "ada")
        return [e["message"] for e in found if reason in (None, e["reason"])]


def pod_spec(**fields: Any) -> Obj:
    """The smallest useful pod spec."""
    container = {"name": "main", "image": "python:3.11-slim", "command": ["true"]}
    return {"containers": [container], **fields}
