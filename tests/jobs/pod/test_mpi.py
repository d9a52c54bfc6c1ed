"""The remote shell of MPI with real processes: two pods on one machine, and what mpirun would call."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.testcluster.ports import free_port
from jobs.pod.diagnosis import Finding, diagnose
from jobs.pod.fetch import MPI_MODULES, write_program
from jobs.pod.tail import OutputTail
from onebox.testing.processes import naming
from tests.jobs.pod.pods import FakeDoor, Pod, wait_until
from tests.tools.missing import is_missing

# Starts the remote shell for each host of the file, as mpirun does, and waits for all.
MPIRUN = """
import os, subprocess, sys
shell, command = sys.argv[1:]
with open(os.path.join(os.path.dirname(shell), "hosts.openmpi")) as file:
    hosts = [line.split()[0] for line in file if line.endswith(" slots=2\\n")]
calls = [subprocess.Popen([shell, "-x", host, command]) for host in hosts]
print("ends", sorted(call.wait() for call in calls))
"""
WITHOUT_NAMES = """
import ctypes, os, sys
for path in (b"/etc/passwd", b"/etc/nsswitch.conf"):
    if ctypes.CDLL(None).mount(b"/dev/null", path, None, ctypes.c_ulong(4096), None):
        sys.exit(77)
os.execv(sys.argv[1], sys.argv[1:])
"""
HOSTS = 70  # more than the 64 from which on daemons of mpirun would start daemons


@pytest.fixture
def worker(pod: Pod) -> Pod:
    """A pod of which each of 70 addresses is a worker's."""
    port = free_port()
    hosts = {"launcher": ["localhost:1"], "worker": [f"127.0.1.{n}:{port}" for n in range(HOSTS)]}
    more = {"programs": {"worker": "mpi_daemon"}, "slots": 2, "starting_deadline_s": 20}
    pod.config.update(topology="mpi", hosts=hosts, **more)
    write_program(pod.root / "homeport/mpi_launch", MPI_MODULES)
    return pod


@pytest.fixture
def launcher(worker: Pod, door: FakeDoor, tmp_path: Path) -> Iterator[Pod]:
    found = Pod(tmp_path, door)
    found.environ["HOMEPORT_ROLE"] = "launcher"
    # `#!/usr/bin/env python3` of each call: not a version manager's shim, which takes longer than the call.
    found.environ["PATH"] = f"{Path(sys.executable).parent}:{found.environ['PATH']}"
    own = {name: found.config[name] for name in ("folder", "data_dir")}
    found.config = {**worker.config, **own}  # and the same hosts
    write_program(tmp_path / "homeport/mpi_launch", MPI_MODULES)
    yield found
    found.close()


def mpirun(launcher: Pod, command: str) -> None:
    shell = str(launcher.root / "homeport/mpi_launch")
    launcher.config["command"] = [sys.executable, "-c", MPIRUN, shell, command]


@pytest.mark.parametrize("addresses", ["names", "ip"])
def test_seventy_daemons_start_and_end(
    worker: Pod, launcher: Pod, door: FakeDoor, addresses: str
) -> None:
    for role, known in worker.config["hosts"].items() if addresses == "ip" else ():
        door.hosts[role] = [name.partition(":")[0] for name in known]
        known[:] = [f"no-such-name.invalid:{name.partition(':')[2]}" for name in known]
    worker.config["addresses"] = launcher.config["addresses"] = addresses
    mpirun(launcher, 'echo "$HOMEPORT_ROLE $$ $USER"; echo bad >&2; exit 7')
    process = launcher.start()  # which waits until the workers answer
    daemon, _line = worker.start_and_read()
    output, _ = process.communicate(timeout=60)
    lines = output.decode().splitlines()
    assert lines[-1] == f"ends {[7] * HOSTS}"
    told = [line.split() for line in lines if line.startswith("worker ")]
    assert len({pid for _role, pid, _user in told}) == len(told) == lines.count("bad") == HOSTS
    assert {user for _role, _pid, user in told} == {"homeport"}
    hosts = (launcher.root / "homeport/hosts.hydra").read_text().splitlines()
    assert hosts == [f"127.0.1.{n}:2" for n in range(HOSTS)]
    daemon.send_signal(signal.SIGTERM)
    assert daemon.wait(10) == 143
    assert worker.message["reason"] == "stopped"


