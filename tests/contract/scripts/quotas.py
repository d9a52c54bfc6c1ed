"""ResourceQuota and LimitRange: who is refused, what is counted, what is filled in."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tests.contract.bodies import claim, config_map, container, deployment, job, pod, quota, service
from tests.contract.kube import Json, Reply
from tests.contract.script import script
from tests.contract.tape import COUNTING_S, Tape, conditions, has_condition, pick

ONE = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}


def _counted(tape: Tape, body: Json) -> None:
    """Make a quota and wait until it knows what is there."""
    tape.kube.must("POST", tape.path("resourcequotas"), body)
    tape.until(
        tape.path("resourcequotas", body["metadata"]["name"]),
        lambda obj: obj.get("status", {}).get("used"),
        show=pick("status"),
    )


def _heard(tape: Tape, resource: str, body: Json, is_heard: Callable[[Reply], bool]) -> None:
    """Wait until admission knows the quota as it is: it hears of it by a watch of its own."""
    deadline_s = time.monotonic() + COUNTING_S
    while not is_heard(reply := tape.kube.send("POST", tape.path(resource, dryRun="All"), body)):
        assert time.monotonic() < deadline_s, reply.body
        time.sleep(0.05)


def _is_refused(reply: Reply) -> bool:
    return reply.code == 403


def _big(name: str, **more: object) -> Json:
    return pod(name, container(resources=ONE), **more)


@script
def of_two_pods_at_once_over_the_quota_exactly_one_is_refused(tape: Tape) -> None:
    _counted(tape, quota(**{"requests.cpu": "1500m", "limits.memory": "5Gi"}))
    version = tape.kube.get(tape.path("resourcequotas")).version
    bodies = [_big("one", node=None), _big("two", node=None)]
    _heard(tape, "pods", bodies[0], lambda reply: reply.code == 201)
    with ThreadPoolExecutor(2) as pool:
        replies = list(
            pool.map(lambda body: tape.kube.send("POST", tape.path("pods"), body), bodies)
        )
    replies.sort(key=lambda reply: reply.code)
    tape.note("codes", [reply.code for reply in replies])
    refused = replies[1].body
    name = refused["details"]["name"]
    message = refused["message"].replace(f'"{name}"', '"<loser>"')
    tape.note("refusal", {**refused, "message": message, "details": {"kind": "pods"}})
    with tape.watch(tape.path("resourcequotas"), resourceVersion=version) as stream:
        events = stream.until(lambda e: e["object"]["status"]["used"]["requests.cpu"] == "1")
    tape.events("resourcequotas", events, show=pick("status.used"))


@script
def the_use_of_a_quota_arrives_with_the_write_and_goes_with_the_delete(tape: Tape) -> None:
    _counted(tape, quota(**{"count/configmaps": "5", "pods": "2", "requests.cpu": "4"}))
    _heard(tape, "pods", pod("without-requests"), _is_refused)
    version = tape.kube.get(tape.path("resourcequotas")).version
    tape.kube.must("POST", tape.path("pods"), _big("p", node=None))
    used = tape.kube.get(tape.path("resourcequotas", "q")).body["status"]["used"]
    tape.note("right after the write", {key: used[key] for key in ("pods", "requests.cpu")})
    tape.kube.must("DELETE", tape.path("pods", "p"))
    with tape.watch(tape.path("resourcequotas"), resourceVersion=version) as stream:
        seen = stream.until(lambda e: e["object"]["status"]["used"]["pods"] == "1")
        seen += stream.until(lambda e: e["object"]["status"]["used"]["pods"] == "0")
    tape.events("resourcequotas", seen, show=lambda obj: obj["status"]["used"]["pods"])


@script
def every_sort_of_object_can_be_counted(tape: Tape) -> None:
    hard = {
        "count/jobs.batch": "0",
        "count/deployments.apps": "0",
        "services": "1",
        "services.nodeports": "1",
        "persistentvolumeclaims": "1",
        "requests.storage": "2Gi",
        "secrets": "0",
        "glusterfs.storageclass.storage.k8s.io/requests.storage": "1Gi",
    }
    _counted(tape, quota(**hard))
    _heard(tape, "secrets", {"metadata": {"name": "s"}}, _is_refused)
    tape.post(tape.path("jobs", group="batch/v1"), job())
    tape.post(tape.path("deployments", group="apps/v1"), deployment())
    tape.post(tape.path("services"), service("a", type="NodePort"), show=pick("metadata.name"))
    tape.post(tape.path("services"), service("b", type="NodePort"))
    tape.post(tape.path("secrets"), {"metadata": {"name": "s"}})
    claims = tape.path("persistentvolumeclaims")
    big = {"resources": {"requests": {"storage": "3Gi"}}}
    tape.post(claims, claim("big", storageClassName="contract-none", **big))
    of_class = {"storageClassName": "glusterfs", "resources": {"requests": {"storage": "2Gi"}}}
    tape.post(claims, claim("of-class", **of_class))
    tape.post(claims, claim("a", storageClassName="contract-none"), show=pick("metadata.name"))
    tape.post(claims, claim("b", storageClassName="contract-none"))


@script
def a_pod_without_requests_is_refused_where_they_are_counted(tape: Tape) -> None:
    _counted(tape, quota(**{"requests.cpu": "4", "limits.memory": "4Gi"}))
    _heard(tape, "pods", pod(), _is_refused)
    tape.post(tape.path("pods"), pod())
    tape.post(tape.path("pods"), pod("p", container(resources={"requests": {"cpu": "1"}})))


@script
def gpus_are_counted_by_their_requests(tape: Tape) -> None:
    _counted(tape, quota(**{"requests.nvidia.com/gpu": "2"}))
    more = container(resources={"limits": {"nvidia.com/gpu": "3"}})
    _heard(tape, "pods", pod("more", more), _is_refused)
    gpu = {"limits": {"nvidia.com/gpu": "2"}}
    tape.post(tape.path("pods"), pod("a", container(resources=gpu)), show=pick("metadata.name"))
    tape.post(tape.path("pods"), pod("b", container(resources=gpu)))
    tape.until(
        tape.path("resourcequotas", "q"),
        lambda obj: obj["status"]["used"] == {"requests.nvidia.com/gpu": "2"},
        show=pick("status"),
    )
    tape.succeeds("a")
    tape.until(
        tape.path("resourcequotas", "q"),
        lambda obj: obj["status"]["used"] == {"requests.nvidia.com/gpu": "0"},
        show=pick("status"),
    )


@script
def init_containers_count_by_their_largest_and_sidecars_in_sum(tape: Tape) -> None:
    _counted(tape, quota(**{"requests.cpu": "10", "requests.memory": "100Gi"}))

    def needs(name: str, cpu: str, memory: str, **more: object) -> Json:
        return container(name, resources={"requests": {"cpu": cpu, "memory": memory}}, **more)

    body = pod(
        "p",
        needs("main", "1", "1Gi"),
        initContainers=[
            needs("first", "3", "1Gi"),
            needs("side", "500m", "2Gi", restartPolicy="Always"),
            needs("second", "1", "4Gi"),
        ],
    )
    tape.post(tape.path("pods"), body, show=pick("metadata.name"))
    tape.until(
        tape.path("resourcequotas", "q"),
        lambda obj: obj["status"]["used"]["requests.cpu"] != "0",
        show=pick("status.used"),
    )


@script
def a_smaller_quota_refuses_only_what_is_new(tape: Tape) -> None:
    _counted(tape, quota(pods="2"))
    for name in "ab":
        tape.kube.must("POST", tape.path("pods"), pod(name))
    one = tape.path("resourcequotas", "q")
    tape.merge(one, {"spec": {"hard": {"pods": "1"}}}, show=pick("spec"))
    tape.until(one, lambda obj: obj["status"]["hard"]["pods"] == "1", show=pick("status"))
    _heard(tape, "pods", pod("c"), lambda reply: "limited: pods=1" in reply.body.get("message", ""))
    tape.post(tape.path("pods"), pod("c"))
    tape.merge(one, {"spec": {"hard": {"pods": "3"}}}, show=pick("spec"))
    tape.until(one, lambda obj: obj["status"]["hard"]["pods"] == "3", show=pick("status"))
    _heard(tape, "pods", pod("c"), lambda reply: reply.code == 201)
    tape.post(tape.path("pods"), pod("c"), show=pick("metadata.name"))


@script
def a_new_quota_counts_what_is_there_already(tape: Tape) -> None:
    tape.kube.must("POST", tape.path("pods"), _big("p"))
    tape.kube.must("POST", tape.path("services"), service("s", type="NodePort"))
    hard = {
        "pods": "5",
        "requests.cpu": "5",
        "limits.memory": "5Gi",
        "services": "5",
        "services.nodeports": "5",
    }
    _counted(tape, quota(**hard))


@script
def what_a_quota_may_not_be_is_refused(tape: Tape) -> None:
    path = tape.path("resourcequotas")
    tape.post(path, quota(**{"requests.cpu": "-1"}))
    tape.post(path, quota(**{"requests.cpu": "many"}))
    tape.post(path, quota(pods="1.5"))
    tape.post(path, quota(colour="1"))
    tape.post(path, {**quota(), "spec": {"hard": {"pods": "1"}, "scopes": ["Sometimes"]}})


@script
def scopes_choose_what_a_quota_counts(tape: Tape) -> None:
    body = quota(pods="1")
    body["spec"]["scopes"] = ["NotTerminating"]
    _counted(tape, body)
    path = tape.path("pods")
    tape.post(path, pod("a", activeDeadlineSeconds=100), show=pick("metadata.name"))
    tape.post(path, pod("b"), show=pick("metadata.name"))
    tape.post(path, pod("c"))


@script
def a_dry_run_over_the_quota_is_refused_and_one_below_is_not_counted(tape: Tape) -> None:
    _counted(tape, quota(pods="1"))
    tape.post(tape.path("pods"), pod("a"), dryRun="All", show=pick("metadata.name"))
    tape.post(tape.path("pods"), pod("b"), show=pick("metadata.name"))
    tape.post(tape.path("pods"), pod("c"), dryRun="All")


@script
def a_job_over_the_quota_says_so_in_events(tape: Tape) -> None:
    _counted(tape, quota(**{"requests.cpu": "500m"}))
    template = {"containers": [container(resources=ONE)]}
    tape.post(
        tape.path("jobs", group="batch/v1"), job(template=template), show=pick("metadata.name")
    )
    _failed_create(tape, "Job")
    tape.get(
        tape.path("jobs", "j", group="batch/v1"),
        show=lambda obj: {**pick("status.active", "status.failed")(obj), "c": conditions(obj)},
    )


def _failed_create(tape: Tape, kind: str) -> None:
    query = f"involvedObject.kind={kind},reason=FailedCreate"
    tape.until(
        tape.path("events", fieldSelector=query),
        lambda body: body["items"],
        show=lambda body: [
            (e["type"], e["reason"], e["message"], e["source"]) for e in body["items"][:1]
        ],
    )


@script
def a_deployment_over_the_quota_says_so_in_conditions_and_events(tape: Tape) -> None:
    _counted(tape, quota(pods="1"))
    path = tape.path("deployments", "d", group="apps/v1")
    tape.kube.must("POST", tape.path("deployments", group="apps/v1"), deployment(replicas=2))
    tape.until(
        path,
        lambda obj: (
            has_condition(obj, "ReplicaFailure") and obj["status"].get("updatedReplicas") == 1
        ),
        show=_messages,
    )
    tape.until(
        tape.path("replicasets", group="apps/v1", labelSelector="app=d"),
        lambda body: (
            body["items"]
            and has_condition(body["items"][0], "ReplicaFailure")
            and body["items"][0]["status"]["replicas"] == 1
        ),
        show=lambda body: {
            **pick("status.replicas")(body["items"][0]),
            "c": _messages(body["items"][0]),
        },
    )
    _failed_create(tape, "ReplicaSet")


def _messages(obj: Json) -> list[list[str]]:
    return sorted(
        [c["type"], c["status"], c.get("reason", ""), c.get("message", "")]
        for c in obj["status"]["conditions"]
        if c["type"] != "Progressing"
    )


@script
def a_job_goes_on_when_the_quota_allows_it(tape: Tape) -> None:
    _counted(tape, quota(pods="0"))
    tape.kube.must("POST", tape.path("jobs", group="batch/v1"), job())
    _failed_create(tape, "Job")
    body = {"spec": {"hard": {"pods": "1"}}}
    tape.merge(tape.path("resourcequotas", "q"), body, show=pick("spec"))
    tape.pods("job-name=j", 1)
    tape.until(
        tape.path("jobs", "j", group="batch/v1"),
        lambda obj: obj["status"].get("active") == 1,
        show=pick("status.active", "status.failed"),
    )


def _limits(*limits: Json) -> Json:
    return {"metadata": {"name": "l"}, "spec": {"limits": list(limits)}}


@script
def a_limit_range_fills_in_what_containers_do_not_say(tape: Tape) -> None:
    tape.kube.must(
        "POST",
        tape.path("limitranges"),
        _limits(
            {
                "type": "Container",
                "default": {"cpu": "500m", "memory": "512Mi"},
                "defaultRequest": {"cpu": "100m", "memory": "128Mi"},
            }
        ),
    )
    tape.kube.until(tape.path("limitranges", "l"), bool)

    def show(obj: Json) -> list[Json]:
        both = [*obj["spec"].get("initContainers", []), *obj["spec"]["containers"]]
        return [c["resources"] for c in both]

    path = tape.path("pods")
    tape.post(path, pod("a"), show=pick("metadata.annotations", "spec.containers"))
    limits = {"limits": {"cpu": "2"}}
    tape.post(
        path, pod("b", container(resources=limits), initContainers=[container("i")]), show=show
    )
    requests = {"requests": {"cpu": "200m", "memory": "1Gi"}}
    tape.post(path, pod("c", container(resources=requests)), show=show)


@script
def a_limit_range_refuses_what_is_out_of_its_bounds(tape: Tape) -> None:
    bounds = {
        "max": {"cpu": "1"},
        "min": {"memory": "64Mi"},
        "maxLimitRequestRatio": {"memory": "2"},
    }
    claims = {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}
    whole = {"type": "Pod", "max": {"memory": "1Gi"}}
    tape.kube.must(
        "POST", tape.path("limitranges"), _limits({"type": "Container", **bounds}, claims, whole)
    )
    path = tape.path("pods")
    for resources in (
        {"limits": {"cpu": "2", "memory": "64Mi"}, "requests": {"memory": "64Mi"}},
        {"limits": {"cpu": "1", "memory": "32Mi"}},
        {"limits": {"cpu": "1", "memory": "512Mi"}, "requests": {"memory": "100Mi"}},
        {"limits": {"cpu": "1"}},
        {"limits": {"cpu": "1", "memory": "2Gi"}},
    ):
        tape.post(path, pod("p", container(resources=resources)), show=pick("metadata.name"))
    storage = {"resources": {"requests": {"storage": "2Gi"}}}
    tape.post(
        tape.path("persistentvolumeclaims"),
        claim("big", storageClassName="contract-none", **storage),
    )
    wrong = {"type": "Container", "max": {"cpu": "1"}, "min": {"cpu": "2"}, "default": {"cpu": "3"}}
    tape.post(tape.path("limitranges"), _limits(wrong))


@script
def an_update_over_the_quota_is_refused(tape: Tape) -> None:
    _counted(tape, quota(**{"services.nodeports": "0", "configmaps": "2"}))
    _heard(tape, "services", service("s", type="NodePort"), _is_refused)
    tape.kube.must("POST", tape.path("services"), service("s"))
    tape.merge(tape.path("services", "s"), {"spec": {"type": "NodePort"}})
    tape.post(tape.path("configmaps"), config_map("a"), show=pick("metadata.name"))
    tape.post(tape.path("configmaps"), config_map("b"))
