"""What preflight says of facts: all green where all is well, and what each single fault makes of which line."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from jobs.rules.check_results import CheckFound
from jobs.rules.preflight import (
    FOLDER,
    IN_TREE,
    STATIC,
    ClusterFacts,
    TrialFacts,
    is_taken_over,
    lines_after,
    lines_before,
    made_for,
    not_abandoned,
)
from portal.environment.table import SETTINGS

VOLUME = {"uid": 1000, "bytes": 2**27, "is_seen": True}
CLIENT = {
    "opened_s": 1.5,
    "clock_s": 0.1,
    "folder": VOLUME,
    "dns": "",
    "needed": {"Portal": True},
    "closed": {"the API server": False, "kubelet of b": False},
}
TRIAL = TrialFacts(
    image="homeport:1",
    pull_s=12.0,
    bound_s=3.0,
    claim_bytes=2**27,
    places=("a", "b"),
    server={"folder": VOLUME, "api": True},
    client=CLIENT,
    peers={"a": "192.168.2.9", "b": "192.168.1.2"},
    gates={"a": True, "b": True},
    other=False,
    clock_s=-0.2,
    quota="yes",
    gpus="GPU 0: H100",
)
GOOD = ClusterFacts(
    version="v1.36.3",
    is_installed=True,
    pod_security="yes",
    class_name="shared",
    provisioner="example.org/shared",
    nodes=("a", "b"),
    portal_host="portal.lab",
    node_host="nodes.lab",
    key="right",
    ports_free=2700,
    gpu_nodes=("b",),
    trial=TRIAL,
)


def lines(facts: ClusterFacts) -> list[CheckFound]:
    return [*lines_before(facts), *lines_after(facts)]


def told(facts: ClusterFacts) -> dict[str, str]:
    """Name -> outcome, words and next step of each line that is not green."""
    found = [check for check in lines(facts) if check.outcome != "passed"]
    assert all(check.next_step for check in found if check.outcome == "failed" and check.words)
    return {check.name: f"{check.outcome}: {check.words} {check.next_step}" for check in found}


def test_where_all_is_well_each_line_is_green() -> None:
    assert told(GOOD) == {}
    assert [check.name for check in lines(GOOD)] == [
        *("Kubernetes", "Rights", "Accounts", "Secret key", "Pod Security"),
        *(
            "Host names",
            "NodePorts",
            "StorageClass",
            "Image",
            "Claim",
            "Volume",
            "Size",
            "Quotas",
            "GPUs",
            "DNS",
        ),
        *("Portal from pods", "Policies", "NodePort from here", "NODE_CIDRS", "Clocks"),
    ]


def client(**changes: Any) -> dict[str, Any]:
    return {"trial": replace(TRIAL, client=CLIENT | changes)}


def trial(**changes: Any) -> dict[str, Any]:
    return {"trial": replace(TRIAL, **changes)}


@pytest.mark.parametrize(
    ("changes", "name", "words"),
    [
        ({"version": "v1.32.9", "is_old": True}, "Kubernetes", "failed: v1.32.9 Homeport needs"),
        ({"version": ""}, "Kubernetes", "failed: it does not say"),
        ({"missing": ("everything",)}, "Rights", "failed: missing: everything Run it with"),
        ({"accounts": ("list pods",)}, "Accounts", "failed: missing: list pods kubectl apply"),
        ({"key": "wrong"}, "Secret key", "failed: Homeport worked in this cluster with another"),
        ({"key": "short"}, "Secret key", "failed: it is missing"),
        ({"key": "unknown"}, "Secret key", "skipped"),
        ({"pod_security": "no"}, "Pod Security", "failed: a privileged pod is admitted"),
        ({"provisioner": ""}, "StorageClass", "failed: there is none named 'shared'"),
        (
            {"provisioner": IN_TREE, "volumes": ("pv (vol_1)",)},
            "StorageClass",
            "pv (vol_1) No data",
        ),
        ({"volumes": ("pv (vol_1)",)}, "Old volumes", "failed: volumes of kubernetes.io/glusterfs"),
        ({"unlabelled": ("b",), "selector": "x=y"}, "Mounts", "warned: b: not x=y"),
        (
            {"unlabelled": ("b",), "selector": "x=y", "provisioner": FOLDER},
            "Mounts",
            "failed: b: not x=y",
        ),
        ({"provisioner": STATIC} | trial(bound_s=None), "Claim", "skipped: not tried, to use up"),
        ({"left": ("it does not go", "look at it")}, "Clearing up", "it does not go look at it"),
        ({"provisioner": FOLDER}, "Mounts", "may run on nodes where"),
        ({"node_host": "Portal.lab"}, "Host names", "are both at portal.lab"),
        ({"portal_host": ""}, "Host names", "skipped"),
        ({"ports_free": 9}, "NodePorts", "failed: only 9 free"),
        (trial(problem="no image", next_step="push it"), "Pods", "failed: no image push it"),
        (
            trial(server={"folder": {"uid": 1000, "problem": "denied"}}),
            "Volume",
            "denied (user 1000)",
        ),
        (
            trial(
                server={"folder": {"uid": 1000, "problem": "[Errno 28] No space left on device"}}
            ),
            "Volume",
            "(user 1000) Delete what nobody needs",
        ),
        (client(folder=VOLUME | {"is_seen": False}), "Volume", "failed: what one pod writes"),
        (trial(claim_bytes=2**20), "Size", "warned: not enforced"),
        (trial(quota="no"), "Quotas", "failed: more than a quota"),
        (trial(gpus="[Errno 2] nvidia-smi"), "GPUs", "failed: [Errno 2] nvidia-smi Install"),
        (trial(gpus="", gpus_why="no room"), "GPUs", "skipped: 1 nodes offer some; not tried: no"),
        ({"gpu_nodes": ()}, "GPUs", "skipped: no node offers"),
        (client(dns="no answer"), "DNS", "failed: no answer"),
        (client(needed={"Portal": False}), "Portal from pods", "failed: not reached"),
        (client(closed={"the API server": True}), "Policies", "enforced, but pods reach the API"),
        (
            {"trial": replace(TRIAL, client=CLIENT | {"closed": {"kubelet": True}}, other=True)},
            "Policies",
            "not enforced: pods reach kubelet, a port of a pod beside its gate Use",
        ),
        (trial(other=True), "Policies", "pods reach a port of a pod beside its gate"),
        (client(opened_s=None), "Policies", "failed: a pod does not reach"),
        (trial(server={"api": False}, other=None), "Policies", "warned: nothing was open before"),
        (trial(peers={"a": "192.168.2.9", "b": ""}), "NodePort from here", "no answer by b"),
        (
            trial(gates={"a": True, "b": False}),
            "NODE_CIDRS",
            "through b: there people come from 192.168.1.2",
        ),
        (
            {"is_in_pod": True} | trial(gates={"a": True, "b": False}),
            "NODE_CIDRS",
            "skipped: only where people's browsers are",
        ),
        (trial(clock_s=-2.5), "Clocks", "failed: 2.5 s apart"),
        (client(clock_s=9), "Clocks", "failed: 9.0 s apart"),
        (trial(places=("a", "a")), "Two nodes", "skipped: there is one node"),
        (trial(client={}), "Not tried", "skipped: DNS, Policies"),
    ],
)
def test_one_fault_is_one_line(changes: dict[str, Any], name: str, words: str) -> None:
    found = told(replace(GOOD, **changes))
    assert list(found) == [name]
    assert words in found[name]


def test_without_rights_nothing_else_is_told() -> None:
    found = lines(replace(GOOD, missing=("everything",)))
    assert [check.name for check in found] == ["Kubernetes", "Rights"]


def test_of_an_installation_only_what_holds_outside_its_pods_is_taken_over() -> None:
    assert [setting.name for setting in SETTINGS if not is_taken_over(setting.name)] == [
        *("HOMEPORT_HOME", "STATIC_ROOT", "TLS_CERT_FILE", "TLS_KEY_FILE", "HOMEPORT_KUBECONFIG"),
        *("PURGE_KUBECONFIG", "WEB_KUBECONFIG", "GATE_TLS_CERT_FILE", "GATE_TLS_KEY_FILE"),
        *("POD_AUTHORITIES_FILE", "CATALOG"),
    ]


@pytest.mark.parametrize(
    ("run", "made_at", "why"),
    [
        ("", "07:00:00", "no preflight has made it"),
        ("1", "07:31:00", "which began 29 minutes ago"),
        ("1", "07:30:00", ""),
    ],
)
def test_a_namespace_is_left_alone_unless_a_killed_run_left_it(
    run: str, made_at: str, why: str
) -> None:
    now = datetime(2026, 11, 26, 8, tzinfo=UTC)
    said = not_abandoned(run, f"2026-11-26T{made_at}Z", now)
    assert why in said
    assert bool(said) is bool(why)


@pytest.mark.parametrize(
    ("of", "made_at", "is_made"),
    [("1", "07:00:00", True), ("2", "07:00:00", False), ("1", "06:59:59", False)],
)
def test_a_volume_that_was_there_before_its_claim_is_not_removed(
    of: str, made_at: str, *, is_made: bool
) -> None:
    claim = {"metadata": {"uid": "1", "creationTimestamp": "2026-11-26T07:00:00Z"}}
    meta = {"creationTimestamp": f"2026-11-26T{made_at}Z"}
    assert made_for({"metadata": meta, "spec": {"claimRef": {"uid": of}}}, claim) is is_made


def test_a_folder_of_one_node_is_red_as_soon_as_there_is_a_second() -> None:
    small = replace(GOOD, provisioner=FOLDER, nodes=("a",), selector="x=y")
    assert told(small) == {}
    second = replace(small, nodes=("a", "b"), **client(folder=VOLUME | {"is_seen": False}))
    found = told(second)
    assert set(found) == {"StorageClass", "Volume"}
    assert "a folder of one node, and there are 2" in found["StorageClass"]
