"""What people ask for and what the reconcilers do by themselves: each as a thing that can be tried.

`prepare` brings the world to where it begins, without faults; `act` is what is asked for; `is_done`
says when it is over in a run that nothing disturbs.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from asgiref.sync import sync_to_async
from django.db.models import F
from django.test import override_settings
from django.utils import timezone

from jobs.kinds.training.manifests import log_dir
from jobs.models import UserSecret, Workload
from jobs.secrets import actions
from tenants.models import Tenant, TenantObject
from tenants.reconcile import status
from tests.faults.world import FaultWorld
from tests.jobs.engine.kubelet import Life
from tests.jobs.engine.world import TF_PS

Act = Callable[[FaultWorld], Awaitable[Any]]


@dataclass(frozen=True)
class Operation:
    """See the module.

    Attributes:
        ends_by_422: a call of it that is refused as invalid ends what was asked for, in words.
        timer_s: a wait that a reconciler holds in memory, and a new one begins anew.
        is_hidden: whoever asked for it cannot see it any more, so there is nobody to tell.
    """

    name: str
    prepare: Act
    act: Act
    is_done: Act
    ends_by_422: bool = False
    is_hidden: bool = False
    timer_s: float = 0.0


# --- tenants ---
async def nobody(world: FaultWorld) -> None:
    await world.person("bob")
    await world.open_for("bob")


async def both(world: FaultWorld) -> None:
    await nobody(world)
    await world.person("alice")
    await world.open_for("alice")


async def appears(world: FaultWorld) -> None:
    await world.person("alice")


async def is_active(world: FaultWorld) -> bool:
    return (await world.tenant()).state == Tenant.State.ACTIVE


async def damaged(world: FaultWorld) -> None:
    """Somebody with kubectl removes and changes parts of a tenant."""
    namespace = (await world.tenant()).namespace
    api = world.sim.api
    for plural, name in (
        ("limitranges", "homeport"),
        ("networkpolicies", "homeport-boundary"),
        ("serviceaccounts", "homeport"),
        ("persistentvolumeclaims", "log"),
    ):
        api.delete(plural, namespace, name)
    api.patch("resourcequotas", namespace, "homeport", {"spec": {"hard": {"pods": "999"}}})
    marks = {"pod-security.kubernetes.io/enforce": "privileged"}
    api.patch("namespaces", None, namespace, {"metadata": {"labels": marks}})
    world.sim.settle()
    world.before = world.claims()


async def is_whole(world: FaultWorld) -> bool:
    parts = TenantObject.objects.filter(tenant_id=world.alice)
    ready = [part.state == "ready" async for part in parts]
    quota = world.sim.api.get("resourcequotas", (await world.tenant()).namespace, "homeport")
    is_mended = quota["spec"]["hard"]["pods"] != "999"
    return bool(ready) and all(ready) and is_mended and await is_active(world)


async def more_quota(world: FaultWorld) -> None:
    await world.change_tenant(quota_gpu_count=7)


async def has_more_quota(world: FaultWorld) -> bool:
    tenant = await world.tenant()
    return tenant.observed_hard.get("gpu") == 7 and tenant.state == Tenant.State.ACTIVE


async def policy_that_goes(world: FaultWorld) -> None:
    """An admin's setting asked for one more policy; then it does not any more."""
    with override_settings(NODE_CIDRS=["10.9.0.0/16"]):
        await both(world)


async def look_at_all(world: FaultWorld) -> None:
    world.looked_whole_at = float("-inf")


async def has_one_policy(world: FaultWorld) -> bool:
    return len(world.sim.of("NetworkPolicy")) == 2  # Alice's and Bob's


async def both_with_work(world: FaultWorld) -> None:
    await both(world)
    world.sim.lives = {"worker-0": [Life("hang")]}
    training = await world.submit(clean_policy="all")
    await world.submit("notebook")

    async def run() -> bool:
        return (await world.row(training)).state == (await world.row()).state == "running"

    await world.wait(run, "training and notebook run")


async def suspended(world: FaultWorld) -> None:
    await world.change_tenant(desired="suspended")


def _pods(world: FaultWorld, namespace: str) -> str:
    quota = world.sim.api.get("resourcequotas", namespace, "homeport")
    return str(quota["spec"]["hard"]["pods"])


async def is_shut(world: FaultWorld) -> bool:
    tenant = await world.tenant()
    return (
        tenant.state in {Tenant.State.SUSPENDED, Tenant.State.DELETING}
        and not tenant.reason_text
        and _pods(world, tenant.namespace) == "0"
    )


async def shut(world: FaultWorld) -> None:
    await both(world)
    await suspended(world)
    await world.wait(lambda: is_shut(world), "Alice is suspended")


