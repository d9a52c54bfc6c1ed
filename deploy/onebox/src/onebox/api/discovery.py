"""Discovery: which groups, kinds and verbs are served, in the old and the aggregated form."""

from __future__ import annotations

from onebox.api.resources import SERVED, Obj, Resource, group_versions

GIT_VERSION = "v1.37.0+onebox"

_STATUS_VERBS = ("get", "patch", "update")
# Subresource -> its verbs, and its own kind where it is not the parent's.
_SUBRESOURCES: dict[str, tuple[tuple[str, ...], tuple[str, str, str] | None]] = {
    "binding": (("create",), ("", "v1", "Binding")),
    "finalize": (("update",), None),
    "log": (("get",), None),
    "scale": (_STATUS_VERBS, ("autoscaling", "v1", "Scale")),
    "status": (_STATUS_VERBS, None),
}


def version_info() -> Obj:
    """Give the answer of /version."""
    return {
        "major": "1",
        "minor": "37",
        "emulationMajor": "1",
        "emulationMinor": "37",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "36",
        "gitVersion": GIT_VERSION,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "linux/amd64",
    }


def api_versions(address: str) -> Obj:
    """Give the answer of /api."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def api_group(group: str) -> Obj | None:
    """Give the answer of /apis/GROUP."""
    versions = [
        {"groupVersion": f"{name}/{version}", "version": version}
        for name, version in group_versions()
        if name == group
    ]
    if not group or not versions:
        return None
    return {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": group,
        "versions": versions,
        "preferredVersion": versions[0],
    }


def api_groups() -> Obj:
    """Give the answer of /apis."""
    names = dict.fromkeys(group for group, _version in group_versions() if group)
    groups = []
    for name in names:
        group = api_group(name) or {}
        groups.append({k: v for k, v in group.items() if k not in ("kind", "apiVersion")})
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def _served(group: str, version: str) -> list[Resource]:
    found = [r for r in SERVED if (r.group, r.version) == (group, version)]
    return sorted(found, key=lambda resource: resource.plural)


def resource_list(group: str, version: str) -> Obj | None:
    """Give the answer of /api/v1 or /apis/GROUP/VERSION."""
    served = _served(group, version)
    if not served:
        return None
    entries: list[Obj] = []
    if not group:
        entries.append(
            {
                "name": "bindings",
                "singularName": "binding",
                "namespaced": True,
                "kind": "Binding",
                "verbs": ["create"],
            }
        )
    for resource in served:
        entries.extend(_entries(resource))
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": served[0].api_version,
        "resources": entries,
    }


def _entries(resource: Resource) -> list[Obj]:
    own: Obj = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        own["shortNames"] = list(resource.short_names)
    if resource.categories:
        own["categories"] = list(resource.categories)
    entries = [own]
    for name in resource.subresources:
        verbs, kind = _SUBRESOURCES[name]
        entry: Obj = {
            "name": f"{resource.plural}/{name}",
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": kind[2] if kind else resource.kind,
            "verbs": list(verbs),
        }
        if kind and kind[0]:
            entry["group"], entry["version"] = kind[:2]
        entries.append(entry)
    return entries


def aggregated(version: str, *, core: bool) -> Obj:
    """Give all groups and kinds in one document.

    Args:
        version: of apidiscovery.k8s.io that the client asks for: "v2" or "v2beta1".
        core: the document of /api, otherwise that of /apis.

    https://kubernetes.io/docs/concepts/overview/kubernetes-api/#aggregated-discovery
    """
    items = [
        {
            "metadata": {"name": group, "creationTimestamp": None}
            if group
            else {"creationTimestamp": None},
            "versions": [
                {
                    "version": group_version,
                    "resources": [
                        *(_aggregated_binding() if core else ()),
                        *(_aggregated_entry(r) for r in _served(group, group_version)),
                    ],
                    "freshness": "Current",
                }
            ],
        }
        for group, group_version in group_versions()
        if core == (not group)
    ]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": items,
    }


def _response_kind(group: str, version: str, kind: str) -> Obj:
    return {"group": group, "version": version, "kind": kind}


def _aggregated_binding() -> list[Obj]:
    return [
        {
            "resource": "bindings",
            "responseKind": _response_kind("", "v1", "Binding"),
            "scope": "Namespaced",
            "singularResource": "binding",
            "verbs": ["create"],
        }
    ]


def _aggregated_entry(resource: Resource) -> Obj:
    own = (resource.group, resource.version, resource.kind)
    entry: Obj = {
        "resource": resource.plural,
        "responseKind": _response_kind(*own),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    if resource.subresources:
        entry["subresources"] = [
            {
                "subresource": name,
                "responseKind": _response_kind(*(_SUBRESOURCES[name][1] or own)),
                "verbs": list(_SUBRESOURCES[name][0]),
            }
            for name in resource.subresources
        ]
    return entry
