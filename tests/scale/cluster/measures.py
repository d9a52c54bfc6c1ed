"""What is measured of a lab that has been filled; each function adds rows to the table."""

import json
import math
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import requests

from portal.cluster.listwatch import NORMAL_TIMING
from tests.bench.processes import cpu_s, rss_bytes
from tests.e2e.portal import ROOT
from tests.scale.cluster.events import Churn, Restarts, page, running_pods, samples
from tests.scale.cluster.kube import most_at_once
from tests.scale.cluster.lab import RECONCILER, WEB, Lab, body
from tests.scale.cluster.pages import visits
from tests.scale.cluster.processes import connections_to
from tests.tools.kubectls import current_kubectl
from tests.tools.waiting import wait_for

Add = Callable[[str, Any], None]
MIB = 2**20
_AUDIT_S = 3.0  # the audit log is written in batches
_QUIET_S = 10.0
_MOST_SERIES, _MOST_SCRAPE_MS = 600, 50
_PROGRAMS = ("etcd", "kube-apiserver")


def _port(lab: Lab) -> int:
    return int(lab.cluster.server.rpartition(":")[2])


def _ada() -> str:
    from tenants.models import Tenant

    namespace: str = Tenant.objects.get(owner__username="ada").namespace
    return namespace


def health() -> dict[str, Any]:
    """What the reconciler said of itself last."""
    from jobs.models import ReconcilerLease

    found: dict[str, Any] = ReconcilerLease.objects.get(pk=1).health
    return found


# --- calls ---
def calls(lab: Lab, add: Add, workers: int) -> None:
    """Calls of the API for pages and for submits, by the audit log and by the relay."""
    time.sleep(_AUDIT_S)
    lab.audit.mark()
    opened = sum(1 for _ in visits(lab, 1))
    time.sleep(_AUDIT_S)
    asked = lab.audit.calls(WEB)
    add("pages opened", opened)
    add("calls of the API by pages, audit log", len(asked))
    add("connections of the web server to the API, relay", lab.relay.connections)
    for servers in (1, 3):
        add(
            f"calls for a submit of {workers} workers and {servers} PS",
            submit(lab, workers, servers),
        )
    add("connections of the reconciler to the API", connections_to(lab.pid(RECONCILER), _port(lab)))


def stop_reconciler(lab: Lab, add: Add) -> None:
    """Ends it; the audit log tells of watches when they end."""
    lab.audit.mark()
    time.sleep(NORMAL_TIMING.silence_s)  # each ends once
    lab.stop(RECONCILER)
    time.sleep(_AUDIT_S)
    watches = [call for call in lab.audit.calls(RECONCILER) if call.verb == "watch"]
    kinds = sorted({call.kind for call in watches})
    found = {kind: most_at_once([call for call in watches if call.kind == kind]) for kind in kinds}
    add("watches of the reconciler, most at once", found)


def submit(lab: Lab, workers: int, servers: int) -> dict[str, int]:
    """The reconciler's calls from a submit until the training runs; `all` of them together."""
    rest = lab.rest_of("ada")
    lab.audit.mark()
    job = rest.submit(**body(f"counted {servers}", workers, servers))
    lab.wait_state(job["id"], "running")
    time.sleep(_AUDIT_S)
    found: Counter[str] = Counter(
        f"{call.verb} {call.kind}"
        for call in lab.audit.calls(RECONCILER)
        if call.name.startswith(f"counted-{servers}-")
    )
    # Not stopped: the pods that rescue the logs of pods that only seem to run would never end.
    assert rest.call("DELETE", f"jobs/{job['id']}/").ok
    return {"all": found.total(), **found}


# --- figures ---
def memory(lab: Lab, add: Add, pods: int) -> None:
    """Resident memory of the processes."""
    for role in (RECONCILER, WEB):
        add(f"{role} with {pods} pods, MiB", rss_bytes(lab.pid(role)) / MIB)


def scrapes(lab: Lab, add: Add) -> None:
    """What a scrape by Prometheus brings and how long it takes, the best of five."""
    for role, port in lab.metrics_ports.items():
        times_ms = []
        for _ in range(5):
            began_s = time.monotonic()
            answer = requests.get(f"http://127.0.0.1:{port}/metrics", timeout=60)
            times_ms.append((time.monotonic() - began_s) * 1000)
            answer.raise_for_status()
        series = sum(not line.startswith("#") for line in answer.text.splitlines())
        add(f"scrape of {role}: series, at most {_MOST_SERIES}", series)
        assert series <= _MOST_SERIES, f"{series} series at the {role}"
        add(f"scrape of {role}: ms, at most {_MOST_SCRAPE_MS}", min(times_ms))


def _pids(lab: Lab) -> dict[str, int]:
    found = {role: lab.pid(role) for role in (RECONCILER, WEB)}
    for name in _PROGRAMS:
        process = lab.cluster.children[name].process
        assert process is not None
        found[name] = process.pid
    return found


def _shares(pids: dict[str, int], before: dict[str, float], took_s: float) -> dict[str, str]:
    return {
        name: f"{(cpu_s(pid) - before[name]) / took_s * 100:.1f} %" for name, pid in pids.items()
    }


def _settle(lab: Lab) -> None:
    """Wait until the reconciler does nothing but watch, for a while."""

    def is_settled() -> bool:
        lab.audit.mark()
        time.sleep(_QUIET_S)
        return all(call.verb == "watch" for call in lab.audit.calls(RECONCILER))

    wait_for("the reconciler has nothing to do", is_settled, timeout_s=600)


