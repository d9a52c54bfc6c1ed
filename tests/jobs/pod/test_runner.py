"""The runner as a real process: output, signals, ends, archive, and faults around it."""

import contextlib
import errno
import json
import os
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest

from jobs.pod import files, peers
from tests.jobs.pod.pods import FakeDoor, Pod, end, wait_until


def test_output_goes_to_stdout_and_archive_byte_for_byte(pod: Pod, door: FakeDoor) -> None:
    data = bytes(range(256)) * 4000
    (pod.root / "data/in").write_bytes(data)
    pod.python("import os,sys; os.write(1, open(os.environ['DATA_DIR'] + '/in', 'rb').read())")
    code, output = pod.run()
    assert code == 0
    assert output == data
    assert door.log() == data
    assert door.ends == [end(0, "completed")]
    assert pod.message == {
        "reason": "completed",
        "text": "the program ended with exit code 0",
        "exit_code": 0,
        "uploaded": True,
    }
    assert json.loads((pod.state / "exit.json").read_text())["end_byte"] == len(data)
    assert (pod.state / "uploaded").exists()


def test_stdout_and_stderr_are_one_log_in_order(pod: Pod, door: FakeDoor) -> None:
    pod.python("import os\nfor i in range(50): os.write(1 + i % 2, b'%d\\n' % i)")
    _, output = pod.run()
    assert output == b"".join(b"%d\n" % i for i in range(50))
    assert door.log() == output


@pytest.mark.parametrize(
    ("code", "exit_code", "reason"),
    [
        ("raise SystemExit(3)", 3, "exit_code"),
        ("import os; os.kill(os.getpid(), 9)", 137, "signal"),
        ("import os; os.kill(os.getpid(), 11)", 139, "signal"),
        ("import os; os.close(1); os.close(2); raise SystemExit(4)", 4, "exit_code"),
    ],
)
def test_the_exit_code_is_the_programs_own(
    pod: Pod, door: FakeDoor, code: str, exit_code: int, reason: str
) -> None:
    pod.python(code)
    assert pod.run()[0] == exit_code
    assert pod.message["reason"] == reason
    assert door.ends[-1]["exit_code"] == exit_code


def test_a_role_runs_its_own_command_where_it_has_one(pod: Pod) -> None:
    pod.config.update(command=["false"], commands={"worker": ["true"], "ps": ["false"]})
    assert pod.run()[0] == 0


@pytest.mark.parametrize(
    ("command", "exit_code", "reason", "words"),
    [
        (
            ["no-program"],
            127,
            "command_not_found",
            "there is no no-program in the folders of PATH, nor in the code",
        ),
        (["./absent.sh"], 127, "script_missing", "there is no ./absent.sh"),
        (["./plain.txt"], 126, "command_not_executable", "cannot be executed"),
        (["./broken.sh"], 127, "command_not_found", "interpreter"),
        (["./binary"], 126, "command_not_executable", "Exec format error"),
    ],
)
def test_a_command_that_cannot_start_is_explained(
    pod: Pod, door: FakeDoor, command: list[str], exit_code: int, reason: str, words: str
) -> None:
    workspace = pod.root / "workspace"
    (workspace / "plain.txt").write_text("x")
    (workspace / "broken.sh").write_text("#!/no/such/interpreter\n")
    (workspace / "broken.sh").chmod(0o755)
    (workspace / "binary").write_bytes(b"\x7fELF nonsense")
    (workspace / "binary").chmod(0o755)
    pod.config["command"] = command
    code, output = pod.run()
    assert (code, pod.message["reason"]) == (exit_code, reason)
    assert words in pod.message["text"]
    assert words in output.decode()
    assert words in door.log().decode()


@pytest.mark.parametrize("is_of_an_older_version", [False, True])
def test_values_of_variables_come_from_beside_the_token(
    pod: Pod, is_of_an_older_version: bool
) -> None:
    pod.config["env"] = {"DB_PASSWORD": "canary"}
    pod.is_of_an_older_version = is_of_an_older_version
    pod.python("import os; print(os.environ['DB_PASSWORD'])")
    assert pod.run() == (0, b"canary\n")
    config = (pod.root / "etc/homeport/job.json").read_text()
    assert ("canary" in config) == is_of_an_older_version