@pytest.mark.parametrize("ended", ["caller", "daemon"])
def test_nothing_outlives_its_caller_or_the_daemon(
    worker: Pod, launcher: Pod, ended: str, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    # One in a process group of its own, as ranks are, and one that ignores SIGTERM.
    tells = f"print(file=open('{begun}', 'a')); signal.pause()"
    rank = f"import os, signal; os.setpgid(0, 0); {tells}"
    deaf = f"import signal; signal.signal(15, signal.SIG_IGN); {tells}"
    del worker.config["hosts"]["worker"][1:]
    python = f"{sys.executable} -c"
    mpirun(launcher, f'{python} "{rank}" & exec {python} "{deaf}"')
    daemon, _line = worker.start_and_read()
    process = launcher.start()
    wait_until(lambda: begun.exists() and len(begun.read_text().splitlines()) == 2)
    told = process if ended == "caller" else daemon
    told.send_signal(signal.SIGTERM)
    wait_until(lambda: not naming(str(begun)))
    assert told.wait(10) == 143
    if ended == "caller":
        assert daemon.poll() is None
    else:
        assert process.wait(10) == 0


def test_who_does_not_know_the_token_is_refused(worker: Pod, launcher: Pod, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    mpirun(launcher, f"touch {marker}")
    (launcher.root / "run/homeport/token").write_text("a-wrong-token\n")
    del worker.config["hosts"]["worker"][1:]
    daemon, _line = worker.start_and_read()
    _code, output = launcher.run()
    assert output.decode().splitlines()[-2:] == [
        "mpi_launch: refused, for the token is wrong",
        "ends [255]",
    ]
    assert not marker.exists()
    assert daemon.stdout is not None
    assert b"was refused" in daemon.stdout.readline()
    other = [str(launcher.root / "homeport/mpi_launch"), "another-host", "true"]
    done = subprocess.run(other, capture_output=True, text=True, check=False)
    text = "mpi_launch: another-host is no worker of this training\n"
    assert (done.returncode, done.stderr) == (255, text)


def test_a_worker_that_does_not_answer_is_named(launcher: Pod) -> None:
    launcher.config["starting_deadline_s"] = 1
    launcher.config["hosts"]["worker"] = ["127.0.1.1:1"]
    assert launcher.run()[0] == 64
    assert launcher.message["reason"] == "peer_unresolved"
    assert "127.0.1.1:1 did not answer within 1 s" in launcher.message["text"]


def test_a_user_without_a_name_is_told(worker: Pod) -> None:
    into = ("unshare", "--mount", "--map-current-user", "--keep-caps", sys.executable, "-c")
    worker.wrapper = [*into, WITHOUT_NAMES]
    code, output = worker.run()
    if code == 77 or b"unshare" in output:
        is_missing("be root, or allow user namespaces (unshare -c --mount)")
    assert code == 64
    assert worker.message["reason"] == "no_user"
    assert f"a line for user {os.getuid()} in /etc/passwd" in worker.message["text"]


RULE = "-" * 74
# As they print it: Open MPI 4.1 (orterun's help texts), Open MPI 5.0 (PRRTE's), MPICH 4 (Hydra).
TOO_MANY = f"""\
{RULE}
There are not enough slots available in the system to satisfy the 4
slots that were requested by the application:

  python

Either request fewer procs for your application, or make more slots
available for use.

A "slot" is the PRRTE term for an allocatable unit where we can
launch a process.  The number of slots available are defined by the
environment in which PRRTE processes are run:

  1. Hostfile, via "slots=N" clauses (N defaults to number of
     processor cores if not provided)
  2. The --host command line parameter, via a ":N" suffix on the
     hostname (N defaults to 1 if not provided)
  3. Resource manager (e.g., SLURM, PBS/Torque, LSF, etc.)
  4. If none of a hostfile, the --host command line parameter, or an
     RM is present, PRRTE defaults to the number of processor cores

In all the above cases, if you want PRRTE to default to the number
of hardware threads instead of the number of processor cores, use the
--use-hwthread-cpus option.
{RULE}
"""
NO_EXECUTABLE = f"""\
{RULE}
prterun was unable to find the specified executable file, and therefore did
not launch the job.  This error was first reported for process rank
0; it may have occurred for other processes as well.

NOTE: A common cause for this error is misspelling a prterun command
   line parameter option (remember that prterun interprets the first
   unrecognized command line token as the executable).

   Node:       m-launcher-0
   Executable: {{}}
{RULE}
"""
UNRECOGNIZED = f"""\
{RULE}
An unrecognized option was included on the mpirun command line:

  Option: --bind-two

Please use the "mpirun --help" command to obtain a list of all
supported options.
{RULE}
"""
OF_OPEN_MPI_4 = (
    "mpirun: Error: unknown option \"--bind-to-none\"\nType 'mpirun --help' for usage.\n"
)
OF_HYDRA = (
    "[mpiexec@m-launcher-0] match_arg (lib/utils/args.c:166): unrecognized argument bind-two\n"
    "[mpiexec@m-launcher-0] HYDU_parse_array (lib/utils/args.c:181): argument matching returned error\n"
    "[mpiexec@m-launcher-0] main (mpiexec/mpiexec.c:149): error parsing parameters\n"
)
OLDER = ["mpirun", "-bind-to", "none", "-map-by", "slot", "python", "t.py"]


@pytest.mark.parametrize(
    ("output", "command", "code", "words"),
    [
        (TOO_MANY, OLDER, "mpi_slots", "it asks for 4 processes, the hosts have 2 slots"),
        (NO_EXECUTABLE.format("none"), OLDER, "mpi_option",
         "it does not know the option -bind-to, and took none for the program"),
        (NO_EXECUTABLE.format("none"), ["sh", "-c", " ".join(OLDER)], "mpi_option",
         "it does not know the option -bind-to, and took none for the program"),
        (NO_EXECUTABLE.format("./a.out"), ["mpirun", "-np", "2", "./a.out"], "script_missing",
         "mpirun found no executable ./a.out"),
        (NO_EXECUTABLE.format("./a.out"), ["mpirun", "--oversubscribe", "./a.out"], "script_missing",
         "mpirun found no executable ./a.out"),
        (UNRECOGNIZED, OLDER, "mpi_option", "it does not know the option --bind-two"),
        (OF_OPEN_MPI_4, OLDER, "mpi_option", 'mpirun: Error: unknown option "--bind-to-none"'),
        (OF_HYDRA, OLDER, "mpi_option", OF_HYDRA.splitlines()[0]),
    ],
)  # fmt: skip
def test_what_mpirun_says_of_slots_and_options_is_told(
    output: str, command: list[str], code: str, words: str
) -> None:
    tail = OutputTail()
    tail.feed(output.encode())
    assert diagnose(tail, 1, command=command, slots=2) == Finding(code, words)


# As prted, which has a session of its own and kills its ranks when it is asked to end.
PRTED = "trap 'kill -9 $!; exit' TERM\n{save} &\nwait\n"


@pytest.mark.parametrize("asked", ["both", "the launcher alone"])
@pytest.mark.parametrize("started", ["by a shell", "by a daemon of Open MPI"])
def test_a_command_of_the_launcher_has_the_whole_time_to_save(
    launcher: Pod, worker: Pod, tmp_path: Path, asked: str, started: str
) -> None:
    """Its worker is asked to end, and then the launcher is gone as well; or the launcher alone is asked."""
    del worker.config["hosts"]["worker"][1:]
    worker.config["grace_s"] = launcher.config["grace_s"] = 40
    begun, saved = tmp_path / "begun", tmp_path / "saved"
    save = f"time.sleep(7); open('{saved}', 'w'); sys.exit()"
    program = tmp_path / "save.py"
    program.write_text(
        "import signal, sys, time\n"
        f"signal.signal(15, lambda *_: ({save.replace('; ', ', ')}))\n"
        f"open('{begun}', 'w')\nsignal.pause()\n"
    )
    save_command = f"{sys.executable} {program}"
    prted, script = tmp_path / "prted", tmp_path / "prted.sh"
    shutil.copy("/bin/bash", prted)
    script.write_text(PRTED.format(save=save_command))
    mpirun(
        launcher,
        f"{save_command}; true" if started == "by a shell" else f"setsid {prted} {script}",
    )
    daemon, _line = worker.start_and_read()
    process = launcher.start()
    wait_until(begun.exists)
    if asked == "both":
        daemon.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGTERM)
    if asked == "both":
        daemon.communicate(timeout=60)
    wait_until(lambda: not naming(str(program)), 30)
    assert saved.exists()
