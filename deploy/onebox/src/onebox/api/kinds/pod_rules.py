"""Rules for pod specs, in pods and in templates, and for what an update of a pod may change.

https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/apis/core/validation/validation.go
"""

from __future__ import annotations

from onebox.api.kinds.container_rules import check_containers, check_seccomp
from onebox.api.kinds.volume_rules import check_volumes
from onebox.api.resources import Obj
from onebox.api.rules import fields, labels, names
from onebox.api.status import Cause
from onebox.api.store import clone

_RESTARTS = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_MAX_INT32 = 2**31 - 1
_UPDATABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def check_pod_spec(path: str, spec: Obj) -> list[Cause]:
    """Check a pod spec that has its defaults."""
    causes = check_volumes(f"{path}.volumes", spec.get("volumes", []))
    causes.extend(check_containers(path, spec))
    if spec.get("restartPolicy") not in _RESTARTS:
        given = spec.get("restartPolicy", "")
        causes.extend(fields.one_of(f"{path}.restartPolicy", given, _RESTARTS))
    causes.extend(fields.one_of(f"{path}.dnsPolicy", spec.get("dnsPolicy"), _DNS_POLICIES))
    causes.extend(labels.check_labels(f"{path}.nodeSelector", spec.get("nodeSelector")))
    causes.extend(_check_security(f"{path}.securityContext", spec.get("securityContext", {})))
    deadline = spec.get("activeDeadlineSeconds")
    causes.extend(fields.in_range(f"{path}.activeDeadlineSeconds", deadline, 1, _MAX_INT32))
    for field, rule in (
        ("serviceAccountName", names.dns_subdomain),
        ("nodeName", names.dns_subdomain),
        ("hostname", names.dns_label),
        ("subdomain", names.dns_label),
        ("priorityClassName", names.dns_subdomain),
        ("runtimeClassName", names.dns_subdomain),
    ):
        value = spec.get(field)
        if value:
            causes.extend(fields.each_invalid(f"{path}.{field}", value, rule(value)))
    causes.extend(_check_tolerations(f"{path}.tolerations", spec.get("tolerations", [])))
    causes.extend(_check_dns(path, spec))
    for i, alias in enumerate(spec.get("hostAliases", [])):
        where = f"{path}.hostAliases[{i}]"
        address = alias.get("ip", "")
        causes.extend(fields.each_invalid(f"{where}.ip", address, names.ip_address(address)))
        for j, host in enumerate(alias.get("hostnames", [])):
            wrong = names.dns_subdomain(host)
            causes.extend(fields.each_invalid(f"{where}.hostnames[{j}]", host, wrong))
    return causes


def _check_security(path: str, context: Obj) -> list[Cause]:
    causes: list[Cause] = []
    for field in ("runAsUser", "runAsGroup", "fsGroup"):
        causes.extend(fields.in_range(f"{path}.{field}", context.get(field), 0, _MAX_INT32))
    for i, group in enumerate(context.get("supplementalGroups", [])):
        causes.extend(fields.in_range(f"{path}.supplementalGroups[{i}]", group, 0, _MAX_INT32))
    policy = context.get("fsGroupChangePolicy")
    if policy is not None:
        allowed = ("Always", "OnRootMismatch")
        causes.extend(fields.one_of(f"{path}.fsGroupChangePolicy", policy, allowed))
    causes.extend(check_seccomp(f"{path}.seccompProfile", context.get("seccompProfile")))
    return causes


def _check_dns(path: str, spec: Obj) -> list[Cause]:
    if spec.get("dnsPolicy") == "None" and "dnsConfig" not in spec:
        text = "must provide `dnsConfig` when `dnsPolicy` is None"
        return [fields.required(f"{path}.dnsConfig", text)]
    config = spec.get("dnsConfig", {})
    causes: list[Cause] = []
    if spec.get("dnsPolicy") == "None" and not config.get("nameservers"):
        text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
        causes.append(fields.required(f"{path}.dnsConfig.nameservers", text))
    for i, server in enumerate(config.get("nameservers", [])):
        wrong = names.ip_address(server)
        causes.extend(fields.each_invalid(f"{path}.dnsConfig.nameservers[{i}]", server, wrong))
    return causes


def _check_tolerations(path: str, tolerations: list[Obj]) -> list[Cause]:
    causes: list[Cause] = []
    for i, toleration in enumerate(tolerations):
        where = f"{path}[{i}]"
        key, operator = toleration.get("key", ""), toleration.get("operator", "")
        value, effect = toleration.get("value", ""), toleration.get("effect", "")
        if key:
            causes.extend(fields.each_invalid(f"{where}.key", key, names.label_key(key)))
        elif operator != "Exists":
            text = (
                "operator must be Exists when `key` is empty, which means "
                '"match all values and all keys"'
            )
            causes.append(fields.invalid(f"{where}.operator", operator, text))
        if operator not in ("", "Equal", "Exists"):
            causes.append(fields.not_supported(f"{where}.operator", operator, ("Equal", "Exists")))
        elif operator == "Exists" and value:
            text = "value must be empty when `operator` is 'Exists'"
            causes.append(fields.invalid(f"{where}.operator", value, text))
        if effect and effect not in _EFFECTS:
            causes.append(fields.not_supported(f"{where}.effect", effect, _EFFECTS))
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            causes.append(fields.invalid(f"{where}.effect", effect, text))
    return causes


def check_pod_update(new: Obj, old: Obj) -> list[Cause]:
    """Check that an update of a pod changes only what may change while it runs."""
    if new == old:
        return []
    causes: list[Cause] = []
    for kind in ("containers", "initContainers"):
        if len(new.get(kind, [])) != len(old.get(kind, [])):
            text = "pod updates may not add or remove containers"
            return [fields.forbidden(f"spec.{kind}", text)]
    causes.extend(_check_deadline_update(new, old))
    after = {_frozen(toleration) for toleration in new.get("tolerations", [])}
    if any(_frozen(toleration) not in after for toleration in old.get("tolerations", [])):
        text = "existing toleration can not be modified except its tolerationSeconds"
        causes.append(fields.forbidden("spec.tolerations", text))
    if _without_changeable(new, old) != old:
        text = f"pod updates may not change fields other than {_UPDATABLE}"
        changed = sorted(k for k in new.keys() | old.keys() if new.get(k) != old.get(k))
        # Upstream shows a difference of Go structs on the next lines.
        causes.append(fields.forbidden("spec", f"{text}\n(changed: {', '.join(changed)})"))
    return causes


def _frozen(toleration: Obj) -> tuple[tuple[str, object], ...]:
    # Only the seconds of a toleration may change while the pod runs.
    return tuple(sorted((k, v) for k, v in toleration.items() if k != "tolerationSeconds"))


def _check_deadline_update(new: Obj, old: Obj) -> list[Cause]:
    path = "spec.activeDeadlineSeconds"
    after, before = new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")
    if before is not None and after is None:
        text = "must not update from a positive integer to nil value"
        return [fields.invalid(path, None, text)]
    if before is not None and after > before:
        return [fields.invalid(path, after, "must be less than or equal to previous value")]
    return []


def _without_changeable(new: Obj, old: Obj) -> Obj:
    spec = clone(new)
    for kind in ("containers", "initContainers"):
        for container, before in zip(spec.get(kind, []), old.get(kind, []), strict=True):
            container["image"] = before.get("image")
    for field in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
        if field in old:
            spec[field] = old[field]
        else:
            spec.pop(field, None)
    was = old.get("terminationGracePeriodSeconds", 0)
    if was < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        spec["terminationGracePeriodSeconds"] = was
    return spec