async def shut_for_good(world: FaultWorld) -> None:
    await both(world)
    await deleted(world)
    await world.wait(lambda: is_shut(world), "Alice's namespace is deleted")


async def shut_for_good_with_data(world: FaultWorld) -> None:
    await shut_for_good(world)
    await world.change_tenant(purge_data="delete")
    await world.rest(2)


async def resumed(world: FaultWorld) -> None:
    await world.change_tenant(desired="active")


async def deleted(world: FaultWorld) -> None:
    await world.change_tenant(desired="deleted", purge_data="keep")


async def purged(world: FaultWorld) -> None:
    world.before = {name: uid for name, uid in world.claims().items() if "bob" in name}
    await world.change_tenant(desired="purged")


async def is_gone(world: FaultWorld) -> bool:
    return (await world.tenant()).state == Tenant.State.GONE


# --- trainings ---
async def single(world: FaultWorld) -> None:
    await world.submit(clean_policy="all")


async def single_with_ttl(world: FaultWorld) -> None:
    await world.submit(ttl_s=5)


async def cluster_job(world: FaultWorld) -> None:
    await world.submit(topology="tf-ps", replicas=TF_PS, clean_policy="all")


async def job_that_loses_its_log(world: FaultWorld) -> None:
    world.sim.lives = {"worker-0": [Life("oom")]}
    await world.submit(clean_policy="all")


async def job_that_is_tried_again(world: FaultWorld) -> None:
    world.sim.lives = {"worker-1": [Life("fail"), Life("ok")]}
    await world.submit(topology="tf-ps", replicas=TF_PS, clean_policy="all", retries=1)


async def job_that_nobody_places(world: FaultWorld) -> None:
    """The scheduler finds no room though we thought there was some: it is given back."""
    world.sim.box.has_room = False
    await world.submit(topology="tf-ps", replicas=TF_PS, starting_deadline_s=60)


async def is_queued_again(world: FaultWorld) -> bool:
    job = await world.row()
    return bool(job.state == "queued" and job.requeued_count == 1)


async def is_cleaned(world: FaultWorld) -> bool:
    return bool((await world.row()).cleaned_at)


async def job_runs(world: FaultWorld) -> None:
    await both(world)
    hang = [Life("hang")]
    world.sim.lives = {"worker-0": hang, "worker-1": hang}
    await world.submit(topology="tf-ps", replicas=TF_PS, clean_policy="all")
    await world.until(lambda job: job.state == "running")


async def asked_to_stop(world: FaultWorld) -> None:
    await world.intend(desired="stop")


async def asked_to_go(world: FaultWorld) -> None:
    await world.intend(desired="delete")


async def asked_to_suspend(world: FaultWorld) -> None:
    await world.intend(desired="suspend")


async def is_suspended(world: FaultWorld) -> bool:
    return bool((await world.row()).state == "suspended")


async def job_is_suspended(world: FaultWorld) -> None:
    await job_runs(world)
    await asked_to_suspend(world)
    await world.wait(lambda: is_suspended(world), "it is suspended")


async def asked_to_go_on(world: FaultWorld) -> None:
    await world.intend(desired="run")


async def job_has_ended(world: FaultWorld) -> None:
    await both(world)
    await single(world)
    await world.wait(lambda: is_cleaned(world), "it has ended")


async def continued(world: FaultWorld) -> None:
    old = await world.row()
    more = {"continue_from": str(old.pk), "log_folder": log_dir(old)}
    await world.submit(clean_policy="all", **more)


async def nothing_is_left(world: FaultWorld) -> bool:
    return not await Workload.objects.aexists()


# --- secrets ---
async def put_secret(world: FaultWorld) -> None:
    def write() -> None:
        tenant = Tenant.objects.get(pk=world.alice)
        about = {"kind": "generic", "keys": ["K"], "values": {"K": "v"}}
        actions.put(by=tenant.owner, tenant=tenant, name="wandb", **about)
        # What begins with the values of before has begun.
        UserSecret.objects.update(changed_at=timezone.now() - timedelta(minutes=2))

    await sync_to_async(write)()


async def has_secret(world: FaultWorld) -> None:
    await both(world)
    await put_secret(world)
    await world.wait(lambda: secret_is_there(world), "the secret is in the cluster")


async def secret_is_there(world: FaultWorld) -> bool:
    secret = await UserSecret.objects.afirst()
    return secret is not None and not secret.has_work


async def delete_secret(world: FaultWorld) -> None:
    long_ago = timezone.now() - timedelta(minutes=2)
    await UserSecret.objects.aupdate(is_deleted=True, has_work=True, changed_at=long_ago)