def steady(lab: Lab, add: Add, watch_s: float) -> None:
    """Processor time while nothing happens but nodes' reports."""
    _settle(lab)
    pids = _pids(lab)
    before, began_s = {name: cpu_s(pid) for name, pid in pids.items()}, time.monotonic()
    time.sleep(watch_s)
    add("CPU while nothing happens", _shares(pids, before, time.monotonic() - began_s))


def events(lab: Lab, add: Add, restarts: Restarts, count: int) -> None:
    """From a pod's change to the page and to kubectl."""
    found = samples(lab, restarts, _ada(), count)
    add("pod changed to the page's frame, ms", [sample.page_s * 1000 for sample in found])
    add("pod changed to `kubectl get -w`, ms", [sample.kubectl_s * 1000 for sample in found])


def churn(lab: Lab, add: Add, restarts: Restarts, watch_s: float) -> None:
    """Lag and processor time while pods change all the time."""
    for rate_per_s in (20, 200):
        turning = Churn(lab, restarts, rate_per_s)
        pids = _pids(lab)
        with page(lab) as seen, turning.going():
            time.sleep(5)
            before = {name: cpu_s(pid) for name, pid in pids.items()}
            first, began_s = len(turning.made), time.monotonic()
            time.sleep(watch_s)
            took_s, last = time.monotonic() - began_s, len(turning.made)
            shares = _shares(pids, before, took_s)
            time.sleep(5)  # what was changed last is heard of meanwhile
        made = turning.made[first:last]
        heard_ms = [(seen.first_after(job, at_s) - at_s) * 1000 for job, at_s in made]
        title = f"{rate_per_s} changes/s asked"
        add(f"{title}: made, per s", len(made) / took_s)
        add(f"{title}: pod changed to the page's frame, ms", heard_ms)
        add(f"{title}: CPU", shares)
        add(f"{title}: at the page", {"frames": seen.frames, "closed": seen.lost})
        add(f"{title}: slowest of a minute, s", health()["ticks"])


def pages_of(lab: Lab, add: Add, rounds: int) -> None:
    """Times of pages."""
    for visit in visits(lab, rounds):
        figures = f"{visit.median_ms:.0f} ms (worst {visit.worst_ms:.0f}), CPU {visit.cpu_ms:.0f}"
        add(f"page of {visit.person}: {visit.title}", f"{figures}, {visit.size_bytes // 1024} KiB")


def peers(lab: Lab, add: Add, pods: int) -> None:
    """Others that read all pods, one after the other."""
    config = str(lab.cluster.kubeconfig)
    for kind in ("ours", "informer"):
        command = [sys.executable, "-m", "tests.bench.cache_side", kind, config, "0"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        told = json.loads(done.stdout.splitlines()[0])
        assert told["objects"] >= pods, told
        add(f"all pods, {kind}", {"s": told["seconds"], "CPU s": told["cpu_s"]})
        add(f"all pods, {kind}: KiB per pod", told["bytes"] / told["objects"] / 1024)
    command = [current_kubectl(), f"--kubeconfig={config}", "get", "pods", "-A"]
    for more in ([], ["-o", "json"]):
        began_s = time.monotonic()
        process = subprocess.Popen([*command, *more], stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        assert status == 0
        process.returncode = 0
        title = " ".join(["kubectl get pods -A", *more])
        took_s, used_s = time.monotonic() - began_s, used.ru_utime + used.ru_stime
        add(title, {"s": took_s, "CPU s": used_s})
        add(f"{title}: most memory, MiB", used.ru_maxrss / 1024)


def restarts_of(lab: Lab, add: Add, restarts: Restarts) -> None:
    """From the start of the reconciler, and of the API server, until a page follows again."""
    pod = running_pods()[0]  # the page is an admin's

    def until_heard(began_s: float) -> float:
        def is_heard() -> bool:
            return seen.first_after(pod.job_id, began_s) < math.inf

        wait_for("the page hears of it", is_heard, timeout_s=300, interval_s=0.02)
        return time.monotonic() - began_s

    with page(lab) as seen:
        stop_reconciler(lab, add)
        restarts.next(pod)
        lab.audit.mark()
        began_s = time.monotonic()
        lab.start(RECONCILER)
        add("reconciler started until the page follows, s", until_heard(began_s))
        time.sleep(15)
        add("its CPU by then, s", cpu_s(lab.pid(RECONCILER)))
        add("its memory, MiB", rss_bytes(lab.pid(RECONCILER)) / MIB)
        add("its calls", dict(lab.audit.counted(RECONCILER)))
        lab.cluster.stop("kube-apiserver")
        time.sleep(5)
        before, began_s = cpu_s(lab.pid(RECONCILER)), time.monotonic()
        lab.cluster.start("kube-apiserver")
        lab.cluster.wait_until_ready()
        add("API server started until it is ready, s", time.monotonic() - began_s)
        lab.audit.mark()
        restarts.next(pod)
        add("... until the page follows, s", until_heard(began_s))
        time.sleep(15)
        add("reconciler's CPU for it, s", cpu_s(lab.pid(RECONCILER)) - before)
        add("its calls for it", dict(lab.audit.counted(RECONCILER)))