def test_the_environment_is_complete_and_proxies_do_not_reach_grpc(pod: Pod) -> None:
    pod.environ["https_proxy"] = "http://10.244.0.1:3128"
    pod.config["env"] = {"MINE": "{{log_dir}}/x"}
    pod.python("import json, os; print(json.dumps(dict(os.environ)))")
    env = json.loads(pod.run()[1])
    assert env["grpc_proxy"] == ""
    assert "m-abc123-worker-0.m-abc123" in env["no_proxy"].split(",")
    assert env["MINE"] == f"{pod.folder}/x"
    assert env["LOG_DIR"] == str(pod.folder)
    assert env["PYTHONUNBUFFERED"] == "1"
    assert "TF_CONFIG" not in env


INSTALLS = """
import pathlib, os, subprocess, sys
base = pathlib.Path(os.environ.get("PYTHONUSERBASE") or os.environ["HOME"] + "/.local")
packages = base / "lib" / "python{}.{}".format(*sys.version_info[:2]) / "site-packages"
print(packages.is_dir())
(base / "bin").mkdir(exist_ok=True)
(base / "bin/tool").write_text("#!/bin/sh\\necho found\\n")
(base / "bin/tool").chmod(0o755)
sys.stdout.flush()
try:
    subprocess.run(["tool"], check=True)
except FileNotFoundError:
    print("not found")
"""


@pytest.mark.parametrize(
    ("asked", "output"),
    [
        ({}, b"True\nfound\n"),
        ({"PYTHONUSERBASE": "{{log_dir}}/base"}, b"True\nfound\n"),
        ({"PATH": "/usr/bin:/bin"}, b"False\nnot found\n"),  # a person's own counts as it is
    ],
)
def test_what_pip_installs_for_the_user_is_found(
    pod: Pod, tmp_path: Path, asked: dict[str, str], output: bytes
) -> None:
    pod.environ["HOME"] = str(tmp_path / "home")
    (tmp_path / "home/.local").mkdir(parents=True)
    pod.config["env"] = asked
    pod.python(INSTALLS)
    assert pod.run() == (0, output)


@pytest.mark.parametrize("is_of_an_older_version", [False, True])
def test_the_topology_tells_the_program_its_cluster(pod: Pod, is_of_an_older_version: bool) -> None:
    pod.config["hosts"] = {"worker": ["localhost:2222", "localhost:2223"]}
    if not is_of_an_older_version:
        pod.config["environment"] = {"worker": {"RANK": "{{task_index}}", "NONE": "{{ps_hosts}}"}}
    pod.python("import json, os; print(json.dumps(dict(os.environ)))")
    env = json.loads(pod.run()[1])
    told = {name: env[name] for name in ("TF_CONFIG", "RANK", "NONE") if name in env}
    assert set(told) == ({"TF_CONFIG"} if is_of_an_older_version else {"RANK"})
    assert (env["TASK_COUNT"], env["ATTEMPT"]) == ("2", "1")


def test_sigterm_reaches_the_whole_group_once_and_leaves_time_to_ship(
    pod: Pod, door: FakeDoor
) -> None:
    pod.python(
        "import os, signal, sys, time\n"
        "got = []\n"
        "def on(*_): got.append(1); os.write(1, b'got %d\\n' % len(got))\n"
        "signal.signal(signal.SIGTERM, on)\n"
        # The child speaks: CPython drops signals that come while it forks.
        "if os.fork() == 0:\n"
        "    print('ready', flush=True)\n"
        "    while not got: time.sleep(0.01)\n"
        "    print('child too', flush=True); os._exit(0)\n"
        "while not got: time.sleep(0.01)\n"
        "os.wait()\n"
        "open(os.environ['ARTIFACTS_DIR'] + '/checkpoint', 'w').write('step 7')\n"
        "time.sleep(0.3); sys.exit(0)\n"
    )
    process, said = pod.start_and_read()
    assert said == b"ready\n"
    assert process.stdout is not None
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGTERM)
    output = process.stdout.read()
    assert process.wait(10) == 0
    assert output.count(b"got 1") == 2
    assert b"got 2" not in output
    assert b"child too" in output
    assert pod.message["reason"] == "stopped"
    assert door.objects["/a/artifacts/checkpoint"] == b"step 7"
    assert door.ends[-1]["exit_code"] == 0


