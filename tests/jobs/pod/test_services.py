"""What starts JupyterLab and TensorBoard: preparation, configuration, and the count of event files."""

import errno
import json
import signal
import subprocess
import sys
import threading
import zipfile
from io import StringIO
from itertools import count
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from jobs.kinds import notebook, tensorboard
from jobs.kinds.interactive.manifests import Served
from jobs.pod import files, prepare, start_jupyter, start_tensorboard
from jobs.pod.errors import PortalError
from jobs.pod.files import Paths
from jobs.pod.protocol.termination import TerminationMessage, parse
from jobs.pod.start_tensorboard import EventFileReporter, count_event_files
from tests.jobs.pod.pods import TOKEN, FakeDoor, wait_until


# --- prepare ---
@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder in ("data", "log/jobs", "homeport", "dev", "run/homeport", "home"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path


SERVED = {"notebook": notebook.SERVED, "tensorboard": tensorboard.SERVED}


def told(served: Served) -> dict[str, str]:
    """As `served.yaml.j2` tells it."""
    names = ("launcher", "writable", "readable")
    return {f"PREPARE_{name.upper()}": " ".join(getattr(served, name)) for name in names}


@pytest.mark.parametrize("kind", SERVED)
def test_manifests_of_before_name_the_kind_and_mean_the_same(kind: str) -> None:
    before, now = {"GATE_KIND": kind}, told(SERVED[kind])
    assert [list(part) for part in prepare.read_preparation(before)] == list(
        prepare.read_preparation(now)
    )


def prepared(root: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> int:
    for name, value in told(SERVED[kind]).items():
        monkeypatch.setenv(name, value)
    return prepare.main(["--root", str(root)])


def test_a_notebook_sees_the_log_volume_and_gets_its_program(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert prepared(root, "notebook", monkeypatch) == 0
    assert (root / "data/log").readlink() == Path("/log")
    packed = zipfile.ZipFile(root / "homeport/start.py").namelist()
    assert packed.count("jobs/pod/start_jupyter.py") == 1
    assert prepared(root, "notebook", monkeypatch) == 0  # a second run in the same pod
    assert sorted(path.name for path in (root / "data").iterdir()) == ["log"]


def test_a_file_called_log_is_left_alone(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "data/log").write_text("mine")
    assert prepared(root, "notebook", monkeypatch) == 0
    assert (root / "data/log").read_text() == "mine"


def test_jupyterlab_is_told_once_not_to_ask_about_news(tmp_path: Path) -> None:
    start_jupyter.keep_quiet(str(tmp_path / "settings"))
    (path,) = (tmp_path / "settings").rglob("*.jupyterlab-settings")
    assert json.loads(path.read_text()) == {"fetchNews": "false"}
    path.write_text('{"fetchNews": "true"}')  # the person's own choice
    start_jupyter.keep_quiet(str(tmp_path / "settings"))
    assert json.loads(path.read_text()) == {"fetchNews": "true"}
    start_jupyter.keep_quiet(str(path))  # a file where the folder should be: nothing is raised


@pytest.mark.parametrize(("kind", "volume"), [("notebook", "data"), ("tensorboard", "log")])
def test_a_volume_that_is_not_there_is_told(
    root: Path, monkeypatch: pytest.MonkeyPatch, kind: str, volume: str
) -> None:
    (root / volume).rename(root / "elsewhere")
    assert prepared(root, kind, monkeypatch) == 65
    said = json.loads((root / "dev/termination-log").read_text())
    assert volume in said["text"]
    assert said["reason"] in {"volume_not_writable", "volume_not_readable"}


def test_a_tensorboard_writes_nothing_on_the_volumes(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert prepared(root, "tensorboard", monkeypatch) == 0
    assert list((root / "log").iterdir()) == [root / "log/jobs"]
    assert list((root / "data").iterdir()) == []


# --- volumes that are away ---
AWAY = OSError(errno.ENOTCONN, "Transport endpoint is not connected")
SAYS = "[homeport] waits for the data volume (/data), without an answer so far\n"
GONE = "the data volume is gone (/data): Transport endpoint is not connected"


@pytest.mark.parametrize(
    ("look_s", "gone_s", "found", "said", "told"),
    [
        (10, 120, [None], "", ""),
        (0, 120, [AWAY, "when it was said", None], SAYS, ""),
        (0, 120, [AWAY, "when it was said", AWAY, AWAY], SAYS, GONE),
        (0, 0, ["never"], SAYS, "no answer from the data volume (/data) in 0 s"),
    ],
    ids=["there", "comes back", "stays away", "hangs"],
)
def test_what_starts_waits_for_a_volume_that_is_away(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    look_s: float,
    gone_s: float,
    found: list[OSError | str | None],
    said: str,
    told: str,
) -> None:
    stderr, was_said, is_over = StringIO(), threading.Event(), threading.Event()
    monkeypatch.setattr(stderr, "flush", was_said.set)
    outcomes, minutes = iter(found), count()

    def statvfs(_path: str) -> None:
        outcome = next(outcomes)
        if isinstance(outcome, str):
            assert (is_over if outcome == "never" else was_said).wait(10)
            outcome = next(outcomes, None)
        if isinstance(outcome, OSError):
            raise outcome

    clock = SimpleNamespace(monotonic=lambda: 60 * next(minutes), sleep=lambda _: None)
    monkeypatch.setattr(files, "time", clock)
    monkeypatch.setattr("os.statvfs", statvfs)
    monkeypatch.setattr(files, "LOOK_S", look_s)
    monkeypatch.setattr(files, "GONE_S", gone_s)
    monkeypatch.setattr("sys.stderr", stderr)
    message = tmp_path / "message"
    assert files.Volumes({"data": "/data"}, str(message)).wait() is not bool(told)
    is_over.set()
    assert stderr.getvalue() == said
    left = parse(message.read_text()) if message.exists() else TerminationMessage()
    assert (left.reason, left.text) == ("volume_lost" if told else "", told)


@pytest.mark.parametrize(
    ("starter", "volume"), [(start_jupyter, "data"), (start_tensorboard, "log")]
)
def test_nothing_is_started_without_its_volume(
    root: Path, monkeypatch: pytest.MonkeyPatch, starter: ModuleType, volume: str
) -> None:
    def statvfs(path: str) -> None:
        if path.endswith(volume):
            raise AWAY

    monkeypatch.setattr("os.statvfs", statvfs)
    monkeypatch.setattr(files, "GONE_S", 0)
    assert starter.main(["--root", str(root)]) == 65
    assert parse((root / "dev/termination-log").read_text()).reason == "volume_lost"


# --- JupyterLab ---
class JupyterConfig(dict[str, SimpleNamespace]):
    def __getattr__(self, name: str) -> SimpleNamespace:
        return self.setdefault(name, SimpleNamespace())


def test_the_token_stands_in_no_configuration(root: Path) -> None:
    (root / "run/homeport/app_token").write_text("the-token\n")
    environ = {"APP_PORT": "8890", "APP_PREFIX": "/s/3f2b8f0e/"}
    text = start_jupyter.config_text(environ, Paths(str(root)))
    assert "the-token" not in text

    def read() -> dict[str, Any]:
        config = JupyterConfig()
        exec(text, {"get_config": lambda: config})  # noqa: S102  JupyterLab does the same
        return {
            f"{name}.{key}": value
            for name, section in config.items()
            for key, value in vars(section).items()
        }

    found = read()
    assert found["IdentityProvider.token"] == "the-token"
    assert found["ServerApp.ip"] == "127.0.0.1"
    assert found["ServerApp.port"] == 8890
    assert found["ServerApp.base_url"] == "/s/3f2b8f0e/"
    assert found["ServerApp.root_dir"] == str(root / "data")
    assert found["ServerApp.cookie_secret"] != read()["ServerApp.cookie_secret"]


@pytest.mark.parametrize(
    ("environ", "base", "words"),
    [
        ({"APP_PACKAGES": "{data}/.local/image"}, "{data}/.local/image", ["-s"]),
        ({"APP_PACKAGES": "{data}/.local/image", "PYTHONUSERBASE": "{home}"}, "{home}", []),
        ({}, None, []),  # of a manifest of before
    ],
)
def test_what_a_notebook_installs_is_kept_and_does_not_keep_jupyterlab_from_starting(
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    environ: dict[str, str],
    base: str | None,
    words: list[str],
) -> None:
    places = {"data": str(root / "data"), "home": str(root / "home")}
    # An image may have JupyterLab itself among the packages of its user.
    spec = SimpleNamespace(origin=f"{root}/home/lib/jupyterlab/__init__.py")
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: spec)
    (root / "run/homeport/app_token").write_text("the-token\n")
    given = {"HOME": places["home"], "APP_PORT": "8890", "APP_PREFIX": "/s/x/", "PATH": "/bin"}
    given |= {name: text.format(**places) for name, text in environ.items()}
    started = mock.Mock(side_effect=SystemExit)
    with (
        mock.patch.dict("os.environ", given, clear=True),
        mock.patch("os.execve", started),
        pytest.raises(SystemExit),
    ):
        start_jupyter.main(["--root", str(root)])
    _program, command, env = started.call_args.args
    assert command[1:-1] == [*words, "-m", "jupyterlab"]
    place = base.format(**places) if base else None
    assert env.get("PYTHONUSERBASE") == place
    folder = Path(place or f"{places['home']}/.local")
    assert env["PATH"] == f"{folder}/bin:/bin"
    version = "python{}.{}".format(*sys.version_info[:2])
    assert (folder / "lib" / version / "site-packages").is_dir()


TELLS = """
import errno, os, sys, time
from jobs.pod import files, sampling, start_jupyter
from jobs.pod.files import Paths

class Fast:  # a minute is a tenth of a second
    monotonic = time.monotonic
    def time(self): return time.time() * 600

def statvfs(path, there=os.statvfs):
    if os.path.exists(os.path.join(sys.argv[2], "gone")):
        raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")
    return there(path)

os.statvfs = statvfs
sampling.SAMPLE_S, sampling.POST_S, sampling.time = 0.03, 0.1, Fast()
files.LOOK_S, files.GONE_S = 0.03, 0.1
environ = {"APP_USAGE_URL": sys.argv[1], "APP_USAGE_PATH": "jobs/x/replicas/notebook/0/2/usage/"}
paths = Paths(sys.argv[2])
start_jupyter.watch(environ, paths, paths.volumes("data", "log"))
time.sleep(20)
"""


def test_a_notebook_has_a_child_that_tells_of_it_ends_it_without_its_volume_and_goes_with_it(
    root: Path,
) -> None:
    (root / "run/homeport/usage_token").write_text(TOKEN + "\n")
    door = FakeDoor()
    try:
        with subprocess.Popen([sys.executable, "-c", TELLS, door.url, str(root)]) as notebook:
            wait_until(lambda: door.usage)
            children = Path(f"/proc/{notebook.pid}/task/{notebook.pid}/children").read_text()
            (child,) = children.split()
            (root / "gone").touch()
            assert notebook.wait(10) == -signal.SIGTERM
        wait_until(lambda: not Path(f"/proc/{child}/exe").exists())
    finally:
        door.close()
    said = json.loads((root / "dev/termination-log").read_text())
    assert said["reason"] == "volume_lost", said
    assert {"memory_mib", "data_mib", "log_mib"} <= door.usage[0]["minutes"][0]["used"].keys()


def test_manifests_of_before_ask_for_no_child(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forks = mock.Mock(side_effect=AssertionError)
    monkeypatch.setattr("os.fork", forks)
    paths = Paths(str(root))
    volumes = paths.volumes("data", "log")
    start_jupyter.watch({}, paths, volumes)
    told = {"APP_USAGE_URL": "http://x", "APP_USAGE_PATH": "y/"}
    start_jupyter.watch(told, paths, volumes)  # no token
    monkeypatch.setitem(sys.modules, "jobs.pod.sampling", None)  # packed by a list of before
    start_jupyter.watch(told, paths, volumes)


# --- TensorBoard ---
ENVIRON = {"APP_PORT": "8890", "APP_PREFIX": "/s/3f2b8f0e/"}


def test_tensorboard_shows_one_folder_several_or_all() -> None:
    rows = [{"title": "a", "path": "/log/jobs/a-1"}, {"title": "b", "path": "/log/jobs/b-2"}]
    one, several, every = (
        start_tensorboard.command("py", ENVIRON, r) for r in (rows[:1], rows, [])
    )
    assert one[-1] == "--logdir=/log/jobs/a-1"
    assert several[-1] == "--logdir_spec=a:/log/jobs/a-1,b:/log/jobs/b-2"
    assert every[-1] == "--logdir=/log"
    assert {"--host=127.0.0.1", "--port=8890", "--path_prefix=/s/3f2b8f0e"} <= set(one)


def test_event_files_are_counted_up_to_a_limit(tmp_path: Path) -> None:
    assert count_event_files([str(tmp_path / "absent")]) == 0
    for number in range(5):
        folder = tmp_path / f"run {number}" / "train"
        folder.mkdir(parents=True)
        (folder / "events.out.tfevents.1.host").touch()
        (folder / "checkpoint").touch()
    assert count_event_files([str(tmp_path)]) == 5
    assert count_event_files([str(tmp_path / "run 0"), str(tmp_path / "run 1")]) == 2
    assert count_event_files([str(tmp_path)], most=3) == 3


def test_only_changes_are_told_and_what_was_not_heard_is_told_again(tmp_path: Path) -> None:
    door, path = mock.Mock(), "services/x/event-files/"
    reporter = EventFileReporter(door, path, 2, [str(tmp_path)])
    assert reporter.look()
    assert reporter.look()
    door.post.assert_called_once_with(path, {"start": 2, "count": 0})
    (tmp_path / "events.out.tfevents.1.host").touch()
    door.post.side_effect = PortalError("no answer")
    assert reporter.look()
    door.post.side_effect = None
    assert reporter.look()
    assert reporter.look()
    assert [call.args[1]["count"] for call in door.post.call_args_list] == [0, 1, 1]
    (tmp_path / "events.out.tfevents.2.host").touch()
    door.post.side_effect = PortalError("deleted", 410)
    assert not reporter.look()
