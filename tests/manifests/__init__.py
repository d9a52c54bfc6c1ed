"""Whole rendered manifests, as the cluster would get them."""

from typing import Any
from uuid import UUID

import msgspec
from hypothesis import strategies as st

from jobs.kinds.base import WorkloadKind
from jobs.kinds.registry import KINDS
from jobs.kinds.spec import columns_of, spec_of
from jobs.models import Workload
from tenants.models import Tenant


def unsaved(kind: WorkloadKind, *, start: int = 1, **spec: Any) -> Workload:
    """Ada's workload of this spec in its so-maniest start."""
    return Workload(
        pk=UUID("3f2b8f0e-8a6e-4b43-9f5a-1d2c3b4a5968"),
        kind=kind.key,
        tenant=Tenant(namespace="u-ada-1b2c3d4e"),
        generation=start,
        attempt=start,
        **columns_of(msgspec.convert(spec, kind.spec)),
    )


def altered(workload: Workload, *, start: int = 1, **spec: Any) -> Workload:
    """The same but for these fields of its spec."""
    kind = KINDS[workload.kind]
    known = msgspec.structs.asdict(spec_of(workload, kind.spec))
    return unsaved(kind, start=start, **msgspec.to_builtins({**known, **spec}))


# What people may type to break out of where it is put.
HOSTILE = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1),
    st.sampled_from(
        ['1"\n    securityContext: {privileged: true}', "no", "~", "2026-11-20", "{{ x }}", "0x1"]
    ),
)


def shape(value: Any) -> Any:
    """Its keys and types, without values."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shape(inner) for inner in value]
    return type(value)


def check_restricted(pod: dict[str, Any], volumes: set[str]) -> None:
    """That a pod passes, with no more than these sorts of volumes.

    https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
    """
    assert not {"hostNetwork", "hostPID", "hostIPC", "hostUsers"} & set(pod)
    security = pod["securityContext"]
    assert (security["runAsNonRoot"], security["runAsUser"]) == (True, 1000)
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert (pod["automountServiceAccountToken"], pod["enableServiceLinks"]) == (False, False)
    assert all(set(volume) <= {"name", *volumes} for volume in pod["volumes"])
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }
        for asked in ("requests", "limits"):
            assert {"cpu", "memory"} <= set(container["resources"][asked])
        assert "hostPort" not in str(container)
