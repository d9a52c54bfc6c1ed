"""Faults of a real control plane, of the wire and of our own process: everything converges, nothing is
lost or made twice, and volumes stay as they are.

Nodes are played by KWOK, so pods run and nothing is executed. `HOMEPORT_KILLS` says how often the
reconciler is killed (200 is the full run).
"""

import contextlib
import json
import os
import signal
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace

import pytest

from deploy.cluster import rights
from deploy.testcluster import binaries
from deploy.testcluster.controlplane import Options
from deploy.testcluster.kwok import MANAGER_FLAGS
from tests.upstream.journal import POD_RULES
from tests.upstream.lab import Lab, opened, spread
from tests.upstream.power import need_built

pytestmark = [pytest.mark.upstream, pytest.mark.usefixtures("untouched", "undoubled")]

WITHIN_S = float(os.environ.get("HOMEPORT_WITHIN_S", "30"))  # more on a machine that is busy
# Upstream's own processes (controller manager, scheduler, KWOK) try again after up to 30 s and as much
# again at random, and may have to try twice: `defaultBackoffMax`, `defaultBackoffJitter` in
# client-go's tools/cache/reflector.go.
PODS_S = 90
KILLS = int(os.environ.get("HOMEPORT_KILLS", "40"))
JOBS = 50
WATCHES = 14  # of one reconciler
APISERVER = "kube-apiserver"
RECONCILER = f"system:serviceaccount:{rights.NAMESPACE}:reconciler"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    need_built(binaries.KUBERNETES, binaries.ETCD, binaries.KWOK)
    flags = {"kube-controller-manager": MANAGER_FLAGS}
    options = Options(compaction_s=0, is_audited=True, audit_rules=POD_RULES, flags=flags)
    with opened("faults", options) as made:
        yield made


@pytest.fixture
def untouched(lab: Lab) -> Iterator[None]:
    """The volumes are the same ones afterwards."""
    before = lab.claims()
    assert sorted(before) == ["data", "log"]
    yield
    assert lab.claims() == before


@pytest.fixture
def undoubled(lab: Lab) -> Iterator[None]:
    """Nothing of ours was made twice, not even for a moment."""
    since = len(lab.journal)
    yield
    made = lab.journal.made(RECONCILER, lab.namespace, since)
    told = {what.partition("/")[0].partition(" of ")[0] for what in made}
    assert told >= {"pod", "jobs", "deployments", "services", "secrets", "configmaps"}
    # What a pod that saves a log mounts is made once more where it went with the root.
    saved = {what.split("/")[1].partition("-rescue-")[0] for what in made if "-rescue-" in what}
    mounted = {f"{kind}/{name}" for kind in ("configmaps", "secrets") for name in saved}
    assert not {what: often for what, often in made.items() if often > 1 + (what in mounted)}


def converges(lab: Lab, ids: list[str], within_s: float = WITHIN_S) -> None:
    """Our part within the promise; that pods run is then for the cluster's own controllers."""
    made_s = lab.wait("all are made, each once", lambda: lab.are_made(ids), within_s)
    run_s = lab.wait("all run, each once", lambda: lab.all_run(ids), PODS_S)
    print(f"made after {made_s:.1f} s, running {run_s:.1f} s later")


def test_an_api_server_that_was_away(lab: Lab) -> None:
    with lab.reconciler():
        first = lab.submit("away", 4)
        lab.wait("some are made", lambda: lab.owned().keys() & set(first), 60)
        lab.plane.stop(APISERVER)
        second = lab.submit("away", 8)
        time.sleep(20)
        lab.plane.start(APISERVER)
        lab.plane.wait_until_ready()
        converges(lab, second)
        lab.clear(second)


def test_an_etcd_that_stands_still(lab: Lab) -> None:
    with lab.reconciler():
        lab.submit("paused", 2)
        lab.plane.pause("etcd")
        ids = lab.submit("paused", 6)
        time.sleep(20)  # longer than a call waits
        lab.plane.resume("etcd")
        converges(lab, ids)
        lab.clear(ids)


