"""Pods: what is refused, what may change, what tells of them."""

from __future__ import annotations

from tests.contract.bodies import IMAGE, SAFE, container, deployment, job, pod
from tests.contract.kube import MERGE, Json
from tests.contract.script import script
from tests.contract.tape import CORE, Tape, conditions, ended, pick


@script
def what_a_pod_may_not_be_is_refused(tape: Tape) -> None:
    path = tape.path("pods")
    mount = [{"name": "none", "mountPath": "/x"}]
    twice = [{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}]
    many = {"name": "v", "emptyDir": {}, "secret": {"secretName": "s"}}
    for body in (
        {"metadata": {"name": "p"}, "spec": {}},
        {"metadata": {"name": "p"}, "spec": {"containers": []}},
        pod("p", {"name": "Main"}),
        pod("p", container("a"), container("a")),
        pod("p", container(image="")),
        pod("p", container(image=" x")),
        pod("p", container(imagePullPolicy="Perhaps")),
        pod("p", container(env=[{"name": "A=B"}])),
        pod("p", container(env=[{"name": "A", "value": "1", "valueFrom": {}}])),
        pod("p", container(ports=[{"containerPort": 0}])),
        pod("p", container(ports=[{"name": "TOO_LONG_A_NAME_x", "containerPort": 1}])),
        pod("p", container(volumeMounts=mount)),
        pod("p", container(resources={"limits": {"cpu": "1"}, "requests": {"cpu": "2"}})),
        pod("p", container(resources={"requests": {"nvidia.com/gpu": "1"}})),
        pod("p", container(resources={"limits": {"nvidia.com/gpu": "0.5"}})),
        pod("p", container(resources={"limits": {"colour": "1"}})),
        pod("p", container(resources={"limits": {"memory": "-1"}})),
        pod("p", container(terminationMessagePolicy="Maybe")),
        pod("p", container(livenessProbe={"periodSeconds": 1})),
        pod("p", container(readinessProbe={"tcpSocket": {"port": 0}})),
        pod("p", container(livenessProbe={"exec": {"command": ["a"]}, "successThreshold": 2})),
        pod("p", initContainers=[container("i", readinessProbe={"tcpSocket": {"port": 1}})]),
        pod("p", restartPolicy="Sometimes"),
        pod("p", dnsPolicy="None"),
        pod("p", hostname="Not_A_Host"),
        pod("p", activeDeadlineSeconds=0),
        pod("p", terminationGracePeriodSeconds=-1),
        pod("p", volumes=twice),
        pod("p", volumes=[many]),
        pod("p", volumes=[{"name": "v", "secret": {}}]),
        pod("p", volumes=[{"name": "v", "configMap": {"name": "c", "defaultMode": 9999}}]),
        pod("p", nodeSelector={"a b": "c"}),
        pod("p", tolerations=[{"key": "a", "operator": "Perhaps"}]),
        pod("p", tolerations=[{"operator": "Equal", "value": "x"}]),
    ):
        tape.post(path, body, dryRun="All", show=pick("metadata.name"))


@script
def quantities_are_written_in_their_shortest_form(tape: Tape) -> None:
    path = tape.path("pods")
    for number, (cpu, memory) in enumerate(
        (("0.5", "1024Mi"), ("1000m", "1.5Gi"), ("0.1", "1000k"), ("2.0", "1e3"), ("1.0001", "5"))
    ):
        body = pod(f"p{number}", container(resources={"limits": {"cpu": cpu, "memory": memory}}))
        tape.post(
            path, body, show=lambda made: [c["resources"] for c in made["spec"]["containers"]]
        )
    for wrong in ("1.2.3", "one", "1 Gi", "1GiB", "", "0x10"):
        body = pod("p", container(resources={"limits": {"memory": wrong}}))
        reply = tape.kube.send("POST", path, body)
        tape.note(f"memory {wrong!r}", reply.code)


@script
def of_a_pod_only_images_and_little_else_may_change(tape: Tape) -> None:
    tape.kube.must("POST", tape.path("pods"), pod(activeDeadlineSeconds=100))
    one = tape.path("pods", "p")
    show = pick("metadata.generation", "spec.activeDeadlineSeconds")
    image = {"spec": {"containers": [container(image=IMAGE + "-2")]}}
    tape.merge(one, image, show=show)
    tape.merge(one, {"spec": {"activeDeadlineSeconds": 50}}, show=show)
    tape.merge(one, {"metadata": {"labels": {"a": "b"}}}, show=show)
    for spec in (
        {"activeDeadlineSeconds": 500},
        {"hostname": "other"},
        {"nodeName": "other"},
        {"containers": [container(command=["true"])]},
        {"restartPolicy": "Never"},
    ):
        reply = tape.kube.send("PATCH", one, {"spec": spec}, kind=MERGE)
        # A comparison of Go structures is indented by either kind of space, as chance will have it.
        message = reply.body["message"].replace("\u00a0", " ")
        fields = [cause["field"] for cause in reply.body["details"]["causes"]]
        tape.note(f"patch {sorted(spec)}", [reply.code, message, fields])


