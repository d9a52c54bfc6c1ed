"""What is wrong with an object is refused, all of it at once, in upstream's words."""

from __future__ import annotations

from typing import Any

import pytest

from onebox.api.registry import Api

from .bodies import (
    CLAIM,
    DEPLOYMENT,
    INDEXED,
    JOB,
    LIMITS,
    PARALLEL,
    QUOTA,
    SERVICE,
    VOLUME,
    refuse,
    with_change,
)
from .conftest import Obj, pod
from .pod_mistakes import PODS


@pytest.mark.parametrize(
    ("plural", "base", "path", "value", "field", "text"),
    [
        *PODS,
        (
            "jobs",
            JOB,
            "spec.template.spec.restartPolicy",
            ...,
            "spec.template.spec.restartPolicy",
            'Required value: valid values: "OnFailure", "Never"',
        ),
        ("jobs", JOB, "spec.parallelism", -1, "spec.parallelism", "greater than or equal to 0"),
        (
            "jobs",
            PARALLEL,
            "spec.completionMode",
            "Indexed",
            "spec.completions",
            "when completion mode is Indexed",
        ),
        (
            "jobs",
            JOB,
            "spec.backoffLimitPerIndex",
            1,
            "spec.backoffLimitPerIndex",
            "requires indexed completion mode",
        ),
        (
            "jobs",
            INDEXED,
            "spec.maxFailedIndexes",
            1,
            "spec.backoffLimitPerIndex",
            "when maxFailedIndexes is specified",
        ),
        (
            "jobs",
            INDEXED,
            "metadata.name",
            "a" * 62,
            "metadata.name",
            "will not able to create pod with invalid DNS label",
        ),
        (
            "jobs",
            JOB,
            "spec.selector",
            {"matchLabels": {"a": "b"}},
            "spec.selector",
            "`selector` not auto-generated",
        ),
        (
            "jobs",
            JOB,
            "spec.podReplacementPolicy",
            "Never",
            "spec.podReplacementPolicy",
            'supported values: "Failed", "TerminatingOrFailed"',
        ),
        (
            "jobs",
            JOB,
            "spec.podFailurePolicy",
            {"rules": [{"action": "Ignore"}]},
            "spec.podFailurePolicy.rules[0]",
            "specifying one of OnExitCodes and OnPodConditions is required",
        ),
        (
            "jobs",
            JOB,
            "spec.podFailurePolicy",
            {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3, 0]}}]},
            "spec.podFailurePolicy.rules[0].onExitCodes.values[1]",
            "must not be 0",
        ),
        (
            "jobs",
            INDEXED,
            "spec.successPolicy",
            {"rules": [{"succeededIndexes": "0,9"}]},
            "spec.successPolicy.rules[0].succeededIndexes",
            "too large index",
        ),
        (
            "deployments",
            DEPLOYMENT,
            "spec.selector",
            {},
            "spec.selector",
            "empty selector is invalid for deployment",
        ),
        (
            "deployments",
            DEPLOYMENT,
            "spec.template.metadata.labels",
            {"app": "y"},
            "spec.template.metadata.labels",
            "`selector` does not match template `labels`",
        ),
        (
            "deployments",
            DEPLOYMENT,
            "spec.template.spec.restartPolicy",
            "Never",
            "spec.template.spec.restartPolicy",
            'supported values: "Always"',
        ),
        (
            "deployments",
            DEPLOYMENT,
            "spec.strategy",
            {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}},
            "spec.strategy.rollingUpdate",
            "may not be specified when strategy `type` is 'Recreate'",
        ),
        (
            "deployments",
            DEPLOYMENT,
            "spec.strategy.rollingUpdate",
            {"maxSurge": 0, "maxUnavailable": 0},
            "spec.strategy.rollingUpdate.maxUnavailable",
            "may not be 0 when `maxSurge` is 0",
        ),
        ("deployments", DEPLOYMENT, "spec.replicas", -1, "spec.replicas", "equal to 0"),
        ("services", SERVICE, "metadata.name", "a.b", "metadata.name", "must not contain dots"),
        ("services", SERVICE, "spec.ports", [], "spec.ports", "Required value"),
        ("services", SERVICE, "spec.ports.0.port", 0, "spec.ports[0].port", "between 1 and 65535"),
        (
            "services",
            SERVICE,
            "spec.ports",
            [{"port": 1}, {"port": 2}],
            "spec.ports[0].name",
            "Required value",
        ),
        (
            "services",
            SERVICE,
            "spec.ports.0.nodePort",
            30001,
            "spec.ports[0].nodePort",
            "may not be used when `type` is 'ClusterIP'",
        ),
        ("services", SERVICE, "spec.type", "Loud", "spec.type", "Unsupported value"),
        ("services", SERVICE, "spec.type", "ExternalName", "spec.externalName", "Required value"),
        (
            "persistentvolumeclaims",
            CLAIM,
            "spec.accessModes",
            [],
            "spec.accessModes",
            "at least 1 access mode is required",
        ),
        (
            "persistentvolumeclaims",
            CLAIM,
            "spec.accessModes",
            ["RWX"],
            "spec.accessModes",
            "Unsupported value",
        ),
        (
            "persistentvolumeclaims",
            CLAIM,
            "spec.resources",
            {},
            "spec.resources[storage]",
            "Required value",
        ),
        (
            "persistentvolumeclaims",
            CLAIM,
            "spec.resources.requests.storage",
            "0",
            "spec.resources[storage]",
            "must be greater than zero",
        ),
        ("persistentvolumes", VOLUME, "spec.hostPath", ..., "spec", "must specify a volume type"),
        ("persistentvolumes", VOLUME, "spec.capacity", {}, "spec.capacity", "Unsupported value"),
        (
            "resourcequotas",
            QUOTA,
            "spec.hard",
            {"apples": "1"},
            "spec.hard[apples]",
            "must be a standard resource type or fully qualified",
        ),
        ("resourcequotas", QUOTA, "spec.hard", {"pods": "1.5"}, "spec.hard[pods]", "an integer"),
        ("resourcequotas", QUOTA, "spec.hard", {"cpu": "-1"}, "spec.hard[cpu]", "equal to 0"),
        (
            "limitranges",
            LIMITS,
            "spec.limits.0",
            {"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}},
            "spec.limits[0].min[cpu]",
            "min value 2 is greater than max value 1",
        ),
        (
            "limitranges",
            LIMITS,
            "spec.limits.0.type",
            "Box",
            "spec.limits[0].type",
            "must be a standard limit type or fully qualified",
        ),
        (
            "configmaps",
            {"metadata": {"name": "c"}},
            "data",
            {"a/b": "c"},
            "data[a/b]",
            "a valid config key must consist",
        ),
        ("configmaps", {"metadata": {"name": "c"}}, "data", {"..": "c"}, "data[..]", "must not be"),
        (
            "configmaps",
            {"metadata": {"name": "c"}},
            "data",
            {"k": "x" * 1_048_577},
            "",
            "Too long: may not be more than 1048576 bytes",
        ),
        (
            "secrets",
            {"metadata": {"name": "s"}},
            "type",
            "kubernetes.io/tls",
            "data[tls.crt]",
            "Required value",
        ),
        (
            "storageclasses",
            {"metadata": {"name": "s"}},
            "volumeBindingMode",
            "Later",
            "volumeBindingMode",
            "Unsupported value",
        ),
        (
            "namespaces",
            {"metadata": {"name": "n"}},
            "metadata.name",
            "a.b",
            "metadata.name",
            "must not contain dots",
        ),
    ],
)
def test_what_is_wrong_is_refused_and_named(
    api: Api, plural: str, base: Obj, path: str, value: Any, field: str, text: str
) -> None:
    error = refuse(api, plural, with_change(base, path, value))
    assert (error.code, error.reason) == (422, "Invalid")
    causes = {cause["field"]: cause["message"] for cause in error.details["causes"]}
    assert field in causes, error.message
    assert any(text in c["message"] for c in error.details["causes"] if c["field"] == field), (
        error.message
    )
    assert " is invalid: " in error.message


def test_all_mistakes_are_named_at_once(api: Api) -> None:
    broken = pod("Bad", restartPolicy="Maybe", dnsPolicy="Any")
    error = refuse(api, "pods", broken)
    assert len(error.details["causes"]) == 3
    assert error.message.startswith('Pod "Bad" is invalid: [')
    assert error.details["kind"] == "Pod"
