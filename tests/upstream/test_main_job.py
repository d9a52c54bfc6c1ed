"""Homeport's main job on an upstream cluster: what a person does in a first week, for real.

Upstream admits, defaults, schedules, counts and collects here; Pod Security `restricted` is
enforced on every pod of a tenant by its own admission plugin. Homeport has the three accounts of
deploy/cluster and no other, and the policies there hold it.
"""

import re
from collections.abc import Callable, Iterator

import pytest
import requests
from playwright.sync_api import Page, expect

from deploy.cluster import rights, used
from tests.e2e.endings import check_that_each_has_saved
from tests.e2e.pods_door import try_everything
from tests.e2e.portal import Portal, Rest, global_steps, kubectl, new_home, thrown_away
from tests.e2e.proofs import EACH, PULL_S, RUN_S
from tests.e2e.starts_again import check_that_every_container_is_read
from tests.e2e.test_first_training import BODY, ENDED_S, FIRST_TRAINING_S, SCRIPT
from tests.e2e.test_gate import enter
from tests.e2e.test_life import check_with_the_cluster
from tests.e2e.test_services import START_S, Service, things_of
from tests.e2e.test_topologies import MPI, PROOFS, Proof, trained_on
from tests.tools.waiting import wait_for
from tests.upstream.conftest import Upstream
from tests.upstream.power import Accounts, installed, make_people, portal_of

pytestmark = [pytest.mark.upstream, pytest.mark.e2e, pytest.mark.tensorflow]


@pytest.fixture(scope="module")
def accounts(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Accounts]:
    """Accounts, rights and policies of deploy/cluster on that cluster, until the tests are over."""
    folder = tmp_path_factory.mktemp("accounts")
    with installed(upstream.kubeconfig, folder) as made:
        yield made


@pytest.fixture(scope="module")
def portal(upstream: Upstream, accounts: Accounts) -> Iterator[Portal]:
    """The portal on that cluster, with the demo accounts."""
    home = new_home("upstream-portal")
    url = {"POD_PORTAL_URL": upstream.pod_portal_url}
    running = portal_of(accounts, home, upstream.pod_port, **url)
    make_people(running)
    with thrown_away(running):
        yield running


@pytest.fixture(scope="module")
def ada(portal: Portal) -> Rest:
    rest = portal.sign_in("ada")
    rest.tenant()
    return rest


@pytest.fixture
def page_of(portal: Portal, page_of_own: Callable[..., Page]) -> Callable[[str], Page]:
    return lambda name: page_of_own(portal, name)


def test_a_tenant_has_all_that_a_team_works_in(portal: Portal, ada: Rest) -> None:
    namespace = ada.tenant()["namespace"]
    labels = kubectl(portal, "get", "namespace", namespace, "--show-labels")
    assert "pod-security.kubernetes.io/enforce=restricted" in labels
    claims = kubectl(portal, "-n", namespace, "get", "pvc", "--no-headers").splitlines()
    assert claims
    assert all(" Bound " in claim for claim in claims), claims
    assert kubectl(portal, "-n", namespace, "get", "resourcequota", "-o", "name")


def test_a_distributed_training_with_live_logs(
    portal: Portal, ada: Rest, page_of: Callable[[str], Page]
) -> None:
    job = ada.submit(**BODY, source={"bundle": ada.upload(SCRIPT)})
    page = page_of("ada")
    page.goto(f"/trainings/{job['id']}/")
    log = page.get_by_role("log")
    ada.wait(job, "running", timeout_s=FIRST_TRAINING_S)
    for line in ("server up ps 0", "server up worker 0", "server up worker 1", "step "):
        expect(log).to_contain_text(line, timeout=180_000)  # TensorFlow's own start
    for line in ("done task 0", "done task 1"):
        expect(log).to_contain_text(line, timeout=180_000)
    done = ada.wait(job, "succeeded", timeout_s=ENDED_S)
    expect(page.locator("[data-state=succeeded]").first).to_be_visible(timeout=30_000)
    assert ada.exit_codes(done) == [0, 0]

    namespace = ada.tenant()["namespace"]
    wait_for(
        "the parameter server is gone",
        lambda: "-ps-" not in kubectl(portal, "-n", namespace, "get", "deploy,svc,pods"),
        timeout_s=90,
    )
    # Archive and artifacts are there when no pod is.
    kubectl(portal, "-n", namespace, "delete", "jobs", "--all", "--wait=true")
    wait_for(
        "no pod is left", lambda: not kubectl(portal, "-n", namespace, "get", "pods", "-o", "name")
    )
    assert max(global_steps(ada.text(f"jobs/{job['id']}/logs/?download=1"))) >= 1990
    paths = [a["path"] for a in ada.get(f"jobs/{job['id']}/artifacts/?page_size=200")["results"]]
    assert any(path.startswith("model.ckpt-2") for path in paths), paths

    board = Service(ada, "tensorboard", name="board", job=job["id"])
    board.wait("running")
    inside = board.enter()
    assert inside.get("").ok
    assert wait_for("its events are read", lambda: inside.get("data/runs").json(), timeout_s=60)
    assert requests.get(f"{inside.base}data/runs", timeout=30).status_code == 401
    ada.call("DELETE", board.path)
    wait_for("it is gone", lambda: not things_of(portal, board), timeout_s=60)