def test_a_program_that_ignores_sigterm_is_killed_in_time_to_ship(pod: Pod, door: FakeDoor) -> None:
    pod.config["grace_s"] = 4
    pod.python(
        "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True)\n"
        "time.sleep(60)"
    )
    process, _ = pod.start_and_read()
    started = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 137
    assert time.monotonic() - started > 2.5
    assert pod.message["reason"] == "stopped"
    assert "did not end within 3 s" in pod.message["text"]
    assert door.log() == b"deaf\n"


AWAY = """
import errno, os, runpy, sys
sys.argv = sys.argv[3:]  # what stands behind `python -I`
sys.path.insert(0, sys.argv[0])
from jobs.pod import files
files.LOOK_S, files.GONE_S, there = 0.05, 0.3, os.statvfs
def statvfs(path):
    if path.endswith("/data") and os.path.exists(path + "-is-gone"):
        raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
    return there(path)
os.statvfs = statvfs
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_a_program_that_does_not_notice_that_its_volume_is_gone_is_ended(
    pod: Pod, door: FakeDoor
) -> None:
    pod.wrapper = [sys.executable, "-c", AWAY]
    pod.python(
        "import signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
        "print('begins', flush=True)\n"
        f"open({str(pod.root / 'data-is-gone')!r}, 'w').close(); signal.pause()"
    )
    code, output = pod.run()
    words = (
        f"the data volume is gone ({pod.config['data_dir']}): Transport endpoint is not connected"
    )
    assert code == 143
    assert output.decode() == f"begins\n[homeport] {words}; the program is ended\n"
    assert (pod.message["reason"], pod.message["text"]) == ("volume_lost", words)
    assert door.log() == output
    assert door.ends == [end(143, "volume_lost")]


def test_a_volume_that_comes_back_was_not_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = files.MountWatch({"log": "/log"}, lambda _: None)
    away = OSError(errno.ESTALE, "Stale file handle")
    told = []
    for now, found in ((0, away), (119, away), (120, None), (130, away), (249, away), (250, away)):
        monkeypatch.setattr("os.statvfs", mock.Mock(side_effect=found))
        told.append(watch.look(now))
    assert told == [""] * 5 + ["the log volume is gone (/log): Stale file handle"]


def test_what_the_program_left_behind_ends_with_it(pod: Pod) -> None:
    pod.python(
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    while True: time.sleep(1)\n"
        "print('done', flush=True)"
    )
    started = time.monotonic()
    code, output = pod.run()
    assert (code, output) == (0, b"done\n")
    assert time.monotonic() - started < 20  # the child would never end


def test_a_daemon_that_escaped_and_keeps_writing_does_not_hold_the_end_up(pod: Pod) -> None:
    pod.python(
        "import os\n"
        "told, tell = os.pipe()\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    print(os.getpid(), flush=True)\n"
        "    os.write(tell, b'x')\n"
        "    while True: os.write(1, b'y' * 4096)\n"
        "os.read(told, 1); os._exit(5)"
    )
    code, output = pod.run()
    with contextlib.suppress(ProcessLookupError):  # it ends by itself when nobody reads any more
        os.kill(int(output.split()[0]), signal.SIGKILL)
    assert code == 5


def test_peers_are_waited_for_and_told_when_they_do_not_come(pod: Pod, door: FakeDoor) -> None:
    pod.config["hosts"] = {
        "worker": ["localhost:2222", "no-such-name.invalid:2222"],
        "ps": ["localhost:2222"],
    }
    pod.config["peer_timeout_s"] = 1
    code, output = pod.run()
    assert code == 64
    assert pod.message["reason"] == "peer_unresolved"
    assert b"no-such-name.invalid did not get an address within 1 s" in output
    assert door.ends[-1]["exit_code"] == 64
    pod.config["hosts"] = {"worker": ["localhost:2222", "localhost:2223"]}
    assert pod.run()[0] == 0


def test_waiting_for_peers_is_told_every_ten_seconds_and_ends_at_sigterm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[str] = []
    clock = iter([0.0, 9.9, 10.1, 19.0, 20.5, 20.6])
    last = [0.0]

    def monotonic() -> float:
        last[0] = next(clock, last[0])
        return last[0]

    monkeypatch.setattr(peers, "time", SimpleNamespace(monotonic=monotonic))
    name = "no-such-name.invalid"
    assert peers.wait_for_peers([name], 300, said.append, lambda: last[0] > 20.5) == [name]
    assert said == [f"waiting for {name} (10 s)", f"waiting for {name} (20 s)"]


def test_only_who_has_no_address_in_time_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def ask() -> dict[str, list[str]]:
        asked.append(1)
        return {"worker": ["10.0.0.1", ""], "ps": ["fd00::3"]}

    # The time is over when it asks in a second round.
    clock = SimpleNamespace(monotonic=lambda: 8.0 * (len(asked) > 2), sleep=lambda _s: None)
    monkeypatch.setattr(peers, "time", clock)
    seen = peers.Addresses({"worker": ["a:1", "b:1"], "ps": ["c:1"]}, ask)
    left = peers.wait_for_peers(seen.names, 8, str, lambda: False, seen.probe)
    assert left == ["worker-1"]


def test_who_gets_another_address_meanwhile_is_waited_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = iter([["10.0.0.1", ""], ["", "10.0.0.2"], ["10.0.0.9", "10.0.0.2"]])
    monkeypatch.setattr(peers, "ASK_S", 0)
    seen = peers.Addresses({"worker": ["a:1", "b:1"]}, lambda: {"worker": next(told)})
    assert peers.wait_for_peers(seen.names, 8, str, lambda: False, seen.probe) == []
    assert seen.hosts() == {"worker": ["10.0.0.9:1", "10.0.0.2:1"]}


def test_a_peer_that_has_ended_is_not_waited_for(pod: Pod, door: FakeDoor) -> None:
    """A server that starts again, or late, when a worker is done: nobody has that name any more."""
    gone = [f"no-such-name-{n}.invalid:2222" for n in range(2)]
    pod.config.update(peer_timeout_s=60, hosts={"ps": ["localhost:1"], "worker": gone})
    pod.environ["HOMEPORT_ROLE"] = "ps"
    door.ended = {"worker": [1]}
    process = pod.start()
    wait_until(lambda: (pod.state / "000001.log").exists(), timeout_s=30)  # it says that it waits
    assert process.poll() is None, "worker-0 has not ended"
    door.ended = {"worker": [0, 1]}
    output, _ = process.communicate(timeout=40)
    assert process.returncode == 0
    assert output.endswith(
        b"[homeport] worker-1, worker-0 ended before this replica found them\nhello\n"
    )


def test_sigterm_while_waiting_for_peers_ends_at_once(pod: Pod, door: FakeDoor) -> None:
    pod.config["hosts"]["ps"] = ["no-such-name.invalid:2222"]
    process = pod.start()
    wait_until((pod.folder / "artifacts").exists)  # the last thing that it does before it waits
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 143  # not the minutes that peers may take
    assert pod.message["reason"] == "stopped"
    assert door.ends[-1]["exit_code"] == 143


def test_the_portal_may_be_away_for_a_while(pod: Pod, door: FakeDoor) -> None:
    door.fail_next = 2
    pod.config["retry_s"] = 20
    code, _ = pod.run()
    assert code == 0
    assert door.log() == b"hello\n"
    assert pod.message["uploaded"] is True


def test_a_portal_that_stays_away_leaves_everything_on_the_volume(pod: Pod, door: FakeDoor) -> None:
    door.status = 503
    pod.config["retry_s"] = 1
    code, output = pod.run()
    assert code == 0
    assert pod.message["uploaded"] is False
    assert "what was not shipped is on the log volume" in pod.message["text"]
    assert b"[homeport] what was not shipped is on the log volume" in output
    assert (pod.state / "000001.log").read_bytes() == b"hello\n"
    assert not (pod.state / "uploaded").exists()


def test_after_sigterm_the_wait_for_the_portal_ends_with_the_grace(
    pod: Pod, door: FakeDoor
) -> None:
    door.status = 503
    pod.config.update(retry_s=600, grace_s=3)
    pod.python("import time; print('x', flush=True); time.sleep(60)")
    process, _ = pod.start_and_read()
    started = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 143
    assert time.monotonic() - started < 8  # not the 600 s of its patience
    assert pod.message["uploaded"] is False


def test_a_training_that_is_being_deleted_ends_without_a_wait(pod: Pod, door: FakeDoor) -> None:
    door.status = 410
    pod.config["retry_s"] = 600
    assert pod.run(10)[0] == 0
    assert pod.message["uploaded"] is True


def test_artifacts_are_all_regular_files_below_the_jobs_folder(pod: Pod, door: FakeDoor) -> None:
    (pod.root / "data/secret").write_text("not an artifact")
    pod.python(
        "import os\n"
        "os.chdir(os.environ['LOG_DIR'])\n"
        "open('artifacts/model.h5', 'wb').write(b'm' * 100000)\n"
        "os.makedirs('train/a b'); open('train/a b/events ä.out', 'w').write('e')\n"
        "open('empty', 'w').close()\n"
        "os.symlink('/etc/passwd', 'link'); os.symlink(os.environ['DATA_DIR'], 'folder')\n"
        "os.mkfifo('pipe')\n"
        "open(b'not-utf8-\\xff', 'w').close()\n"
    )
    code, output = pod.run()
    assert code == 0
    assert set(door.artifacts) == {"artifacts/model.h5", "train/a b/events ä.out", "empty"}
    assert door.objects["/a/artifacts/model.h5"] == b"m" * 100000
    assert b"[homeport] 1 files (0 bytes) stay on the log volume only" in output


def test_artifacts_beyond_the_limit_stay_and_are_told(pod: Pod, door: FakeDoor) -> None:
    pod.config["limits"]["artifacts_bytes"] = 1000
    pod.python(
        "import os\n"
        "os.chdir(os.environ['ARTIFACTS_DIR'])\n"
        "open('a-large', 'wb').write(b'l' * 2000); open('b-small', 'wb').write(b's' * 900)\n"
    )
    _, output = pod.run()
    assert set(door.artifacts) == {"artifacts/b-small"}
    assert b"1 files (2000 bytes) stay on the log volume only" in output
    assert b"1 files (2000 bytes)" in door.log()


def test_a_broken_configuration_is_told_in_the_termination_message(pod: Pod) -> None:
    pod.config["limits"] = {}
    code, output = pod.run()
    assert code == 64
    assert pod.message["reason"] == "configuration_broken"
    assert b"configuration cannot be used" in output


# --- what it uses ---

BURN = "import time\nend = time.process_time() + 0.5\nwhile time.process_time() < end: pass"


def test_what_it_used_is_told_before_its_end_is(pod: Pod, door: FakeDoor) -> None:
    pod.python(BURN)
    assert pod.run()[0] == 0
    (body,) = door.usage
    used = [minute["used"] for minute in body["minutes"]]
    assert max(one["cpu_m"][1] for one in used if "cpu_m" in one) > 100
    assert all(one["memory_mib"][1] > 0 for one in used)
    assert {"data_mib", "log_mib"} <= body["totals"].keys()
    assert (body["method"], body["gpu_note"]) == ("processes", "no_driver")
    calls = [path.rstrip("/").rpartition("/")[2] for path in door.calls]
    assert calls.index("usage") < calls.index("done", calls.index("usage"))


@pytest.mark.parametrize("status", [404, 410, 500, 429, 400])
def test_a_portal_that_does_not_want_to_know_changes_nothing(
    pod: Pod, door: FakeDoor, status: int
) -> None:
    door.usage_status = status
    pod.python("print('fine')")
    assert pod.run() == (0, b"fine\n")
    assert door.ends == [end(0, "completed")]
    assert pod.message["uploaded"]
