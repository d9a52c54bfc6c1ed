"""Results of preflight and doctor for the health page: those of the cluster, and a doctor's that came by REST.

The reconciler reads the cluster's into its report; a doctor's from elsewhere is an entry of the audit
trail, which says whose it was.
"""

from dataclasses import dataclass
from typing import Any

import msgspec
from django.utils.timezone import now
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobs.fleet.checks import Check, Report
from jobs.rules.check_results import KINDS, CheckFound, CheckResults, Kind
from tenants.audit.record import DOCTOR, AuditTarget, newest_detail, record
from tenants.models import User

_TONES = {"passed": "good", "failed": "bad", "skipped": "rest", "warned": "warn"}


@dataclass(frozen=True)
class ResultCard:
    """The last result of one kind.

    Attributes:
        command: what to run for the first one, or for another.
        results: None: there is none.
        problem: why the one in the cluster cannot be read.
    """

    kind: Kind
    title: str
    command: str
    results: CheckResults | None
    problem: str = ""

    @property
    def lines(self) -> list[Check]:
        """What did not pass, the failed first; empty when all did."""
        found = self.results.checks if self.results else []
        open_ones = [check for check in found if check.outcome != "passed"]
        return [_line(check) for check in sorted(open_ones, key=lambda c: c.outcome != "failed")]

    @property
    def summary(self) -> str:
        if self.results is None:
            return ""
        failed, count = len(self.results.with_outcome("failed")), len(self.results.checks)
        if failed:
            return _("%(failed)s of %(all)s failed") % {"failed": failed, "all": count}
        passed = len(self.results.with_outcome("passed"))
        return ngettext("%(n)s check passed", "%(n)s checks passed", passed) % {"n": passed}

    @property
    def trouble(self) -> Check | None:
        """For the top of the page; None when nothing failed."""
        if self.results is None or not self.results.with_outcome("failed"):
            return None
        step = _("See below; run it again afterwards: %(command)s") % {"command": self.command}
        return Check("bad", self.title, self.summary, step, self.results.at)


def _line(check: CheckFound) -> Check:
    return Check(_TONES[check.outcome], check.name, check.words, check.next_step)


def keep_doctor(results: CheckResults, *, by: User, source_address: str | None = None) -> None:
    """Keeps what the doctor of an admin found on a machine outside the cluster.

    Who may is asked by the caller: of what others post nothing is kept, for it would hide an admin's. It is as old as
    its arrival, whatever the clock of that machine says.
    """
    results = msgspec.structs.replace(results, at=now())
    target = AuditTarget(DOCTOR, f"doctor {results.version}")
    record(
        by=by, verb="create", target=target, detail=results.as_json(), source_address=source_address
    )


def cards(report: Report) -> list[ResultCard]:
    """Both, in the order of the page. One query."""
    titles = {"preflight": _("Preflight"), "doctor": _("Doctor")}
    commands = {
        "preflight": "manage.py preflight --kubeconfig ADMIN",
        "doctor": "homeport doctor",
    }
    told: dict[str, Any] = report.get("results") or {}
    posted = {"doctor": newest_detail(DOCTOR)}
    found = []
    for kind in KINDS:
        kept = told.get(kind) or {}
        known = [_read(kept), _read(posted.get(kind) or {})]
        newest = max((one for one in known if one), key=lambda one: one.at, default=None)
        problem = str(kept.get("problem") or "")
        found.append(ResultCard(kind, titles[kind], commands[kind], newest, problem))
    return found


def _read(kept: dict[str, Any]) -> CheckResults | None:
    """What another version kept may lack something."""
    try:
        return msgspec.convert(kept, CheckResults)
    except msgspec.ValidationError:
        return None
