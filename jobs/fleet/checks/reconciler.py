"""Checks of the reconciler itself: its lease, its pace, the work before it, what went wrong last."""

from collections.abc import Iterator

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobs.fleet.checks import Check, Report, milliseconds, moment
from jobs.models import ReconcilerLease

SLOW_S = 2.0  # a change that waits longer than this is worth a word


def checks(lease: ReconcilerLease | None, report: Report, *, is_silent: bool) -> list[Check]:
    """All of them, in the order of the page."""
    return [
        _holder(lease, report, is_silent=is_silent),
        _lag(report),
        _work(report),
        *_tasks(report),
        _last_warning(report),
    ]


def _holder(lease: ReconcilerLease | None, report: Report, *, is_silent: bool) -> Check:
    title = _("Lease")
    if lease is None or lease.renewed_at is None:
        step = _("Start it: manage.py serve, or serve --no-web where the web runs apart.")
        return Check("bad", title, _("No reconciler has run yet."), step)
    detail = _("epoch %(epoch)s, held by %(holder)s") % {
        "epoch": lease.epoch,
        "holder": lease.holder or _("none"),
    }
    if is_silent:
        text = _("The reconciler has not reported for a while.")
        step = _("Start it, or read its log. Requests made meanwhile are kept.")
        return Check("bad", title, text, step, lease.renewed_at, detail)
    if not lease.holder:
        text = _("It was just released; another reconciler takes it.")
        return Check("warn", title, text, "", lease.renewed_at, detail)
    text = _("Held by one running reconciler")
    return Check("good", title, text, "", moment(report.get("started_at")), detail)


def _lag(report: Report) -> Check:
    title, ticks = _("Watch latency"), report.get("ticks")
    if not ticks:
        return Check("rest", title, _("Not yet known"))
    lag_s = float(ticks.get("lag_s", 0))
    text = _("at most %(time)s in the last minute") % {"time": milliseconds(lag_s)}
    if lag_s > SLOW_S:
        step = _("Many changes at once, or a slow database. If it lasts, check its load.")
        return Check("warn", title, text, step)
    return Check("good", title, text)


def _work(report: Report) -> Check:
    title, jobs = _("Backlog"), report.get("jobs")
    if not jobs:
        return Check("rest", title, _("Not yet known"))
    text = _("%(pending)s to process, %(under_way)s being changed in the cluster") % {
        "pending": jobs.get("pending", 0),
        "under_way": jobs.get("under_way", 0),
    }
    resting = int(jobs.get("resting", 0))
    if not resting:
        return Check("good", title, text)
    waits = _("%(n)s waiting after a failure") % {"n": resting}
    step = _("They are retried automatically; the page of each says what failed.")
    return Check("warn", title, f"{text}, {waits}", step)


def _tasks(report: Report) -> Iterator[Check]:
    for task in report.get("tasks", []):
        if task["state"] == "waiting":
            text = _("It crashed and is being restarted: %(error)s") % {"error": task["error"]}
            yield Check("bad", task["name"], text, _("The log has the full error."))
        elif task["restarts"]:
            count = int(task["restarts"])
            text = ngettext("restarted once", "restarted %(n)s times", count) % {"n": count}
            yield Check("warn", task["name"], text, "", None, task["error"])


def _last_warning(report: Report) -> Check:
    title, told = _("Last warning"), report.get("last_error")
    if not told:
        return Check("good", title, _("None since its start"))
    return Check("rest", title, told["text"], "", moment(told["at"]), told["where"])
