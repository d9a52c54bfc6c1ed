"""The checks of the Pod Security Standards, one by one. Pure decisions.

Levels, order and words are upstream's at version "latest":
https://github.com/kubernetes/pod-security-admission/tree/v0.36.3/policy
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from onebox.api.resources import Obj

_ALLOWED_CAPABILITIES = frozenset(
    [
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    ]
)
_ALLOWED_SYSCTLS = frozenset(
    [
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_wmem",
    ]
)
_ALLOWED_VOLUMES = frozenset(
    [
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    ]
)
_SELINUX_TYPES = ("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")
_PROFILES = ("RuntimeDefault", "Localhost")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_LOOPBACK = ("", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Violation:
    """One check that a pod does not pass."""

    reason: str
    detail: str

    def __str__(self) -> str:
        """Give upstream's words."""
        return f"{self.reason} ({self.detail})" if self.detail else self.reason


Check = Callable[[Obj], Violation | None]


def _containers(spec: Obj) -> Iterator[tuple[str, Obj, Obj]]:
    """Give name, container and security context of each, in upstream's order."""
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(kind, ()):
            yield container["name"], container, container.get("securityContext") or {}


def _quoted(items: Iterable[str]) -> str:
    return ", ".join(f'"{item}"' for item in items)


def _plural(word: str, items: Any) -> str:
    return word if len(items) == 1 else f"{word}s"


def _named(names: list[str]) -> str:
    return f"{_plural('container', names)} {_quoted(names)}"


def _pod_context(spec: Obj) -> Obj:
    return spec.get("securityContext") or {}


def _setters(in_pod: bool, names: list[str]) -> str:
    parts = (["pod"] if in_pod else []) + ([_named(names)] if names else [])
    return " and ".join(parts)


def _app_armor(spec: Obj) -> Violation | None:
    values: set[str] = set()

    def is_bad(context: Obj) -> bool:
        kind = (context.get("appArmorProfile") or {}).get("type", "RuntimeDefault")
        if kind in _PROFILES:
            return False
        values.add(kind)
        return True

    in_pod = is_bad(_pod_context(spec))
    names = [name for name, _container, context in _containers(spec) if is_bad(context)]
    if not values:
        return None
    detail = (
        f"{_setters(in_pod, names)} must not set AppArmor profile type to {_quoted(sorted(values))}"
    )
    return Violation(f"forbidden AppArmor {_plural('profile', values)}", detail)


def _capabilities_baseline(spec: Obj) -> Violation | None:
    names, added = [], set()
    for name, _container, context in _containers(spec):
        extra = set((context.get("capabilities") or {}).get("add", ())) - _ALLOWED_CAPABILITIES
        if extra:
            names.append(name)
            added |= extra
    if not names:
        return None
    detail = (
        f"{_named(names)} must not include {_quoted(sorted(added))} in "
        "securityContext.capabilities.add"
    )
    return Violation("non-default capabilities", detail)


def _host_namespaces(spec: Obj) -> Violation | None:
    used = [f"{f}=true" for f in ("hostNetwork", "hostPID", "hostIPC") if spec.get(f)]
    return Violation("host namespaces", ", ".join(used)) if used else None


def _host_path(spec: Obj) -> Violation | None:
    names = [volume["name"] for volume in spec.get("volumes", ()) if "hostPath" in volume]
    if not names:
        return None
    return Violation("hostPath volumes", f"{_plural('volume', names)} {_quoted(names)}")


def _host_ports(spec: Obj) -> Violation | None:
    names: list[str] = []
    ports: set[str] = set()
    for name, container, _context in _containers(spec):
        used = [str(p["hostPort"]) for p in container.get("ports", ()) if p.get("hostPort")]
        if used:
            names.append(name)
            ports.update(used)
    if not names:
        return None
    verb = "uses" if len(names) == 1 else "use"
    detail = f"{_named(names)} {verb} {_plural('hostPort', ports)} {', '.join(sorted(ports))}"
    return Violation("hostPort", detail)


def _handlers(container: Obj) -> Iterator[Obj]:
    for name in _PROBES:
        yield container.get(name) or {}
    lifecycle = container.get("lifecycle") or {}
    yield lifecycle.get("postStart") or {}
    yield lifecycle.get("preStop") or {}


