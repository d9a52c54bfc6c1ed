"""What the runner keeps of a log, whatever volume, stdout and pods before it do."""

import json
import signal
import subprocess
import sys

import pytest

from jobs.pod import shipping
from jobs.pod.portal_client import PortalClient, RetryBudget
from jobs.pod.shipping import Shipper
from jobs.pod.volume import LogVolume
from tests.jobs.pod.pods import TOKEN, UID, FakeDoor, Pod, end, wait_until
from tests.tools.small_disk import mounts_a_small_disk, small_disk


def test_segments_are_closed_by_size_and_by_age(pod: Pod, door: FakeDoor) -> None:
    pod.config["limits"].update(segment_bytes=100_000, segment_s=0.5)
    pod.python(
        "import os, time\n"
        "def wait_for(name):\n"
        "    while not os.path.exists(name): time.sleep(0.02)\n"
        "for _ in range(10): os.write(1, b'x' * 50000)\n"
        "wait_for('first-are-shipped'); os.write(1, b'late')\n"
        "wait_for('late-is-shipped'); os.write(1, b'end')"
    )
    process = pod.start()
    workspace = pod.root / "workspace"
    wait_until(lambda: sum(row["size_bytes"] for row in door.segments.values()) == 500_000)
    (workspace / "first-are-shipped").touch()
    wait_until(lambda: any(row["size_bytes"] == 4 for row in door.segments.values()))
    assert process.poll() is None  # shipped while the program runs
    (workspace / "late-is-shipped").touch()
    process.communicate(timeout=10)
    sizes = [door.segments[number]["size_bytes"] for number in sorted(door.segments)]
    assert max(sizes) <= 100_000 + 256 * 1024
    assert sizes[-2:] == [4, 3]
    assert door.log() == b"x" * 500_000 + b"lateend"


def test_of_too_long_a_log_the_first_and_the_newest_half_are_kept_and_the_rest_counted(
    pod: Pod, door: FakeDoor
) -> None:
    pod.config["limits"].update(log_archive_bytes=600_000, segment_bytes=100_000)
    lines = 200_000
    pod.python(f"import sys\nfor i in range({lines}): sys.stdout.write('%09d\\n' % i)")
    pod.environ["PYTHONUNBUFFERED"] = ""  # 200,000 writes would take a while
    code, output = pod.run()
    assert code == 0
    assert len(output) == lines * 10
    kept = door.log()
    skipped = door.ends[-1]["skipped_bytes"]
    assert skipped > 1_000_000
    assert len(kept) + skipped == lines * 10
    assert kept.startswith(b"000000000\n")
    assert kept.endswith(b"%09d\n" % (lines - 1))
    on_volume = sum(path.stat().st_size for path in pod.state.glob("*.log"))
    assert on_volume == len(kept)


@pytest.fixture
def volume(pod: Pod, door: FakeDoor) -> LogVolume:
    """Of 40 bytes, in segments of 10."""
    pod.state.mkdir(parents=True)
    shipper = Shipper(
        PortalClient(door.url, TOKEN), "jobs/x/replicas/worker/0/1/", UID, RetryBudget(1, 1)
    )
    limits = {"log_archive_bytes": 40, "segment_bytes": 10, "segment_s": 60}
    return LogVolume(str(pod.state), limits, shipper)


def test_a_burst_that_is_read_at_once_keeps_its_beginning_too(pod: Pod, volume: LogVolume) -> None:
    volume.write(b"".join(b"%010d" % number for number in range(1, 9)))
    volume.close()
    kept = b"".join(path.read_bytes() for path in sorted(pod.state.glob("*.log")))
    assert kept == b"".join(b"%010d" % number for number in (1, 2, 7, 8))
    assert volume.skipped_bytes == 40


def test_a_shipped_segment_that_is_dropped_later_is_dropped_at_the_portal_too(
    volume: LogVolume, door: FakeDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping, "RING_AGE_S", 0)
    volume._shipper.start()
    for number in range(1, 9):
        volume.write(b"%010d" % number)
        wait_until(lambda number=number: number in door.segments)
    volume.close()
    assert volume._shipper.finish()
    assert door.dropped == [3, 4, 5, 6]
    assert sorted(door.segments) == [1, 2, 7, 8]
    assert volume.skipped_bytes == 40


