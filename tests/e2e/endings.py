"""For what reasons the product ends a replica, and what programs then save: a table, and how it is tried on a cluster."""

from dataclasses import dataclass, field
from functools import partial
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
        owner: whose it is.
    """

    reason: str
    topology: str
    replicas: dict[str, Any]
    who: str
    others: str = "sleep 600"
    more: dict[str, Any] = field(default_factory=dict)
    job: dict[str, Any] = field(default_factory=dict)
    owner: str = "ada"

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
# Reason -> the replica whose pod somebody in the cluster deletes.
TAKEN = {
    "the cluster takes its pod": "worker-0",
    "another replica has a new address": "ps-0",
}
FAILS = f"{BEGUN}; exit 1"
ENDS = f"{BEGUN}; exit 0"
# Every topology, and every reason but two:
# - "it makes room for another": the queue stops work of low priority only where the nodes lack room for somebody who is
#   within quota: nobody's quota is so large here, and two people's trainings would have to hold all GPUs at that moment,
#   which other tests ask for. What reaches the program is the deletion of its pod, as for all others here.
# - "its volume is gone": volumes of the embedded cluster and of the lab's are folders of the node, which no pod can lose;
#   the runner is tried with a volume that is away in tests/jobs/pod.
LEFT_OUT = {"it makes room for another", "its volume is gone"}
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
        "another replica has a new address", "tf-ps", SERVED, "worker-0", more={"addresses": "ip"}
    ),
    Ending("its namespace is suspended", "single", {"worker": EACH}, "worker-0", owner="lin"),
    Ending(
        "it is stopped",
        "tf-ingraph",
        {"master": EACH, "worker": {"cpu": "200m", "memory": "1Gi"}},
        "master-0",
        more={"image": TENSORFLOW},
    ),
)


assert {case.reason for case in CASES} == REASONS.keys() - LEFT_OUT


def check_that_each_has_saved(portal: Portal, ada: Rest) -> None:
    """Each reason once, each topology once: what the program prints and writes when it is asked is there.

    Nothing else of lin's may run, whose namespace is suspended meanwhile.
    """
    people = {"ada": ada, "lin": portal.sign_in("lin")}
    people["lin"].tenant()
    for number, case in enumerate(CASES):
        case.job = people[case.owner].submit(
            name=f"ends-{case.topology}-{number}",
            topology=case.topology,
            replicas=case.replicas,
            command=case.command,
            env={"SAVE": SAVE},
            **case.more,
        )
    for case in CASES:
        wait_for(
            f"{case.reason}: {case.topology} is ready",
            partial(_says, people[case.owner], case, "ready\n"),
            timeout_s=PULL_S,
        )
        _end(portal, people[case.owner], case)
    for case in CASES:
        if case.reason != "it is deleted":
            text = f"{case.reason}: {case.topology} has saved"
            wait_for(text, partial(_says, people[case.owner], case, "\nsaved\n"), timeout_s=RUN_S)
    _change_namespace(portal, people["lin"], "resume")
    found = {owner: _saved(person) for owner, person in people.items()}
    for number, case in enumerate(CASES):
        mark = f"/saved-{case.who.replace('-', '')}"
        name, seen = f"ends-{case.topology}-{number}-", found[case.owner]
        assert any(one.startswith(name) and one.endswith(mark) for one in seen), (case, seen)
        if case.reason != "it is deleted":
            people[case.owner].call("DELETE", case.path)


def _says(owner: Rest, case: Ending, words: str) -> bool:
    return words in read_log(owner, case.log)


def _saved(person: Rest) -> list[str]:
    """The files of that name on somebody's log volume."""
    looks = person.submit(name="looks", command=["sh", "-c", "cd /log/jobs; ls -d */saved-*"])
    person.wait(looks, "succeeded", timeout_s=RUN_S)
    return read_log(person, f"jobs/{looks['id']}/logs/?download=1").split()


def _change_namespace(portal: Portal, person: Rest, verb: str) -> None:
    tenant = person.get("me/")["tenant"]
    answer = portal.sign_in("root").call("POST", f"tenants/{tenant['id']}/{verb}/", json={})
    assert answer.ok, answer.text


def _end(portal: Portal, owner: Rest, case: Ending) -> None:
    """Gives the reason; of some the training itself, or the clock, sees to it."""
    if case.reason == "it is stopped":
        assert owner.call("POST", f"{case.path}stop/").ok
    elif case.reason == "it is suspended":
        assert owner.call("POST", f"{case.path}suspend/").ok
    elif case.reason == "it is deleted":
        assert owner.call("DELETE", case.path).ok
    elif case.reason == "its namespace is suspended":
        _change_namespace(portal, owner, "suspend")
    elif case.reason in TAKEN:
        [pod] = [
            one["pod"]
            for one in owner.get(case.path)["replicas"]
            if f"{one['role']}-{one['index']}" == TAKEN[case.reason]
        ]
        namespace = owner.tenant()["namespace"]
        kubectl(portal, "-n", namespace, "delete", "pod", pod, "--wait=false")