def _host_probes(spec: Obj) -> Violation | None:
    names: set[str] = set()
    hosts: set[str] = set()
    for name, container, _context in _containers(spec):
        for handler in _handlers(container):
            for action in ("httpGet", "tcpSocket"):
                host = (handler.get(action) or {}).get("host", "")
                if host not in _LOOPBACK:
                    names.add(name)
                    hosts.add(host)
    if not names:
        return None
    verb = "uses" if len(names) == 1 else "use"
    reason = "probe or lifecycle host"
    detail = f"{_named(sorted(names))} {verb} {_plural(reason, hosts)} {_quoted(sorted(hosts))}"
    return Violation(reason, detail)


def _privileged(spec: Obj) -> Violation | None:
    names = [name for name, _container, context in _containers(spec) if context.get("privileged")]
    if not names:
        return None
    return Violation("privileged", f"{_named(names)} must not set securityContext.privileged=true")


def _proc_mount(spec: Obj) -> Violation | None:
    found = [
        (name, context["procMount"])
        for name, _container, context in _containers(spec)
        if context.get("procMount", "Default") != "Default"
    ]
    if not found:
        return None
    names, kinds = [name for name, _kind in found], sorted({kind for _name, kind in found})
    detail = f"{_named(names)} must not set securityContext.procMount to {_quoted(kinds)}"
    return Violation("procMount", detail)


def _selinux(spec: Obj) -> Violation | None:
    types: set[str] = set()
    set_fields: set[str] = set()

    def is_bad(context: Obj) -> bool:
        options = context.get("seLinuxOptions") or {}
        bad_type = options.get("type", "") not in _SELINUX_TYPES
        if bad_type:
            types.add(options["type"])
        fields = {field for field in ("user", "role") if options.get(field)}
        set_fields.update(fields)
        return bad_type or bool(fields)

    in_pod = is_bad(_pod_context(spec))
    names = [name for name, _container, context in _containers(spec) if is_bad(context)]
    if not types and not set_fields:
        return None
    data = [f"{_plural('type', types)} {_quoted(sorted(types))}"] if types else []
    data.extend(f"{field} may not be set" for field in ("user", "role") if field in set_fields)
    detail = (
        f"{_setters(in_pod, names)} set forbidden securityContext.seLinuxOptions: {'; '.join(data)}"
    )
    return Violation("seLinuxOptions", detail)


def _seccomp(spec: Obj, *, must_be_set: bool) -> Violation | None:
    values: set[str] = set()
    unset: list[str] = []

    def kind_of(context: Obj) -> str | None:
        profile = context.get("seccompProfile")
        return None if profile is None else profile.get("type", "")

    pod_kind = kind_of(_pod_context(spec))
    in_pod = pod_kind is not None and pod_kind not in _PROFILES
    if in_pod:
        values.add(str(pod_kind))
    names = []
    for name, _container, context in _containers(spec):
        kind = kind_of(context)
        if kind is not None and kind not in _PROFILES:
            names.append(name)
            values.add(kind)
        elif kind is None and (pod_kind is None or in_pod):
            unset.append(name)
    if values:
        wrong = _quoted(sorted(values))
        setters = _setters(in_pod, names)
        text = f"{setters} must not set securityContext.seccompProfile.type to {wrong}"
        return Violation("seccompProfile", text)
    if unset and must_be_set:
        text = (
            f"pod or {_named(unset)} must set securityContext.seccompProfile.type to "
            '"RuntimeDefault" or "Localhost"'
        )
        return Violation("seccompProfile", text)
    return None


def _seccomp_baseline(spec: Obj) -> Violation | None:
    return _seccomp(spec, must_be_set=False)


def _seccomp_restricted(spec: Obj) -> Violation | None:
    return _seccomp(spec, must_be_set=True)


def _sysctls(spec: Obj) -> Violation | None:
    names = [
        name
        for sysctl in _pod_context(spec).get("sysctls", ())
        if (name := sysctl.get("name", "")) not in _ALLOWED_SYSCTLS
    ]
    return Violation("forbidden sysctls", ", ".join(names)) if names else None


