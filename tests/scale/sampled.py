"""What it costs the web server to be told by 1,000 pods what they use: `python -m tests.scale.sampled [PODS]`.

A web server alone (PostgreSQL, Redis, no cluster) and one client that speaks for all pods, each at the pace
that the answers set, each time by a new connection as runners do. Prints processor time; three minutes.
"""

import http.client
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.processes import cpu_s, rss_bytes, running
from tests.scale.measure import database, say
from tests.tools import servers

IDLE_S = 30.0
MEASURED_S = 120.0
COUNTED_S = 31.0  # the server counts its pods so often
WORKERS = 50
USED = {
    "cpu_m": [812, 1734],
    "memory_mib": [2011, 2544],
    "throttled_percent": [1, 4],
    "gpu0.percent": [63, 99],
    "gpu0.memory_mib": [30112, 31007],
}


def _tell(port: int, path: str, token: str, at: int, count: int) -> float:
    """Posts the minutes since `at`; seconds until the next time."""
    minutes = [{"at": at + 60 * number, "used": USED} for number in range(count)]
    body = json.dumps({"method": "cgroup2", "minutes": minutes, "totals": {"data_mib": 10240}})
    door = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    door.request("POST", path, body, headers)
    answer = door.getresponse()
    said = answer.read()
    door.close()
    assert answer.status == 200, said[:300]
    return float(json.loads(said)["next_s"])


def measure(pods: list[tuple[str, str]], port: int, pid: int) -> None:
    """Prints the figures of a server that runs."""
    began, used = time.monotonic(), cpu_s(pid)
    time.sleep(IDLE_S)
    idle = (cpu_s(pid) - used) / (time.monotonic() - began)
    # The hour before is told from its beginning, so that no minute is of the future.
    told = [int(time.time()) // 60 * 60 - 3600] * len(pods)
    for pod, (path, token) in enumerate(pods):  # the pace is that of those who have told
        _tell(port, path, token, told[pod], 1)
    time.sleep(COUNTED_S)
    pace_s, took, number = _tell(port, *pods[0], told[0] + 60, 1), [], 1
    told = [at + 60 for at in told]
    told[0] += 60
    began, used = time.monotonic(), cpu_s(pid)
    while (passed := time.monotonic() - began) < MEASURED_S:
        time.sleep(max(0.0, number * pace_s / len(pods) - passed))
        pod = number % len(pods)
        count = max(1, round(pace_s / 60))
        at = time.perf_counter()
        pace_s = _tell(port, *pods[pod], told[pod], count)
        took.append(time.perf_counter() - at)
        told[pod] += 60 * count
        number += 1
    passed = time.monotonic() - began
    busy = (cpu_s(pid) - used) / passed
    say(f"pods: {len(pods)}, each asked to come every {pace_s:.0f} s")
    say(f"posts: {number} in {passed:.0f} s, {number / passed:.1f} a second")
    say(
        f"an answer: median {statistics.median(took) * 1000:.1f} ms, slowest {max(took) * 1000:.0f}"
    )
    say(f"web: {busy:.1%} of a core, {idle:.1%} without them, so {busy - idle:.1%} for them")
    say(f"memory of web: {rss_bytes(pid) / 2**20:.0f} MiB")


def main(count: int) -> None:
    """Makes trainings, starts the server, measures."""
    with tempfile.TemporaryDirectory(prefix="homeport-sampled-") as made:
        folder = Path(made)
        folder.chmod(0o755)  # PostgreSQL runs as another user
        with servers.redis(folder / "redis") as redis, database("postgresql", folder):
            from jobs.kinds.training.tokens import job_token
            from tests.factories import make_job, make_tenant

            tenant, pods = make_tenant("ada"), []
            for _ in range(count // WORKERS):
                asked = {"count": WORKERS, "cpu_millicores": 1000, "memory_bytes": 2**32}
                job = make_job(
                    tenant,
                    state="running",
                    attempt=1,
                    replicas={"worker": {**asked, "gpu_count": 1}},
                )
                at = f"/internal/v1/jobs/{job.pk}/replicas/worker/"
                pods += [(f"{at}{index}/1/usage/", job_token(job.pk)) for index in range(WORKERS)]
            port, pod_port = servers.free_port(), servers.free_port()
            settings = {"PORT": str(port), "POD_PORT": str(pod_port), "REDIS_URL": redis}
            settings["POD_PORTAL_URL"] = f"http://127.0.0.1:{pod_port}"
            serve = ["manage.py", "serve", "--no-reconciler"]
            where = os.environ | settings
            log = folder / "web.log"
            with running(serve, log, lambda: servers.answers(pod_port), where) as pid:
                measure(pods, pod_port, pid)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
