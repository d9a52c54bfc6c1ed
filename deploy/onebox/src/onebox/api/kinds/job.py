"""Jobs: defaults, the generated selector, rules, and what may change while they run.

https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/apis/batch/validation/validation.go
"""

from __future__ import annotations

from collections.abc import Iterable

from onebox.api.kinds.job_policies import (
    check_failure_policy,
    check_replacement_policy,
    check_success_policy,
)
from onebox.api.kinds.template import (
    check_pod_template,
    check_template_labels,
    default_pod_template,
    warn_about_name,
)
from onebox.api.resources import Obj
from onebox.api.rules import fields, labels, names
from onebox.api.status import Cause
from onebox.api.store import clone
from onebox.api.strategy import Context, Strategy

_MAX_INT32 = 2**31 - 1
_MAX_INDEXED = 100_000
_HIGH_COMPLETIONS = 100_000
_HIGH_PARALLELISM = 10_000
_MODES = ("NonIndexed", "Indexed")
_NUMBERS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_IMMUTABLE = (
    "selector",
    "completionMode",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
)


def _generated_labels(obj: Obj) -> dict[str, str]:
    meta = obj["metadata"]
    return {
        "batch.kubernetes.io/controller-uid": meta["uid"],
        "batch.kubernetes.io/job-name": meta["name"],
        "controller-uid": meta["uid"],
        "job-name": meta["name"],
    }


def _take_labels(obj: Obj, template: Obj) -> None:
    # Upstream applies this default at each reading, so a Job without labels of its own shows
    # the generated ones of its template.
    found = template["metadata"].get("labels")
    if found and not obj["metadata"].get("labels"):
        obj["metadata"]["labels"] = dict(found)


class JobStrategy(Strategy):
    """The rules of Jobs."""

    checks_whole_on_update = False

    def defaults(self, obj: Obj) -> None:
        """Fill in what the user left out."""
        spec = obj.setdefault("spec", {})
        template = default_pod_template(spec)
        if "completions" not in spec and "parallelism" not in spec:
            spec["completions"] = 1
        spec.setdefault("parallelism", 1)
        unlimited = "backoffLimitPerIndex" in spec
        spec.setdefault("backoffLimit", _MAX_INT32 if unlimited else 6)
        spec.setdefault("completionMode", "NonIndexed")
        spec.setdefault("suspend", False)
        spec.setdefault("manualSelector", False)
        replacement = "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed"
        spec.setdefault("podReplacementPolicy", replacement)
        for rule in spec.get("podFailurePolicy", {}).get("rules", []):
            for pattern in rule.get("onPodConditions", []):
                pattern.setdefault("status", "True")
        _take_labels(obj, template)

    def prepare_create(self, ctx: Context, obj: Obj) -> None:
        """Make the selector and the labels that tie pods to this Job alone."""
        obj["status"] = {}
        spec = obj["spec"]
        if spec["manualSelector"]:
            return
        generated = _generated_labels(obj)
        meta = spec["template"]["metadata"]
        meta["labels"] = {**generated, **meta.get("labels", {})}
        selector = spec.setdefault("selector", {})
        key = "batch.kubernetes.io/controller-uid"
        selector.setdefault("matchLabels", {}).setdefault(key, generated[key])
        _take_labels(obj, spec["template"])

    def validate(self, obj: Obj) -> list[Cause]:
        """Check the whole spec."""
        return [*self._check_generated(obj), *self._check_spec(obj)]

    def _check_spec(self, obj: Obj) -> list[Cause]:
        spec = obj["spec"]
        causes: list[Cause] = []
        for field in _NUMBERS:
            causes.extend(fields.non_negative(f"spec.{field}", spec.get(field)))
        causes.extend(_check_mode(spec))
        causes.extend(check_failure_policy(spec))
        causes.extend(check_success_policy(spec))
        causes.extend(check_replacement_policy(spec))
        causes.extend(check_pod_template("spec.template", spec["template"]))
        causes.extend(_check_restart_policy(spec))
        if spec.get("selector") is None:
            causes.append(fields.required("spec.selector"))
        causes.extend(labels.check_selector("spec.selector", spec.get("selector")))
        causes.extend(check_template_labels("spec.template.metadata.labels", spec))
        causes.extend(_check_hostname(obj))
        return causes

    def _check_generated(self, obj: Obj) -> list[Cause]:
        spec = obj["spec"]
        if spec["manualSelector"] or spec.get("selector") is None:
            return []
        path = "spec.template.metadata.labels"
        generated = _generated_labels(obj)
        found = spec["template"]["metadata"].get("labels", {})
        causes = []
        for key, wanted in generated.items():
            if found.get(key) != wanted:
                given = found.get(key, "")
                causes.append(fields.invalid(f"{path}[{key}]", given, f"must be '{wanted}'"))
        if not labels.selects(spec["selector"], generated):
            text = "`selector` not auto-generated"
            causes.append(fields.invalid("spec.selector", spec["selector"], text))
        return causes

    def validate_update(self, new: Obj, old: Obj) -> list[Cause]:
        """Check the spec, and that only what may change of it has changed."""
        after, before = new["spec"], old["spec"]
        causes = self._check_spec(new)
        for field in _IMMUTABLE:
            causes.extend(fields.immutable(f"spec.{field}", after.get(field), before.get(field)))
        causes.extend(_check_completions_update(after, before))
        path = "spec.template"
        given = after["template"]
        kept = _template_with_allowed_changes(given, before["template"], old)
        causes.extend(fields.immutable(path, given, kept))
        return causes

    def warnings(self, obj: Obj) -> list[str]:
        """Say when the names of the pods will surprise."""
        return warn_about_name(obj["metadata"]["name"])


