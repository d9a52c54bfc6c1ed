"""What the API server's audit log tells: who was answered what, and how often each thing was made.

Objects show how things are; the log shows also what was made and removed in between.
https://kubernetes.io/docs/tasks/debug/debug-cluster/audit/
"""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from portal.cluster import labels

# Whose a pod is stands in its body only: the cluster makes up its name.
POD_RULES = (
    {"level": "Request", "verbs": ["create"], "resources": [{"group": "", "resources": ["pods"]}]},
)


class Journal:
    """The audit log of one control plane; places in it are numbers of events."""

    def __init__(self, log: Path) -> None:
        self._log = log

    def __len__(self) -> int:
        return sum(1 for _ in self._lines())

    def answered(self, user: str, code: int, since: int) -> Counter[str]:
        """Verb -> how many of this user's requests were answered so."""
        return Counter(
            event["verb"]
            for event in self._events(since)
            if event["user"]["username"] == user and _code(event) == code
        )

    def calls(self, user: str) -> list[str]:
        """What this user has asked for so far, as `list /path?query`."""
        return [
            f"{event['verb']} {event['requestURI']}"
            for event in self._events(0)
            if event["user"]["username"] == user
        ]

    def made(self, user: str, namespace: str, since: int) -> Counter[str]:
        """What was made there -> how often: what this user made, by its name; pods of replicas,
        whoever made them, by whose they are.
        """
        found: Counter[str] = Counter()
        for event in self._events(since):
            about = event.get("objectRef") or {}
            is_made = event["verb"] == "create" and _code(event) == 201
            if not is_made or about.get("namespace") != namespace or "subresource" in about:
                continue
            if replica := _replica(event.get("requestObject") or {}):
                found[replica] += 1
            elif event["user"]["username"] == user and "dryRun=" not in event["requestURI"]:
                found[f"{about['resource']}/{about['name']}"] += 1
        return found

    def _events(self, since: int) -> Iterator[dict[str, Any]]:
        for number, line in enumerate(self._lines()):
            if number >= since:
                # A server that was stopped may leave half a line, to which the next one adds its own.
                with suppress(json.JSONDecodeError):
                    yield json.loads(line)

    def _lines(self) -> Iterator[str]:
        """Whole lines, also of the parts that the API server has put aside."""
        parts = sorted(self._log.parent.glob(f"{self._log.stem}-*{self._log.suffix}"))
        for part in (*parts, self._log):
            with part.open(errors="replace") as lines:
                yield from (line for line in lines if line.endswith("\n"))


def _code(event: dict[str, Any]) -> int:
    return int((event.get("responseStatus") or {}).get("code", 0))


def _replica(body: dict[str, Any]) -> str:
    """Whose pod this is; empty for one that belongs to no replica, as those that rescue logs."""
    meta = body.get("metadata", {})
    marks = meta.get("labels", {})
    if "ownerReferences" not in meta or labels.OWNER not in marks:
        return ""
    index = marks.get(labels.COMPLETION_INDEX) or marks.get(labels.INDEX)
    return f"pod of {marks[labels.OWNER]}: {marks[labels.ROLE]}-{index}"
