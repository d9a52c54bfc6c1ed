"""Priority: pods get the number that their class has, and only one class is the default.

https://github.com/kubernetes/kubernetes/blob/v1.36.3/plugin/pkg/admission/priority/admission.go
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onebox.api.resources import Obj, Resource, resource_named
from onebox.api.status import forbidden

if TYPE_CHECKING:
    from onebox.api.registry import Api


def default_class(api: Api) -> Obj | None:
    """Give the class of pods that name none; the lowest, should there be several."""
    defaults = [found for found in api.list("priorityclasses") if found.get("globalDefault")]
    return min(defaults, key=lambda found: int(found["value"]), default=None)


def fill_priority(api: Api, pod: Obj) -> None:
    """Resolve the class of a new pod into its priority.

    Raises:
        StatusError: 403, there is no such class, or the pod contradicts it.
    """
    spec, pods = pod["spec"], resource_named("pods")
    shown = pod["metadata"].get("name", "")
    name = spec.get("priorityClassName")
    found = api.find("priorityclasses", None, name) if name else default_class(api)
    if found is None and name:
        raise forbidden(pods, shown, f"no PriorityClass with name {name} was found")
    if found is not None:
        spec["priorityClassName"] = found["metadata"]["name"]
    priority = found["value"] if found else 0
    policy = found["preemptionPolicy"] if found else "PreemptLowerPriority"
    if spec.get("priority", priority) != priority:
        text = (
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
            f"priority admission controller computed {priority} from the given PriorityClass name"
        )
        raise forbidden(pods, shown, text)
    if spec.get("preemptionPolicy", policy) != policy:
        text = (
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be "
            f"provided in pod spec; priority admission controller computed {policy} from the "
            "given PriorityClass name"
        )
        raise forbidden(pods, shown, text)
    spec["priority"], spec["preemptionPolicy"] = priority, policy


def check_default(api: Api, resource: Resource, new: Obj, *, is_new: bool) -> None:
    """Check that a class does not become a second default.

    Raises:
        StatusError: 403.
    """
    if not new.get("globalDefault"):
        return
    found, name = default_class(api), new["metadata"]["name"]
    if found is None:
        return
    other = found["metadata"]["name"]
    if is_new or other != name:
        text = f"PriorityClass {other} is already marked as default. Only one default can exist"
        raise forbidden(resource, name, text)