def test_a_drop_waits_where_an_earlier_container_has_ended_the_log(
    volume: LogVolume, door: FakeDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping, "RING_AGE_S", 0)
    shipper, door.is_complete = volume._shipper, True
    shipper.assume_sent(77)
    shipper.drop(77)
    shipper.start()
    wait_until(lambda: any(call.endswith("/77/drop/") for call in door.calls))
    volume.write(b"%010d" % 1)
    wait_until(lambda: door.dropped == [77])
    volume.close()
    assert shipper.finish()
    assert sorted(door.segments) == [1]


def test_a_full_log_volume_is_told_once_and_the_output_goes_on(pod: Pod, door: FakeDoor) -> None:
    # A limit on the size of files is the nearest thing to a full volume that needs no mount.
    code = (
        "import errno, os, resource, runpy, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "real = os.write\n"
        "def write(fd, data):\n"
        "    try: return real(fd, data)\n"
        "    except OSError as e:\n"
        "        e.errno = errno.ENOSPC; raise\n"
        "os.write = write\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))\n"
        "sys.argv = sys.argv[1:]\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    pod.config["artifacts_bytes"] = 0
    pod.python(
        "import os, resource\nfor i in range(1000): os.write(1, b'%06d ' % i + b'z' * 992 + b'\\n')"
    )
    pod.start().communicate(timeout=20)  # once, so that all files are there
    door.segments.clear()
    door.ends.clear()
    pod.environ["HOMEPORT_POD_UID"] = "c" * 36
    pod.config["attempt"] = 2
    (pod.root / "etc/homeport/job.json").write_text(json.dumps(pod.config))
    done = subprocess.run(
        [sys.executable, "-c", code, *pod.runner],
        cwd=pod.root / "workspace",
        env=pod.environ,
        stdout=subprocess.PIPE,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0
    notice = b"[homeport] the log volume is full"
    assert done.stdout.count(notice) == 1
    assert done.stdout.count(b"z" * 992) == 1000
    assert door.ends[-1]["reason"] == "volume_full"
    assert pod.message["archive"] == "volume_full"
    kept = door.log("worker-0-2")
    assert 0 < len(kept) <= 300_000
    assert len(kept) + door.ends[-1]["skipped_bytes"] == 1000 * 1000


@mounts_a_small_disk
def test_a_store_and_a_log_volume_that_are_full_do_not_keep_an_ended_program_running(
    pod: Pod, door: FakeDoor
) -> None:
    """What was on the volume comes by a rescue once there is room, with how much is missing, and why."""
    pod.config["retry_s"] = 20
    pod.python(
        "import os, time\n"
        "os.write(1, b'early\\n')\n"
        "while not os.path.exists('full'): time.sleep(0.02)\n"
        "os.write(1, b'x' * 100_000); raise SystemExit(3)"
    )
    with small_disk(pod.root / "log", 2**20) as disk:
        process, early = pod.start_and_read()
        wait_until(lambda: (pod.state / "000001.log").read_bytes() == early)
        disk.fill()
        door.put_status = 507
        (pod.root / "workspace/full").touch()
        process.communicate(timeout=15)
        assert process.returncode == 3
        said = pod.message
        assert (said["reason"], said["archive"]) == ("volume_full", "volume_full")
        assert said["uploaded"] is False
        assert "answered 507" in said["text"]
        disk.make_room()
        door.put_status = None
        assert pod.program("rescue")[0] == 0
        kept = door.log()
        assert kept.startswith(early)
        missing = len(early) + 100_000 - len(kept)
        assert missing > 90_000
        assert door.ends == [end(3, "volume_full", skipped=missing, rescued=True)]


def test_a_log_folder_that_cannot_be_written_does_not_stop_the_program(
    pod: Pod, door: FakeDoor
) -> None:
    pod.folder.parent.mkdir(parents=True)
    pod.folder.write_text("a file where the folder belongs")
    code, output = pod.run()
    assert code == 0
    assert b"hello" in output
    assert b"[homeport] the log volume cannot be written" in output
    assert door.ends[-1] == end(0, "volume_not_writable", skipped=6)


def test_a_stdout_that_nobody_reads_loses_nothing_of_the_archive(pod: Pod, door: FakeDoor) -> None:
    size = 3_000_000
    pod.python(f"import os, sys; sys.stdout.write('x' * {size}); sys.stdout.flush()")
    process = pod.start()  # its pipe holds 64 KiB, and we do not read
    open_segment = pod.state / "000001.log"
    wait_until(lambda: open_segment.exists() and open_segment.stat().st_size >= 1_000_000)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(15) == 143
    kept = door.log()
    # All that the program could write until it was stopped.
    assert kept == b"x" * len(kept)
    assert len(kept) >= 1_000_000
    assert door.ends[-1]["skipped_bytes"] == 0


def test_a_second_pod_of_the_attempt_goes_on_with_the_log_of_the_first(
    pod: Pod, door: FakeDoor
) -> None:
    pod.python(
        "import os, time\n"
        "parent = os.getppid()\n"
        "os.write(1, b'first')\n"
        "while os.getppid() == parent: time.sleep(0.02)\n"
    )
    process = pod.start()
    first = pod.state
    segment = first / "000001.log"
    wait_until(lambda: segment.exists() and segment.read_bytes() == b"first")
    process.kill()
    process.communicate(timeout=10)
    assert not door.segments
    pod.environ["HOMEPORT_POD_UID"] = "99999999-0000-4000-8000-000000000000"
    pod.python("print('second', flush=True)")
    assert pod.run()[0] == 0
    assert door.log() == b"first\n[homeport] worker-0 was started again (pod 99999999)\nsecond\n"
    assert (first / "uploaded").exists()
    assert (pod.state / "uploaded").exists()


@pytest.mark.parametrize("end", ["\\n", ""])
def test_a_container_that_starts_again_in_its_pod_goes_on_too(
    pod: Pod, door: FakeDoor, end: str
) -> None:
    pod.python(f"print('one', end='{end}')")
    pod.run()
    pod.python("print('two')")
    _, output = pod.run()
    own = b"[homeport] worker-0 was started again (pod abcdef01)\ntwo\n"
    assert output == own, "its pod has the log of this container alone"
    assert door.log() == b"one\n" + own
    begins = [row.get("run_start_byte", 0) for _, row in sorted(door.segments.items())]
    assert begins == [0, *[len(b"one\n")] * (len(begins) - 1)], "of all that this one brings"
    assert len(door.ends) == 2


@pytest.mark.parametrize("kept", ["a part", "nothing"])
@mounts_a_small_disk
def test_what_a_full_volume_did_not_take_keeps_its_place_however_often_a_container_starts_again(
    pod: Pod, door: FakeDoor, kept: str
) -> None:
    """Three containers: the volume of the first two is full, and the second one is killed."""
    early = b"early\n" if kept == "a part" else b""
    waits = "while not os.path.exists('full'): time.sleep(0.02)\n"
    pod.python(f"import os, time\nos.write(1, {early!r})\n{waits}os.write(1, b'x' * 100_000)")
    with small_disk(pod.root / "log", 2**20) as disk:
        pod.state.mkdir(parents=True)
        first = pod.start()
        wait_until((pod.state / "exit.json").exists)
        if early:
            wait_until(lambda: (pod.state / "000001.log").exists())
        disk.fill()
        (pod.root / "workspace/full").touch()
        first.communicate(timeout=15)
        skipped = door.ends[-1]["skipped_bytes"]
        assert skipped + len(door.log()) == len(early) + 100_000
        pod.python("import signal; print('waits', flush=True); signal.pause()")
        second = pod.start()
        assert second.stdout is not None
        lines = [*iter(second.stdout.readline, b"waits\n")]
        again = b"[homeport] worker-0 was started again (pod abcdef01)"
        told = b"; %d bytes before are not kept, as the log volume was full\n" % skipped
        assert again + told in lines
        second.kill()
        second.communicate(timeout=15)
        disk.make_room()
        pod.python("print('third')")
        code, output = pod.run()
        assert code == 0
    assert output.startswith(again)
    assert output.endswith(b"third\n")
    rows = [door.segments[number] for number in sorted(door.segments)]
    assert rows[-1]["start_byte"] >= len(early) + 100_000, "none lies where others did"
    end = rows[-1]["start_byte"] + rows[-1]["size_bytes"]
    kept_bytes = len(door.log())
    assert door.ends[-1]["skipped_bytes"] == end - kept_bytes >= skipped
    assert door.log().startswith(early)
    assert rows[-1]["run_start_byte"] >= len(early) + 100_000
