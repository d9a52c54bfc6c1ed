"""Which keys have signed for this installation, and what still runs that was started under one not known any more.

Pods carry tokens that the key in use at their start has signed, and gates of notebooks what it derived. Marks
of the keys (`portal.signing`) and when each was in use are kept in the reconciler's report.
"""

import logging
from typing import Any

from django.db.models import Q
from django.utils import timezone

from jobs.models import ReconcilerLease, Workload
from portal import signing

log = logging.getLogger(__name__)

Use = dict[str, str]  # since, used_at: ISO times


class KeyBook:
    """Blocking, but for `report`."""

    def __init__(self) -> None:
        self._used: dict[str, Use] | None = None  # by mark; None: not read yet
        self._strange = 0

    def report(self) -> dict[str, Any]:
        """`{"used": [{"mark", "since", "used_at"}], "strange"}`: how many workloads run under others."""
        used = [{"mark": mark, **use} for mark, use in sorted((self._used or {}).items())]
        return {"used": used, "strange": self._strange}

    def look(self) -> None:
        """Counts anew; the first time also reads what the reconciler before has told.

        Raises:
            DatabaseError: nothing was changed.
        """
        is_first = self._used is None
        used = self._read() if self._used is None else self._used
        lost = {mark: use for mark, use in used.items() if not signing.is_known(mark)}
        strange = _started_in(list(lost.values())) if lost else 0
        if not strange:  # of such a key nothing is left to tell
            used = {mark: use for mark, use in used.items() if mark not in lost}
        if lost and is_first:
            log.warning(
                "HOMEPORT_SECRET_KEY is another one than before, which HOMEPORT_SECRET_KEY_FALLBACKS "
                "does not name: people sign in anew; workloads that were started under it: %s",
                strange,
            )
        mark, now = signing.key_mark(), timezone.now().isoformat(timespec="seconds")
        since = used.get(mark, {}).get("since", now)
        self._used = used | {mark: {"since": since, "used_at": now}}
        self._strange = strange

    @staticmethod
    def _read() -> dict[str, Use]:
        lease = ReconcilerLease.objects.filter(pk=1).first()
        told = lease.health.get("keys", {}).get("used", ()) if lease else ()
        return {one["mark"]: {"since": one["since"], "used_at": one["used_at"]} for one in told}


def _started_in(uses: list[Use]) -> int:
    """How many of those that have not ended were admitted while such a key was in use."""
    while_used = Q()
    for use in uses:
        while_used |= Q(admitted_at__gte=use["since"], admitted_at__lte=use["used_at"])
    return int(Workload.objects.unfinished().filter(while_used).count())