def _windows(spec: Obj) -> Violation | None:
    def is_bad(context: Obj) -> bool:
        return bool((context.get("windowsOptions") or {}).get("hostProcess"))

    in_pod = is_bad(_pod_context(spec))
    names = [name for name, _container, context in _containers(spec) if is_bad(context)]
    if not in_pod and not names:
        return None
    text = "must not set securityContext.windowsOptions.hostProcess=true"
    return Violation("hostProcess", f"{_setters(in_pod, names)} {text}")


def _privilege_escalation(spec: Obj) -> Violation | None:
    names = [
        name
        for name, _container, context in _containers(spec)
        if context.get("allowPrivilegeEscalation") is not False
    ]
    if not names:
        return None
    text = "must set securityContext.allowPrivilegeEscalation=false"
    return Violation("allowPrivilegeEscalation != false", f"{_named(names)} {text}")


def _capabilities_restricted(spec: Obj) -> Violation | None:
    keeping: list[str] = []
    adding: list[str] = []
    added: set[str] = set()
    for name, _container, context in _containers(spec):
        capabilities = context.get("capabilities") or {}
        if "ALL" not in capabilities.get("drop", ()):
            keeping.append(name)
        extra = set(capabilities.get("add", ())) - {"NET_BIND_SERVICE"}
        if extra:
            adding.append(name)
            added |= extra
    details = []
    if keeping:
        details.append(f'{_named(keeping)} must set securityContext.capabilities.drop=["ALL"]')
    if adding:
        details.append(
            f"{_named(adding)} must not include {_quoted(sorted(added))} in "
            "securityContext.capabilities.add"
        )
    return Violation("unrestricted capabilities", "; ".join(details)) if details else None


def _restricted_volumes(spec: Obj) -> Violation | None:
    names: list[str] = []
    types: set[str] = set()
    for volume in spec.get("volumes", ()):
        bad = [kind for kind in volume if kind != "name" and kind not in _ALLOWED_VOLUMES]
        if bad:
            names.append(volume["name"])
            types.update(bad)
    if not names:
        return None
    verb = "uses" if len(names) == 1 else "use"
    kinds = f"{_plural('restricted volume type', types)} {_quoted(sorted(types))}"
    detail = f"{_plural('volume', names)} {_quoted(names)} {verb} {kinds}"
    return Violation("restricted volume types", detail)


def _non_root(spec: Obj) -> Violation | None:
    wanted = _pod_context(spec).get("runAsNonRoot")
    explicit: list[str] = []
    implicit: list[str] = []
    for name, _container, context in _containers(spec):
        own = context.get("runAsNonRoot")
        if own is False:
            explicit.append(name)
        elif own is None and not wanted:
            implicit.append(name)
    reason = "runAsNonRoot != true"
    if wanted is False or explicit:
        setters = _setters(wanted is False, explicit)
        return Violation(reason, f"{setters} must not set securityContext.runAsNonRoot=false")
    if implicit:
        text = "must set securityContext.runAsNonRoot=true"
        return Violation(reason, f"pod or {_named(implicit)} {text}")
    return None


def _root_user(spec: Obj) -> Violation | None:
    in_pod = _pod_context(spec).get("runAsUser") == 0
    names = [n for n, _container, context in _containers(spec) if context.get("runAsUser") == 0]
    if not in_pod and not names:
        return None
    return Violation("runAsUser=0", f"{_setters(in_pod, names)} must not set runAsUser=0")


# Order: upstream's, by the id of the check, baseline first. A pod with user namespaces of its
# own (hostUsers: false) is free of the checks of the second column.
BASELINE: tuple[tuple[Check, bool], ...] = (
    (_app_armor, False),
    (_capabilities_baseline, False),
    (_host_namespaces, False),
    (_host_path, False),
    (_host_ports, False),
    (_host_probes, False),
    (_privileged, False),
    (_proc_mount, True),
    (_selinux, False),
    (_seccomp_baseline, False),
    (_sysctls, False),
    (_windows, False),
)
_OVERRIDDEN = (_capabilities_baseline, _host_path, _seccomp_baseline)
RESTRICTED: tuple[tuple[Check, bool], ...] = (
    *(entry for entry in BASELINE if entry[0] not in _OVERRIDDEN),
    (_privilege_escalation, False),
    (_capabilities_restricted, False),
    (_restricted_volumes, False),
    (_non_root, True),
    (_root_user, True),
    (_seccomp_restricted, False),
)
