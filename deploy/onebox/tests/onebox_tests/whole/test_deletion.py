"""The end of pods from outside: grace, SIGTERM, force, namespaces."""

from __future__ import annotations

import time

from onebox.testing.kube import Kube, Space, python, shell, sleeper

# Says "up" when it can no longer be ended by SIGTERM.
DEAF = "import signal\nsignal.signal(15, lambda *_: None)\nprint('up')\nwhile True: signal.pause()"


def test_deletion_sends_sigterm_and_waits_for_the_program(space: Space):
    script = (
        "import signal, sys, time\n"
        "def end(*_):\n print('got it'); time.sleep(0.5); print('put down'); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, end)\nprint('up')\nwhile True: signal.pause()"
    )
    space.pod("p", python(script), terminationGracePeriodSeconds=20)
    space.wait_pod("p", "Running")
    with space.open_log("p", follow="true") as reply:
        assert reply.readline() == b"up\n"
        space.kube.delete(space.path("pods", "p"))
        assert reply.read() == b"got it\nput down\n"
    space.kube.wait_gone(space.path("pods", "p"), 15)  # less than its grace


def test_a_program_that_ignores_sigterm_is_killed_after_its_grace(space: Space):
    space.pod("p", python(DEAF), terminationGracePeriodSeconds=1)
    space.wait_pod("p", "Running")
    assert space.first_line("p") == "up\n"
    began_s = time.monotonic()
    space.kube.delete(space.path("pods", "p"))
    space.kube.wait_gone(space.path("pods", "p"))
    assert time.monotonic() - began_s > 0.9


def test_a_shorter_grace_asked_for_later_counts(space: Space):
    space.pod("p", python(DEAF), terminationGracePeriodSeconds=300)
    space.wait_pod("p", "Running")
    assert space.first_line("p") == "up\n"
    space.kube.delete(space.path("pods", "p"))
    space.kube.delete(space.path("pods", "p"), grace_s=1)
    space.kube.wait_gone(space.path("pods", "p"))


def test_a_forced_deletion_is_immediate_and_the_name_is_free(space: Space):
    space.pod("p", sleeper(), terminationGracePeriodSeconds=300)
    first = space.wait_pod("p", "Running")
    space.kube.delete(space.path("pods", "p"), grace_s=0)
    space.kube.wait_gone(space.path("pods", "p"))
    space.pod("p", shell("echo second; sleep 100"))
    second = space.wait_pod("p", "Running")
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    assert space.first_line("p") == "second\n"


def test_a_finished_pod_goes_at_once(space: Space):
    space.output("p", shell("true"), terminationGracePeriodSeconds=300)
    space.kube.delete(space.path("pods", "p"))
    space.kube.wait_gone(space.path("pods", "p"))


def test_a_pod_that_never_ran_goes_at_once(space: Space):
    space.pod("no-image", {"name": "m", "image": "example.com/no:1", "command": ["true"]})
    # A kubelet mounts what a container asks for, and no other volume.
    waits = sleeper(volumeMounts=[{"name": "v", "mountPath": "/v"}])
    space.pod("no-volume", waits, volumes=[{"name": "v", "configMap": {"name": "absent"}}])
    space.pod("crashes", shell("exit 1"))
    space.wait_event("no-image", "Failed")
    space.wait_event("no-volume", "FailedMount")
    space.wait_event("crashes", "BackOff")
    for name in ("no-image", "no-volume", "crashes"):
        space.kube.delete(space.path("pods", name), grace_s=30)
        space.kube.wait_gone(space.path("pods", name), 15)  # less than the grace


def test_the_prestop_hook_runs_before_sigterm(space: Space):
    touch = {"exec": {"command": ["sh", "-c", "sleep 0.3; touch /s/hook"]}}
    mounts = {"volumeMounts": [{"name": "s", "mountPath": "/s"}]}
    script = (
        "trap 'test -e /s/hook && echo hook came first; exit 0' TERM; "
        "echo up; while true; do sleep 0.05; done"
    )
    space.pod(
        "p",
        shell(script, lifecycle={"preStop": touch}, **mounts),
        volumes=[{"name": "s", "emptyDir": {}}],
        terminationGracePeriodSeconds=10,
    )
    space.wait_pod("p", "Running")
    with space.open_log("p", follow="true") as reply:
        assert reply.readline() == b"up\n"
        space.kube.delete(space.path("pods", "p"))
        assert reply.read() == b"hook came first\n"


def test_a_namespace_takes_its_pods_with_it(kube: Kube):
    space = Space(kube, "doomed")
    space.pod("p", sleeper(), terminationGracePeriodSeconds=1)
    space.wait_pod("p", "Running")
    kube.create(space.path("configmaps"), {"metadata": {"name": "c"}, "data": {}})
    kube.delete("/api/v1/namespaces/doomed")
    # Upstream looks again only after a while where it found pods that take their grace.
    kube.wait_gone("/api/v1/namespaces/doomed", 60)
