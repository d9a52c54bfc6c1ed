"""What the kinds that are served behind a gate have in common."""

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from django.utils.translation import gettext_lazy as _

from jobs.kinds.base import RestResource, WorkloadKind
from jobs.kinds.interactive.answers import ServiceEventSerializer, ServiceSerializer
from jobs.kinds.interactive.lifecycle import END_S
from jobs.kinds.interactive.manifests import GRACE_S, Served, complete
from jobs.kinds.interactive.observe import observe, read_pod
from jobs.kinds.interactive.spec import GATE, STATES, request_field
from portal.catalog import max_duration_s

CAN_START_AGAIN = _("What is on the volumes is kept, and it can be started again.")


def _lasts_s(
    kind: str, run_policy: Mapping[str, Any], topology: str, roles: Collection[str]
) -> int | None:
    """See `WorkloadKind.lasts_s`; of one that starts now."""
    most_s = max_duration_s(kind)
    return None if most_s is None else most_s + END_S


def served_kind(
    served: Served,
    *,
    answer: type[ServiceSerializer],
    list_answer: type[ServiceSerializer],
    **own: Any,
) -> WorkloadKind:
    """A kind of one pod behind a gate.

    Args:
        answer, list_answer: how one looks in REST, and each of a list.
        own: what is its own of a `WorkloadKind`: key, title, icon, open_verb, stop, pages, spec,
            serializer, form, lifecycle; `render` where its template is not that of all.
    """
    rest = RestResource(
        one=served.word,
        answer=answer,
        list_answer=list_answer,
        event_answer=ServiceEventSerializer,
    )
    shared: dict[str, Any] = {
        "noun": served.word,
        "record_kind": "service",
        "states": STATES,
        "grace_s": lambda workload: GRACE_S,
        "rest": rest,
        "request_field": request_field,
        "overhead": GATE,
        "lasts_s": partial(_lasts_s, own["key"]),
        "longest_grace_s": lambda topology, roles: END_S,
        "read_pod": read_pod,
        "observe": observe,
        "render": served.render,
        "complete": complete,
    }
    return WorkloadKind(**{**shared, **own})