@script
def the_status_of_a_pod_is_written_apart_from_its_spec(tape: Tape) -> None:
    tape.kube.must("POST", tape.path("pods"), pod())
    one = tape.path("pods", "p")
    tape.merge(one, {"status": {"phase": "Running"}}, show=pick("status.phase"))
    tape.merge(
        one + "/status",
        {
            "status": {"phase": "Running"},
            "metadata": {"labels": {"a": "b"}},
            "spec": {"hostname": "h"},
        },
        show=pick("status.phase", "metadata.labels", "spec.hostname", "metadata.generation"),
    )
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": None}
    tape.send(
        "PATCH",
        one + "/status",
        {"status": {"conditions": [condition]}},
        kind="application/strategic-merge-patch+json",
        show=conditions,
    )
    other = {"type": "Mine", "status": "False", "reason": "R", "message": "m"}
    tape.send(
        "PATCH",
        one + "/status",
        {"status": {"conditions": [other]}},
        kind="application/strategic-merge-patch+json",
        show=lambda obj: sorted(conditions(obj)),
    )


@script
def pod_security_refuses_what_is_not_restricted(tape: Tape) -> None:
    path = tape.path("pods")
    plain = {"name": "main", "image": "i"}
    for body in (
        {"metadata": {"name": "p"}, "spec": {"containers": [plain]}},
        pod("p", {**plain, "securityContext": {**SAFE, "privileged": True}}),
        pod("p", container(), hostNetwork=True),
        pod("p", container(), hostPID=True),
        pod("p", container(), securityContext={"runAsUser": 0}),
        pod("p", container(), volumes=[{"name": "v", "hostPath": {"path": "/"}}]),
        pod("p", container(ports=[{"containerPort": 1, "hostPort": 1}])),
        pod("p", container(securityContext={**SAFE, "capabilities": {"add": ["SYS_ADMIN"]}})),
        pod("p", container(securityContext={**SAFE, "runAsUser": 0})),
        pod("p", container(), securityContext={"runAsNonRoot": True}),
    ):
        tape.post(path, body, dryRun="All", show=pick("metadata.name"))


@script
def pod_security_warns_of_templates_and_their_pods_fail(tape: Tape) -> None:
    unsafe = {"containers": [{"name": "main", "image": "i"}], "securityContext": {}}
    tape.post(
        tape.path("deployments", group="apps/v1"),
        deployment(template=unsafe),
        show=pick("metadata.name"),
    )
    tape.until(
        tape.path("events", fieldSelector="involvedObject.kind=ReplicaSet,reason=FailedCreate"),
        lambda body: body["items"],
        show=lambda body: [body["items"][0]["type"], body["items"][0]["message"]],
    )
    tape.post(tape.path("jobs", group="batch/v1"), job(template=unsafe), show=pick("metadata.name"))
    tape.until(
        tape.path("events", fieldSelector="involvedObject.kind=Job,reason=FailedCreate"),
        lambda body: body["items"],
        show=lambda body: [body["items"][0]["type"], body["items"][0]["message"]],
    )


@script
def a_pod_that_no_node_can_take_says_why(tape: Tape) -> None:
    tape.kube.must("POST", tape.path("pods"), pod(node=None))
    tape.until(
        tape.path("pods", "p"),
        conditions,
        show=lambda obj: {
            "phase": obj["status"]["phase"],
            "conditions": conditions(obj),
            "qosClass": obj["status"]["qosClass"],
        },
    )
    tape.until(
        tape.path("events", fieldSelector="involvedObject.name=p"),
        lambda body: body["items"],
        show=lambda body: sorted(
            {(e["reason"], e["type"], e.get("reportingComponent", "")) for e in body["items"]}
        ),
    )


@script
def a_binding_puts_a_pod_on_a_node(tape: Tape) -> None:
    tape.kube.must("POST", tape.path("pods"), pod(node=None))
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "contract-node"}}
    tape.kube.until(tape.path("pods", "p"), conditions)
    tape.post(tape.path("pods", "p") + "/binding", binding)
    tape.get(tape.path("pods", "p"), show=pick("spec.nodeName"))
    tape.post(tape.path("pods", "p") + "/binding", binding)
    tape.post(tape.path("pods", "none") + "/binding", binding)


