"""Pods on a real onebox: order of containers, variables, volumes, endings."""

from __future__ import annotations

from onebox.testing.kube import IMAGE, Json, Space, container, python, shell, sleeper


def test_init_containers_run_in_order_before_the_main_one(space: Space):
    share = {"volumeMounts": [{"name": "s", "mountPath": "/s"}]}
    text = space.output(
        "p",
        shell("cat /s/steps", **share),
        initContainers=[
            shell("echo one >> /s/steps", "one", **share),
            shell("echo two >> /s/steps", "two", **share),
        ],
        volumes=[{"name": "s", "emptyDir": {}}],
    )
    assert text == "one\ntwo\n"


def test_a_sidecar_is_up_before_the_main_container_and_ends_after_it(space: Space):
    share = {"volumeMounts": [{"name": "s", "mountPath": "/s"}]}
    gate = shell(
        "trap 'sleep 0.3; echo gate ended >> /s/order; exit 0' TERM;"
        "sleep 0.5; touch /s/open; while true; do sleep 0.05; done",
        "gate",
        restartPolicy="Always",
        startupProbe={
            "exec": {"command": ["test", "-e", "/s/open"]},
            "periodSeconds": 1,
            "failureThreshold": 20,
        },
        **share,
    )
    reader = shell("test -e /s/open && echo main saw the gate >> /s/order; cat /s/order", **share)
    space.pod(
        "p",
        reader,
        initContainers=[gate],
        restartPolicy="Never",
        volumes=[{"name": "s", "emptyDir": {}}],
    )
    pod = space.wait_pod("p", "Succeeded")
    assert space.log("p", container="main") == "main saw the gate\n"
    ended = container(pod, "gate")["state"]["terminated"]
    assert ended["exitCode"] == 0
    assert ended["finishedAt"] >= container(pod)["state"]["terminated"]["finishedAt"]


def test_every_form_of_variable_reaches_the_program(space: Space):
    kube = space.kube
    kube.create(
        space.path("configmaps"),
        {"metadata": {"name": "c"}, "data": {"ONE": "1", "TWO": "2"}},
    )
    kube.create(
        space.path("secrets"),
        {"metadata": {"name": "s"}, "stringData": {"token": "hidden"}},
    )
    env = [
        {"name": "A", "value": "a"},
        {"name": "B", "value": "$(A)-$(C_ONE)-$$(A)-$(NO)"},
        {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "token"}}},
        {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {
            "name": "MEMORY",
            "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}},
        },
    ]
    text = space.output(
        "p",
        {
            "name": "main",
            "image": IMAGE,
            "command": ["sh", "-c", 'echo "$B $KEY $NAME $IP $MEMORY $C_TWO $0 $HOSTNAME"; pwd'],
            "args": ["arg-$(A)"],
            "env": env,
            "envFrom": [{"prefix": "C_", "configMapRef": {"name": "c"}}],
            "resources": {"limits": {"memory": "64Mi"}},
            "workingDir": "/tmp",
        },
    )
    ip = kube.get(space.path("pods", "p"))["status"]["podIP"]
    assert text == f"a-1-$(A)-$(NO) hidden p {ip} 64 2 arg-a p\n/tmp\n"


def test_volumes_hold_what_they_should_and_data_survives_the_pod(space: Space):
    kube = space.kube
    kube.create(space.path("configmaps"), {"metadata": {"name": "c"}, "data": {"a": "A", "b": "B"}})
    kube.create(
        space.path("persistentvolumeclaims"),
        {
            "metadata": {"name": "data"},
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        },
    )
    claim = kube.wait(
        space.path("persistentvolumeclaims", "data"),
        lambda c: (c.get("status") or {}).get("phase") == "Bound",
    )
    assert claim["status"]["capacity"] == {"storage": "1Gi"}
    spec: Json = {
        "securityContext": {"runAsUser": 1000, "runAsGroup": 100, "fsGroup": 100},
        "volumes": [
            {
                "name": "conf",
                "configMap": {"name": "c", "items": [{"key": "a", "path": "x/a", "mode": 0o400}]},
            },
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Mi"}},
        ],
    }
    mounts = [
        {"name": "conf", "mountPath": "/conf"},
        {"name": "data", "mountPath": "/data"},
        {"name": "data", "mountPath": "/job", "subPath": "jobs/one"},
        {"name": "shm", "mountPath": "/dev/shm"},
    ]
    script = (
        "cat /conf/x/a; echo; echo kept > /job/file; "
        "dd if=/dev/zero of=/dev/shm/big bs=1M count=20 2>/dev/null || echo shm is full; "
        "touch /conf/no 2>/dev/null || echo conf is read-only"
    )
    text = space.output("writer", shell(script, volumeMounts=mounts), **spec)
    assert text == "A\nshm is full\nconf is read-only\n"
    text = space.output("reader", shell("cat /data/jobs/one/file", volumeMounts=mounts), **spec)
    assert text == "kept\n"


def test_a_missing_configmap_is_said_and_the_pod_starts_when_it_appears(space: Space):
    space.pod(
        "p",
        shell("cat /c/k", volumeMounts=[{"name": "c", "mountPath": "/c"}]),
        restartPolicy="Never",
        volumes=[{"name": "c", "configMap": {"name": "later"}}],
    )
    event = space.wait_event("p", "FailedMount")
    assert 'configmap "later" not found' in event["message"]
    space.kube.create(space.path("configmaps"), {"metadata": {"name": "later"}, "data": {"k": "v"}})
    space.wait_pod("p", "Succeeded")