def test_an_api_server_that_has_no_time(lab: Lab) -> None:
    """429 to most calls: it takes one request at a time, and administrators, whom it refuses
    nothing, ask all the time.
    """
    few = ("--enable-priority-and-fairness=false", "--max-requests-inflight=1")
    before = lab.plane.options
    flags = {**before.flags, APISERVER: (*few, "--max-mutating-requests-inflight=1")}
    _restart_apiserver(lab, replace(before, flags=flags))
    try:
        is_over = threading.Event()
        crowd = [threading.Thread(target=_ask_until, args=(lab, is_over)) for _ in range(6)]
        since = len(lab.journal)
        with lab.reconciler():
            for one in crowd:
                one.start()
            try:
                ids = lab.submit("busy", 5)
                time.sleep(15)
            finally:
                is_over.set()
                for one in crowd:
                    one.join()
            refused = lab.journal.answered(RECONCILER, 429, since)
            print(f"told to come later: {dict(refused)}")
            assert refused.keys() & {"create", "patch"}, "it was never told to come later"
            converges(lab, ids)
            _restart_apiserver(lab, before)
            lab.clear(ids)
    finally:
        if lab.plane.options is not before:
            _restart_apiserver(lab, before)


def _restart_apiserver(lab: Lab, options: Options) -> None:
    lab.plane.stop(APISERVER)
    lab.plane.options = options
    del lab.plane.children[APISERVER]
    lab.plane.start(APISERVER)
    lab.plane.wait_until_ready()


def _ask_until(lab: Lab, is_over: threading.Event) -> None:
    while not is_over.is_set():
        with contextlib.suppress(Exception):
            lab.kube.send("GET", "/api/v1/pods")
            lab.kube.send(
                "PATCH", "/api/v1/namespaces/default", {}, kind="application/merge-patch+json"
            )


def test_watches_that_are_cut_again_and_again(lab: Lab) -> None:
    with lab.reconciler():
        ids = lab.submit("cut", 6)
        for _ in range(10):
            lab.wire.cut()
            time.sleep(1)
        converges(lab, ids)
        lab.clear(ids)


def test_watches_that_stall_without_a_word(lab: Lab) -> None:
    with lab.reconciler():
        lab.wait("its watches are open", lambda: lab.wire.open_count() >= WATCHES, 60)
        time.sleep(5)  # until each has been listed and watches
        before = lab.watches("connects")
        stalled = lab.wire.stall()
        assert len([line for line in stalled if not line.is_over]) >= WATCHES
        ids = lab.submit("stalled", 3)
        took_s = lab.wait(
            "each watch has a new line",
            lambda: all(count > before[kind] for kind, count in lab.watches("connects").items()),
            WITHIN_S,
        )
        print(f"the last watch went on after {took_s:.1f} s")
        converges(lab, ids, WITHIN_S - took_s + 1)
        lab.clear(ids)


def test_a_watch_whose_past_was_compacted_away(lab: Lab) -> None:
    """While nobody hears it, things change, the past is forgotten, and the server starts anew."""
    with lab.reconciler():
        ids = lab.submit("compacted", 4)
        converges(lab, ids, 90)
        listed = lab.watches("lists")["Job"]
        lab.wire.is_refusing = True
        lab.wire.cut()
        victim = next(
            j for j in lab.objects("Job") if j["metadata"]["labels"]["homeport.dev/owner"] == ids[0]
        )
        path = f"/apis/batch/v1/namespaces/{lab.namespace}/jobs/{victim['metadata']['name']}"
        lab.kube.must("DELETE", f"{path}?propagationPolicy=Background")
        for number in range(200):
            _noise(lab, number)
        _compact(lab)
        lab.plane.stop(APISERVER)
        lab.plane.start(APISERVER)
        lab.plane.wait_until_ready()
        lab.wire.is_refusing = False
        lab.wait("the loss is seen", lambda: lab.states(ids[:1]) == {"failed": 1}, WITHIN_S)
        converges(lab, ids[1:])
        lab.wait("it listed anew", lambda: lab.watches("lists")["Job"] > listed, WITHIN_S)
        lab.clear(ids)


