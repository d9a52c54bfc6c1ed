"""Preflight and doctor in pods of two nodes where Homeport is installed, by the page's own commands.

In a pytest call of its own, as it stays installed.
"""

import json

import pytest

from tests.nodes.installed import doctor
from tests.nodes.site import Site
from tests.tools.manifests import blocks
from tests.tools.waiting import wait_for

GREEN = (
    *("Kubernetes", "Rights", "Accounts", "Secret key", "Pod Security", "Host names", "NodePorts"),
    *("StorageClass", "Mounts", "Image", "Claim", "Volume", "Quotas", "DNS", "Portal from pods"),
    *("Policies", "NodePort from here", "Clocks"),
)


def test_preflight_is_a_job_whose_rights_go_with_it(site: Site) -> None:
    [command] = blocks("Before and after installing: preflight")
    said = site.run(command)
    for name in GREEN:
        assert f"ok       {name}:" in said, said
    assert "node-1 and node-2" in said
    assert "FAILED" not in said, said
    left = (
        "clusterrolebinding/homeport-preflight",
        *("namespace/homeport-preflight", "namespace/homeport-preflight-trial"),
    )
    assert site.pods.must("get", *left, "--ignore-not-found", "-o", "name") == ""
    kept = site.pods.get("-n", "homeport", "configmap", "preflight")["data"]["result.json"]
    passed = sum(one["outcome"] == "passed" for one in json.loads(kept)["checks"])
    ann = site.portal.session("ann")

    def is_shown() -> bool:
        return f"{passed} checks passed" in ann.get(f"{site.portal.url}/admin/health/").text

    wait_for("the health page shows it", is_shown, timeout_s=60)


def test_doctor_is_a_job_that_finds_all_well(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in blocks("Does it work?"):
        site.run(command)
    found = doctor(site.pods)
    with capsys.disabled():
        print(f"\ndoctor: {found}")