def test_endings_are_told_apart(space: Space):
    space.pod(
        "p",
        shell("exit 3", "three"),
        shell("kill -9 $$$$", "killed"),  # Kubernetes itself makes one $ of two
        {"name": "absent", "image": IMAGE, "command": ["no-such-program"]},
        {"name": "folder", "image": IMAGE, "command": ["/tmp"]},
        python("x = bytearray(200 << 20)", "hungry", resources={"limits": {"memory": "64Mi"}}),
        shell("echo because > /dev/termination-log; exit 1", "says"),
        shell(
            "echo the last words; exit 1",
            "logs",
            terminationMessagePolicy="FallbackToLogsOnError",
        ),
        shell("true", "well"),
        restartPolicy="Never",
    )
    pod = space.wait_pod("p", "Failed")
    ends = {c["name"]: c["state"]["terminated"] for c in pod["status"]["containerStatuses"]}
    short = {name: (end["exitCode"], end["reason"]) for name, end in ends.items()}
    assert short == {
        "three": (3, "Error"),
        "killed": (137, "Error"),
        "absent": (127, short["absent"][1]),
        "folder": (126, short["folder"][1]),
        "hungry": (137, "OOMKilled"),
        "says": (1, "Error"),
        "logs": (1, "Error"),
        "well": (0, "Completed"),
    }
    assert {short["absent"][1], short["folder"][1]} <= {"StartError", "ContainerCannotRun"}
    assert ends["says"]["message"] == "because\n"
    assert ends["logs"]["message"] == "the last words\n"
    assert "no-such-program" in ends["absent"]["message"]


def test_a_crashing_container_backs_off_and_shows_its_last_end(space: Space):
    space.pod("p", shell("echo run; exit 5"))

    def backs_off(pod: Json) -> bool:
        waiting = container(pod)["state"].get("waiting", {})
        return waiting.get("reason") == "CrashLoopBackOff" and container(pod)["restartCount"] == 1

    pod = space.wait_pod("p", lambda p: "containerStatuses" in p["status"] and backs_off(p))
    assert pod["status"]["phase"] == "Running"
    assert container(pod)["lastState"]["terminated"]["exitCode"] == 5
    assert "back-off 10s restarting" in container(pod)["state"]["waiting"]["message"]
    assert space.wait_event("p", "BackOff")["type"] == "Warning"
    assert space.log("p", previous="true") == "run\n"


def test_on_failure_restarts_until_it_succeeds(space: Space):
    mounts = {"volumeMounts": [{"name": "s", "mountPath": "/s"}]}
    space.pod(
        "p",
        shell("test -e /s/second && exit 0; touch /s/second; exit 1", **mounts),
        restartPolicy="OnFailure",
        volumes=[{"name": "s", "emptyDir": {}}],
    )
    pod = space.wait_pod("p", "Succeeded")
    assert container(pod)["restartCount"] == 1


def test_a_failed_liveness_probe_restarts_the_container(space: Space):
    probe = {"exec": {"command": ["test", "!", "-e", "/tmp/ill"]}, "periodSeconds": 1}
    script = "sleep 0.5; touch /tmp/ill; sleep 100"
    space.pod(
        "p",
        shell(script, livenessProbe={**probe, "failureThreshold": 1}),
        terminationGracePeriodSeconds=1,
    )
    space.wait_pod(
        "p",
        lambda p: p["status"].get("containerStatuses") and container(p)["restartCount"] >= 1,
        15,
    )
    assert "will be restarted" in space.wait_event("p", "Killing")["message"]
    assert "Liveness probe failed" in space.wait_event("p", "Unhealthy")["message"]


def test_readiness_follows_its_probe(space: Space):
    space.pod(
        "p",
        shell(
            "mkdir -p /tmp/w; cd /tmp/w; sleep 1; exec python3 -m http.server 8080",
            ports=[{"name": "web", "containerPort": 8080}],
            readinessProbe={
                "httpGet": {"path": "/", "port": "web"},
                "periodSeconds": 1,
            },
        ),
    )
    pod = space.wait_pod("p", "Running")
    assert not container(pod)["ready"]
    pod = space.wait_pod("p", "Ready")
    assert container(pod)["ready"]
    assert "Readiness probe failed" in space.wait_event("p", "Unhealthy")["message"]


def test_a_deadline_ends_the_pod(space: Space):
    space.pod("p", sleeper(), terminationGracePeriodSeconds=1)
    space.wait_pod("p", "Running")
    space.kube.patch(space.path("pods", "p"), {"spec": {"activeDeadlineSeconds": 1}})
    pod = space.wait_pod("p", "Failed")
    assert pod["status"]["reason"] == "DeadlineExceeded"
    assert container(pod)["state"]["terminated"]["exitCode"] in (137, 143)


def test_an_image_that_does_not_exist_waits_with_a_reason(space: Space):
    space.pod("p", {"name": "main", "image": "example.com/no/such:1", "command": ["true"]})

    def waits(pod: Json) -> bool:
        states = pod["status"].get("containerStatuses") or [{}]
        return (states[0].get("state", {}).get("waiting") or {}).get("reason") == "ImagePullBackOff"

    space.wait_pod("p", waits)
    assert space.wait_event("p", "Failed")["type"] == "Warning"
    space.pod(
        "never",
        {"name": "m", "image": "example.com/a:1", "imagePullPolicy": "Never", "command": ["true"]},
    )
    space.wait_event("never", "ErrImageNeverPull")


def test_a_container_without_a_command_says_so(space: Space):
    space.pod("p", {"name": "main", "image": IMAGE})
    pod = space.wait_pod(
        "p",
        lambda p: (
            bool(p["status"].get("containerStatuses"))
            and container(p)["state"].get("waiting", {}).get("reason") == "CreateContainerError"
        ),
    )
    assert "no command" in container(pod)["state"]["waiting"]["message"]
