"""Pod Security admission: which level a namespace asks for, and what of a pod does not fit it.

https://kubernetes.io/docs/concepts/security/pod-security-admission/
"""

from __future__ import annotations

from onebox.api.admission.podchecks import BASELINE, RESTRICTED, Violation
from onebox.api.resources import Obj

LABEL = "pod-security.kubernetes.io/"
LEVELS = ("privileged", "baseline", "restricted")


def find_violations(level: str, spec: Obj) -> list[Violation]:
    """Give what in a pod spec does not fit a level; nothing for "privileged"."""
    if level not in ("baseline", "restricted"):
        return []
    own_users = spec.get("hostUsers") is False
    checks = BASELINE if level == "baseline" else RESTRICTED
    found = [check(spec) for check, relaxed in checks if not (relaxed and own_users)]
    return [violation for violation in found if violation is not None]


def level_of(namespace: Obj, mode: str) -> tuple[str, str]:
    """Give level and version that a namespace asks for in a mode: enforce, warn or audit.

    An unknown level counts as restricted, as upstream does.
    """
    labels = namespace["metadata"].get("labels", {})
    level = labels.get(f"{LABEL}{mode}", "privileged")
    version = labels.get(f"{LABEL}{mode}-version", "latest")
    return (level if level in LEVELS else "restricted"), version


def explain(level: str, version: str, violations: list[Violation]) -> str:
    """Give upstream's sentence about violations, without its verb."""
    return f'PodSecurity "{level}:{version}": {", ".join(map(str, violations))}'
