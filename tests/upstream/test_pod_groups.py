"""All or nothing by the cluster, too: on a control plane that serves PodGroups, with and without the rights for them.

Races are run side by side, each on two nodes of two GPUs; nodes are played by KWOK. Both trainings of a race are
admitted past our own arithmetic, which would keep the second one waiting.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.cluster import rights, used
from deploy.testcluster import binaries
from deploy.testcluster.controlplane import Options
from deploy.testcluster.kwok import MANAGER_FLAGS, node
from portal.cluster import labels
from portal.cluster.kinds import get_kind
from tests.contract.kube import MERGE, Json
from tests.upstream.journal import POD_RULES
from tests.upstream.lab import Lab, opened
from tests.upstream.power import Accounts, need_built

pytestmark = pytest.mark.upstream

GATE = "--feature-gates=GenericWorkload=true"
FLAGS = {
    "kube-apiserver": (GATE, "--runtime-config=scheduling.k8s.io/v1beta1=true"),
    "kube-controller-manager": (GATE, *MANAGER_FLAGS),
    "kube-scheduler": (GATE,),
}
COMPONENT = rights.FOLDER.parent / "kubernetes" / "components" / "pod-groups" / "rights.yaml"
RACES = 20
WORKERS = 3
SETTLED_S = 120
ROOM = {"cpu": "8", "memory": "32Gi", "pods": "20", "ephemeral-storage": "1Ti"}
# Written as admission writes them, both of a race at once, and kept on the nodes of their race.
_RACES = """
from django.db import transaction
from django.utils import timezone
from jobs.engine import admission
from jobs.models import Workload
from jobs.rules.admission import NOW
from tests.factories import make_job, role_request
from tenants.models import Tenant
tenant = Tenant.objects.get(owner__username="ada")
worker = role_request(count={workers}, cpu_millicores=100, memory_bytes=2**26, gpu_count=1)
with transaction.atomic():
    for race in range({races}):
        for _ in range(2):
            job = make_job(
                tenant, name=f"{name}-{{race}}", topology="torch-ddp", replicas={{"worker": worker}},
                starting_deadline_s=3600)
            admission.write([admission.Admission(job.pk, NOW)], timezone.now())
            job.refresh_from_db()
            job.plan[0]["spec"]["template"]["spec"]["nodeSelector"] = {{"race": str(race)}}
            Workload.objects.filter(pk=job.pk).update(plan=job.plan)
"""
_STAYS = """
from tests.factories import make_job, role_request
from tenants.models import Tenant
tenant = Tenant.objects.get(owner__username="ada")
role = role_request(cpu_millicores=100, memory_bytes=2**26)
make_job(
    tenant, name="stays", topology="tf-ps", success_policy="all",
    replicas={"worker": {**role, "count": 2}, "ps": role})
