"""For what reasons the product ends a replica, and what programs then save: a table, and how it is tried on a cluster."""

from dataclasses import dataclass, field
from typing import Any

from tests.e2e.portal import Portal, Rest, kubectl
from tests.e2e.proofs import PULL_S, RUN_S, TENSORFLOW
from tests.e2e.starts_again import read_log
from tests.tools.waiting import wait_for

# Reason -> how the runner hears of it: its pod is deleted (SIGTERM by the node), or by itself.
REASONS = {
    "it is stopped": "signal",
    "it is suspended": "signal",
    "it is deleted": "signal",
    "its time is over": "signal",
    "it makes room for another": "signal",
    "its namespace is suspended": "signal",
    "another replica has failed": "signal",
    "worker 0 has succeeded": "signal",
    "those that it serves have ended": "signal",
    "another replica has a new address": "signal",
    "the cluster takes its pod": "signal",
    "its volume is gone": "volume",
}

# Saves for two seconds, when it is asked to end; the shell that started it ends at once.
SAVE = """
import os, signal, sys, time
def save(*_):
    print("saving", flush=True)
    time.sleep(2)
    who = os.environ["JOB_NAME"] + os.environ["TASK_INDEX"]
    open(os.path.join(os.environ["LOG_DIR"], "saved-" + who), "w").write("x")
    print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
open(os.path.join(os.environ["LOG_DIR"], "ready"), "w").close()
while True:
    signal.pause()
"""
EACH = {"cpu": "50m", "memory": "128Mi"}
TWO = {**EACH, "count": 2}
BEGUN = 'until [ -e "$LOG_DIR/ready" ]; do sleep 0.2; done'


@dataclass
class Ending:
    """One training of which a replica is asked to end.

    Attributes:
        who: that replica; all others run `others`.
    """

    reason: str
    topology: str
    replicas: dict[str, Any]
    who: str
    others: str = "sleep 600"
    more: dict[str, Any] = field(default_factory=dict)
    job: dict[str, Any] = field(default_factory=dict)

    @property
    def command(self) -> list[str]:
        role, index = self.who.split("-")
        own = '[ "$JOB_NAME$TASK_INDEX" = ' + role + index + " ]"
        return [
            "sh",
            "-c",
            f'if {own}; then cd . && python -c "$SAVE"; else {self.others}; fi',
        ]

    @property
    def log(self) -> str:
        return f"jobs/{self.job['id']}/logs/?replica={self.who}&download=1&attempt=all"

    @property
    def path(self) -> str:
        return f"jobs/{self.job['id']}/"


SERVED = {"worker": EACH, "ps": EACH}
FAILS = f"{BEGUN}; exit 1"
ENDS = f"{BEGUN}; exit 0"
# Every topology, and every reason that can be given on any cluster without ending what others have there.
CASES = (
    Ending("it is stopped", "single", {"worker": EACH}, "worker-0"),
    Ending("it is suspended", "array", {"worker": TWO}, "worker-1"),
    Ending("it is deleted", "mpi", {"launcher": EACH, "worker": EACH}, "launcher-0"),
    Ending("its time is over", "jax", {"worker": TWO}, "worker-1", more={"deadline_s": 60}),
    Ending("another replica has failed", "torch-ddp", {"worker": TWO}, "worker-0", FAILS),
    Ending(
        "worker 0 has succeeded",
        "tf-multiworker",
        {"worker": TWO},
        "worker-1",
        ENDS,
        {"success_policy": "worker0"},
    ),
    Ending("those that it serves have ended", "tf-ps", SERVED, "ps-0", ENDS),
    Ending("the cluster takes its pod", "tf-ps", SERVED, "worker-0"),
    Ending(
        "it is stopped",
        "tf-ingraph",
        {"master": EACH, "worker": {"cpu": "200m", "memory": "1Gi"}},
        "master-0",
        more={"image": TENSORFLOW},
    ),
)


def check_that_each_has_saved(portal: Portal, ada: Rest) -> None:
    """Each reason once, each topology once: what the program prints and writes when it is asked is there."""
    for case in CASES:
        case.job = ada.submit(
            name=f"ends-{case.topology}-{case.who}",
            topology=case.topology,
            replicas=case.replicas,
            command=case.command,
            env={"SAVE": SAVE},
            **case.more,
        )
    for case in CASES:
        wait_for(
            f"{case.reason}: {case.topology} is ready",
            lambda case=case: "ready\n" in read_log(ada, case.log),
            timeout_s=PULL_S,
        )
        _end(portal, ada, case)
    for case in CASES:
        if case.reason != "it is deleted":
            text = f"{case.reason}: {case.topology} has saved"
            wait_for(
                text, lambda case=case: "\nsaved\n" in read_log(ada, case.log), timeout_s=RUN_S
            )
    looks = ada.submit(name="looks", command=["sh", "-c", "cd /log/jobs; ls -d */saved-*"])
    ada.wait(looks, "succeeded", timeout_s=RUN_S)
    found = read_log(ada, f"jobs/{looks['id']}/logs/?download=1").split()
    for case in CASES:
        mark = f"/saved-{case.who.replace('-', '')}"
        name = f"ends-{case.topology}-{case.who}-"
        assert any(one.startswith(name) and one.endswith(mark) for one in found), (case, found)
        if case.reason != "it is deleted":
            ada.call("DELETE", case.path)


def _end(portal: Portal, ada: Rest, case: Ending) -> None:
    """Gives the reason; of some the training itself, or the clock, sees to it."""
    if case.reason == "it is stopped":
        assert ada.call("POST", f"{case.path}stop/").ok
    elif case.reason == "it is suspended":
        assert ada.call("POST", f"{case.path}suspend/").ok
    elif case.reason == "it is deleted":
        assert ada.call("DELETE", case.path).ok
    elif case.reason == "the cluster takes its pod":
        [pod] = [
            one["pod"]
            for one in ada.get(case.path)["replicas"]
            if f"{one['role']}-{one['index']}" == case.who
        ]
        namespace = ada.tenant()["namespace"]
        kubectl(portal, "-n", namespace, "delete", "pod", pod, "--wait=false")
