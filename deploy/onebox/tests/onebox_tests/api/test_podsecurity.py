"""Pods that do not fit the level of their namespace are refused in upstream's words."""

from __future__ import annotations

from typing import Any

import pytest

from onebox.api.admission import podsecurity
from onebox.api.registry import Api
from onebox.api.store import clone
from onebox.api.strategy import WriteOptions

from .bodies import DEPLOYMENT, JOB, forbidden, with_change
from .conftest import pod

SAFE_CONTEXT = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
SAFE = with_change(pod(), "spec.containers.0.securityContext", SAFE_CONTEXT)


def set_level(api: Api, level: str, mode: str = "enforce") -> None:
    label = {f"pod-security.kubernetes.io/{mode}": level}
    api.patch("namespaces", None, "lab", {"metadata": {"labels": label}})


@pytest.mark.parametrize(
    ("level", "path", "value", "reason"),
    [
        ("baseline", "spec.hostNetwork", True, "host namespaces (hostNetwork=true)"),
        ("baseline", "spec.volumes", [{"name": "v", "hostPath": {"path": "/"}}],
         'hostPath volumes (volume "v")'),
        ("restricted", "spec.volumes", [{"name": "v", "hostPath": {"path": "/"}}],
         'restricted volume types (volume "v" uses restricted volume type "hostPath")'),
        ("baseline", "spec.containers.0.securityContext.privileged", True,
         'privileged (container "main" must not set securityContext.privileged=true)'),
        ("baseline", "spec.containers.0.securityContext.capabilities", {"add": ["NET_ADMIN"]},
         ('non-default capabilities (container "main" must not include "NET_ADMIN" in '
         "securityContext.capabilities.add)")),
        ("restricted", "spec.containers.0.securityContext.capabilities",
         {"drop": ["ALL"], "add": ["CHOWN"]},
         ('unrestricted capabilities (container "main" must not include "CHOWN" in '
         "securityContext.capabilities.add)")),
        ("baseline", "spec.containers.0.ports", [{"containerPort": 80, "hostPort": 80}],
         'hostPort (container "main" uses hostPort 80)'),
        ("baseline", "spec.containers.0.livenessProbe",
         {"httpGet": {"port": 80, "host": "10.0.0.1"}},
         'probe or lifecycle host (container "main" uses probe or lifecycle host "10.0.0.1")'),
        ("baseline", "spec.containers.0.securityContext.procMount", "Unmasked",
         'procMount (container "main" must not set securityContext.procMount to "Unmasked")'),
        ("baseline", "spec.securityContext.sysctls", [{"name": "kernel.panic", "value": "1"}],
         "forbidden sysctls (kernel.panic)"),
        ("baseline", "spec.securityContext.seLinuxOptions", {"type": "spc_t"},
         'seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: type "spc_t")'),
        ("baseline", "spec.securityContext.seccompProfile", {"type": "Unconfined"},
         'seccompProfile (pod must not set securityContext.seccompProfile.type to "Unconfined")'),
        ("baseline", "spec.securityContext.appArmorProfile", {"type": "Unconfined"},
         ("forbidden AppArmor profile (pod must not set AppArmor profile type to "
         '"Unconfined")')),
        ("restricted", "spec.containers.0.securityContext.runAsUser", 0,
         'runAsUser=0 (container "main" must not set runAsUser=0)'),
        ("restricted", "spec.securityContext.runAsNonRoot", False,
         "runAsNonRoot != true (pod must not set securityContext.runAsNonRoot=false)"),
    ],
)  # fmt: skip
def test_each_check_of_pod_security_refuses_alone(
    level: str, path: str, value: Any, reason: str
) -> None:
    spec = with_change(SAFE, path, value)["spec"]
    assert [str(v) for v in podsecurity.find_violations(level, spec)] == [reason]
    assert podsecurity.find_violations("privileged", spec) == []
    assert podsecurity.find_violations(level, SAFE["spec"]) == []


def test_pod_security_looks_at_init_containers_and_takes_the_pods_context(api: Api) -> None:
    set_level(api, "restricted")
    body = clone(SAFE)
    body["spec"]["initContainers"] = [{"name": "init", "image": "i"}]
    text = forbidden(api, "pods", body)
    assert 'container "init" must set securityContext.allowPrivilegeEscalation=false' in text
    assert "main" not in text
    shared = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    body = with_change(SAFE, "spec.securityContext", shared)
    own = body["spec"]["containers"][0]["securityContext"]
    del own["runAsNonRoot"], own["seccompProfile"]
    api.create("pods", "lab", body)


def test_the_warn_level_warns_for_pods_and_for_templates(api: Api) -> None:
    set_level(api, "restricted", "warn")
    for plural, body in (("pods", pod()), ("deployments", DEPLOYMENT), ("jobs", JOB)):
        options = WriteOptions()
        api.create(plural, "lab", body, options=options)
        assert any(
            text.startswith('would violate PodSecurity "restricted:latest": ')
            for text in options.warnings
        ), plural


def test_an_unknown_level_counts_as_restricted(api: Api) -> None:
    set_level(api, "strict-ish")
    assert 'violates PodSecurity "restricted:latest"' in forbidden(api, "pods", pod())
