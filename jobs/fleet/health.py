"""How the reconciler and the cluster are, in words with lamps, from the lease row alone.

The reconciler writes the row (jobs/reconciler/health.py has the shape of `health`); this reads it,
and a missing part of it is "not known yet", never an error.
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

from jobs.models import Node, ReconcilerLease
from portal.version import VERSION

SILENT_AFTER = timedelta(seconds=45)  # as long as pages wait before they show the banner
QUIET_AFTER = timedelta(seconds=330)  # a watch is opened anew every 5 minutes at the latest
SLOW_S = 2.0  # a change that waits longer than this is worth a word
FULL_PERCENT = 5


@dataclass(frozen=True)
class Lamp:
    """One line: what is looked at, how it is, and what to do about it.

    Attributes:
        tone: `good`, `warn`, `bad`, or `rest` (not known, or nothing to judge).
        at: when it was found so; None when that does not matter.
        detail: names and places, for whoever looks closer.
    """

    tone: str
    title: str
    text: str
    next_step: str = ""
    at: datetime | None = None
    detail: str = ""


@dataclass(frozen=True)
class WatchLine:
    """The watch of one kind."""

    kind: str
    objects: int
    heard_at: datetime | None
    problem: str
    unreadable: int
    tone: str
    text: str


def moment(text: Any) -> datetime | None:
    """An ISO time of the report; None when there is none."""
    return datetime.fromisoformat(text) if isinstance(text, str) and text else None


class HealthPage:
    """All lines of the page. Two queries: the lease, the nodes."""

    def __init__(self) -> None:
        self.at = now()

    @cached_property
    def lease(self) -> ReconcilerLease | None:
        return ReconcilerLease.objects.filter(pk=1).first()

    @property
    def report(self) -> dict[str, Any]:
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
        return f"~{lease.renewed_at if lease else ''}{lease.epoch if lease else ''}{self.is_silent}"

    @property
    def versions(self) -> list[tuple[str, str]]:
        told = self.report.get("versions", {})
        database = connection.vendor, ".".join(str(n) for n in connection.get_database_version())
        return [
            ("Homeport", str(told.get("homeport", VERSION))),
            ("Python", str(told.get("python", _("not known")))),
            ("Django", str(told.get("django", _("not known")))),
            (
                {"sqlite": "SQLite", "postgresql": "PostgreSQL"}.get(database[0], database[0]),
                database[1],
            ),
        ]

    # --- the reconciler ---
    @cached_property
    def reconciler(self) -> list[Lamp]:
        return [self._holder(), self._lag(), self._work(), *self._tasks(), self._last_error()]

    def _holder(self) -> Lamp:
        lease = self.lease
        title = _("Reconciler")
        if lease is None or lease.renewed_at is None:
            step = _("Start it: manage.py serve, or serve --no-web where the web runs apart.")
            return Lamp("bad", title, _("It has never run."), step)
        detail = _("epoch %(epoch)s, held by %(holder)s") % {
            "epoch": lease.epoch,
            "holder": lease.holder or _("nobody"),
        }
        if self.is_silent:
            step = _(
                "Start it, or look at the log of the one that should run. What people ask for is kept meanwhile."
            )
            return Lamp(
                "bad",
                title,
                _("Nothing was heard from it for a while."),
                step,
                lease.renewed_at,
                detail,
            )
        if not lease.holder:
            return Lamp(
                "warn",
                title,
                _("It has just stopped; another one takes over."),
                "",
                lease.renewed_at,
                detail,
            )
        return Lamp(
            "good",
            title,
            _("It holds the lease and works."),
            "",
            moment(self.report.get("started_at")),
            detail,
        )

    def _lag(self) -> Lamp:
        ticks = self.report.get("ticks")
        title = _("From a change to the database")
        if not ticks:
            return Lamp("rest", title, _("Not known yet."))
        lag_s = float(ticks.get("lag_s", 0))
        text = _("%(ms)s ms at most in the last minute") % {"ms": f"{lag_s * 1000:,.0f}"}
        if lag_s > SLOW_S:
            step = _(
                "The database may be slow, or much happens at once. If it lasts, look at its load."
            )
            return Lamp("warn", title, text, step)
        return Lamp("good", title, text)

    def _work(self) -> Lamp:
        jobs = self.report.get("jobs")
        title = _("Work before it")
        if not jobs:
            return Lamp("rest", title, _("Not known yet."))
        resting = int(jobs.get("resting", 0))
        text = _("%(pending)s to look at, %(under_way)s being changed in the cluster") % {
            "pending": jobs.get("pending", 0),
            "under_way": jobs.get("under_way", 0),
        }
        if resting:
            text += ", " + ngettext(
                "%(n)s waits after a failure", "%(n)s wait after a failure", resting
            ) % {"n": resting}
            return Lamp(
                "warn", title, text, _("The trainings themselves say why; see the last error, too.")
            )
        return Lamp("good", title, text)

    def _tasks(self) -> Iterator[Lamp]:
        for task in self.report.get("tasks", []):
            if task["state"] == "waiting":
                text = _("It died and is started again: %(error)s") % {"error": task["error"]}
                yield Lamp("bad", task["name"], text, _("The log has all of it."))
            elif task["restarts"]:
                text = ngettext(
                    "started again once", "started again %(n)s times", task["restarts"]
                ) % {"n": task["restarts"]}
                yield Lamp("warn", task["name"], text, "", None, task["error"])

    def _last_error(self) -> Lamp:
        told = self.report.get("last_error")
        title = _("Last warning")
        if not told:
            return Lamp("good", title, _("None since it started."))
        return Lamp("rest", title, told["text"], "", moment(told["at"]), told["where"])

    # --- what it stands on ---
    @cached_property
    def ground(self) -> list[Lamp]:
        return [self._database(), self._store(), *self._room(), self._layer()]

    def _database(self) -> Lamp:
        words = {"sqlite": _("SQLite on this machine"), "postgresql": "PostgreSQL"}
        text = _("%(which)s answers.") % {"which": words.get(connection.vendor, connection.vendor)}
        return Lamp("good", _("Database"), text)

    def _store(self) -> Lamp:
        told = self.report.get("store", {})
        names = {"s3": _("S3 bucket %(name)s"), "folder": _("Folder %(name)s")}
        name = names.get(told.get("kind", ""), "") % {"name": told.get("name", "")}
        step = _(
            "Code, logs and artifacts go there. Check S3_* in the settings, its credentials, its room."
        )
        return self._tried(_("Object store"), told, name, step)

    def _room(self) -> Iterator[Lamp]:
        free = self.report.get("store", {}).get("free_percent")
        if free is not None:
            text = _("%(n)s %% of the disk is free") % {"n": free}
            is_full = free < FULL_PERCENT
            step = _("Delete old trainings, or give it a larger disk.") if is_full else ""
            yield Lamp("bad" if is_full else "good", _("Disk"), text, step)

    def _layer(self) -> Lamp:
        told = self.report.get("channel_layer", {})
        names = {"redis": "Redis", "memory": _("In the memory of this process")}
        name = names.get(told.get("kind", ""), "")
        step = _("Pages do not change by themselves without it. Check REDIS_URL and the server.")
        return self._tried(_("Messages to browsers"), told, name, step)

    def _tried(self, title: str, told: dict[str, Any], name: str, step: str) -> Lamp:
        state = told.get("state", "unknown")
        at = moment(told.get("checked_at"))
        if state == "unknown":
            return Lamp("rest", title, _("Not tried yet."), "", None, name)
        if state == "yes":
            text = _("It works: written and read back in %(ms)s ms.") % {
                "ms": f"{float(told.get('took_s', 0)) * 1000:,.0f}"
            }
            return Lamp("good", title, text, "", at, name)
        return Lamp("bad", title, told.get("text", ""), step, at, name)

    # --- the cluster ---
    @cached_property
    def cluster(self) -> list[Lamp]:
        return [
            self._reach(),
            self._version(),
            self._nodes(),
            self._storage_class(),
            self._pod_security(),
            self._metrics(),
        ]

    @property
    def _preflight(self) -> dict[str, Any]:
        return dict(self.report.get("cluster", {}))

    def _answer(self, name: str) -> tuple[str, str]:
        told = self._preflight.get(name) or {}
        return told.get("state", "unknown"), told.get("detail", "")

    def _reach(self) -> Lamp:
        lease, title = self.lease, _("API server")
        server = str(self._preflight.get("server", ""))
        if lease is None or lease.cluster_ok_at is None:
            step = _("Check HOMEPORT_KUBECONFIG and that the cluster runs.")
            return Lamp(
                "bad",
                title,
                lease.cluster_error if lease else _("Not reached yet."),
                step,
                None,
                server,
            )
        if lease.cluster_error:
            step = _(
                "Homeport goes on by itself when it answers again. Check that the cluster runs."
            )
            return Lamp("bad", title, lease.cluster_error, step, lease.cluster_ok_at, server)
        return Lamp("good", title, _("It answers, and every watch is open."), "", None, server)

    def _version(self) -> Lamp:
        version, title = self._preflight.get("version", ""), _("Kubernetes")
        if not version:
            return Lamp("rest", title, _("Its version is not known yet."))
        if self._preflight.get("is_old"):
            step = _("Homeport needs 1.33 or newer. Upgrade the cluster.")
            return Lamp("bad", title, version, step)
        return Lamp("good", title, version)

    def _nodes(self) -> Lamp:
        nodes = list(Node.objects.values_list("is_ready", "is_schedulable"))
        title = _("Nodes")
        if not nodes:
            return Lamp(
                "bad", title, _("None is known."), _("Nothing can run until the cluster has nodes.")
            )
        is_open = sum(ready and schedulable for ready, schedulable in nodes)
        text = _("%(open)s of %(all)s take new pods") % {"open": is_open, "all": len(nodes)}
        tone = "good" if is_open == len(nodes) else "warn" if is_open else "bad"
        return Lamp(
            tone, title, text, "" if tone == "good" else _("The page of the nodes says why.")
        )

    def _storage_class(self) -> Lamp:
        state, detail = self._answer("storage_class")
        name = self._preflight.get("class_name", settings.STORAGE_CLASS)
        title = _("StorageClass %(name)s") % {"name": name}
        if state == "yes":
            return Lamp("good", title, _("It is there."), "", None, detail)
        if state == "no":
            step = _("Make it, or name another in STORAGE_CLASS; it must allow ReadWriteMany.")
            return Lamp(
                "bad",
                title,
                _("The cluster has none of this name, so no volume can be made."),
                step,
            )
        return Lamp("rest", title, _("Not asked yet."), "", None, detail)

    def _pod_security(self) -> Lamp:
        state, detail = self._answer("pod_security")
        title = _("Pod Security")
        if state == "yes":
            return Lamp(
                "good", title, _("A privileged pod is refused in the namespaces of people.")
            )
        if state == "no":
            step = _(
                "Turn the PodSecurity admission plug-in on. Until then anybody may take over a node."
            )
            return Lamp(
                "bad",
                title,
                _("A privileged pod would be let into the namespaces of people."),
                step,
            )
        text = _("Not tried yet; it takes a namespace that Homeport made.")
        return Lamp("rest", title, text, "", None, detail)

    def _metrics(self) -> Lamp:
        state, detail = self._answer("metrics")
        title = _("Metrics API")
        if state == "yes":
            return Lamp("good", title, _("The cluster has it."))
        if state == "no":
            text = _(
                "The cluster has none. Homeport counts what pods ask for, and does not need it."
            )
            return Lamp("rest", title, text)
        return Lamp("rest", title, _("Not asked yet."), "", None, detail)

    # --- the watches ---
    @cached_property
    def watches(self) -> list[WatchLine]:
        """The failing ones first."""
        lines = [self._watch(told) for told in self.report.get("watches", [])]
        return sorted(lines, key=lambda line: (line.tone == "good", line.kind))

    def _watch(self, told: dict[str, Any]) -> WatchLine:
        heard_at = moment(told.get("heard_at"))
        tone, text = "good", _("open")
        if told.get("problem"):
            tone, text = "bad", told["problem"]
        elif not told.get("is_synced"):
            tone, text = "warn", _("not listed yet")
        elif heard_at is not None and self.at - heard_at > QUIET_AFTER:
            tone, text = "warn", _("silent for long")
        elif told.get("unreadable"):
            tone = "warn"
            text = ngettext(
                "one object could not be read and is left out",
                "%(n)s objects could not be read and are left out",
                told["unreadable"],
            ) % {"n": told["unreadable"]}
        return WatchLine(
            told["kind"],
            told["objects"],
            heard_at,
            told.get("problem", ""),
            told.get("unreadable", 0),
            tone,
            text,
        )

    # --- all of it ---
    @cached_property
    def troubles(self) -> list[Lamp]:
        """What somebody should look at, the worst first."""
        lamps = [*self.reconciler, *self.ground, *self.cluster]
        return sorted(
            (lamp for lamp in lamps if lamp.tone in {"bad", "warn"}),
            key=lambda lamp: lamp.tone != "bad",
        )
