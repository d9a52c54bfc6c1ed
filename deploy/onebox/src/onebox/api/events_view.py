"""Events in the shape of events.k8s.io/v1, which are stored as core events. Pure.

https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/apis/events/v1/conversion.go
"""

from __future__ import annotations

from onebox.api.resources import EVENTS_VIEW, Obj

# Name in events.k8s.io/v1 -> name in core v1.
_RENAMED = {
    "note": "message",
    "regarding": "involvedObject",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_TO_VIEW = {core: view for view, core in _RENAMED.items()}


def to_view(event: Obj) -> Obj:
    """Give a core event in the newer shape."""
    view = {_TO_VIEW.get(key, key): value for key, value in event.items()}
    view["apiVersion"], view["kind"] = EVENTS_VIEW.api_version, EVENTS_VIEW.kind
    for field in ("reportingController", "reportingInstance"):
        if not view.get(field):
            view.pop(field, None)
    # Null where a core event has only its older times: upstream makes none up either.
    view.setdefault("eventTime", None)
    return view


def from_view(view: Obj) -> Obj:
    """Give an event of the newer shape as a core event."""
    event = {_RENAMED.get(key, key): value for key, value in view.items()}
    event["apiVersion"], event["kind"] = "v1", "Event"
    return event
