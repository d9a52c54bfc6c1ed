"""Short texts for table cells: ages, durations, labels, containers.

https://github.com/kubernetes/apimachinery/blob/v0.36.3/pkg/util/duration/duration.go
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from onebox.api.resources import Obj
from onebox.api.timestamps import parse_time

Cell = str | int | bool
NONE = "<none>"
UNKNOWN = "<unknown>"
UNSET = "<unset>"


@dataclass(frozen=True, slots=True)
class Column:
    """One column; those with a priority above 0 show in wide output only."""

    name: str
    type: str = "string"
    priority: int = 0
    format: str = ""

    def body(self) -> dict[str, Cell]:
        """Give the TableColumnDefinition."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": "",
            "priority": self.priority,
        }


NAME = Column("Name", format="name")
AGE = Column("Age")


def wide(name: str, type_: str = "string") -> Column:
    """Make a column that shows in wide output only."""
    return Column(name, type_, priority=1)


def human_duration(seconds: float) -> str:
    """Write a duration with two units at most, as kubectl shows it."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 120:
        return f"{max(whole, 0)}s"
    minutes, hours = whole // 60, whole // 3600
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if hours < 24 * 8:
        return _two(hours // 24, "d", hours % 24, "h")
    days = hours // 24
    if days < 365 * 2:
        return f"{days}d"
    if days < 365 * 8:
        return _two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two(first: int, unit: str, second: int, small_unit: str) -> str:
    return f"{first}{unit}{second}{small_unit}" if second else f"{first}{unit}"


def since(stamp: str | None, now: datetime) -> str:
    """Write how long ago a timestamp was."""
    if not stamp:
        return UNKNOWN
    return human_duration((now - parse_time(stamp)).total_seconds())


def age(obj: Obj, now: datetime) -> str:
    """Write how old an object is."""
    return since(obj["metadata"].get("creationTimestamp"), now)


def name_of(obj: Obj) -> str:
    """Give the object's name."""
    return str(obj["metadata"]["name"])


def containers(template: Obj) -> tuple[str, str]:
    """Give names and images of the containers of a pod template."""
    found: Sequence[Obj] = template.get("spec", {}).get("containers", ())
    return (
        ",".join(container.get("name", "") for container in found),
        ",".join(container.get("image", "") for container in found),
    )


def format_labels(labels: dict[str, str] | None) -> str:
    """Write labels as a selector."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


def format_selector(selector: Obj | None) -> str:
    """Write a LabelSelector."""
    selector = selector or {}
    parts = [f"{key}={value}" for key, value in sorted(selector.get("matchLabels", {}).items())]
    for term in selector.get("matchExpressions", ()):
        values = ",".join(sorted(term.get("values", ())))
        match term["operator"]:
            case "In":
                parts.append(f"{term['key']} in ({values})")
            case "NotIn":
                parts.append(f"{term['key']} notin ({values})")
            case "Exists":
                parts.append(term["key"])
            case _:
                parts.append(f"!{term['key']}")
    return ",".join(parts) or NONE


def listed(items: Iterable[str], most: int = 3) -> str:
    """Write the first few items, and how many more there are."""
    every = list(items)
    if not every:
        return UNSET
    shown = ",".join(every[:most])
    return f"{shown} + {len(every) - most} more..." if len(every) > most else shown


def has_condition(obj: Obj, kind: str) -> bool:
    """Tell whether a condition is True."""
    return any(
        condition.get("type") == kind and condition.get("status") == "True"
        for condition in obj.get("status", {}).get("conditions", ())
    )
