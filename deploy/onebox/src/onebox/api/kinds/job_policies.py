"""Rules for the policies of a Job: pod failure, success, pod replacement.

https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/apis/batch/validation/validation.go
"""

from __future__ import annotations

import re

from onebox.api.kinds.pod_defaults import containers_of
from onebox.api.resources import Obj
from onebox.api.rules import fields
from onebox.api.status import Cause

_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_STATUSES = ("False", "True", "Unknown")
_OPERATORS = ("In", "NotIn")
_REPLACEMENTS = ("Failed", "TerminatingOrFailed")
_MAX_RULES = 20
_MAX_EXIT_CODES = 255
_INDEXES = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")


def check_failure_policy(spec: Obj) -> list[Cause]:
    """Check podFailurePolicy."""
    policy = spec.get("podFailurePolicy")
    if policy is None:
        return []
    path = "spec.podFailurePolicy.rules"
    rules = policy.get("rules", [])
    causes = []
    if len(rules) > _MAX_RULES:
        causes.append(fields.invalid(path, len(rules), f"must have at most {_MAX_RULES} items"))
    names = {c.get("name") for c in containers_of(spec["template"]["spec"])}
    for i, rule in enumerate(rules):
        causes.extend(_check_rule(f"{path}[{i}]", rule, spec, names))
    return causes


def _check_rule(path: str, rule: Obj, spec: Obj, containers: set[str | None]) -> list[Cause]:
    action = rule.get("action", "")
    causes: list[Cause] = []
    if not action:
        causes.append(fields.required(f"{path}.action", f"valid values: {_listed(_ACTIONS)}"))
    elif action not in _ACTIONS:
        causes.append(fields.not_supported(f"{path}.action", action, _ACTIONS))
    elif action == "FailIndex" and "backoffLimitPerIndex" not in spec:
        text = "requires the backoffLimitPerIndex to be set"
        causes.append(fields.invalid(f"{path}.action", action, text))
    codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions")
    if codes is not None:
        causes.extend(_check_exit_codes(f"{path}.onExitCodes", codes, containers))
    for i, pattern in enumerate(conditions or []):
        where = f"{path}.onPodConditions[{i}].status"
        causes.extend(fields.one_of(where, pattern.get("status"), _STATUSES))
    if codes is not None and conditions:
        text = "Invalid value: specifying both OnExitCodes and OnPodConditions is not supported"
        causes.append(Cause("FieldValueInvalid", path, text))
    if codes is None and not conditions:
        text = "Invalid value: specifying one of OnExitCodes and OnPodConditions is required"
        causes.append(Cause("FieldValueInvalid", path, text))
    return causes


def _listed(words: tuple[str, ...]) -> str:
    return "[" + " ".join(f'"{word}"' for word in words) + "]"


def _check_exit_codes(path: str, rule: Obj, containers: set[str | None]) -> list[Cause]:
    operator, values = rule.get("operator", ""), rule.get("values", [])
    causes: list[Cause] = []
    if not operator:
        causes.append(fields.required(f"{path}.operator", f"valid values: {_listed(_OPERATORS)}"))
    elif operator not in _OPERATORS:
        causes.append(fields.not_supported(f"{path}.operator", operator, _OPERATORS))
    name = rule.get("containerName")
    if name is not None and name not in containers:
        text = "must be one of the container or initContainer names in the pod template"
        causes.append(fields.invalid(f"{path}.containerName", name, text))
    where = f"{path}.values"
    if not values:
        causes.append(fields.invalid(where, values, "at least one value is required"))
    elif len(values) > _MAX_EXIT_CODES:
        text = f"must have at most {_MAX_EXIT_CODES} items"
        return [*causes, fields.invalid(where, len(values), text)]
    for i, code in enumerate(values):
        if code == 0 and operator == "In":
            text = "must not be 0 for the In operator"
            causes.append(fields.invalid(f"{where}[{i}]", code, text))
        if code in values[:i]:
            causes.append(fields.duplicate(f"{where}[{i}]", code))
    if values != sorted(values):
        causes.append(fields.invalid(where, values, "must be ordered"))
    return causes


def check_success_policy(spec: Obj) -> list[Cause]:
    """Check successPolicy of an Indexed Job."""
    policy = spec.get("successPolicy")
    if policy is None or spec["completionMode"] != "Indexed":
        return []
    path = "spec.successPolicy.rules"
    rules = policy.get("rules", [])
    if not rules:
        text = "at least one rules must be specified when the successPolicy is specified"
        return [fields.required(path, text)]
    causes: list[Cause] = []
    if len(rules) > _MAX_RULES:
        causes.append(fields.invalid(path, len(rules), f"must have at most {_MAX_RULES} items"))
    for i, rule in enumerate(rules):
        causes.extend(_check_success_rule(f"{path}[{i}]", rule, spec.get("completions") or 0))
    return causes


def _check_success_rule(path: str, rule: Obj, completions: int) -> list[Cause]:
    count, indexes = rule.get("succeededCount"), rule.get("succeededIndexes")
    if count is None and indexes is None:
        text = "at least one of succeededCount or succeededIndexes must be specified"
        return [fields.required(path, text)]
    total, what = completions, "the number of specified completions"
    if indexes is not None:
        counted = _count_indexes(indexes, completions)
        if isinstance(counted, str):
            text = f"error parsing succeededIndexes: {counted}"
            return [fields.invalid(f"{path}.succeededIndexes", indexes, text)]
        total = counted
        what = "the number of indexes in the specified succeededIndexes field"
    causes = fields.non_negative(f"{path}.succeededCount", count)
    if count is not None and count > total:
        text = f"must be less than or equal to {total} ({what})"
        causes.append(fields.invalid(f"{path}.succeededCount", count, text))
    return causes


def _count_indexes(text: str, completions: int) -> int | str:
    """Count the indexes of "0,2-4"; a str is what is wrong with it."""
    if not _INDEXES.fullmatch(text):
        return f'cannot convert string to integer for index: "{text}"'
    last, total = -1, 0
    for part in text.split(","):
        first, _dash, end = part.partition("-")
        low, high = int(first), int(end or first)
        if low <= last or high < low:
            return f"non-increasing order, previous: {last}, current: {low}"
        if high >= completions:
            return f'too large index: "{high}"'
        last = high
        total += high - low + 1
    return total


def check_replacement_policy(spec: Obj) -> list[Cause]:
    """Check podReplacementPolicy."""
    path, policy = "spec.podReplacementPolicy", spec["podReplacementPolicy"]
    allowed = ("Failed",) if "podFailurePolicy" in spec else _REPLACEMENTS
    return [] if policy in allowed else [fields.not_supported(path, policy, allowed)]
