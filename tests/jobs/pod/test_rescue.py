"""A runner killed with everything around it loses nothing that was on the volume."""

import json
import os
import signal
from pathlib import Path

from tests.jobs.pod.pods import FakeDoor, Pod, end, wait_until


def kill_all(pod: Pod, code: str, until_bytes: int) -> None:
    """Runs a program and kills runner and program at once, as an out-of-memory kill of a group."""
    pod.python(
        "import os; print(os.getpid(), flush=True)\n" + code + "\nimport time; time.sleep(60)"
    )
    process, said = pod.start_and_read()
    program = int(said)
    wait_until(lambda: sum(p.stat().st_size for p in pod.state.glob("*.log")) >= until_bytes)
    process.kill()
    os.killpg(program, signal.SIGKILL)
    process.communicate(timeout=10)


def state_folder(pod: Pod, name: str, **files: str) -> Path:
    """What the runner of a pod left: its segments by number, and `starts`."""
    folder = pod.folder / f".homeport/worker-0/{name}"
    folder.mkdir(parents=True)
    for file, text in files.items():
        (folder / (f"{file[1:]:0>6}.log" if file[0] == "n" else file)).write_text(text)
    return folder


def test_log_artifacts_and_end_are_shipped_after_a_kill(pod: Pod, door: FakeDoor) -> None:
    pod.config["limits"]["segment_bytes"] = 10_000
    kill_all(
        pod,
        "open(os.environ['ARTIFACTS_DIR'] + '/model', 'w').write('m')\n"
        "for i in range(100): os.write(1, b'%03d' % i + b'x' * 996 + b'\\n')",
        100_000,
    )
    code, output = pod.program("rescue")
    assert (code, output) == (0, "[homeport] attempt 1 of worker-0 is shipped\n")
    lines = door.log().splitlines()
    assert [int(line[:3]) for line in lines[1:]] == list(range(100))
    assert door.objects["/a/artifacts/model"] == b"m"
    assert door.ends == [end(None, "killed", rescued=True)]
    assert pod.message["uploaded"] is True
    assert (pod.state / "uploaded").exists()
    calls = len(door.calls)
    assert pod.program("rescue") == (0, "[homeport] nothing was left to ship\n")
    assert len(door.calls) == calls


def test_a_runner_that_could_not_reach_the_portal_is_finished_with_its_exit_code(
    pod: Pod, door: FakeDoor
) -> None:
    door.status = 503
    pod.config["retry_s"] = 0.5
    pod.python("print('x'); raise SystemExit(7)")
    assert pod.run()[0] == 7
    door.status = None
    assert pod.program("rescue")[0] == 0
    assert door.log() == b"x\n"
    assert door.ends == [end(7, "exit_code", rescued=True)]


def test_all_attempts_without_mark_are_shipped_and_no_later_ones(pod: Pod, door: FakeDoor) -> None:
    for attempt in (1, 2, 3):
        state_folder(pod, f"{attempt}-aaaaaaaa", starts="\n1 0\n", n1=f"attempt {attempt}\n")
    (pod.folder / ".homeport/worker-0/1-aaaaaaaa/uploaded").write_text("0")
    pod.environ["HOMEPORT_ATTEMPT"] = "2"
    pod.program("rescue")
    assert list(door.objects) == ["/s/worker-0-2/1"]
    pod.environ["HOMEPORT_ATTEMPT"] = "3"
    pod.program("rescue")
    assert door.objects["/s/worker-0-3/1"] == b"attempt 3\n"
    assert len(door.ends) == 2


def test_gaps_are_counted_exactly(pod: Pod, door: FakeDoor) -> None:
    starts = "\n1 0\n\n2 5\n\n3 100\n\nnonsense\n\n4 2"
    folder = state_folder(pod, "1-aaaaaaaa", starts=starts, n1="aaaaa", n3="ccccc")
    (folder / "000009.log").symlink_to("/etc/passwd")
    (folder / "exit.json").write_text(json.dumps({"end_byte": 200, "exit_code": 0, "ended_at": 1}))
    assert pod.program("rescue")[0] == 0
    assert door.log() == b"aaaaaccccc"
    assert door.segments[3]["start_byte"] == 100
    assert door.ends[0]["skipped_bytes"] == 190


def test_a_replica_that_never_wrote_anything_is_reported_too(pod: Pod, door: FakeDoor) -> None:
    assert pod.program("rescue")[0] == 0
    assert door.ends == [end(None, "killed", rescued=True)]


def test_what_users_put_in_the_place_of_our_notes_does_no_harm(pod: Pod, door: FakeDoor) -> None:
    folder = state_folder(pod, "1-aaaaaaaa", starts="\n1 0\n" + "9" * 30 + " 1\n")
    (folder / "000001.log").symlink_to("/etc/passwd")
    (folder / "exit.json").write_text('{"exit_code": "DROP", "reason": ["x"], "end_byte": "y"}')
    (pod.folder / ".homeport/worker-0/99999999999999-x").mkdir()
    (pod.folder / ".homeport/worker-0/not-a-folder").write_text("")
    assert pod.program("rescue")[0] == 0
    assert not door.segments
    assert door.ends[0]["exit_code"] is None


def test_a_portal_that_stays_away_leaves_the_mark_off_unless_the_training_is_gone(
    pod: Pod, door: FakeDoor
) -> None:
    kill_all(pod, "", 1)
    door.status = 503
    pod.config["retry_s"] = 0.5
    code, output = pod.program("rescue")
    assert code == 1
    assert "stays on the volume" in output
    assert pod.message["uploaded"] is False
    assert not (pod.state / "uploaded").exists()
    door.status = 410  # a training that is gone needs no rescue
    assert pod.program("rescue")[0] == 0


def test_a_living_successor_of_the_lost_pod_is_left_alone(pod: Pod, door: FakeDoor) -> None:
    lost = state_folder(pod, "1-aaaaaaaa", starts="\n1 0\n", n1="lost\n")
    alive = state_folder(pod, "1-bbbbbbbb", starts="\n2 5\n", n2="half a li")
    pod.environ["HOMEPORT_RESCUE_POD_UID"] = "aaaaaaaa-0000-4000-8000-000000000000"
    assert pod.program("rescue")[0] == 0
    assert door.log() == b"lost\n"
    assert door.ends[0]["pod_uid"] == "aaaaaaaa-0000-4000-8000-000000000000"
    assert (lost / "uploaded").exists()
    assert not (alive / "uploaded").exists()
