"""A training that writes as fast as it can: memory stays bounded, lines that are not shown are
counted, what is kept stays under its limit, and nobody else notices.

FLOOD_S=60 makes it a full minute, in which a viewer that does not read is thrown out, too.
"""

import contextlib
import json
import os
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from onebox.testing.processes import command_line
from tests.bench.processes import slowness
from tests.e2e.portal import Portal, Rest, kubectl, new_home, thrown_away
from tests.e2e.viewers import Counting, Stuck
from tests.tools.waiting import wait_for

pytestmark = pytest.mark.e2e

FLOOD_S = float(os.environ.get("FLOOD_S", "15"))
MIB = 1024**2
KEPT_BYTES = 64 * MIB
LINE_BYTES = 100
SEGMENT_BYTES = 4 * MIB
STUCK_S = 60  # as in jobs.logs.viewer
CLOSE_1013 = b"\x88\x02\x03\xf5"
# Numbering a block costs less than writing it: alone, this makes more than 1 GB/s.
FLOOD = """
import os, signal
ended = []
signal.signal(signal.SIGTERM, lambda *_: ended.append(1))
def put(data):
    view = memoryview(data)
    while view:
        view = view[os.write(1, view):]
filler = b' ' + b'abcdefghij' * 8 + b'abcdef\\n'
block = b''.join(b'@@@@@@@@@%03d' % i + filler for i in range(1000))
count = 0
while not ended:
    put(block.replace(b'@@@@@@@@@', b'%09d' % count))
    count += 1
put(b'%d lines were written\\n' % (count * 1000))
"""
QUIET = """
import time
number = 0
while True:
    print('%012d at %.6f' % (number, time.time()), flush=True)
    number += 1
    time.sleep(0.1)
"""
SMALL = {"worker": {"cpu": "500m", "memory": "256Mi"}}


@pytest.fixture(scope="module")
def portal() -> Iterator[Portal]:
    """An installation of its own that keeps little of a log."""
    environment = {"LOG_ARCHIVE_MAX_BYTES": str(KEPT_BYTES)}
    with thrown_away(Portal(new_home("flood"), environment=environment)) as running:
        yield running


class Memory:
    """Resident memory of the parts of an installation, bytes; sampled until `stop`."""

    PARTS = {"portal": "manage.py serve", "api": "-m onebox.api", "node": "-m onebox.node "}

    def __init__(self, portal: Portal) -> None:
        self._pids: dict[str, int] = {}
        for pid in portal.processes():
            for part, needle in self.PARTS.items():
                if needle in command_line(pid):
                    self._pids[part] = pid
        assert set(self._pids) == set(self.PARTS), self._pids
        self._before = self._now()
        self._most = dict(self._before)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def _now(self) -> dict[str, int]:
        found = {}
        for part, pid in self._pids.items():
            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            found[part] = pages * os.sysconf("SC_PAGE_SIZE")
        return found

    def _sample(self) -> None:
        while not self._stop.wait(0.5):
            now = self._now()
            self._most = {part: max(now[part], most) for part, most in self._most.items()}

    def stop(self) -> dict[str, int]:
        """How much each part grew at most."""
        self._stop.set()
        self._thread.join(5)
        return {part: self._most[part] - self._before[part] for part in self._pids}


def page_times_s(portal: Portal, session: requests.Session, job: dict[str, Any]) -> list[float]:
    """How long the pages that people look at take now."""
    times = []
    for path in ("/trainings/", f"/trainings/{job['id']}/"):
        began_s = time.monotonic()
        answer = session.get(portal.url + path, timeout=30)
        times.append(time.monotonic() - began_s)
        assert answer.status_code == 200, answer.text
        assert "flood" in answer.text
    return times


def look_at_pages(
    portal: Portal, session: requests.Session, job: dict[str, Any]
) -> tuple[list[float], float]:
    """How long pages take for `FLOOD_S`, and how many times slower than alone the machine is."""
    until_s = time.monotonic() + FLOOD_S
    times_s, slower = [], 1.0
    while time.monotonic() < until_s:
        times_s += page_times_s(portal, session, job)
        slower = max(slower, slowness())
        time.sleep(0.5)
    return times_s, slower


def held_bytes(folder: Path, needle: str) -> int:
    """Sizes of the regular files below a folder whose path contains a text."""
    total = 0
    for path in folder.rglob("*"):
        # The runner removes segments while we look.
        with contextlib.suppress(FileNotFoundError):
            if needle in str(path) and path.is_file() and not path.is_symlink():
                total += path.stat().st_size
    return total


def log_volume(portal: Portal, rest: Rest) -> Path:
    """Where the log volume of the tenant lies on this machine."""
    name = kubectl(
        portal,
        *("-n", rest.tenant()["namespace"], "get", "pvc", "log"),
        *("-o", "jsonpath={.spec.volumeName}"),
    )
    volume = json.loads(kubectl(portal, "get", "pv", name, "-o", "json"))["spec"]
    return Path((volume.get("hostPath") or volume["local"])["path"])


