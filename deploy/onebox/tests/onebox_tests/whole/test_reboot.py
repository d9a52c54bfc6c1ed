"""Stops, kills and restarts of onebox: nothing is left behind, and pods come back by the rules."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from onebox.node.ownership import read_owner
from onebox.testing import OneBox, start
from onebox.testing.kube import Kube, Space, container, shell, sleeper
from onebox.testing.processes import descendants, wait_for_none
from tests.tools.waiting import wait_for

NOBODY = 65534


@pytest.fixture
def own_box(tmp_path: Path):
    boxes: list[OneBox] = []

    def started(**options: object) -> OneBox:
        boxes.append(start(tmp_path / "onebox", **options))
        return boxes[-1]

    yield started
    for box in boxes:
        if box.process.poll() is None:
            box.stop()


def test_a_killed_onebox_leaves_no_process_and_restarts_as_a_reboot(own_box):
    box = own_box()
    space = Space(Kube(box.kubeconfig), "t")
    # A daemon that left its session must not survive either.
    space.pod("always", shell("setsid sleep 1001 & sleep 1000"))
    space.pod("never", sleeper(), restartPolicy="Never")
    space.pod("done", shell("echo kept; exit 0"), restartPolicy="Never")
    for name, phase in (("always", "Running"), ("never", "Running"), ("done", "Succeeded")):
        space.wait_pod(name, phase)
    below = descendants(box.process.pid)
    assert len(below) >= 6
    box.kill()
    wait_for_none(below)

    space.kube = Kube(own_box().kubeconfig)
    pod = space.wait_pod("never", "Failed")
    assert container(pod)["state"]["terminated"]["exitCode"] == 137
    target = next(c for c in pod["status"]["conditions"] if c["type"] == "DisruptionTarget")
    assert (target["status"], target["reason"]) == ("True", "TerminationByKubelet")
    pod = space.wait_pod("always", lambda p: container(p)["restartCount"] == 1)
    assert container(pod)["lastState"]["terminated"]["exitCode"] == 137
    space.wait_pod("always", "Ready")
    assert space.kube.get(space.path("pods", "done"))["status"]["phase"] == "Succeeded"
    assert space.log("done") == "kept\n"


def test_a_job_goes_on_after_a_reboot(own_box):
    box = own_box()
    space = Space(Kube(box.kubeconfig), "t")
    rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    body = {
        "metadata": {"name": "j"},
        "spec": {
            "backoffLimit": 0,
            "podFailurePolicy": {"rules": [rule]},
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "terminationGracePeriodSeconds": 1,
                    "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "d"}}],
                    "containers": [
                        shell(
                            "test -e /d/second && exit 0; touch /d/second; echo up; sleep 1000",
                            volumeMounts=[{"name": "d", "mountPath": "/d"}],
                        )
                    ],
                }
            },
        },
    }
    claim = {
        "metadata": {"name": "d"},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    space.kube.create(space.path("persistentvolumeclaims"), claim)
    space.kube.create(space.path("jobs", group="batch/v1"), body)
    space.kube.wait(space.path("pods"), lambda pods: bool(pods["items"]), what="not empty")
    [pod] = space.kube.items(space.path("pods"))
    space.wait_pod(pod["metadata"]["name"], "Running")
    assert space.first_line(pod["metadata"]["name"]) == "up\n"
    assert box.stop() == 0
    space.kube = Kube(own_box().kubeconfig)
    job = space.kube.wait(
        space.path("jobs", "j", group="batch/v1"),
        lambda j: any(c["type"] == "Complete" for c in j.get("status", {}).get("conditions", [])),
        40,
    )
    assert job["status"]["succeeded"] == 1
    assert not job["status"].get("failed")


def claim_of(space: Space, name: str) -> Path:
    """Makes a claim; gives the folder of its volume."""
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    path = space.path("persistentvolumeclaims")
    space.kube.create(path, {"metadata": {"name": name}, "spec": spec})
    bound = space.kube.wait(
        f"{path}/{name}", lambda found: found.get("status", {}).get("phase") == "Bound"
    )
    volume = space.kube.get(f"/api/v1/persistentvolumes/{bound['spec']['volumeName']}")
    return Path(volume["spec"]["hostPath"]["path"])


@pytest.mark.parametrize("is_unmarked", [False, True], ids=["marked", "by-an-older-version"])
def test_a_lost_state_takes_no_volume_with_it(own_box, is_unmarked: bool):
    """Its claim gets the folder again, and nobody else does; what says nothing goes to nobody."""
    box = own_box()
    space = Space(Kube(box.kubeconfig), "lab")
    folder = claim_of(space, "data")
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    space.output("writes", shell("echo mine > /v/file", **mount), volumes=volumes)
    given_up = claim_of(space, "old")
    space.kube.delete(space.path("persistentvolumeclaims", "old"))
    space.kube.wait(
        f"/api/v1/persistentvolumes/{given_up.name}", lambda v: v["status"]["phase"] == "Released"
    )
    if is_unmarked:
        box.stop()
        for file in folder.parent.glob("*.json"):
            file.unlink()
        box = own_box()  # from the state that is still there
    wait_for(
        "the folder that was given up says so",
        lambda: (owner := read_owner(given_up)) is not None and owner.is_released,
    )
    box.kill()
    for file in (box.home / "api").glob("state.db*"):
        file.unlink()
    unmarked = folder.parent / "pvc-unknown"
    unmarked.mkdir()

    box = own_box()
    kube = Kube(box.kubeconfig)
    other, space = Space(kube, "other"), Space(kube, "lab")
    kept = {folder, given_up, unmarked}
    assert claim_of(other, "data") not in kept
    assert claim_of(space, "old") not in kept
    assert claim_of(space, "data") == folder
    text = space.output("reads", shell("cat /v/file", **mount), volumes=volumes)
    assert text == "mine\n"
    assert "lost" in space.wait_event("data", "ProvisioningSucceeded")["message"]
    [name] = [node["metadata"]["name"] for node in kube.items("/api/v1/nodes")]
    said = {"type": "homeport.dev/FoldersOfNobody", "status": "True"}
    node = kube.wait(
        f"/api/v1/nodes/{name}",
        lambda node: any(said.items() <= c.items() for c in node["status"]["conditions"]),
    )
    [message] = [c["message"] for c in node["status"]["conditions"] if c["type"] == said["type"]]
    assert f"{unmarked} does not say whose it is" in message
    assert f"{given_up} was kept when the claim old of lab was given up" in message
    assert str(folder) not in message


def test_stopping_gives_pods_their_grace_and_ends_everything(own_box, tmp_path: Path):
    box = own_box(grace=5)
    space = Space(Kube(box.kubeconfig), "t")
    space.pod(
        "p",
        shell(
            "trap 'sleep 0.5; echo put down; exit 0' TERM; echo up; while true; do sleep 0.05; done"
        ),
        terminationGracePeriodSeconds=30,
    )
    pod = space.wait_pod("p", "Running")
    assert space.first_line("p") == "up\n"
    below = descendants(box.process.pid)
    assert box.stop() == 0
    wait_for_none(below)
    uid = pod["metadata"]["uid"]
    log = box.home / "node" / "logs" / f"t_p_{uid}" / "main" / "0.log"
    assert log.read_text().endswith("stdout F put down\n")


def test_two_onebox_on_one_home_are_refused_in_words(own_box):
    box = own_box()
    with pytest.raises(RuntimeError, match="already runs on"):
        start(box.home)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become an ordinary user")
def test_an_ordinary_user_runs_the_same_pods():
    # Not below pytest's own folder, which another run closes to everybody but its user.
    folder = Path(tempfile.mkdtemp(prefix="homeport-user-"))
    folder.chmod(0o755)
    box = start(folder / "onebox", uid=NOBODY)
    try:
        space = Space(Kube(box.kubeconfig), "t")
        space.kube.create(
            space.path("persistentvolumeclaims"),
            {
                "metadata": {"name": "d"},
                "spec": {
                    "accessModes": ["ReadWriteMany"],
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            },
        )
        text = space.output(
            "p",
            shell(
                "id -u; echo written > /d/file; cat /d/file",
                volumeMounts=[{"name": "d", "mountPath": "/d"}],
            ),
            securityContext={"runAsUser": 1000, "fsGroup": 100},
            volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "d"}}],
        )
        assert text == f"{NOBODY}\nwritten\n"
        below = descendants(box.process.pid)
        assert box.stop() == 0
        wait_for_none(below)
    finally:
        box.kill()
        shutil.rmtree(folder)