"""


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    need_built(binaries.KUBERNETES, binaries.ETCD, binaries.KWOK)
    options = Options(is_audited=True, audit_rules=POD_RULES, flags=FLAGS)
    with opened("pod-groups", options) as made:
        for race in range(RACES):
            for number in range(2):
                name, room = f"race-{race}-{number}", {**ROOM, "nvidia.com/gpu": "2"}
                body = node(name, room, {"race": str(race)})
                made.kube.must("POST", get_kind("Node").path(), body)
        yield made


def placed_of(lab: Lab, name: str) -> list[list[int]]:
    """How many pods of each of its two trainings have a node, race by race, the more first."""
    nodes: dict[str, int] = {}
    for pod in lab.objects("Pod"):
        owner = pod["metadata"]["labels"].get(labels.OWNER, "")
        nodes[owner] = nodes.get(owner, 0) + bool(pod["spec"].get("nodeName"))
    races = [lab.ids(f"{name}-{race}") for race in range(RACES)]
    return [sorted((nodes.get(one, 0) for one in ids), reverse=True) for ids in races]


def race(lab: Lab, name: str) -> list[str]:
    """Starts them, and waits until each pod has been judged by the scheduler; the ids of all trainings."""
    lab.python(_RACES.format(races=RACES, workers=WORKERS, name=name))
    ids = [pk for number in range(RACES) for pk in lab.ids(f"{name}-{number}")]

    def are_judged() -> bool:
        pods = [p for p in lab.objects("Pod") if p["metadata"]["labels"].get(labels.OWNER) in ids]
        told = [p for p in pods if _condition(p, "PodScheduled")]
        return len(told) == len(ids) * WORKERS

    lab.wait("all pods are judged", are_judged, SETTLED_S)
    return ids


def _condition(obj: Json, kind: str) -> Json | None:
    found: list[Json] = (obj.get("status") or {}).get("conditions") or []
    return next((one for one in found if one["type"] == kind), None)


def groups(lab: Lab) -> list[Json]:
    return lab.objects("PodGroup")


def test_without_the_rights_half_of_a_training_is_placed(lab: Lab) -> None:
    """The control run: where this never happens, the next test proves nothing."""
    with lab.reconciler():
        ids = race(lab, "apart")
        assert groups(lab) == []
        assert any(0 < second < WORKERS for _, second in placed_of(lab, "apart"))
        lab.clear(ids)


def give_rights(lab: Lab) -> None:
    """Each test that needs them, for it may be run alone."""
    Accounts(lab.plane.kubeconfig).admin("apply", "-f", str(COMPONENT))


def test_exactly_one_of_two_is_placed_and_no_pod_of_the_other(lab: Lab) -> None:
    give_rights(lab)
    with lab.reconciler():
        ids = race(lab, "together")
        whole = [[WORKERS, 0]] * RACES
        lab.wait("one of each is placed", lambda: placed_of(lab, "together") == whole, SETTLED_S)
        lab.wait("it runs", lambda: lab.states(ids) == {"running": RACES, "starting": RACES}, 60)
        assert len(groups(lab)) == 2 * RACES
        told = "select distinct reason_text from jobs_workload where state = 'starting'"
        assert all(f"{WORKERS} pods are placed together" in why for (why,) in lab.rows(told))
        print(lab.rows(told))
        assert placed_of(lab, "together") == whole  # still
        lab.clear(ids)
        # They wait for the cluster's finalizer, and so did the trainings for them.
        assert groups(lab) == []


def test_a_parameter_server_made_anew_runs_after_a_worker_has_ended(lab: Lab) -> None:
    """The scheduler forgets pods that have ended: of the group's three, two would be too few."""
    give_rights(lab)
    with lab.reconciler():
        lab.python(_STAYS)
        ids = lab.ids("stays")
        lab.wait("it runs", lambda: lab.states(ids) == {"running": 1}, SETTLED_S)

        def is_loosened() -> bool:
            (group,) = groups(lab)
            return bool(group["spec"]["schedulingPolicy"]["gang"]["minCount"] == 1)

        lab.wait("its group is loosened", is_loosened, 30)
        _end(lab, _pod(lab, "worker"))
        server = _pod(lab, "ps")
        path = get_kind("Pod").path(lab.namespace, server["metadata"]["name"])
        lab.kube.must("DELETE", path)

        def runs_again() -> bool:
            others = [
                p for p in _pods(lab, "ps") if p["metadata"]["uid"] != server["metadata"]["uid"]
            ]
            return any(pod["status"].get("phase") == "Running" for pod in others)

        lab.wait("it runs again", runs_again, SETTLED_S)
        lab.clear(ids)


def test_the_account_was_refused_nothing_once_it_had_the_rights(lab: Lab) -> None:
    with Path(lab.plane.audit_log).open() as lines:
        use = used.read(lines)
    assert set(use.denied) == {"reconciler: list podgroups.scheduling.k8s.io"}
    assert dict(use.refused) == {}


def _pods(lab: Lab, role: str) -> list[Json]:
    """All of this role; none for a moment, when the only one is made anew."""
    return [p for p in lab.objects("Pod") if p["metadata"]["labels"].get(labels.ROLE) == role]


def _pod(lab: Lab, role: str) -> Json:
    """The newest of this role, the first one of it by its name."""
    return min(_pods(lab, role), key=lambda pod: (_is_going(pod), pod["metadata"]["name"]))


def _is_going(pod: Json) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _end(lab: Lab, pod: Json) -> None:
    """As if its program had ended well."""
    ended = {"terminated": {"exitCode": 0, "reason": "Completed"}}
    statuses = [
        {**one, "state": ended, "ready": False, "started": False}
        for one in pod["status"]["containerStatuses"]
    ]
    patch = {"status": {"phase": "Succeeded", "containerStatuses": statuses}}
    path = get_kind("Pod").path(lab.namespace, pod["metadata"]["name"], "status")
    lab.kube.must("PATCH", path, patch, kind=MERGE)
