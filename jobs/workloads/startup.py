"""The start-up of a notebook or TensorBoard step by step, in words: what its page lists live.

The reconciler writes the steps as keys with times (`Workload.steps`); here they get titles, how long
each took, and what to think of one that takes long. Pure.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import Any

from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext_lazy as _

from jobs.models import Workload
from jobs.rules.states import Desired, WorkloadState

# In their order; each title says what is so once the step is done.
_TITLES = {
    "requested": _("Requested"),
    "admitted": _("Admitted"),
    "scheduled": _("Scheduled to a node"),
    "volumes": _("Volumes attached"),
    "image": _("Image on the node"),
    "started": _("Program started"),
    "ready": _("Ready to open"),
}
# What is going on while a step is the current one.
_DOING = {
    "requested": _("Accepting the request"),
    "admitted": _("Checking quota and free capacity"),
    "scheduled": _("Choosing a node"),
    "volumes": _("Attaching the volumes"),
    "image": _("Pulling the image"),
    # Until the node has said anything of it: mostly the image is there.
    "image_unknown": _("Preparing the container"),
    "started": _("Starting the program"),
    "ready": _("Waiting until it responds"),
}
# Said when the current step takes longer than PATIENCE.
_PATIENCE = {
    "requested": _("Homeport has not checked it yet. It starts automatically."),
    "admitted": _(
        "It keeps its position in your queue and starts automatically; you can close this page."
    ),
    "scheduled": _("The cluster is looking for a node with enough capacity. No action needed."),
    "volumes": _("A volume that another node just used may need a minute or two to move."),
    "image": _(
        "Images have several gigabytes. The first pull on a node takes minutes, later starts "
        "do not."
    ),
    "started": _("The container is being created. No action needed."),
    "ready": _("The program is up and still loading. Large environments need a minute or two."),
}
PATIENCE = timedelta(minutes=1)


@dataclass(frozen=True)
class StartStep:
    """One step. `began_at` is when the one before it was done."""

    key: str
    state: str  # done | now | wait | failed
    began_at: datetime | None
    at: datetime | None  # when it was done, or failed
    detail: str

    @property
    def title(self) -> Any:
        if self.state == "now" and self._pulls_nothing:
            return _DOING["image_unknown"]
        return _DOING[self.key] if self.state in {"now", "failed"} else _TITLES[self.key]

    @property
    def _pulls_nothing(self) -> bool:
        """It is the image's, and the node has it, or has said nothing yet."""
        return self.key == "image" and (not self.detail or _is_there(self.detail))

    @property
    def takes_time(self) -> bool:
        """Whether earlier starts show how long: not of a wait in the queue."""
        return self.key not in {"requested", "admitted"}

    @property
    def patience(self) -> Any:
        """Empty for a step that is not going on."""
        if self.state != "now":
            return ""
        return _PATIENCE["started" if self._pulls_nothing else self.key]

    @property
    def patience_at(self) -> datetime | None:
        """From when on the line of patience is shown."""
        return self.began_at + PATIENCE if self.state == "now" and self.began_at else None


def start_steps(service: Workload) -> list[StartStep]:
    """All steps of the latest start, the ones to come as well."""
    is_noticed = service.observed_generation == service.generation
    seen = {row["key"]: row for row in service.steps if is_noticed and row.get("key") in _TITLES}
    found: list[StartStep] = []
    began_at: datetime | None = service.queued_at
    for key in _TITLES:
        row = seen.get(key) or _unseen(service, key, found)
        at = parse_datetime(row["at"]) if row.get("at") else None
        state = row["state"] if row["state"] in _STATES else "wait"
        found.append(StartStep(key, state, began_at, at, str(row.get("detail") or "")))
        if state == "done" and at:
            began_at = at
    return found


_STATES = frozenset({"done", "now", "wait", "failed"})


def _unseen(service: Workload, key: str, before: list[StartStep]) -> dict[str, Any]:
    """A step that the reconciler has not written (yet)."""
    if key == "requested":
        return {"state": "done", "at": service.queued_at.isoformat()}
    is_next = bool(before) and all(step.state == "done" for step in before)
    is_asked = service.desired == Desired.RUN
    is_under_way = service.state in {WorkloadState.QUEUED, WorkloadState.STARTING} or (
        is_asked and service.observed_generation != service.generation
    )
    return {"state": "now" if is_next and is_under_way else "wait", "at": None}


def step_seconds(steps: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """How long each step took, by its key; those without both ends are left out."""
    seconds: dict[str, float] = {}
    before: datetime | None = None
    for row in steps:
        at = parse_datetime(row["at"]) if row.get("at") and row.get("state") == "done" else None
        if at and before:
            seconds[row["key"]] = max(0.0, (at - before).total_seconds())
        before = at
    return seconds


def usual_seconds(
    starts: Iterable[list[Mapping[str, Any]]], latest: Iterable[Mapping[str, Any]]
) -> dict[str, float]:
    """The median of each step over several starts; of the image, of those that pulled it.

    Args:
        latest: the steps of the start that it is for. Unless it pulls the image, that step is left out.
    """
    gathered: dict[str, list[float]] = {}
    pulls = _image_word(latest) not in {"", _THERE}
    for steps in starts:
        for key, seconds in step_seconds(steps).items():
            if key != "image" or (pulls and _image_word(steps) != _THERE):
                gathered.setdefault(key, []).append(seconds)
    return {key: median(values) for key, values in gathered.items()}


_THERE = "there"


def _image_word(steps: Iterable[Mapping[str, Any]]) -> str:
    """What a start's step of the image says; `_THERE`: it was on the node already; empty: nothing."""
    detail = next((str(row.get("detail") or "") for row in steps if row.get("key") == "image"), "")
    return _THERE if _is_there(detail) else detail


def _is_there(detail: str) -> bool:
    """By the kubelet's word: pkg/kubelet/images/image_manager.go."""
    return detail.endswith("already present on machine")
