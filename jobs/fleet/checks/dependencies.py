"""Checks of the dependencies besides the cluster: database, object store, disk, messages."""

from collections.abc import Iterator
from typing import Any

from django.utils.translation import gettext as _

from jobs.fleet.checks import Check, Report, milliseconds, moment

FULL_PERCENT = 5  # a disk with less room than this is about to make everything fail


def checks(report: Report, database: str) -> list[Check]:
    """All of them, in the order of the page; `database` is Django's word for its kind."""
    return [_database(database), _store(report), *_disk(report), _messages(report)]


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


def _tried(title: str, told: dict[str, Any], name: str, step: str) -> Check:
    state, at = told.get("state", "unknown"), moment(told.get("checked_at"))
    if state == "unknown":
        return Check("rest", title, _("Not yet checked"), "", None, name)
    if state == "no":
        return Check("bad", title, told.get("text", ""), step, at, name)
    text = _("Responding in %(time)s") % {"time": milliseconds(told.get("took_s"))}
    return Check("good", title, text, "", at, name)
