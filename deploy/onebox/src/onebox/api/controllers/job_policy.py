"""podFailurePolicy and successPolicy of a Job: which rule does a pod, or the Job, meet? Pure.

Rules and sentences of k8s.io/kubernetes/pkg/controller/job/pod_failure_policy.go and
success_policy.go.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from onebox.api.controllers.intervals import parse_indexes
from onebox.api.controllers.objects import name_of, namespace_of, spec_of, status_of
from onebox.api.resources import Obj


@dataclass(frozen=True)
class FailureMatch:
    """What the policy says of one failed pod.

    Attributes:
        action: FailJob, FailIndex, Ignore, Count, or None when no rule matches.
        counted: the failure counts towards the back-off limits.
        message: why the whole Job fails (FailJob only).
    """

    action: str | None = None
    counted: bool = True
    message: str | None = None


def match_failure(job: Obj, pod: Obj) -> FailureMatch:
    """Find the first rule that a failed pod meets."""
    policy = spec_of(job).get("podFailurePolicy") or {}
    for number, rule in enumerate(policy.get("rules") or ()):
        cause = _cause(rule, pod)
        if cause is None:
            continue
        action = str(rule.get("action"))
        if action == "FailJob":
            message = f"{cause} matching FailJob rule at index {number}"
            return FailureMatch("FailJob", counted=True, message=message)
        return FailureMatch(action, counted=action != "Ignore")
    return FailureMatch()


def _cause(rule: Obj, pod: Obj) -> str | None:
    where = f"{namespace_of(pod)}/{name_of(pod)}"
    if rule.get("onExitCodes") is not None:
        container = _container_with_code(rule["onExitCodes"], pod)
        if container is None:
            return None
        code = container["state"]["terminated"]["exitCode"]
        return f"Container {container['name']} for pod {where} failed with exit code {code}"
    condition = _matching_condition(rule.get("onPodConditions") or (), pod)
    return f"Pod {where} has condition {condition['type']}" if condition else None


def _container_with_code(requirement: Obj, pod: Obj) -> Obj | None:
    status = status_of(pod)
    for kind in ("containerStatuses", "initContainerStatuses"):
        for container in status.get(kind) or ():
            terminated = (container.get("state") or {}).get("terminated")
            if terminated is None or requirement.get("containerName") not in (
                None,
                container.get("name"),
            ):
                continue
            if _code_matches(requirement, int(terminated.get("exitCode") or 0)):
                return dict(container)
    return None


def _code_matches(requirement: Obj, code: int) -> bool:
    if code == 0:
        return False
    values = requirement.get("values") or ()
    match requirement.get("operator"):
        case "In":
            return code in values
        case "NotIn":
            return code not in values
        case _:
            return False


def _matching_condition(patterns: Iterable[Obj], pod: Obj) -> Obj | None:
    for condition in status_of(pod).get("conditions") or ():
        for pattern in patterns:
            wanted = (pattern.get("type"), pattern.get("status") or "True")
            if (condition.get("type"), condition.get("status")) == wanted:
                return dict(condition)
    return None


def match_success(job: Obj, succeeded: AbstractSet[int]) -> str | None:
    """Say which successPolicy rule the succeeded indexes meet; None for no rule."""
    spec = spec_of(job)
    for number, rule in enumerate((spec.get("successPolicy") or {}).get("rules") or ()):
        count = rule.get("succeededCount")
        if rule.get("succeededIndexes") is None:
            met = count is not None and len(succeeded) >= count
        else:
            required = parse_indexes(rule["succeededIndexes"], int(spec.get("completions") or 0))
            have = len(required & succeeded)
            met = bool(required) and (
                have == len(required) or (count is not None and have >= count)
            )
        if met and succeeded:
            return f"Matched rules at index {number}"
    return None
