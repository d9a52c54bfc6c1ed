"""Which rights Homeport's accounts really used: `python -m deploy.cluster.used AUDIT_LOG`.

Reads the API server's audit log, in which the authorizer says by which role it allowed a call, and
compares that with the manifests. Level Metadata is enough, and Request for RoleBindings, since only
the body says which role is bound. A watch is in the log when it has ended, so stop Homeport before.
https://kubernetes.io/docs/reference/labels-annotations-taints/audit-annotations/
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from deploy.cluster import rights
from deploy.cluster.rights import Right

_DECISION = "authorization.k8s.io/decision"
_REASON = "authorization.k8s.io/reason"
_POLICY = "validation.policy.admission.k8s.io/validation_failure"
_BY_ROLE = re.compile(r'of (?:Cluster)?Role "([^"]+)"')
_BINDINGS = "rolebindings.rbac.authorization.k8s.io"
_BIND = "clusterroles.rbac.authorization.k8s.io"


@dataclass
class Use:
    """What an audit log tells of our accounts.

    Attributes:
        rights: right -> how many calls it allowed.
        denied: "account: verb resource in NAMESPACE" -> how many calls no role allowed.
        refused: the same, for calls that the ValidatingAdmissionPolicy refused.
    """

    rights: Counter[Right] = field(default_factory=Counter)
    denied: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)

    @property
    def never_used(self) -> list[Right]:
        """Granted by the manifests, and not in the log."""
        return sorted(rights.granted() - self.rights.keys())

    @property
    def not_granted(self) -> list[Right]:
        """Allowed in the log by a role of ours that the manifests do not give."""
        return sorted(self.rights.keys() - rights.granted())

    def note(self, event: dict[str, Any]) -> None:
        """Counts one event; those of others, and of no object, are passed over."""
        account = rights.USERS.get(event.get("user", {}).get("username", ""))
        about = event.get("objectRef") or {}
        if account is None or not about.get("resource"):
            return
        plural = "/".join(filter(None, (about["resource"], about.get("subresource"))))
        resource = rights.resource_name(plural, about.get("apiGroup", ""))
        notes = event.get("annotations") or {}
        place = f" in {about['namespace']}" if about.get("namespace") else ""
        call = f"{account}: {event['verb']} {resource}{place}"
        if notes.get(_DECISION) == "forbid":
            self.denied[call] += 1
            return
        if _POLICY in notes:
            self.refused[call] += 1
        role = _BY_ROLE.search(notes.get(_REASON, ""))
        if role is None or role[1] not in _ROLES:
            return  # what every account may, such as asking what it may
        right = Right(role[1], resource, event["verb"], about.get("name", ""))
        # Most are for any name.
        self.rights[right if right in _GRANTED else replace(right, name="")] += 1
        is_done = event.get("responseStatus", {}).get("code", 500) < 300
        bound = (event.get("requestObject") or {}).get("roleRef")
        if resource == _BINDINGS and bound and is_done:
            # Asked by the API server itself when a role is bound; it is no call of its own.
            self.rights[Right(role[1], _BIND, "bind", bound["name"])] += 1


_GRANTED = rights.granted()
_ROLES = frozenset(right.role for right in _GRANTED)


def read(lines: Iterable[str]) -> Use:
    """What the lines of an audit log tell."""
    use = Use()
    for line in lines:
        if "system:serviceaccount:" in line:
            use.note(json.loads(line))
    return use


def main() -> int:
    """Prints the table; 1 when granted and used differ."""
    parser = argparse.ArgumentParser(prog="python -m deploy.cluster.used", description=__doc__)
    parser.add_argument("audit_log", type=Path)
    given = parser.parse_args()
    with given.audit_log.open() as lines:
        use = read(lines)
    for right in sorted(use.rights):
        sys.stdout.write(f"{use.rights[right]:8} {right}\n")
    problems: dict[str, list[Right] | list[str]] = {
        "granted and never used": use.never_used,
        "used, but not of these manifests": use.not_granted,
        "used and denied": sorted(use.denied),
        "refused by the policy": sorted(use.refused),
    }
    for title, found in problems.items():
        for what in found:
            sys.stdout.write(f"{title}: {what}\n")
    return int(any(problems.values()))


if __name__ == "__main__":
    sys.exit(main())
