"""The end of pods from outside: grace, SIGTERM, force, namespaces."""

from __future__ import annotations

import time

from tests.onebox.whole.kube import Kube, Space, python, shell, sleeper


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
        began_s = time.monotonic()
        space.kube.delete(space.path("pods", "p"))
        assert reply.read() == b"got it\nput down\n"
    space.kube.wait_gone(space.path("pods", "p"), 5)
    assert time.monotonic() - began_s < 5


def test_a_program_that_ignores_sigterm_is_killed_after_its_grace(space: Space):
    script = "import signal\nsignal.signal(15, lambda *_: None)\nwhile True: signal.pause()"
    space.pod("p", python(script), terminationGracePeriodSeconds=1)
    space.wait_pod("p", "Running")
    began_s = time.monotonic()
    space.kube.delete(space.path("pods", "p"))
    space.kube.wait_gone(space.path("pods", "p"), 10)
    assert 0.9 < time.monotonic() - began_s < 5


def test_a_shorter_grace_asked_for_later_counts(space: Space):
    script = "import signal\nsignal.signal(15, lambda *_: None)\nwhile True: signal.pause()"
    space.pod("p", python(script), terminationGracePeriodSeconds=300)
    space.wait_pod("p", "Running")
    space.kube.delete(space.path("pods", "p"))
    space.kube.delete(space.path("pods", "p"), grace_s=1)
    space.kube.wait_gone(space.path("pods", "p"), 10)


def test_a_forced_deletion_is_immediate_and_the_name_is_free(space: Space):
    space.pod("p", sleeper(), terminationGracePeriodSeconds=300)
    first = space.wait_pod("p", "Running")
    space.kube.delete(space.path("pods", "p"), grace_s=0)
    space.kube.wait_gone(space.path("pods", "p"), 2)
    space.pod("p", shell("echo second; sleep 100"))
    second = space.wait_pod("p", "Running")
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    assert space.log("p") == "second\n"


def test_a_finished_pod_goes_at_once(space: Space):
    space.output("p", shell("true"), terminationGracePeriodSeconds=300)
    space.kube.delete(space.path("pods", "p"))
    space.kube.wait_gone(space.path("pods", "p"), 3)


def test_a_pod_that_never_ran_goes_at_once(space: Space):
    space.pod("no-image", {"name": "m", "image": "example.com/no:1", "command": ["true"]})
    space.pod("no-volume", volumes=[{"name": "v", "configMap": {"name": "absent"}}])
    space.pod("crashes", shell("exit 1"))
    space.wait_event("no-image", "Failed")
    space.wait_event("no-volume", "FailedMount")
    space.wait_event("crashes", "BackOff")
    for name in ("no-image", "no-volume", "crashes"):
        space.kube.delete(space.path("pods", name), grace_s=30)
        space.kube.wait_gone(space.path("pods", name), 3)


def test_the_prestop_hook_runs_before_sigterm(space: Space):
    touch = {"exec": {"command": ["sh", "-c", "sleep 0.3; touch /s/hook"]}}
    mounts = {"volumeMounts": [{"name": "s", "mountPath": "/s"}]}
    script = (
        "trap 'test -e /s/hook && echo hook came first; exit 0' TERM; "
        "while true; do sleep 0.05; done"
    )
    space.pod(
        "p",
        shell(script, lifecycle={"preStop": touch}, **mounts),
        volumes=[{"name": "s", "emptyDir": {}}],
        terminationGracePeriodSeconds=10,
    )
    space.wait_pod("p", "Running")
    with space.open_log("p", follow="true") as reply:
        space.kube.delete(space.path("pods", "p"))
        assert reply.read() == b"hook came first\n"


def test_a_namespace_takes_its_pods_with_it(kube: Kube):
    space = Space(kube, "doomed")
    space.pod("p", sleeper(), terminationGracePeriodSeconds=1)
    space.wait_pod("p", "Running")
    kube.create(space.path("configmaps"), {"metadata": {"name": "c"}, "data": {}})
    kube.delete("/api/v1/namespaces/doomed")
    kube.wait_gone("/api/v1/namespaces/doomed", 20)
