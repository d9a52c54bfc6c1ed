"""What the kinds that are served behind a gate have in common."""

from typing import Any

from jobs.kinds.base import WorkloadKind
from jobs.kinds.interactive.manifests import Served, complete
from jobs.kinds.interactive.observe import observe, read_pod
from jobs.kinds.interactive.spec import GATE, request_field


def served_kind(served: Served, **own: Any) -> WorkloadKind:
    """A kind of one pod behind a gate.

    Args:
        own: what is its own of a `WorkloadKind`: key, title, icon, open_verb, spec, serializer, lifecycle.
    """
    return WorkloadKind(
        record_kind="service",
        request_field=request_field,
        overhead=GATE,
        read_pod=read_pod,
        observe=observe,
        render=served.render,
        complete=complete,
        **own,
    )
