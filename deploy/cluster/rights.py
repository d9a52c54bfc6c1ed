"""Which rights the manifests beside this module give: role by role, as single pairs of verb and
resource."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).resolve().parent
NAMESPACE = "homeport"
ACCOUNTS = ("web", "reconciler", "purge")
USERS = {f"system:serviceaccount:{NAMESPACE}:{account}": account for account in ACCOUNTS}
TENANT_ROLES = {"homeport-tenant": "reconciler", "homeport-tenant-logs": "web"}


@dataclass(frozen=True, order=True)
class Right:
    """One verb on one resource.

    Attributes:
        role: the ClusterRole or Role that gives it.
        resource: plural with subresource and group, such as `pods/log` or `jobs.batch`.
        name: of the only object that it is for; empty: any.
    """

    role: str
    resource: str
    verb: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.role}: {self.verb} {self.resource} {self.name}".rstrip()


def resource_name(resource: str, group: str) -> str:
    """`jobs` of the group `batch` is `jobs.batch`; the core group has no name."""
    return f"{resource}.{group}" if group else resource


def documents() -> Iterator[dict[str, Any]]:
    """All objects that an admin applies, in the order of the files."""
    for path in sorted(FOLDER.glob("*.yaml")):
        yield from (found for found in yaml.safe_load_all(path.read_text()) if found)


def granted() -> set[Right]:
    """Every right that the roles give."""
    found = set()
    for document in documents():
        for rule in document.get("rules", ()):
            found |= {
                Right(document["metadata"]["name"], resource_name(resource, group), verb, name)
                for group in rule["apiGroups"]
                for resource in rule["resources"]
                for verb in rule["verbs"]
                for name in rule.get("resourceNames", ("",))
            }
    return found
