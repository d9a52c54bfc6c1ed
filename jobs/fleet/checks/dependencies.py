"""Checks of the dependencies besides the cluster: database, object store, disk, messages."""

from collections.abc import Iterator
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobs.fleet.checks import Check, Report, milliseconds, moment

APART_S = 5  # of two clocks; the API server's is known to a second
FULL_PERCENT = 5  # a disk with less room than this is about to make everything fail


def checks(report: Report, database: str, own_ahead_s: float | None = None) -> list[Check]:
    """All of them, in the order of the page.

    Args:
        database: Django's word for its kind.
        own_ahead_s: how far the database's clock is ahead of this process's; None: not known.
    """
    return [
        _database(database),
        _store(report),
        *_disk(report),
        _messages(report),
        _clocks(report, own_ahead_s),
        *_keys(report),
    ]


def _database(vendor: str) -> Check:
    words = {"sqlite": _("SQLite on this machine"), "postgresql": "PostgreSQL"}
    # This page came out of it.
    text = _("%(which)s, responding") % {"which": words.get(vendor, vendor)}
    return Check("good", _("Database"), text)


def _store(report: Report) -> Check:
    told = report.get("store", {})
    names = {"s3": _("S3 bucket %(name)s"), "folder": _("folder in %(name)s")}
    name = names.get(told.get("kind", ""), "") % {"name": told.get("name", "")}
    step = _(
        "It keeps code, logs and artifacts. Check the S3_ settings, or the free space of the disk."
    )
    return _tried(_("Object store"), told, name, step)


def _disk(report: Report) -> Iterator[Check]:
    told = report.get("store", {})
    free = told.get("free_percent")
    if free is None:
        return
    text = _("%(n)s %% free") % {"n": free}
    if told.get("is_short"):
        text = _("%(n)s %% free, less than DISK_RESERVE_BYTES") % {"n": free}
    if told.get("is_short") or free < FULL_PERCENT:
        step = _("Delete old trainings and uploads, or add a larger disk.")
        yield Check("bad", _("Disk"), text, step)
    else:
        yield Check("good", _("Disk"), text)


def _messages(report: Report) -> Check:
    told = report.get("channel_layer", {})
    names = {"redis": "Redis", "memory": _("in the memory of this process")}
    step = _("Without it pages do not update automatically. Check REDIS_URL and that server.")
    return _tried(_("Messages to browsers"), told, names.get(told.get("kind", ""), ""), step)


def _clocks(report: Report, own_ahead_s: float | None) -> Check:
    """The reconciler's against the API server's and the database's, and this web server's against that."""
    told, title = report.get("clocks", {}), _("Clocks")
    cluster_s, database_s = told.get("cluster_ahead_s"), told.get("database_ahead_s")
    pairs = [
        (_("the API server"), _("the reconciler"), cluster_s),
        (_("the database"), _("the reconciler"), database_s),
        (_("the database"), _("this web server"), own_ahead_s),
    ]
    known = [pair for pair in pairs if pair[2] is not None]
    apart = [_apart(*pair) for pair in known if abs(pair[2] or 0) > APART_S]
    if apart:
        step = _(
            "Let every machine set its clock by NTP. Until then notebooks may refuse to open, and the "
            "reconciler may seem silent."
        )
        return Check("bad", title, "; ".join(apart), step)
    if not known:
        return Check("rest", title, _("Not yet known"))
    return Check("good", title, _("less than %(n)s s apart") % {"n": APART_S})


def _apart(what: str, of_what: str, ahead_s: float | None) -> str:
    words = {"what": what, "of_what": of_what, "n": f"{abs(ahead_s or 0):,.0f}"}
    if (ahead_s or 0) > 0:
        return _("%(what)s is %(n)s s ahead of %(of_what)s") % words
    return _("%(what)s is %(n)s s behind %(of_what)s") % words


def _keys(report: Report) -> Iterator[Check]:
    count = int(report.get("keys", {}).get("strange", 0))
    if count:
        text = ngettext(
            "%(n)s workload that runs was started under a HOMEPORT_SECRET_KEY that is not known any "
            "more: its pods are refused, its log comes at its end, and it cannot be opened.",
            "%(n)s workloads that run were started under a HOMEPORT_SECRET_KEY that is not known any "
            "more: their pods are refused, logs come at the end, and notebooks cannot be opened.",
            count,
        )
        step = _(
            "Put that key into HOMEPORT_SECRET_KEY_FALLBACKS and start Homeport anew; if it is lost, "
            "stop and start them."
        )
        yield Check("bad", _("Secret key"), text % {"n": count}, step)


def _tried(title: str, told: dict[str, Any], name: str, step: str) -> Check:
    state, at = told.get("state", "unknown"), moment(told.get("checked_at"))
    if state == "unknown":
        return Check("rest", title, _("Not yet checked"), "", None, name)
    if state == "no":
        return Check("bad", title, told.get("text", ""), step, at, name)
    text = _("Responding in %(time)s") % {"time": milliseconds(told.get("took_s"))}
    return Check("good", title, text, "", at, name)
