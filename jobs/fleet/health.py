"""The health page: how the reconciler and its dependencies are, from its last report.

Nothing is tried out here, and the cluster is not asked: the reconciler did that and wrote it into its
lease row.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from django.conf import settings
from django.db import connection
from django.utils.timezone import now
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobs.fleet import pools
from jobs.fleet.check_results import ResultCard, cards
from jobs.fleet.checks import Check, Report, cluster, dependencies, moment, reconciler
from jobs.fleet.node_notes import suspicion_note
from jobs.models import Node, ReconcilerLease, Workload
from jobs.scheduling.guards import read_suspicious_nodes
from portal.catalog import known_pools
from portal.database import clock
from portal.version import VERSION
from tenants.models import Team

SILENT_AFTER = timedelta(seconds=45)  # as long as pages wait before they show the banner
QUIET_AFTER = timedelta(seconds=330)  # a watch is opened anew every 5 minutes at the latest
_DATABASES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}


@dataclass(frozen=True)
class WatchLine:
    """The watch of one kind of object."""

    kind: str
    objects: int
    heard_at: datetime | None
    tone: str
    text: str


def watch_line(told: dict[str, Any], at: datetime) -> WatchLine:
    """One watch of the report in words."""
    heard_at, unreadable = moment(told.get("heard_at")), int(told.get("unreadable", 0))
    tone, text = "good", _("open")
    if told.get("problem"):
        tone, text = "bad", told["problem"]
    elif not told.get("is_synced"):
        tone, text = "warn", _("not yet listed")
    elif heard_at is not None and at - heard_at > QUIET_AFTER:
        tone, text = "warn", _("no events for long")
    elif unreadable:
        tone = "warn"
        text = ngettext(
            "1 object could not be read and is left out",
            "%(n)s objects could not be read and are left out",
            unreadable,
        ) % {"n": unreadable}
    return WatchLine(told["kind"], told["objects"], heard_at, tone, text)


class HealthPage:
    """All lines of the page. Few small queries: lease, nodes, two counts, a doctor, PostgreSQL's clock."""

    def __init__(self) -> None:
        self.at = now()

    @cached_property
    def lease(self) -> ReconcilerLease | None:
        return ReconcilerLease.objects.filter(pk=1).first()

    @property
    def report(self) -> Report:
        return self.lease.health if self.lease else {}

    @property
    def is_silent(self) -> bool:
        """Whether nobody has renewed the lease for too long."""
        renewed_at = self.lease.renewed_at if self.lease else None
        return renewed_at is None or self.at - renewed_at > SILENT_AFTER

    @cached_property
    def fingerprint(self) -> str:
        """Changes with each report, and when the reconciler falls silent."""
        lease = self.lease
        known = (
            f"{lease.epoch}.{lease.renewed_at.timestamp()}" if lease and lease.renewed_at else ""
        )
        return f"~{known}.{int(self.is_silent)}"

    # --- checks ---
    @cached_property
    def reconciler(self) -> list[Check]:
        found = reconciler.checks(self.lease, self.report, is_silent=self.is_silent)
        found.insert(3, self._queue())
        found.insert(4, self._watching())
        return found

    def _queue(self) -> Check:
        count = Workload.objects.queued().count()
        text = _("%(n)s queued") % {"n": count}
        step = _("Show the queue") if count else ""
        return Check("good", _("Queue"), text, step, route="queue")

    def _watching(self) -> Check:
        title, lines = _("Watches"), self.watches
        failing = [line for line in lines if line.tone != "good"]
        if not lines:
            return Check("rest", title, _("Not yet known"))
        if not failing:
            return Check("good", title, _("all %(n)s open") % {"n": len(lines)})
        text = ", ".join(f"{line.kind}: {line.text}" for line in failing[:3])
        return Check("bad" if failing[0].tone == "bad" else "warn", title, text)

    @cached_property
    def dependencies(self) -> list[Check]:
        return dependencies.checks(self.report, connection.vendor, clock.ahead_s())

    @cached_property
    def cluster(self) -> list[Check]:
        nodes = Node.objects.values_list("is_ready", "is_schedulable")
        open_nodes = [is_ready and is_schedulable for is_ready, is_schedulable in nodes]
        found = cluster.checks(self.lease, self.report, open_nodes, settings.STORAGE_CLASS)
        return [*found, *self._pools(), *self._suspicious()]

    @staticmethod
    def _pools() -> list[Check]:
        has_pools = bool(known_pools())
        labels = list(Node.objects.values_list("labels", flat=True)) if has_pools else []
        names = set(Team.objects.values_list("name", flat=True)) if has_pools else set()
        return list(pools.checks(labels, names))

    def _suspicious(self) -> Iterator[Check]:
        for one in read_suspicious_nodes(self.at):
            note, title = suspicion_note(one), _("Node %(name)s") % {"name": one.name}
            text = f"{note.title}. {note.text}"
            yield Check("warn", title, text, _("Show the nodes"), route="nodes")

    @cached_property
    def troubles(self) -> list[Check]:
        """What somebody should look at, the worst first."""
        results = (card.trouble for card in self.results)
        checks = [*self.reconciler, *self.dependencies, *self.cluster, *filter(None, results)]
        found = [check for check in checks if check.tone in {"bad", "warn"}]
        return sorted(found, key=lambda check: check.tone != "bad")

    @cached_property
    def results(self) -> list[ResultCard]:
        """What preflight and doctor found last."""
        return cards(self.report)

    # --- the rest ---
    @cached_property
    def watches(self) -> list[WatchLine]:
        """The failing ones first."""
        lines = [watch_line(told, self.at) for told in self.report.get("watches", [])]
        order = {"bad": 0, "warn": 1, "good": 2}
        return sorted(lines, key=lambda line: (order[line.tone], line.kind))

    @property
    def versions(self) -> list[tuple[str, str]]:
        """Of Homeport and of what it is built on."""
        told = self.report.get("versions", {})
        database = ".".join(str(number) for number in connection.get_database_version())
        return [
            ("Homeport", told.get("homeport", VERSION)),
            ("Python", told.get("python", "?")),
            ("Django", told.get("django", "?")),
            (_DATABASES.get(connection.vendor, connection.vendor), database),
        ]