def _noise(lab: Lab, number: int) -> None:
    patch = {"metadata": {"annotations": {"noise": str(number)}}}
    lab.kube.must("PATCH", "/api/v1/namespaces/default", patch, kind="application/merge-patch+json")


def _compact(lab: Lab) -> None:
    def ask(path: str, body: dict[str, object]) -> dict[str, dict[str, str]]:
        request = urllib.request.Request(
            f"{lab.plane.etcd_endpoint}{path}", json.dumps(body).encode()
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            found: dict[str, dict[str, str]] = json.loads(answer.read())
            return found

    revision = ask("/v3/kv/range", {"key": "AA=="})["header"]["revision"]
    ask("/v3/kv/compaction", {"revision": revision, "physical": True})


def test_two_reconcilers_at_once_without_a_lease(lab: Lab) -> None:
    with lab.reconciler("--no-lease"), lab.reconciler("--no-lease"):
        lab.wait("both watch", lambda: lab.wire.open_count() >= 2 * WATCHES, 120)
        ids = lab.submit("twins", 12)
        converges(lab, ids)
        lab.intend(ids[:4], "stop")
        lab.wait("those stop", lambda: lab.states(ids[:4]) == {"stopped": 4}, WITHIN_S)
        assert lab.are_whole(ids[4:])
        assert lab.states(ids[4:]) == {"running": 8}
        lab.clear(ids)


@pytest.mark.parametrize("hours", [1, -1, 24, -24])
def test_a_wall_clock_that_jumps(lab: Lab, hours: int) -> None:
    clock = lab.home / "clock"
    clock.write_text("0")
    with lab.reconciler("--clock", str(clock)):
        ids = lab.submit("clock", 4)
        lab.wait("some are made", lambda: lab.owned().keys() & set(ids), 60)
        clock.write_text(str(hours * 3600))
        more = lab.submit("clock", 2)
        converges(lab, more, WITHIN_S)
        # Nothing is old or late now: nothing is removed, given back or started anew.
        time.sleep(15)
        assert lab.all_run(more), lab.tell()
        lab.clear(more)


def test_a_reconciler_that_is_killed_again_and_again(lab: Lab) -> None:
    chance = spread(4)
    ids = lab.submit("killed", JOBS)
    plan = {KILLS // 2: (ids[:15], "stop"), KILLS * 3 // 4: (ids[15:25], "delete")}
    with lab.many() as start:
        for number in range(KILLS):
            if number in plan:
                lab.intend(*plan[number])
            epoch = lab.epoch()
            process = start()
            lab.wait("it has the lease", lambda epoch=epoch: lab.epoch() > epoch, 60)
            time.sleep(chance.uniform(0, 2.5))
            os.kill(process, signal.SIGKILL)
    stopped, deleted, running = ids[:15], ids[15:25], ids[25:]

    def unlike() -> list[str]:
        """What is not as people want it."""
        looks = {
            "not all wanted ones are made": not lab.are_made(running),
            "not all stopped ones say so": lab.states(stopped) != {"stopped": len(stopped)},
            "stopped ones have replicas": lab.replicas_of(stopped),
            "deleted ones are there": not lab.are_gone(deleted),
        }
        return [f"{text}: {found}" for text, found in looks.items() if found]

    with lab.reconciler():
        took_s = lab.wait("all is as people want it", lambda: not unlike(), WITHIN_S, unlike)
        print(f"{KILLS} kills, {JOBS} trainings: as wanted {took_s:.1f} s after the last start")
        lab.wait("those that are wanted run", lambda: lab.all_run(running), PODS_S)
        assert sorted(lab.ids("killed")) == sorted(stopped + running)
        lab.clear(stopped + running)