@script
def a_priority_class_gives_its_number(tape: Tape) -> None:
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    name = tape.ns
    tape.post(classes, {"metadata": {"name": name}, "value": 1000, "description": "d"})
    try:
        path = tape.path("pods")
        tape.kube.until(f"{classes}/{name}", bool)
        shown = pick("spec.priority", "spec.priorityClassName", "spec.preemptionPolicy")
        tape.post(path, pod("a", priorityClassName=name), show=shown)
        tape.post(path, pod("b", priorityClassName="contract-none"))
        tape.post(path, pod("c", priorityClassName=name, priority=5))
        tape.merge(f"{classes}/{name}", {"value": 5})
        tape.post(classes, {"metadata": {"name": name + "-x"}, "value": 2_000_000_000})
        tape.post(classes, {"metadata": {"name": "system-contract"}, "value": 1})
    finally:
        tape.delete(f"{classes}/{name}")


@script
def the_log_of_a_pod_without_a_node_or_container_is_refused(tape: Tape) -> None:
    tape.kube.must("POST", tape.path("pods"), pod("p", container("a"), container("b"), node=None))
    one = tape.path("pods", "p") + "/log"
    tape.get(one)
    tape.get(one + "?container=none")
    tape.get(one + "?container=a", show=lambda body: body)
    tape.get(one + "?container=a&tailLines=-1")
    tape.get(one + "?container=a&limitBytes=0")
    tape.get(one + "?container=a&sinceSeconds=0")
    tape.get(one + "?container=a&sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z")
    tape.get(tape.path("pods", "none") + "/log")


@script
def the_service_class_of_a_pod_follows_its_resources(tape: Tape) -> None:
    path = tape.path("pods")
    whole = {"limits": {"cpu": "1", "memory": "1Gi"}}
    some = {"requests": {"cpu": "1"}}
    for name, first, second in (
        ("a", whole, whole),
        ("b", whole, {}),
        ("c", some, {}),
        ("d", {}, {}),
    ):
        body = pod(name, container("one", resources=first), container("two", resources=second))
        tape.post(path, body, show=pick("status.qosClass", "status.phase"))


@script
def a_pod_of_a_deleted_account_or_namespace_is_refused(tape: Tape) -> None:
    tape.post(tape.path("pods"), pod(serviceAccountName="none"))
    tape.post(f"{CORE}/namespaces/contract-none/pods", pod())


@script
def the_columns_of_pods_tell_their_state(tape: Tape) -> None:
    table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
    one = tape.path("pods", "p")
    tape.kube.must("POST", tape.path("pods"), pod("p", initContainers=[container("first")]))

    def row(body: Json) -> list[object]:
        wide = [c["name"] for c in body["columnDefinitions"]]
        cells = dict(zip(wide, body["rows"][0]["cells"], strict=True))
        return [cells[key] for key in ("Name", "Ready", "Status", "Restarts", "Node", "IP")]

    def show() -> None:
        tape.send("GET", one, accept=table, show=row)

    def status(*containers: Json, **more: object) -> None:
        tape.pod_status("p", {"containerStatuses": list(containers), **more})
        show()

    def one_container(state: Json, **more: object) -> Json:
        return {
            "name": "main",
            "ready": False,
            "restartCount": 0,
            "image": "i",
            "imageID": "",
            "state": state,
            **more,
        }

    show()
    first = {**one_container({"running": {}}), "name": "first"}
    status(phase="Pending", initContainerStatuses=[first])
    wait = {**first, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    status(initContainerStatuses=[wait])
    over = {"terminated": {"exitCode": 0, "reason": "Completed"}}
    done = {**first, "state": over, "ready": True}
    status(one_container({"waiting": {"reason": "ImagePullBackOff"}}), initContainerStatuses=[done])
    ready = [{"type": "Ready", "status": "True"}]
    running = one_container({"running": {}}, ready=True, restartCount=3)
    status(running, phase="Running", conditions=ready)
    status(one_container({"waiting": {"reason": "CrashLoopBackOff"}}, restartCount=4))
    status(one_container({"terminated": {"exitCode": 137, "reason": "OOMKilled"}}))
    status(one_container({"terminated": {"exitCode": 3}}), phase="Failed", conditions=[])
    status(one_container({"terminated": {"exitCode": 0, "reason": "Completed"}}), phase="Succeeded")
    status(phase="Failed", reason="Evicted")


@script
def a_status_without_a_phase_of_the_list_is_kept(tape: Tape) -> None:
    tape.kube.must("POST", tape.path("pods"), pod())
    tape.merge(
        tape.path("pods", "p") + "/status",
        {"status": ended("Succeeded", 0)},
        show=pick("status.phase", "status.containerStatuses"),
    )
