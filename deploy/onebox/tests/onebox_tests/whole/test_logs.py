"""Logs through the API: follow, tail, since, previous, and readers that do not read."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

import pytest

from onebox.testing import OneBox
from onebox.testing.kube import RefusedError, Space, python, shell, sleeper
from onebox.testing.processes import command_line, descendants
from tests.tools.waiting import wait_for

FLOOD = 85_000  # lines


def test_following_starts_with_what_is_there_and_ends_with_the_container(space: Space):
    space.pod(
        "p",
        python("import time\nfor i in range(6):\n print('line', i); time.sleep(0.2)"),
        restartPolicy="Never",
    )
    space.wait_pod("p", lambda p: p["status"]["phase"] in ("Running", "Succeeded"))
    with space.open_log("p", follow="true") as reply:
        lines = reply.read().decode().splitlines()
    assert lines == [f"line {i}" for i in range(6)]


def test_a_new_line_arrives_at_once(space: Space):
    space.pod("p", python("import time\nwhile True:\n print(time.time()); time.sleep(0.1)"))
    space.wait_pod("p", "Running")
    delays = []
    with space.open_log("p", follow="true", tailLines=0) as reply:
        for _ in range(10):
            sent = float(reply.readline())
            delays.append(time.time() - sent)
    assert sorted(delays)[5] < 1  # not kept back until there are more


def test_tail_since_limit_and_timestamps(space: Space):
    space.output("p", shell("for i in 1 2 3 4 5; do echo line $i; done; sleep 2.2; echo late"))
    assert space.log("p", tailLines=2) == "line 5\nlate\n"
    assert space.log("p", limitBytes=8) == "line 1\nl"
    stamped = space.log("p", timestamps="true", tailLines=1)
    stamp, text = stamped.split(" ", 1)
    assert text == "late\n"
    assert stamp.endswith("Z")
    assert space.log("p", sinceTime=stamp[:19] + "Z") == "late\n"
    assert space.log("p", sinceSeconds=3600).startswith("line 1\n")


def test_what_has_no_log_is_refused_in_words(space: Space):
    space.pod("p", {"name": "main", "image": "example.com/no:1", "command": ["true"]})
    space.wait_pod("p", lambda pod: bool(pod["status"].get("containerStatuses")))
    with pytest.raises(RefusedError, match="waiting to start"):
        space.log("p")
    space.pod("q")
    space.wait_pod("q", "Running")
    with pytest.raises(RefusedError, match="previous terminated container"):
        space.log("q", previous="true")
    with pytest.raises(RefusedError):
        space.log("q", container="absent")


def test_two_containers_need_a_choice(space: Space):
    space.pod("p", sleeper("a"), shell("echo from b; sleep 100", "b"))
    space.wait_pod("p", "Running")
    with pytest.raises(RefusedError, match="a container name must be specified"):
        space.log("p")
    assert space.first_line("p", container="b") == "from b\n"
    assert space.log("p", container="b", tailLines=5) == "from b\n"


def test_a_flood_is_whole_and_a_reader_that_stops_reading_stops_nobody(space: Space):
    # With the time of each line below 10 MiB, at which a kubelet begins another file and forgets this one.
    script = f"for i in range({FLOOD}): print('line', i, 'x' * 60)\nprint('end')"
    space.pod("p", python(script), restartPolicy="Never")
    space.wait_pod("p", lambda p: p["status"]["phase"] in ("Running", "Succeeded"))
    lazy = space.open_log("p", follow="true")
    space.wait_pod("p", "Succeeded")
    with space.open_log("p") as reply:
        first, last, count = reply.readline(), b"", 1
        for line in reply:
            last, count = line, count + 1
    assert (first[:8], last, count) == (b"line 0 x", b"end\n", FLOOD + 1)
    lazy.close()


def node_process(box: OneBox) -> int:
    return next(
        pid for pid in descendants(box.process.pid) if "onebox.node --" in command_line(pid)
    )


def open_logs(pid: int) -> int:
    """How many log files a process holds open."""
    found = 0
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            found += "/logs/" in os.readlink(link)
    return found


def memory_bytes(pid: int) -> int:
    """Resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def test_readers_that_do_not_read_cost_bounded_memory(space: Space, box: OneBox):
    node = node_process(box)
    space.output("p", python("for i in range(300000): print('line', i, 'x' * 60)"))
    before = memory_bytes(node)
    lazy = [space.open_log("p") for _ in range(4)]
    time.sleep(1)
    grown = memory_bytes(node) - before
    for reply in lazy:
        reply.close()
    assert grown < 24 << 20


def test_a_follower_of_a_silent_program_that_goes_away_is_forgotten(space: Space, box: OneBox):
    node = node_process(box)
    space.pod("p", shell("echo x; sleep 1000"))
    space.wait_pod("p", "Running")
    followers = [space.open_log("p", follow="true") for _ in range(3)]
    for reply in followers:
        assert reply.readline() == b"x\n"
    # The node looks into a log for a moment for reasons of its own, too.
    wait_for("each follower has its log open", lambda: open_logs(node) == len(followers))
    for reply in followers:
        reply.close()
    wait_for("no log is open", lambda: open_logs(node) == 0)
