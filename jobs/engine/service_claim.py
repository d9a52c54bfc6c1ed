"""Writes a verdict of admission about a service; see jobs/engine/claim.py.

Blocking; called inside `Lease.commit`. It changes nothing when the service was stopped, deleted,
started anew or admitted meanwhile.
"""

import logging
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import F

from jobs.engine import service_rows
from jobs.engine.rows import EventRow, Saved, words
from jobs.kinds.interactive import startup
from jobs.rules import reasons
from jobs.rules.admission import Fit
from jobs.rules.reasons import Reason
from jobs.services.models import Service, ServiceState
from portal.errors import ConfigurationError

log = logging.getLogger(__name__)


def write(service_id: UUID, fit: Fit, reason: Reason, now: datetime) -> Saved | None:
    """The row's new state or words; None when it is not in the queue any more."""
    queued = Service.objects.filter(
        pk=service_id,
        state=ServiceState.QUEUED,
        desired=Service.Desired.RUN,
        seen_start=F("start_count"),
    )
    row = queued.values_list("requested_at", "steps", "memo").first()
    if row is None:
        return None
    requested_at, before, memo = row
    shown = startup.load(before)
    requested = (requested_at, "")
    columns: dict[str, Any]
    event: EventRow | None = None
    if fit.kind == "now":
        number = int(memo.get("said", 0)) + 1
        columns, event = _admitted(service_id, number, now)
        columns["memo"] = {**memo, "said": number}
        line = startup.line([requested, (now, "")], shown, now)
        if columns["state"] == ServiceState.FAILED:
            why = columns["reason_text"]
            line = startup.line([requested], shown, now, detail=why, failed=True)
    else:
        columns = words(reason)
        line = startup.line([requested], shown, now, detail=reason.text)
    if not queued.update(revision=F("revision") + 1, steps=startup.dump(line), **columns):
        return None
    if event is not None:
        service_rows.save_events(service_id, [event])
    return service_rows.saved(service_id)


def _admitted(service_id: UUID, number: int, now: datetime) -> tuple[dict[str, Any], EventRow]:
    """Its columns with the manifests, or the failure to render them."""
    key = f"homeport-{number}"
    try:
        columns = {
            "plan": service_rows.rendered(service_id),
            "state": ServiceState.STARTING,
            "admitted_at": now,
            "not_before": None,
            **words(reasons.make("creating")),
        }
    except (ConfigurationError, ValueError) as error:
        log.exception("service %s cannot be rendered", service_id)
        reason = reasons.make("refused", detail=str(error))
        columns = {
            "state": ServiceState.FAILED,
            "ended_at": now,
            "cleaned_at": now,
            **words(reason),
        }
        return columns, EventRow(key, now, "homeport", "", "state", reason.text, is_warning=True)
    return columns, EventRow(key, now, "homeport", "", "admitted", "It has room now.")