def check_archive(text: bytes, lines: int) -> None:
    """What is kept and what is skipped make the whole log, every byte in its place."""
    last_line = b"%d lines were written\n" % lines
    marker = re.search(rb"\n\[homeport\] (\d+) bytes were skipped here\n", text)
    assert marker is not None, text[:1000]
    head, tail = text[: marker.start()], text[marker.end() :]
    if (len(head) + 1) % LINE_BYTES == 0:
        head += b"\n"  # its own, not the one that sets our line apart
    skipped = int(marker.group(1))
    assert len(head) + skipped + len(tail) == lines * LINE_BYTES + len(last_line)
    assert tail.endswith(last_line)
    start = len(head) + skipped
    for kept, position in ((head, 0), (tail, start)):
        first = -(-position // LINE_BYTES)
        at = first * LINE_BYTES - position
        rows = (len(kept) - at) // LINE_BYTES
        for row in {0, 1, rows // 2, rows - 1}:
            assert kept[at + row * LINE_BYTES :].startswith(b"%012d " % (first + row))


def test_a_flood_harms_nobody(portal: Portal, ada: Rest) -> None:
    quiet = ada.submit(name="quiet", command=["python", "-c", QUIET], replicas=SMALL)
    ada.wait(quiet, "running")
    quiet_viewer = Counting(ada, quiet)
    quiet_viewer.start()
    wait_for("the quiet one speaks", lambda: quiet_viewer.received > 10)
    session = portal.session("ada")
    memory = Memory(portal)

    flood = ada.submit(name="flood", command=["python", "-c", FLOOD], replicas=SMALL)
    ada.wait(flood, "running")
    began_s = time.monotonic()
    viewer, stuck = Counting(ada, flood), Stuck(ada, flood)
    viewer.start()
    quiet_viewer.delays_s.clear()
    pages_s, slower = look_at_pages(portal, session, flood)
    flooded_s = time.monotonic() - began_s
    delay_s, delays = quiet_viewer.p99_delay_s(), len(quiet_viewer.delays_s)
    volume = log_volume(portal, ada)
    on_volume = held_bytes(volume, "flood")

    assert ada.call("POST", f"jobs/{flood['id']}/stop/").ok
    ada.wait(flood, "stopped")
    wait_for("the viewer has seen the end", lambda: viewer.has_ended)
    viewer.stop()
    grown = memory.stop()
    lines = int(viewer.others[-1].split()[0])
    rate = lines * LINE_BYTES / flooded_s / 1e6
    print(
        f"{lines} lines ({rate:.0f} MB/s), {viewer.received} of them shown; "
        f"grown by { ({part: size // MIB for part, size in grown.items()}) } MiB; "
        f"slowest of {len(pages_s)} pages {max(pages_s):.3f} s; "
        f"quiet p99 {delay_s:.3f} s, slowest {max(quiet_viewer.delays_s):.3f} s; "
        f"machine {slower:.1f} times slower than alone"
    )

    assert rate * slower > 20
    assert grown["portal"] < 200 * MIB, grown
    assert max(grown["node"], grown["api"]) < 150 * MIB, grown
    assert max(pages_s) < slower, pages_s

    # Nobody else notices.
    assert delay_s < 2 * slower
    assert delays * slower > FLOOD_S * 5
    assert not quiet_viewer.broken
    assert quiet_viewer.skipped == 0

    # What is not shown is counted, gap by gap.
    assert not viewer.broken
    assert viewer.first is not None
    assert viewer.skipped > 0
    assert viewer.expected == lines
    assert viewer.received + viewer.skipped == lines - viewer.first
    assert viewer.code == 1000

    # The newest segment is written while older ones are still there.
    assert 0 < on_volume <= KEPT_BYTES + SEGMENT_BYTES
    assert held_bytes(volume, "flood") <= KEPT_BYTES
    assert 0 < held_bytes(portal.home / "store", flood["id"]) <= KEPT_BYTES
    answer = ada.call("GET", f"jobs/{flood['id']}/logs/?download=1&replica=worker-0")
    check_archive(answer.content, lines)

    if FLOOD_S >= STUCK_S:
        time.sleep(max(0.0, STUCK_S + 5 - (time.monotonic() - began_s)))
        assert CLOSE_1013 in stuck.read_to_the_end(timeout_s=30)
    else:
        stuck.close()

    # All goes on as before.
    before = quiet_viewer.received
    wait_for("the quiet one goes on", lambda: quiet_viewer.received > before + 10)
    assert ada.call("POST", f"jobs/{quiet['id']}/stop/").ok
    ada.wait(quiet, "stopped")
    quiet_viewer.stop()
    assert not quiet_viewer.broken