async def secret_is_gone(world: FaultWorld) -> bool:
    return not await UserSecret.objects.aexists()


# --- notebooks and TensorBoards ---
async def notebook(world: FaultWorld) -> None:
    await world.submit("notebook")


async def tensorboard(world: FaultWorld) -> None:
    await world.submit("tensorboard", name="my board")


async def is_running(world: FaultWorld) -> bool:
    service = await world.row()
    return service is not None and service.state == "running"


async def notebook_runs(world: FaultWorld) -> None:
    await both(world)
    await notebook(world)
    await world.wait(lambda: is_running(world), "the notebook runs")


async def board_runs(world: FaultWorld) -> None:
    await both(world)
    await tensorboard(world)
    await world.wait(lambda: is_running(world), "the TensorBoard runs")


async def service_starts_again(world: FaultWorld) -> None:
    await world.intend(desired="run", generation=F("generation") + 1)


async def has_started_again(world: FaultWorld) -> bool:
    service = await world.row()
    assert service is not None
    return service.state == "running" and service.observed_generation == service.generation == 2


async def is_stopped(world: FaultWorld) -> bool:
    service = await world.row()
    return service is not None and service.state == "stopped" and bool(service.cleaned_at)


async def notebook_is_stopped(world: FaultWorld) -> None:
    await notebook_runs(world)
    await asked_to_stop(world)
    await world.wait(lambda: is_stopped(world), "the notebook is stopped")


async def door_is_removed(world: FaultWorld) -> None:
    namespace = (await world.tenant()).namespace
    for service in world.sim.api.list("services", namespace):
        world.sim.api.delete("services", namespace, service["metadata"]["name"])
    await world.intend(node_port=None)


async def has_a_door(world: FaultWorld) -> bool:
    service = await world.row()
    return service is not None and service.node_port is not None and await is_running(world)


OPERATIONS = (
    Operation("provision", nobody, appears, is_active),
    Operation("repair", both, damaged, is_whole),
    Operation("quota", both, more_quota, has_more_quota),
    Operation("policy", policy_that_goes, look_at_all, has_one_policy),
    Operation("suspend", both_with_work, suspended, is_shut, timer_s=status.QUIET_S),
    Operation("resume", shut, resumed, is_active),
    Operation("delete-namespace", both_with_work, deleted, is_shut, timer_s=status.QUIET_S),
    Operation("restore", shut_for_good, resumed, is_active),
    Operation("purge-keep", shut_for_good, purged, is_gone),
    Operation("purge-delete", shut_for_good_with_data, purged, is_gone),
    Operation("single", both, single, is_cleaned, ends_by_422=True),
    Operation("ttl", both, single_with_ttl, is_cleaned, ends_by_422=True),
    Operation("tf-ps", both, cluster_job, is_cleaned, ends_by_422=True),
    Operation("rescue", both, job_that_loses_its_log, is_cleaned, ends_by_422=True),
    Operation("retry", both, job_that_is_tried_again, is_cleaned, ends_by_422=True),
    Operation("withdraw", both, job_that_nobody_places, is_queued_again, ends_by_422=True),
    Operation("stop", job_runs, asked_to_stop, is_cleaned),
    Operation("suspend-job", job_runs, asked_to_suspend, is_suspended),
    Operation("resume-job", job_is_suspended, asked_to_go_on, is_running, ends_by_422=True),
    Operation("continue", job_has_ended, continued, is_cleaned, ends_by_422=True),
    Operation("delete-job", job_runs, asked_to_go, nothing_is_left, is_hidden=True),
    Operation("secret", both, put_secret, secret_is_there),
    Operation("replace-secret", has_secret, put_secret, secret_is_there),
    Operation("delete-secret", has_secret, delete_secret, secret_is_gone, is_hidden=True),
    Operation("notebook", both, notebook, is_running, ends_by_422=True),
    Operation("tensorboard", both, tensorboard, is_running, ends_by_422=True),
    Operation("stop-notebook", notebook_runs, asked_to_stop, is_stopped),
    Operation("stop-tensorboard", board_runs, asked_to_stop, is_stopped),
    Operation("start-again", notebook_is_stopped, service_starts_again, has_started_again, True),
    Operation("restart", notebook_runs, service_starts_again, has_started_again, True),
    Operation("door", notebook_runs, door_is_removed, has_a_door, ends_by_422=True),
    Operation("delete-notebook", notebook_runs, asked_to_go, nothing_is_left, is_hidden=True),
    Operation("delete-tensorboard", board_runs, asked_to_go, nothing_is_left, is_hidden=True),
)