def _check_mode(spec: Obj) -> Iterable[Cause]:
    mode = spec["completionMode"]
    if mode not in _MODES:
        yield fields.not_supported("spec.completionMode", mode, _MODES)
    most_failed = spec.get("maxFailedIndexes")
    if most_failed is not None and "backoffLimitPerIndex" not in spec:
        text = "when maxFailedIndexes is specified"
        yield fields.required("spec.backoffLimitPerIndex", text)
    if mode != "Indexed":
        for field in ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"):
            if field in spec:
                text = "requires indexed completion mode"
                yield fields.invalid(f"spec.{field}", spec[field], text)
        return
    completions = spec.get("completions")
    if completions is None:
        yield fields.required("spec.completions", "when completion mode is Indexed")
    if spec["parallelism"] > _MAX_INDEXED:
        text = f"must be less than or equal to {_MAX_INDEXED} when completion mode is Indexed"
        yield fields.invalid("spec.parallelism", spec["parallelism"], text)
    if most_failed is not None and completions is not None and most_failed > completions:
        text = "must be less than or equal to completions"
        yield fields.invalid("spec.maxFailedIndexes", most_failed, text)
    if completions is not None and completions > _HIGH_COMPLETIONS:
        yield from _check_many(spec)


def _check_many(spec: Obj) -> Iterable[Cause]:
    if "backoffLimitPerIndex" not in spec:
        return
    condition = (
        f"when completions are above {_HIGH_COMPLETIONS} and used with backoff limit per index"
    )
    if "maxFailedIndexes" not in spec:
        text = f"must be specified when completions is above {_HIGH_COMPLETIONS}"
        yield fields.required("spec.maxFailedIndexes", text)
    for field in ("parallelism", "maxFailedIndexes"):
        if spec.get(field, 0) > _HIGH_PARALLELISM:
            text = f"must be less than or equal to {_HIGH_PARALLELISM} {condition}"
            yield fields.invalid(f"spec.{field}", spec[field], text)


def _check_restart_policy(spec: Obj) -> list[Cause]:
    path = "spec.template.spec.restartPolicy"
    policy = spec["template"]["spec"].get("restartPolicy")
    if policy in (None, "", "Always"):
        return [fields.required(path, 'valid values: "OnFailure", "Never"')]
    if "podFailurePolicy" in spec and policy != "Never":
        text = 'only "Never" is supported when podFailurePolicy is specified'
        return [fields.invalid(path, policy, text)]
    return []


def _check_hostname(obj: Obj) -> list[Cause]:
    spec, name = obj["spec"], obj["metadata"]["name"]
    completions = spec.get("completions") or 0
    if spec["completionMode"] != "Indexed" or completions < 1:
        return []
    longest = f"{name}-{completions - 1}"
    if not names.dns_label(longest):
        return []
    text = f"will not able to create pod with invalid DNS label: {longest}"
    return [fields.invalid("metadata.name", name, text)]


def _check_completions_update(new: Obj, old: Obj) -> list[Cause]:
    path = "spec.completions"
    after, before = new.get("completions"), old.get("completions")
    if after == before or new["completionMode"] != "Indexed":
        return fields.immutable(path, after, before)
    # An elastic Indexed Job: completions may change, but only together with parallelism.
    if after is None or before is None or new["parallelism"] != after:
        text = f"can only be modified in tandem with parallelism; {fields.IMMUTABLE} otherwise"
        return [fields.invalid(path, after, text)]
    return []


def _template_with_allowed_changes(new: Obj, old: Obj, job: Obj) -> Obj:
    """Give the old template with the changes that a suspended Job without pods allows."""
    status = job.get("status", {})
    was_suspended = any(
        condition.get("type") == "Suspended" and condition.get("status") == "True"
        for condition in status.get("conditions", [])
    )
    untouched = "startTime" not in status or was_suspended
    if not job["spec"]["suspend"] or not untouched or status.get("active"):
        return old
    kept = clone(old)
    for field in ("annotations", "labels"):
        _copy(field, new.get("metadata", {}), kept["metadata"])
    for field in ("nodeSelector", "tolerations", "schedulingGates", "affinity"):
        _copy(field, new["spec"], kept["spec"])
    for kind in ("containers", "initContainers"):
        for after, before in zip(
            new["spec"].get(kind, []), kept["spec"].get(kind, []), strict=False
        ):
            if after.get("name") == before.get("name"):
                _copy("resources", after, before)
    return kept


def _copy(field: str, source: Obj, target: Obj) -> None:
    if field in source:
        target[field] = source[field]
    else:
        target.pop(field, None)
