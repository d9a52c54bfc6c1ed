"""Which keys have signed for this installation, and what still runs that was started under one not known any more.

Pods carry tokens that the key in use at their start has signed, and gates of notebooks what it derived. Marks
of the keys (`portal.signing`) and since when each was in use are kept in the reconciler's report.
"""

import logging
from datetime import datetime
from itertools import pairwise
from typing import Any

from django.utils import timezone

from jobs.models import ReconcilerLease, Workload
from portal import signing

log = logging.getLogger(__name__)

Use = dict[str, str]  # mark, and since: ISO time; until the next one's


class KeyBook:
    """Blocking, but for `report`."""

    def __init__(self) -> None:
        self._uses: list[Use] | None = None  # the one in use is the last; None: not read yet
        self._strange = 0

    def report(self) -> dict[str, Any]:
        """`{"uses": [{"mark", "since"}], "strange"}`: the last is how many workloads run under lost ones."""
        return {"uses": self._uses or [], "strange": self._strange}

    def look(self) -> None:
        """Counts anew; the first time also reads what the reconciler before has told.

        Raises:
            DatabaseError: nothing was changed.
        """
        is_first = self._uses is None
        uses = self._read() if self._uses is None else self._uses
        mark = signing.key_mark()
        if not uses or uses[-1]["mark"] != mark:
            uses = [*uses, {"mark": mark, "since": timezone.now().isoformat()}]
        counts = [_admitted(*pair) for pair in pairwise(uses)]
        lost = [not signing.is_known(one["mark"]) for one in uses[:-1]]
        strange = sum(count for count, is_lost in zip(counts, lost, strict=True) if is_lost)
        if is_first and any(lost):
            log.warning(
                "HOMEPORT_SECRET_KEY is another one than before, which HOMEPORT_SECRET_KEY_FALLBACKS "
                "does not name: people sign in anew; workloads that were started under it: %s",
                strange,
            )
        # Of the others nothing is left that could be told.
        with_work = [use for use, count in zip(uses[:-1], counts, strict=True) if count]
        self._uses, self._strange = [*with_work, uses[-1]], strange

    @staticmethod
    def _read() -> list[Use]:
        lease = ReconcilerLease.objects.filter(pk=1).first()
        told = lease.health.get("keys", {}).get("uses", ()) if lease else ()
        # Another version may have told them otherwise; what cannot be read must not keep a leader from its work.
        return [{"mark": one["mark"], "since": one["since"]} for one in told if _is_use(one)]


def _is_use(told: Any) -> bool:
    try:
        since = datetime.fromisoformat(told["since"])
        return isinstance(told["mark"], str) and since.tzinfo is not None
    except (KeyError, TypeError, ValueError):
        return False


def _admitted(use: Use, after: Use) -> int:
    """How many of those that have not ended were admitted while a key was in use."""
    rows = Workload.objects.unfinished()
    rows = rows.filter(admitted_at__gte=use["since"], admitted_at__lt=after["since"])
    return int(rows.count())
