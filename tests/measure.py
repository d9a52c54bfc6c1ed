"""Measures a whole Homeport on this machine: `python -m tests.measure`, two to three minutes.

`python -m tests.measure pages` measures every page of a large installation (tests/scale), and
`python -m tests.measure migrations` how long those to one table take (tests/upgrade).
Prints a table. Nothing here passes or fails; docs/performance.md says what the figures should be.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from websockets.sync.client import ClientConnection, connect

from onebox.testing.kube import Kube, Space
from onebox.testing.measure import PODS, burst, pod_to_running
from onebox.testing.processes import descendants
from tests.bench.processes import cpu_s
from tests.e2e.portal import ROOT, Portal, Rest
from tests.e2e.viewers import Counting
from tests.scale import measure as scale
from tests.tools.waiting import wait_for
from tests.upgrade import measure as upgrade

IDLE_S = 30.0
JOBS = 200
ROUNDS = 30
TEE_S = 4.0
SPEAK = "import time; print('000000000000 at %.6f' % time.time(), flush=True); time.sleep(1)"
FLOOD = (
    "import os, time\n"
    "block, until, count = (b'abcdefghi ' * 10)[:-1] + b'\\n', time.time() + {seconds}, 0\n"
    "block *= 1000\n"
    "while time.time() < until:\n"
    "    count += os.write(1, block)\n"
)


def report(what: str, figure: str) -> None:
    """One row of the table."""
    sys.stdout.write(f"| {what} | {figure} |\n")
    sys.stdout.flush()


def median_ms(times_s: list[float]) -> str:
    """The median and the slowest tenth."""
    slow = sorted(times_s)[int(len(times_s) * 0.9)]
    return f"{statistics.median(times_s) * 1000:.0f} ms (9 of 10 below {slow * 1000:.0f})"


@contextmanager
def live_socket(rest: Rest) -> Iterator[ClientConnection]:
    """The websocket that every open page holds."""
    url = f"ws://localhost:{rest.portal.port}/ws/live/"
    headers = {"Authorization": f"Token {rest.token}"}
    with connect(url, additional_headers=headers, compression=None) as connection:
        yield connection


def children_of(portal: Portal, needle: str) -> list[int]:
    """Process ids of a part of the installation, with all below it."""
    assert portal.process is not None
    found = []
    for pid in descendants(portal.process.pid):
        line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        if needle in line:
            found += [pid, *descendants(pid)]
    return sorted(set(found))


def cpu_seconds(pids: list[int]) -> float:
    """CPU time of processes and all threads that they ever had."""
    return sum(map(cpu_s, pids))


def idle_cpu(portal: Portal, rest: Rest) -> None:
    """Share of one core while one page is open and nothing happens."""
    parts = {
        "portal": children_of(portal, "manage.py serve"),
        "onebox": children_of(portal, "-m onebox --home"),
    }
    with live_socket(rest):
        time.sleep(5)
        before = {part: cpu_seconds(pids) for part, pids in parts.items()}
        time.sleep(IDLE_S)
        used = {part: cpu_seconds(pids) - before[part] for part, pids in parts.items()}
    shares = {part: f"{part} {seconds / IDLE_S * 100:.2f}" for part, seconds in used.items()}
    total = sum(used.values()) / IDLE_S * 100
    report("idle CPU, one page open", f"{total:.2f} % of a core ({', '.join(shares.values())})")


def pods(portal: Portal) -> None:
    """Pods of the cluster alone, without the portal."""
    space = Space(Kube(portal.kubeconfig), "measure")
    report("pod created to Running", median_ms(pod_to_running(space)))
    created_s, running_s = burst(space)
    report(f"{PODS} pods Running", f"{running_s:.2f} s (created in {created_s:.2f} s)")
    space.kube.delete(f"/api/v1/namespaces/{space.name}")
    space.kube.wait_gone(f"/api/v1/namespaces/{space.name}", timeout_s=60)


def first_lines(rest: Rest, rounds: int = 8) -> None:
    """From the request that submits a training to its first line at a viewer."""
    to_line, to_printed = [], []
    for number in range(rounds):
        began_s = time.time()
        job = rest.submit(name=f"speaks {number}", command=["python", "-c", SPEAK])
        viewer = Counting(rest, job)
        viewer.start()
        wait_for("a line", lambda viewer=viewer: viewer.delays_s, interval_s=0.002)
        to_line.append(time.time() - began_s)
        to_printed.append(to_line[-1] - viewer.delays_s[0])
        viewer.stop()
        rest.wait(job, "succeeded")
    report("submitted to first line at a viewer", median_ms(to_line))
    report("of it until the program printed it", median_ms(to_printed))


def fill(tenant_id: str) -> None:
    """Rows of finished trainings, in the database that the environment names."""
    import django

    django.setup()
    from datetime import timedelta

    from django.utils.timezone import now

    from tenants.models import Tenant
    from tests.e2e.seed import make_job, replica

    tenant = Tenant.objects.get(pk=tenant_id)
    for number in range(JOBS):
        ended = now() - timedelta(hours=number + 1)
        job = make_job(
            tenant,
            name=f"sweep {number}",
            state="succeeded",
            queued_at=ended - timedelta(minutes=42),
            admitted_at=ended - timedelta(minutes=41),
            started_at=ended - timedelta(minutes=40),
            finished_at=ended,
            cleaned_at=ended,
        )
        replica(job, state="succeeded", exit_code=0, started_at=job.started_at, finished_at=ended)


def pages(portal: Portal, rest: Rest) -> None:
    """Pages of somebody with many trainings."""
    command = [sys.executable, "-m", "tests.measure", "fill", rest.tenant()["id"]]
    environment = {
        **os.environ,
        "HOMEPORT_HOME": str(portal.home),
        "DJANGO_SETTINGS_MODULE": "portal.settings",
    }
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    job = rest.get("jobs/?name=sweep 7")["results"][0]
    server = children_of(portal, "manage.py serve")
    session = portal.session("ada")
    for what, path in (
        ("home", "/"),
        ("list of trainings", "/trainings/"),
        ("a training", f"/trainings/{job['id']}/"),
        ("list as JSON", "/api/v1/jobs/"),
    ):
        session.get(portal.url + path, timeout=30).raise_for_status()
        times, before = [], cpu_seconds(server)
        for _ in range(ROUNDS):
            began_s = time.monotonic()
            session.get(portal.url + path, timeout=30).raise_for_status()
            times.append(time.monotonic() - began_s)
        cpu_ms = (cpu_seconds(server) - before) / ROUNDS * 1000
        report(f"{what}, {JOBS} trainings", f"{median_ms(times)}, {cpu_ms:.0f} ms of CPU")


def tee() -> None:
    """What the runner takes from a program, into segments and (in part) to stdout."""
    from tests.jobs.pod.pods import FakeDoor, Pod

    door = FakeDoor()
    with tempfile.TemporaryDirectory(prefix="homeport-measure-") as folder:
        pod = Pod(Path(folder), door)
        try:
            pod.config["limits"]["log_archive_bytes"] = 64 * 1024**2
            pod.python(FLOOD.format(seconds=TEE_S) + "os.write(1, b'%d bytes\\n' % count)\n")
            _code, output = pod.run()
            written = int(output.splitlines()[-1].split()[0])
            report("runner, from a program", f"{written / TEE_S / 1e6:.0f} MB/s")
            report("of it to stdout", f"{len(output) / TEE_S / 1e6:.0f} MB/s")
        finally:
            pod.close()
            door.close()


def whole(portal: Portal) -> None:
    """Everything that needs an installation."""
    report("first start, new home, to a page", f"{portal.start():.1f} s")
    rest = portal.sign_in("ada")
    rest.tenant()
    # The image is fetched once; that is not measured.
    rest.wait(rest.submit(name="image", command=["true"]), "succeeded", timeout_s=300)
    idle_cpu(portal, rest)
    first_lines(rest)
    pods(portal)
    pages(portal, rest)
    began_s = time.monotonic()
    portal.stop()
    report("stop", f"{time.monotonic() - began_s:.1f} s")
    report("second start", f"{portal.start():.1f} s")
    portal.stop()


def main() -> None:
    """Measure and print."""
    sys.stdout.write("| what | measured |\n|---|---|\n")
    tee()
    folder = Path(tempfile.mkdtemp(prefix="homeport-measure-"))
    folder.chmod(0o755)
    portal = Portal(folder / "home")
    try:
        whole(portal)
    finally:
        portal.kill_everything()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["fill"]:
        fill(sys.argv[2])
    elif sys.argv[1:2] == ["pages"]:
        scale.main(*sys.argv[2:3])
    elif sys.argv[1:2] == ["migrations"]:
        upgrade.main(*sys.argv[2:3])
    else:
        main()