def test_the_cluster_itself_checks_a_training(portal: Portal, ada: Rest) -> None:
    check_with_the_cluster(portal, ada)


def test_each_line_of_a_server_that_starts_again_is_read(ada: Rest) -> None:
    check_that_every_container_is_read(ada)


def test_what_is_asked_to_end_has_saved(portal: Portal, ada: Rest) -> None:
    check_that_each_has_saved(portal, ada)


def test_gpus_are_exclusive(ada: Rest) -> None:
    program = (
        "import os, time; print('gpu', os.environ['CUDA_VISIBLE_DEVICES'], flush=True);"
        "time.sleep(1 if '{{job_name}}' == 'worker' else 1000)"
    )
    job = ada.submit(
        name="gpus",
        topology="tf-ps",
        command=["python", "-c", program],
        replicas={"worker": {"count": 2, "gpu": 1, "cpu": "500m"}, "ps": {"cpu": "500m"}},
    )
    done = ada.wait(job, "succeeded")
    seen = re.findall(r"worker-\d \| gpu (\S+)", ada.text(f"jobs/{job['id']}/logs/?download=1"))
    assert len(set(seen)) == 2, seen
    assert sorted(r["gpus"] for r in done["replicas"] if r["role"] == "worker") == sorted(seen)


def test_a_failed_training_says_why(ada: Rest) -> None:
    job = ada.submit(
        name="fails",
        command=["python", "-c", "raise SystemExit(3)"],
        replicas={"worker": {"cpu": "500m"}},
    )
    failed = ada.wait(job, "failed")
    assert failed["replicas"][0]["exit_code"] == 3


def test_a_training_is_stopped_and_deleted(portal: Portal, ada: Rest) -> None:
    job = ada.submit(
        name="stopped",
        command=["python", "-c", "import time; time.sleep(1000)"],
        replicas={"worker": {"cpu": "500m"}},
    )
    ada.wait(job, "running")
    assert ada.call("POST", f"jobs/{job['id']}/stop/").ok
    ada.wait(job, "stopped")
    namespace = ada.tenant()["namespace"]
    owner = f"homeport.dev/owner={job['id']}"
    # A pod that has ended is there a moment longer than its end.
    wait_for(
        "its pods are gone",
        lambda: not kubectl(portal, "-n", namespace, "get", "pods", "-l", owner, "-o", "name"),
        timeout_s=30,
    )
    assert ada.call("DELETE", f"jobs/{job['id']}/").ok
    assert ada.call("GET", f"jobs/{job['id']}/").status_code == 404
    kinds = "jobs,pods,services,configmaps,secrets"
    wait_for(
        "nothing of it is left",
        lambda: not kubectl(portal, "-n", namespace, "get", kinds, "-l", owner, "-o", "name"),
        timeout_s=60,
    )


