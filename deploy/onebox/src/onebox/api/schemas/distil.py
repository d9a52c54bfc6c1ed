"""Write kubernetes.json from the OpenAPI documents in a checkout of Kubernetes.

    python -m onebox.api.schemas.distil PATH/TO/kubernetes/api/openapi-spec/v3

Needed only when onebox moves to the shapes of a newer Kubernetes; the result is committed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

OUTPUT = Path(__file__).with_name("kubernetes.json")

ROOTS = {
    "api__v1": (
        "core.v1.Binding core.v1.ConfigMap core.v1.Event core.v1.LimitRange core.v1.Namespace "
        "core.v1.Node core.v1.PersistentVolume core.v1.PersistentVolumeClaim core.v1.Pod "
        "core.v1.ResourceQuota core.v1.Secret core.v1.Service core.v1.ServiceAccount"
    ),
    "apis__apps__v1": "apps.v1.Deployment apps.v1.ReplicaSet autoscaling.v1.Scale",
    "apis__authentication.k8s.io__v1": "authentication.v1.SelfSubjectReview",
    "apis__authorization.k8s.io__v1": (
        "authorization.v1.SelfSubjectAccessReview authorization.v1.SelfSubjectRulesReview"
    ),
    "apis__batch__v1": "batch.v1.Job",
    "apis__coordination.k8s.io__v1": "coordination.v1.Lease",
    "apis__discovery.k8s.io__v1": "discovery.v1.EndpointSlice",
    "apis__events.k8s.io__v1": "events.v1.Event",
    "apis__networking.k8s.io__v1": "networking.v1.NetworkPolicy",
    "apis__rbac.authorization.k8s.io__v1": (
        "rbac.v1.ClusterRole rbac.v1.ClusterRoleBinding rbac.v1.Role rbac.v1.RoleBinding"
    ),
    "apis__scheduling.k8s.io__v1": "scheduling.v1.PriorityClass",
    "apis__storage.k8s.io__v1": "storage.v1.StorageClass",
}


def referenced(value: Any) -> set[str]:
    """Give the names of all definitions that a value points to."""
    if isinstance(value, dict):
        names = {str(value["$ref"]).rsplit("/", 1)[-1]} if "$ref" in value else set()
        return names.union(*map(referenced, value.values()))
    if isinstance(value, list):
        return set().union(*map(referenced, value))
    return set()


def shorten(schema: Any) -> Any:
    """Keep the first sentence of each description."""
    if isinstance(schema, list):
        return [shorten(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "properties":
            # Names of fields, not words of the schema: a field may be called "default".
            kept[key] = {name: shorten(field) for name, field in value.items()}
        elif key == "description":
            kept[key] = value.split(". ")[0]
        else:
            kept[key] = shorten(value)
    return kept


def distil(source: Path) -> dict[str, Any]:
    """Collect the roots and everything they refer to."""
    chosen: dict[str, Any] = {}
    for document, roots in ROOTS.items():
        path = source / f"{document}_openapi.json"
        schemas = json.loads(path.read_text())["components"]["schemas"]
        waiting = [f"io.k8s.api.{root}" for root in roots.split()]
        while waiting:
            name = waiting.pop()
            if name not in chosen:
                chosen[name] = shorten(schemas[name])
                waiting.extend(referenced(schemas[name]))
    return dict(sorted(chosen.items()))


def main() -> None:
    """Run the command line."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    definitions = distil(Path(sys.argv[1]))
    lines = [
        f"{json.dumps(name)}:{json.dumps(body, separators=(',', ':'), ensure_ascii=False)}"
        for name, body in definitions.items()
    ]
    OUTPUT.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
