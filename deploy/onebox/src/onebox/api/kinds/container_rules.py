"""Rules for containers, init containers and native sidecars.

https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/apis/core/validation/validation.go
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onebox.api.kinds.volume_rules import check_mounts
from onebox.api.resources import Obj
from onebox.api.rules import compute, fields, names
from onebox.api.status import Cause

_POLICIES = ("Always", "IfNotPresent", "Never")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_SCHEMES = ("HTTP", "HTTPS")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_RESTARTS = ("Always", "Never", "OnFailure")
_FIELD_PATHS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
_SUBSCRIPTED = ("metadata.labels", "metadata.annotations")
_AMOUNTS = tuple(
    f"{side}.{resource}"
    for side in ("limits", "requests")
    for resource in ("cpu", "ephemeral-storage", "memory")
)
_ONLY_ALWAYS = "may not be set for init containers without restartPolicy=Always"


def check_containers(path: str, spec: Obj) -> list[Cause]:
    """Check containers and init containers of a pod spec."""
    containers, inits = spec.get("containers", []), spec.get("initContainers", [])
    if not containers:
        return [fields.required(f"{path}.containers")]
    causes: list[Cause] = []
    volumes = spec.get("volumes", [])
    seen: set[str] = set()
    for i, container in enumerate(containers):
        where = f"{path}.containers[{i}]"
        causes.extend(_check_common(where, container, volumes, seen))
        causes.extend(_check_lifecycle_and_probes(where, container))
        if container.get("restartPolicy") is not None:
            wanted = container["restartPolicy"]
            causes.extend(fields.one_of(f"{where}.restartPolicy", wanted, _RESTARTS))
    for i, container in enumerate(inits):
        where = f"{path}.initContainers[{i}]"
        causes.extend(_check_common(where, container, volumes, seen))
        causes.extend(_check_init(where, container))
    if spec.get("hostNetwork"):
        causes.extend(_check_host_ports(f"{path}.containers", containers))
    return causes


def _check_init(path: str, container: Obj) -> list[Cause]:
    policy = container.get("restartPolicy")
    if policy == "Always":
        return _check_lifecycle_and_probes(path, container)
    causes = []
    if policy is not None:
        causes.append(fields.not_supported(f"{path}.restartPolicy", policy, ("Always",)))
    for field in ("lifecycle", *_PROBES):
        if field in container:
            causes.append(fields.forbidden(f"{path}.{field}", _ONLY_ALWAYS))
    return causes


def _check_common(path: str, container: Obj, volumes: list[Obj], seen: set[str]) -> list[Cause]:
    causes: list[Cause] = []
    name, image = container.get("name", ""), container.get("image", "")
    if not name:
        causes.append(fields.required(f"{path}.name"))
    else:
        causes.extend(fields.each_invalid(f"{path}.name", name, names.dns_label(name)))
        if name in seen:
            causes.append(fields.duplicate(f"{path}.name", name))
        seen.add(name)
    if not image:
        causes.append(fields.required(f"{path}.image"))
    elif image != image.strip():
        text = "must not have leading or trailing whitespace"
        causes.append(fields.invalid(f"{path}.image", image, text))
    policy = container.get("terminationMessagePolicy")
    causes.extend(fields.one_of(f"{path}.terminationMessagePolicy", policy, _MESSAGE_POLICIES))
    policy = container.get("imagePullPolicy")
    causes.extend(fields.one_of(f"{path}.imagePullPolicy", policy, _POLICIES))
    causes.extend(_check_ports(f"{path}.ports", container.get("ports", [])))
    causes.extend(_check_env(f"{path}.env", container.get("env", [])))
    causes.extend(_check_env_from(f"{path}.envFrom", container.get("envFrom", [])))
    causes.extend(check_mounts(path, container, volumes))
    causes.extend(compute.check_requirements(f"{path}.resources", container.get("resources", {})))
    causes.extend(_check_security(f"{path}.securityContext", container.get("securityContext")))
    return causes


def _check_ports(path: str, ports: list[Obj]) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for i, port in enumerate(ports):
        where = f"{path}[{i}]"
        name = port.get("name")
        if name:
            causes.extend(fields.each_invalid(f"{where}.name", name, names.port_name(name)))
            if name in seen:
                causes.append(fields.duplicate(f"{where}.name", name))
            seen.add(name)
        if not port.get("containerPort"):
            causes.append(fields.required(f"{where}.containerPort"))
        for field in ("containerPort", "hostPort"):
            number = port.get(field) or 0
            if number:
                wrong = names.port_number(number)
                causes.extend(fields.each_invalid(f"{where}.{field}", number, wrong))
        causes.extend(fields.one_of(f"{where}.protocol", port.get("protocol"), _PROTOCOLS))
    return causes


def _check_host_ports(path: str, containers: list[Obj]) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for i, container in enumerate(containers):
        for j, port in enumerate(container.get("ports", [])):
            if not port.get("hostPort"):
                continue
            key = f"{port.get('protocol')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if key in seen:
                causes.append(fields.duplicate(f"{path}[{i}].ports[{j}].hostPort", key))
            seen.add(key)
    return causes


def _check_env(path: str, variables: list[Obj]) -> list[Cause]:
    causes: list[Cause] = []
    for i, variable in enumerate(variables):
        where = f"{path}[{i}]"
        name = variable.get("name", "")
        if not name:
            causes.append(fields.required(f"{where}.name"))
        else:
            causes.extend(fields.each_invalid(f"{where}.name", name, names.env_name(name)))
        if "valueFrom" in variable:
            causes.extend(_check_source(f"{where}.valueFrom", variable))
    return causes


def _check_source(path: str, variable: Obj) -> list[Cause]:
    source = variable["valueFrom"]
    given = [name for name in _SOURCES if name in source]
    if not given:
        text = (
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, "
            "`secretKeyRef` or `fileKeyRef`"
        )
        return [fields.invalid(path, "", text)]
    if variable.get("value"):
        return [fields.invalid(path, "", "may not be specified when `value` is not empty")]
    if len(given) > 1:
        return [fields.invalid(path, "", "may not have more than one field specified at a time")]
    body = source[given[0]]
    where = f"{path}.{given[0]}"
    match given[0]:
        case "fieldRef":
            return _check_field_path(f"{where}.fieldPath", body.get("fieldPath", ""))
        case "resourceFieldRef":
            return fields.one_of(f"{where}.resource", body.get("resource"), _AMOUNTS)
        case "fileKeyRef":
            return [] if body.get("key") else [fields.required(f"{where}.key")]
    causes = [] if body.get("name") else [fields.required(f"{where}.name")]
    if not body.get("key"):
        causes.append(fields.required(f"{where}.key"))
    else:
        causes.extend(
            fields.each_invalid(f"{where}.key", body["key"], names.config_key(body["key"]))
        )
    return causes


def _check_field_path(path: str, value: str) -> list[Cause]:
    if not value:
        return [fields.required(path)]
    base, bracket, key = value.partition("[")
    if bracket and base in _SUBSCRIPTED:
        wrong = names.label_key(key.removesuffix("]").strip("'\"").lower())
        return fields.each_invalid(path, key, wrong)
    if value not in _FIELD_PATHS:
        return [fields.not_supported(path, value, _FIELD_PATHS)]
    return []


def _check_env_from(path: str, sources: list[Obj]) -> list[Cause]:
    causes: list[Cause] = []
    for i, source in enumerate(sources):
        where = f"{path}[{i}]"
        prefix = source.get("prefix")
        if prefix:
            causes.extend(fields.each_invalid(f"{where}.prefix", prefix, names.env_name(prefix)))
        given = [name for name in ("configMapRef", "secretRef") if name in source]
        if not given:
            text = "must specify one of: `configMapRef` or `secretRef`"
            causes.append(fields.invalid(where, "", text))
        elif len(given) > 1:
            text = "may not have more than one field specified at a time"
            causes.append(fields.invalid(where, "", text))
        elif not source[given[0]].get("name"):
            causes.append(fields.required(f"{where}.{given[0]}.name"))
    return causes


def _check_lifecycle_and_probes(path: str, container: Obj) -> list[Cause]:
    causes: list[Cause] = []
    for hook in ("postStart", "preStop"):
        handler = container.get("lifecycle", {}).get(hook)
        if handler is not None:
            causes.extend(_check_handler(f"{path}.lifecycle.{hook}", handler))
    for name in _PROBES:
        if name in container:
            causes.extend(_check_probe(f"{path}.{name}", name, container[name]))
    return causes


def _check_probe(path: str, name: str, probe: Obj) -> list[Cause]:
    causes = _check_handler(path, probe)
    for field in (
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ):
        causes.extend(fields.non_negative(f"{path}.{field}", probe.get(field)))
    grace = probe.get("terminationGracePeriodSeconds")
    if name == "readinessProbe":
        if grace is not None:
            text = "must not be set for readinessProbes"
            causes.append(fields.invalid(f"{path}.terminationGracePeriodSeconds", grace, text))
    else:
        if probe.get("successThreshold") != 1:
            given = probe.get("successThreshold")
            causes.append(fields.invalid(f"{path}.successThreshold", given, "must be 1"))
        if grace is not None and grace <= 0:
            text = "must be greater than 0"
            causes.append(fields.invalid(f"{path}.terminationGracePeriodSeconds", grace, text))
    return causes


def _check_handler(path: str, handler: Obj) -> list[Cause]:
    given = [name for name in _HANDLERS if name in handler]
    if not given:
        return [fields.required(path, "must specify a handler type")]
    causes = [
        fields.forbidden(f"{path}.{name}", "may not specify more than 1 handler type")
        for name in given[1:]
    ]
    where, action = f"{path}.{given[0]}", handler[given[0]]
    match given[0]:
        case "exec":
            if not action.get("command"):
                causes.append(fields.required(f"{where}.command"))
        case "httpGet":
            causes.extend(_check_port(f"{where}.port", action.get("port", 0)))
            causes.extend(fields.one_of(f"{where}.scheme", action.get("scheme"), _SCHEMES))
            for header in action.get("httpHeaders", []):
                name = header.get("name", "")
                wrong = names.header_name(name)
                causes.extend(fields.each_invalid(f"{where}.httpHeaders", name, wrong))
        case "tcpSocket" | "grpc":
            causes.extend(_check_port(f"{where}.port", action.get("port", 0)))
        case "sleep":
            causes.extend(fields.non_negative(f"{where}.seconds", action.get("seconds", 0)))
    return causes


def _check_port(path: str, port: Any) -> list[Cause]:
    wrong = names.port_number(port) if isinstance(port, int) else names.port_name(port)
    return fields.each_invalid(path, port, wrong)


def _check_security(path: str, context: Obj | None) -> list[Cause]:
    if not context:
        return []
    causes: list[Cause] = []
    for field in ("runAsUser", "runAsGroup"):
        causes.extend(fields.in_range(f"{path}.{field}", context.get(field), 0, 2**31 - 1))
    if context.get("allowPrivilegeEscalation") is False:
        if context.get("privileged"):
            text = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            causes.append(fields.invalid(path, context, text))
        # Without the prefix it is let through here, as upstream lets it.
        if "CAP_SYS_ADMIN" in _added(context):
            text = (
                "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` "
                "CAP_SYS_ADMIN"
            )
            causes.append(fields.invalid(path, context, text))
    causes.extend(check_seccomp(f"{path}.seccompProfile", context.get("seccompProfile")))
    return causes


def _added(context: Obj) -> Sequence[str]:
    added: Sequence[str] = context.get("capabilities", {}).get("add", ())
    return added


def check_seccomp(path: str, profile: Obj | None) -> list[Cause]:
    """Check a seccomp profile."""
    if profile is None:
        return []
    kind, local = profile.get("type"), profile.get("localhostProfile")
    causes = fields.one_of(f"{path}.type", kind, ("Localhost", "RuntimeDefault", "Unconfined"))
    if kind == "Localhost" and not local:
        text = "must be set when seccomp type is Localhost"
        causes.append(fields.required(f"{path}.localhostProfile", text))
    elif kind != "Localhost" and local is not None:
        text = "can only be set when seccomp type is Localhost"
        causes.append(fields.invalid(f"{path}.localhostProfile", local, text))
    return causes