@pytest.mark.parametrize(
    ("proof", "pace"),
    # Processes of MPI that wait for each other keep processors busy, so that steps of theirs are paced by time.
    [
        (PROOFS[1], "--steps=20000"),
        (PROOFS[0], "--steps=10000"),
        (PROOFS[5], "--steps=2000 --step_s=0.02"),
    ],
    ids=["torch-ddp", "tf-multiworker", "mpi"],
)
def test_an_evicted_rank_ends_the_attempt_and_costs_no_retry(
    portal: Portal, accounts: Accounts, ada: Rest, proof: Proof, pace: str
) -> None:
    """The others wait for it for ever: without another attempt they would hang."""
    job = ada.submit(
        name="evicted",
        topology=proof.topology,
        image=proof.image,
        command=[*proof.command.split(), *pace.split()],
        source={"bundle": ada.upload(proof.script)},
        replicas=MPI if proof.topology == "mpi" else {"worker": {**EACH, "count": 2}},
    )
    log = f"jobs/{job['id']}/logs/"
    ada.wait(job, "running", timeout_s=PULL_S)
    trains = re.compile(r"rank 1 step (?:[5-9]\d|\d{3,}) ")
    wait_for("it trains", lambda: trains.search(ada.text(f"{log}?tail=5000")), timeout_s=RUN_S)
    pods = {one["index"]: one["pod"] for one in ada.get(f"jobs/{job['id']}/")["replicas"]}
    name = {"name": pods[1], "namespace": ada.tenant()["namespace"]}
    path = f"/api/v1/namespaces/{name['namespace']}/pods/{pods[1]}/eviction"
    # TensorFlow takes SIGTERM for a hint that it may be ended soon, and would train to its end.
    options = {"gracePeriodSeconds": 1}
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": name,
        "deleteOptions": options,
    }
    accounts.admin("create", "--raw", path, "-f", "-", body=eviction)

    done = ada.wait(job, "succeeded", timeout_s=RUN_S + PULL_S)
    assert [one["cause"] for one in done["attempts"]] == ["first", "disrupted"]
    assert done["retries"] == 0, "it was not one of these"
    text = ada.text(f"{log}?download=1&attempt=2")
    ends = re.findall(r"rank (\d) weights (\S+) (\S+)", text)
    assert sorted(rank for rank, *_weights in ends) == ["0", "1"]
    for _rank, *weights in ends:
        assert list(map(float, weights)) == pytest.approx(trained_on(0, 1, steps=500), abs=1e-3)
    begun = re.findall(r"begins at step (\d+)", text)
    assert all(int(step) >= 50 for step in begun), "it continues from its checkpoint"


def test_a_pod_gets_nothing_but_its_own_door(upstream: Upstream, portal: Portal, ada: Rest) -> None:
    try_everything(portal, ada, upstream.pod_portal_url)


def test_a_notebook_computes_behind_its_gate(portal: Portal, ada: Rest) -> None:
    notebook = Service(ada, "notebook", name="my notebook")
    notebook.wait("running", timeout_s=START_S)
    lab = enter(notebook)
    assert lab.call("GET", "lab").ok
    with lab.kernel() as kernel:
        assert kernel.run("import os; 6 * 7") == "42"
    notebook.do("stop")
    notebook.wait("stopped", timeout_s=120)
    wait_for("nothing is left", lambda: not things_of(portal, notebook), timeout_s=60)
    assert ada.call("DELETE", notebook.path).status_code == 204


def test_a_namespace_is_suspended_resumed_and_purged(portal: Portal, ada: Rest) -> None:
    root = portal.sign_in("root")
    tenant = ada.tenant()
    path, namespace = f"tenants/{tenant['id']}/", tenant["namespace"]

    def becomes(state: str) -> None:
        wait_for(
            f"the namespace is {state}", lambda: root.get(path)["state"] == state, timeout_s=180
        )

    job = ada.submit(
        name="suspended",
        command=["python", "-c", "import time; time.sleep(1000)"],
        replicas={"worker": {"cpu": "500m"}},
    )
    ada.wait(job, "running")
    assert root.call("POST", f"{path}suspend/", json={"why": "a test"}).ok
    becomes("suspended")
    ada.wait(job, "stopped")
    running = ("pods", "--field-selector=status.phase=Running", "-o", "name")
    assert not kubectl(portal, "-n", namespace, "get", *running)
    assert root.call("POST", f"{path}resume/").ok
    becomes("active")

    typed = {"confirm": namespace}
    assert root.call("POST", f"{path}delete/", json={**typed, "data": "delete"}).ok
    assert root.call("POST", f"{path}purge/", json={**typed, "confirm_early": "ada"}).ok
    becomes("gone")
    assert not kubectl(portal, "get", "namespace", namespace, "--ignore-not-found")
    volumes = ("get", "persistentvolumes", "-o", "jsonpath={.items[*].spec.claimRef.namespace}")
    wait_for("its volumes are gone", lambda: namespace not in kubectl(portal, *volumes).split())


def test_all_that_was_done_with_the_rights_of_its_accounts(upstream: Upstream, ada: Rest) -> None:
    if upstream.audit_log is None:
        pytest.skip("CONTRACT_AUDIT_LOG does not say where the audit log of that cluster is")
    with upstream.audit_log.open() as lines:
        found = used.read(lines)
    assert dict(found.denied) == {}
    assert dict(found.refused) == {}
    assert [str(right) for right in found.not_granted] == []
    assert {right.role for right in found.rights} == {right.role for right in rights.granted()}
